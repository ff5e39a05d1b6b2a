"""The probability of each label, found in the log-probabilities of an answer's tokens."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

LEAST = -1e4  # a log-probability: of 0, and where an integer is too large for a float
ROUNDED = 0.01  # a log-probability, at most

_MOST_TOKENS = 1000  # in which a label is looked for: thoughts may come before it
_BYTE = re.compile(r"<0x([0-7][0-9A-F])>", re.IGNORECASE)
_BLANKS = re.compile("\\A[\u2581\u0120\u010a\ufeff\u200b]+")  # as tokenizers write them
_OPENING = "*_`#\"'\u201c\u2018()[]{}<>:="  # marks around a label
_CLOSING = _OPENING + ".,;!\u201d\u2019"
_THOUGHTS = re.compile(r"(?s)\A.*(?:</think(?:ing)?>|\[/think\]|<\|channel\|>final<\|message\|>)")
_THINKING = re.compile(r"<think(?:ing)?>|\[think\]|<\|channel\|>")
_ANSWER = re.compile(  # the text before a label, and its first character
    r"(?s)\A(?:[\W_]*|\D*[:=>{*#|](?:[^\w:=>{*#|]|_)*"
    r"|\D*\b(?:answer|score|rating|relevance|label|grade|choice|letter)(?:\s+is)?[\W_]*"
    r"|\D*\b(?:passage|document|text|option)[\W_]*(?=\D\Z))(?<![-\u2212.])."
)
_LONGEST_LEAD = 100  # characters before a label

_Token: TypeAlias = tuple[str, list[tuple[str, float]]]
"""The token that was generated, and the (text, probability) pairs that were listed."""


def label_logprobs(
    positions: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> dict[str, float]:
    """The natural logarithm of each label's probability, from the tokens the provider listed."""
    tokens = [_token(position) for position in positions[:_MOST_TOKENS]]
    known = {_plain(label).strip(): label for label in labels}
    start = _place_of_label(tokens, known)
    if start is None:
        return {}
    mass = dict.fromkeys(known, 0.0)
    sampled, alternatives = tokens[start]
    for text, p in alternatives:
        if beginning := _part_of_label(text, known):
            _share(beginning, p, tokens[start + 1 :] if text == sampled else [], mass)
    return {known[key]: min(0.0, math.log(p)) for key, p in mass.items() if p > 0.0}


def _place_of_label(tokens: Sequence[_Token], labels: Iterable[str]) -> int | None:
    before, first = "", None
    for place, (token, _) in enumerate(tokens):
        text = _plain(token)
        first = place if first is None and text.strip() else first
        if part := _part_of_label(token, labels):
            said = _THOUGHTS.sub("", before)
            lead = said + text[: len(text) - len(text.lstrip())]
            thinking = len(lead) > _LONGEST_LEAD or _THINKING.search(said)
            if not thinking and _ANSWER.fullmatch(lead + part[0]):
                return place
        before += text
    return first


def _plain(text: str) -> str:
    """Return a token's text, or a label, in the form in which they are compared."""
    text = _BYTE.sub(lambda byte: chr(int(byte[1], 16)), text)
    return unicodedata.normalize("NFKC", _BLANKS.sub(" ", text)).casefold()


def _part_of_label(text: str, labels: Iterable[str], before: str = "") -> str:
    """Return what a token adds to the part of a label `before` it; nothing if no label goes on."""
    plain = _plain(text).rstrip() if before else _plain(text).strip()
    bare = plain.rstrip(_CLOSING) if before else plain.lstrip(_OPENING).rstrip(_CLOSING).strip()
    goes_on = (each for each in (plain, bare) if any(x.startswith(before + each) for x in labels))
    return next(goes_on, "")


def _share(beginning: str, p: float, following: list[_Token], mass: dict[str, float]) -> None:
    longer = [label for label in mass if label.startswith(beginning) and label != beginning]
    exact = beginning in mass
    if longer and following:
        taken = 0.0
        sampled, alternatives = following[0]
        for text, q in alternatives:
            if added := _part_of_label(text, longer, beginning):
                taken += q
                rest = following[1:] if text == sampled else []
                _share(beginning + added, p * q, rest, mass)
        p *= max(0.0, 1.0 - taken)
    elif len(longer) == 1 and not exact:
        mass[longer[0]] += p
    if exact:
        mass[beginning] += p


def _token(position: Mapping[str, Any]) -> _Token:
    listed: dict[str, float] = {}
    entries: Any = position.get("top_logprobs")
    if isinstance(entries, Mapping):
        entries = [{"token": text, "logprob": value} for text, value in entries.items()]
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping):
            for text, p in _read(entry):
                listed[text] = listed.get(text, 0.0) + p
    for text, p in _read(position):
        listed.setdefault(text, p)
    return _text(position) or "", list(listed.items())


def _read(entry: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the token of an entry and its probability, if it has both."""
    text, logprob = _text(entry), entry.get("logprob")
    if text is not None and is_logprob(logprob):
        yield text, math.exp(min(0.0, max(logprob, LEAST)))


def _text(entry: Mapping[str, Any]) -> str | None:
    given, token = entry.get("bytes"), entry.get("token")
    if isinstance(given, list) and given:
        try:
            return bytes(given).decode()
        except (TypeError, ValueError):
            pass  # of a part of a character, or odd
    return token if isinstance(token, str) else None


def is_logprob(value: Any) -> TypeGuard[float]:
    """True if a value of an answer can be a log-probability."""
    # Rounding may carry one above 0, no further; NaN is below and above nothing.
    return isinstance(value, int | float) and not isinstance(value, bool) and value <= ROUNDED
