"""From a reply's text to an order of passages, or the one passage that it chose.

What a reply says twice, or of passages that were not shown, is left out and counted; nothing is
put in for what it does not say. A reply in which two orders or choices stand has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcranker.replies.json import LONGEST, without_thinking
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.prose import is_example

_ITEM = r"(?:\[\s*+[0-9]{1,9}\s*+\]|(?<![\w.,-])[0-9]{1,9}(?![\w,]|\.[0-9]))"
_CHAIN = re.compile(rf"{_ITEM}(?:\s*+>\s*+{_ITEM})++")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ONE = re.compile(r"\A[\s*`\"']*+\[?\s*+([0-9]{1,9})\s*+\]?[\s*`\"'.]*+")
_CHOICE = re.compile(
    r"\A[\W_]*+(?:(?i:the)\s++)?(?:(?i:most relevant|more relevant|best)\s++)?"
    r"(?:(?i:passage|answer|output|letter|choice|result)(?:\s++(?i:is))?[\W_]*+){0,3}"
    r"([A-Z])[\W_]*+"
)
_BEFORE = 100  # characters before a list that can say that it is an example
_LONGEST_CHOICE = 100  # characters of a line that is a choice and nothing else


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """What a reply says of the order of passages.

    Attributes:
        places: from 0, best first, each once; of those that were shown.
        missing: how many of those that were shown are not among them.
        repeated: how many times a number stood there again.
        unknown: how many numbers were of no passage that was shown.
    """

    places: tuple[int, ...]
    missing: int
    repeated: int
    unknown: int

    @property
    def odd(self) -> bool:
        """Whether it is not simply an order of all passages."""
        return bool(self.missing or self.repeated or self.unknown)


def read_order(text: str, count: int, *, cut: bool = False) -> ReadOrder:
    """The order in a reply such as ``[2] > [3] > [1]``, of passages 1 to `count`.

    Brackets may be left out, and text may stand around the list.

    Args:
        text: of the reply.
        count: passages that were shown.
        cut: it was cut at the token limit, so a number at its very end may lack digits.

    Raises:
        Unreadable: there is no such list, there are several that differ, or it names no passage
            that was shown.
    """
    body = _body(text)
    chains = {
        tuple(map(int, _numbers(found, body, cut=cut)))
        for found in _CHAIN.finditer(body)
        if not is_example(body[max(0, found.start() - _BEFORE) : found.start()])
    }
    alone = _ONE.fullmatch(body)
    if alone and not cut:
        chains = {(int(alone.group(1)),)}
    if len(chains) > 1:
        raise Unreadable("it has several lists, which differ; write one.")
    if not chains:
        raise Unreadable("it has no list of numbers with > between them, as in [2] > [1].")
    (said,) = chains
    known = [number - 1 for number in said if 1 <= number <= count]
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
    """The place in `labels`, capital letters, of the one that a reply chose.

    The letter stands alone, as ``B``, ``[B]`` or ``Passage B``, in a line of its own. The last line
    of a reply that was `cut` at the token limit does not count: it may be the beginning of a word.

    Raises:
        Unreadable: no line is a choice, several choose differently, or the letter is no label.
    """
    lines = _body(text).splitlines()
    chosen = {
        found.group(1)
        for line in (lines[:-1] if cut else lines)
        if len(line) <= _LONGEST_CHOICE and (found := _CHOICE.fullmatch(line))
    }
    if len(chosen) > 1:
        raise Unreadable("it chooses several passages; choose one.")
    if not chosen:
        raise Unreadable("no line of it is the letter of a passage and nothing else.")
    (letter,) = chosen
    if letter not in labels:
        raise Unreadable(f"{letter} is none of {', '.join(labels)}.")
    return labels.index(letter)


def _body(text: str) -> str:
    body = without_thinking(text)
    if len(body) > LONGEST:
        raise Unreadable(f"it has {len(body):,} characters, and {LONGEST:,} is the limit.")
    return body.strip()


def _numbers(chain: re.Match[str], body: str, *, cut: bool) -> list[str]:
    numbers = _NUMBER.findall(chain.group())
    doubtful = cut and chain.end() == len(body) and body[-1].isdigit()
    return numbers[:-1] if doubtful else numbers
