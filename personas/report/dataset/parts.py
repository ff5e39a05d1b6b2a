"""Tables that may be longer than a page: their columns, and how rows are dealt out to pages."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from markupsafe import Markup

from personas.report.formats import printable
from personas.report.site import PAGE_BYTES, numbered

__all__ = ["Column", "Finder", "Part", "deal_out", "size"]

_SPARE = 2_000
"""Bytes kept free for what differs from part to part: numbers, the marked link, a name."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that can be sorted.

    Attributes:
        key: name in the page's address, of letters.
        title: heading; may hold untrusted text, as markup.
        first: direction of the first sort; empty if sorting by it says nothing.
        words: whether it holds words, to be compared as such.
    """

    key: str
    title: str | Markup
    first: Literal["ascending", "descending", ""] = "descending"
    words: bool = False


@dataclass(frozen=True, slots=True)
class Finder:
    """What a reader can do with a table.

    Attributes:
        key: id of the table.
        caption: what it shows.
        one: what a row is, e.g. ``"query"``.
        many: the plural.
        columns: in order.
        searched: what a search looks at, in words.
        shows: (key, words) of what the rows can be restricted to: those that are failed, or
            that have something in the column of that key.
        orders: (address, words) of orders worth offering, e.g. ``("-alpha", "Highest alpha")``.
        everywhere: a search for any of this finds every row that is not failed.
        prefix: stands before this table's state in the page's address.
    """

    key: str
    caption: str
    one: str
    many: str
    columns: tuple[Column, ...]
    searched: str
    shows: tuple[tuple[str, str], ...] = ()
    orders: tuple[tuple[str, str], ...] = ()
    everywhere: str = ""
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one page.

    Attributes:
        name: of the page.
        number: from 1.
        first: place of the first row in the whole table, from 1; 0 if there is none.
        last: place of the last one.
        rows: as markup.
    """

    name: str
    number: int
    first: int
    last: int
    rows: Markup


def size(text: str) -> int:
    """Bytes of the text in UTF-8, as a page will hold it."""
    return len(printable(text).encode())


def deal_out(
    name: str, rows: Sequence[Markup], frame: Callable[[Sequence[Part]], int]
) -> tuple[Part, ...]:
    """The rows in as many parts as keep every page below `PAGE_BYTES`; at least one.

    Args:
        name: of the first page.
        rows: in order.
        frame: bytes of the largest page without its rows, given the parts there will be. A
            report of more parts has more links between them.
    """
    sizes = [size(row) for row in rows]
    parts: tuple[Part, ...] = (Part(name, 1, 1, len(rows), Markup("")),)
    while True:
        room = PAGE_BYTES - _SPARE - frame(parts)
        ends = _ends(sizes, room)
        if len(ends) <= len(parts):
            break
        parts = tuple(
            Part(numbered(name, number), number, end, end, Markup(""))
            for number, end in enumerate(ends, start=1)
        )
    ends = _evened(sizes, ends, room)
    starts = [0, *ends[:-1]]
    return tuple(
        Part(
            numbered(name, number),
            number,
            min(start + 1, len(rows)),
            end,
            Markup("\n").join(rows[start:end]),
        )
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=1)
    )


def _ends(sizes: Sequence[int], room: int) -> list[int]:
    """Where each part ends, so that none of more than one row has more bytes than there is room."""
    before = _before(sizes)
    ends, start = [], 0
    for place in range(1, len(sizes)):
        if before[place + 1] - before[start] > room:
            ends.append(place)
            start = place
    return [*ends, len(sizes)]


def _evened(sizes: Sequence[int], ends: list[int], room: int) -> list[int]:
    """As many parts of about the same size, lest the last be a stub; as they were if too tight."""
    before = _before(sizes)
    shares = [before[-1] * part / len(ends) for part in range(1, len(ends))]
    even = [*(bisect_left(before, share) for share in shares), len(sizes)]
    starts = [0, *even[:-1]]
    fits = all(
        start < end and before[end] - before[start] <= room
        for start, end in zip(starts, even, strict=True)
    )
    return even if fits else ends


def _before(sizes: Sequence[int]) -> list[int]:
    """Bytes of all rows before each, line ends included, and of all together."""
    return [0, *accumulate(each + 1 for each in sizes)]
