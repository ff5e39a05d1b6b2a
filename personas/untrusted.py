"""Text that others wrote, made safe for a prompt.

A passage, query, persona, criterion or name of a data set is data, not instruction, whichever
author it has: recruits and their criteria are written by a model that has seen a passage. What
could pass for a part of the prompt is neutralised; all other text stays as it is to the byte.

- **Control tokens** of chat templates get a space behind their first character, so that no
  tokenizer takes them for its own: ``< |im_end|>``, ``[ INST]``, ``< /think>``.
- A **passage** is between markers with a token computed from the query and the passage itself, so
  that it cannot contain its own end marker and equal requests stay equal. Where the prompts of a
  folder use no token, it is treated as any other text.
- In other texts, besides, a **line that begins as a section of the prompt does** (``Passage:``), as
  an entry of its lists (``Expert 2,``) or as another turn (``Assistant:``) joins the line before;
  names are one line; **markers** (``<<<``, ``>>>``) are broken up; **characters that are not
  seen** go, but those that words are spelled with, such as joiners, only where one of the above
  hides behind them.

Not recognised: letters that only look like others (Cyrillic for Latin), mere persuasion, and
the beginning of a text, for that is where the prompt puts it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

_BARRED = re.compile(r"<(?=[|\uff5c][^|\uff5c<>\n]{1,40}[|\uff5c]>)")
_TAG = re.compile(r"<(/?(\w{1,40})>|\|\w{2,40}>|\w{2,40}\|>)")
_TAGS = frozenset(
    {
        *("s", "bos", "eos", "sop", "eop", "eod", "sys", "think", "thinking"),
        *("start_of_turn", "end_of_turn", "start_of_image", "end_of_image"),
        *("tool_call", "tool_calls", "tool_response"),
    }
)
_THINKING = frozenset({"think", "thinking"})
_BRACKET = re.compile(r"\[(?=([/|]?\w{1,40}\|?)\])")
_BRACKETS = frozenset(
    {
        *("INST", "SYS", "SYSTEM_PROMPT", "MODEL_SETTINGS", "AVAILABLE_TOOLS", "GMASK"),
        *("TOOL_CALLS", "TOOL_RESULTS", "TOOL_CONTENT"),
        *("|SYSTEM|", "|USER|", "|ASSISTANT|", "|TOOL|", "|ENDOFTURN|"),
    }
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_UNSEEN = re.compile("[\u202a-\u202e\u2066-\u206f\ufff9-\ufffb\U000e0000-\U000e007f]+")
_WIDTHLESS = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2060-\u2065\ufe00-\ufe0f\ufeff"
    "\U000e0100-\U000e01ef]+"
)
_MARKER = re.compile(r"<(?=<<)|>(?=>>)")
_BREAKS = re.compile(r"[\r\n]+")
_TURNS = ("System", "User", "Human", "Assistant")
_ENTRIES = (
    r"\d{1,4}\. [^\r\n]{1,200}\(weight",
    r"(?<=- )[^\r\n]{1,200}\(\d{1,3}%\)",
    r"Expert \d{1,4},",
    r"(?:Judge|Passage) \d{1,4}:",
    r"(?:(?<=\#)|(?<=\#\s))(?:Instruction|Response|Input)\b",
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN_LENGTH = 8
_PIECE = 50_000  # characters


class Own(str):
    """Text of this project's own, which a prompt takes as it is."""

    __slots__ = ()


class Name(str):
    """A name that others wrote, which a prompt takes on one line."""

    __slots__ = ()


def fence(passage: str, *, query: str) -> Own:
    """The passage between markers that it cannot contain, its control tokens broken up."""
    passage = without_tokens(passage)
    token = marker(passage, query=query)
    return Own(f"<<<{token}\n{passage}\n{token}>>>")


def encodable(text: str) -> str:
    """`text` as UTF-8 can carry it: surrogate pairs joined, lone halves replaced by U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def marker(passage: str, *, query: str) -> Own:
    """Eight hexadecimal digits for markers around the passage, which does not contain them."""
    salt = 0
    while True:
        digest = hashlib.sha256(f"{salt}\0{query}\0{passage}".encode(errors="surrogatepass"))
        token = digest.hexdigest()[:_TOKEN_LENGTH]
        if token not in passage:
            return Own(token)
        salt += 1


def without_tokens(text: str, *, thinking: bool = False) -> str:
    """The text with control tokens of chat templates broken up."""
    kept = _THINKING if thinking else frozenset()

    def broken(tag: re.Match[str]) -> str:
        name = (tag.group(2) or "").lower()
        is_token = not name or (name in _TAGS and name not in kept)
        return f"< {tag.group(1)}" if is_token else tag.group()

    def bracket(found: re.Match[str]) -> str:
        return "[ " if found.group(1).upper().lstrip("/") in _BRACKETS else "["

    if "<" in text:
        text = "".join(_TAG.sub(broken, _BARRED.sub("< ", each)) for each in _pieces(text, "<"))
    if "[" in text:
        text = "".join(_BRACKET.sub(bracket, each) for each in _pieces(text, "["))
    return text


def _pieces(text: str, opening: str) -> Iterator[str]:
    """The text in pieces cut before `opening`, so that other threads can run between them."""
    begin = 0
    while (end := text.find(opening, begin + _PIECE)) >= 0:
        yield text[begin:end]
        begin = end
    yield text[begin:]


class Cleaner:
    """Neutralises texts that stand within lines of a prompt."""

    def __init__(self, headings: Iterable[str] = (), entries: Iterable[str] = ()) -> None:
        names = [re.escape(name).replace("\\ ", r"\s{1,3}") for name in (*headings, *_TURNS)]
        # The run of all that is no letter, from the end of one word to the beginning of the next.
        self._forged = re.compile(
            r"(?<![\W_])[^\w\r\n]*+(?:_++[^\w\r\n]*+)*+[\r\n][\W_]*+"
            rf"(?=(?:{'|'.join(sorted(names))})[\s*_`]{{0,5}}[:\uff1a]"
            rf"|{'|'.join((*_ENTRIES, *entries))})",
            re.IGNORECASE,
        )

    def value(self, value: str) -> Own:
        """A value for a prompt: neutralised, unless it is the house's `Own`."""
        if isinstance(value, Own):
            return value
        return Own(self.line(value) if isinstance(value, Name) else self.text(value))

    def text(self, text: str) -> str:
        """The text; it may have several lines."""
        text = _UNSEEN.sub("", _CONTROLS.sub(" ", text))
        seen = _WIDTHLESS.sub("", text)
        joined, neutral = "", seen
        while joined != neutral:  # A line may begin an entry only once the next has joined it.
            joined, neutral = neutral, self._forged.sub(_joined, neutral)
        neutral = _MARKER.sub(r"\g<0> ", neutral)
        # With the markers of a prompt around it, "/s" would become a token.
        neutral = without_tokens(f"<{neutral}>")[1:-1]
        return text if neutral == seen else neutral

    def line(self, text: str) -> str:
        """The text in one line, as a name is."""
        return self.text(_BREAKS.sub(" ", text))


def _joined(run: re.Match[str]) -> str:
    marks = " ".join(run.group().split())
    return f" {marks} " if run.group()[-1].isspace() else f" {marks}"
