"""From a reply's text to an order of passages, or the one passage that it chose.

What a reply says twice, or of passages that were not shown, is left out and counted; nothing is
put in for what it does not say. A reply in which two orders or choices stand has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mcranker.replies.loose_json import Unreadable, answer_of, is_example
from mcranker.replies.scoring import label_masses

_WORD = r"(?=[^\W\d])(?i:passages?|documents?|docs?|texts?|candidates?|identifiers?)[\s#:]++"
_ITEM = (
    rf"(?:{_WORD})?+(?:\[\s*+(?:{_WORD})?+[0-9]{{1,9}}\s*+\]|\(\s*+(?:{_WORD})?+[0-9]{{1,9}}\s*+\)"
    r"|(?<![\w.,-])#?+[0-9]{1,9}(?!\w|[.,][0-9]))"
)
# Python before 3.11.5 takes too much by a possessive group that goes back: gh-106052.
_RUN = re.compile(rf"{_ITEM}(?:\s*+[>=<~,;|/]\s*+{_ITEM})+")
_BETWEEN = re.compile(r"[>=<~,;|/]")
_ARROW = re.compile(r"&gt;|[-=]?>++|[\u227b\u2192\u21d2]")
_MARKUP = re.compile(r"[*`]|(?<![^\W_])_|_(?![^\W_])")
_ALONE = re.compile(rf"\A[\s\"']*+({_ITEM})[\s\"'.]*+")
_LEAD = (
    r"(?:[{\s\"']*+(?i:(?!.{0,60}(?:example|format))[a-z ]{0,40}"
    r"(?:order|ranking|ranked|rank|answer|output|list|result)[a-z ]{0,30})[\"']?\s*+[:=]\s*+)?+"
)
_LIST_LINE = re.compile(
    rf"\A\s*+{_LEAD}(?:[\[({{]\s*+)?({_ITEM}(?:\s*+[,;|/]?+\s*+(?<![0-9)\]])(?:then\s++)?+{_ITEM})++)"
    r"[\s\])}\"'.;,]*+"
)
_ITEM_LINE = re.compile(
    r"\A\s*+(?:[-+\u2022]\s++)?+"
    r"(?:(?i:rank\s*+)?+#?+([0-9]{1,3})(?:st|nd|rd|th)?+\s*+[.):](?:\s++|(?=[\[(])))?"
    rf"({_ITEM})[\s,;]*+"
)
_NUMBER = re.compile(r"[0-9]{1,9}")
_CHOICE = re.compile(
    r"\A[\W_]*+(?:(?i:the)\s++)?(?:(?i:most relevant|more relevant|best)\s++)?"
    r"(?:(?i:passage|answer|output|letter|choice|result)(?:\s++(?i:is))?[\W_]*+){0,3}"
    r"([A-Z])[\W_]*+"
)
_LETTER = r"(?:(?i:passage|text|document|answer|option)\s++)?+[\[(\"']?+([A-Z])(?!\w)[\])\"']?+"
_SURE = r"(?:(?i:clearly|definitely|by far|the|to be|much|overall)\s++){0,3}"
_CLAIMS = (
    re.compile(
        rf"(?<!\w){_LETTER}\s++(?i:is|seems|appears|looks)\s++{_SURE}"
        r"(?i:(?:more|most)\s++relevant|best|better)\b"
    ),
    re.compile(
        r"\b(?i:(?:(?:more|most)\s++relevant|best|better)(?:\s++(?:passage|text|answer|one))?"
        rf"(?:\s++(?:to|for)\s++(?:the|this)\s++query)?\s*+(?:is\b|:)\s*+){_SURE}{_LETTER}"
        r"(?=\s*+(?:[.,;:!]|\Z|\n|(?:because|since|as|over|than|which|due|given)\b))"
    ),
    re.compile(
        r"\b(?i:answer\s*+(?:is\b|:)|I\s++(?:(?:would|will)\s++)?(?:choose|pick|select|prefer))\s*+"
        rf"{_LETTER}(?=\s*+(?:[.,;:!]|\Z|\n|(?:because|since|as|over|than|which|due|given)\b))"
    ),
)
_DOUBT = re.compile(
    r"(?i)\b(?:not|cannot|neither|nor|never|no|none|hardly|if|whether|unless|or|either|both|equally|"
    r"wrong|false)\b|n['\u2019]t\b"
)
_ANOTHER = re.compile(rf"\A\s*+(?:,|/|(?i:or|and|nor)\b)\s*+{_LETTER}(?!\s++\w)")
_SENTENCE_END = re.compile(r"[.!?\n]")
_BEFORE = 100  # characters before a list that can say that it is an example
_LONGEST_CHOICE = 100  # characters of a line that is a choice and nothing else
_LONGEST_SENTENCE = 300


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """The order of passages in a reply."""

    places: tuple[int, ...]
    missing: int
    repeated: int
    unknown: int

    @property
    def as_shown(self) -> bool:
        """True if the passages stay in the order in which they were shown."""
        return self.places == tuple(range(len(self.places)))

    @property
    def odd(self) -> bool:
        """True if it is not simply an order of all passages."""
        return bool(self.missing or self.repeated or self.unknown)


def read_order(text: str, count: int, *, cut: bool = False) -> ReadOrder:
    """Return the order in a reply such as ``[2] > [3] > [1]``, of passages 1 to `count`."""
    body = _ARROW.sub(">", _MARKUP.sub("", answer_of(text)))
    alone = _ALONE.fullmatch(body)
    if alone and not cut:
        lists = {tuple(_numbers(alone.group(1)))}
    else:
        lists = {*_chains(body, cut=cut), *_complete_lists(body, count, cut=cut)}
    if len(lists) > 1:
        raise Unreadable("it has several lists, which differ; write one.")
    if not lists:
        raise Unreadable("it has no list of numbers with > between them, as in [2] > [1].")
    (said,) = lists
    first = first_number(said, count)
    known = [number - first for number in said if 0 <= number - first < count]
    places = tuple(dict.fromkeys(known))
    if not places:
        raise Unreadable(f"none of its numbers is one of 1 to {count}.")
    return ReadOrder(
        places,
        missing=count - len(places),
        repeated=len(known) - len(places),
        unknown=len(said) - len(known),
    )


def read_choice(text: str, labels: Sequence[str], *, cut: bool = False) -> int:
    """Return the place in `labels`, capital letters, of the one that a reply chose."""
    lines = _MARKUP.sub("", answer_of(text)).splitlines(keepends=True)
    body = "".join(lines[:-1] if cut else lines)
    chosen = {
        found.group(1)
        for line in body.splitlines()
        if len(line) <= _LONGEST_CHOICE and (found := _CHOICE.fullmatch(line))
    }
    chosen |= {
        found.group(1)
        for claim in _CLAIMS
        for found in claim.finditer(body)
        if _is_claimed(body, found)
    }
    if len(chosen) > 1:
        raise Unreadable("it chooses several passages; choose one.")
    if not chosen:
        raise Unreadable("no line of it is the letter of a passage and nothing else.")
    (letter,) = chosen
    if letter not in labels:
        raise Unreadable(f"{letter} is none of {', '.join(labels)}.")
    return labels.index(letter)


def likeliest(logprobs: Mapping[str, float] | None, labels: Sequence[str]) -> int:
    """Return the place in `labels` of the most probable one; of equal ones that of the first."""
    masses = label_masses(logprobs, labels)
    return masses.index(max(masses))


def first_number(numbers: Sequence[int], count: int) -> int:
    """Return 0 if the numbers are 0 to `count` - 1, each once; 1 if there is no 0 among them."""
    if 0 not in numbers:
        return 1
    if sorted(numbers) == list(range(count)):
        return 0
    raise Unreadable(f"it has the number 0, and the passages are 1 to {count}.")


def _chains(body: str, *, cut: bool) -> Iterator[tuple[int, ...]]:
    """Yield the lists with ``>`` between their numbers; refuse other separators besides."""
    for run in _RUN.finditer(body):
        between = set(_BETWEEN.findall(run.group()))
        if ">" not in between or is_example(body[max(0, run.start() - _BEFORE) : run.start()]):
            continue
        if len(between) > 1:
            raise Unreadable("its list has other separators than >; write > between all numbers.")
        numbers = _numbers(run.group())
        # No number begins with 0.
        doubtful = cut and run.end() == len(body) and body[-1].isdigit() and numbers[-1]
        yield tuple(numbers[:-1] if doubtful else numbers)


def _complete_lists(body: str, count: int, *, cut: bool) -> Iterator[tuple[int, ...]]:
    """Yield the lists of all passages, each once, in a line of their own or one number a line."""
    lines = [line for line in _RUN.sub(_unless_chain, body).splitlines() if line.strip()]
    if cut:
        lines = lines[:-1]
    numbers: list[int] = []
    markers: list[int] = []
    for line in [*lines, ""]:
        if found := _LIST_LINE.fullmatch(line):
            yield from _if_complete(_numbers(found.group(1)), count)
        if found := _ITEM_LINE.fullmatch(line):
            numbers += _numbers(found.group(2))
            markers += [int(found.group(1))] if found.group(1) else []
            continue
        if not markers or markers == list(range(1, len(numbers) + 1)):
            yield from _if_complete(numbers, count)
        numbers, markers = [], []


def _unless_chain(run: re.Match[str]) -> str:
    return "(a chain)" if ">" in run.group() else run.group()


def _if_complete(numbers: Sequence[int], count: int) -> list[tuple[int, ...]]:
    whole = (list(range(1, count + 1)), list(range(count)))
    return [tuple(numbers)] if count > 1 and sorted(numbers) in whole else []


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(text)]


def _is_claimed(body: str, found: re.Match[str]) -> bool:
    """Return True if a sentence says this, and neither asks nor denies it, nor adds another."""
    before = body[max(0, found.start() - _LONGEST_SENTENCE) : found.start()]
    after = body[found.end() : found.end() + _LONGEST_SENTENCE]
    denied = _DOUBT.search(_SENTENCE_END.split(before)[-1])
    end = _SENTENCE_END.search(after)
    asked = end is not None and end.group() == "?"
    return not (denied or asked or _ANOTHER.match(after))
