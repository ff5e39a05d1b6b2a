"""Names of the pages of a report over many queries, and the links between them.

Names are made of numbers only, never of a query, an id or a persona.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

OVERVIEW = "index.html"
QUERIES = "queries.html"
PERSONAS = "personas.html"
CRITERIA = "criteria.html"
CASES = "cases.html"

PAGE_BYTES = 1_000_000
"""No page of such a report has more bytes."""


@dataclass(frozen=True, slots=True)
class Made:
    """Origin of a report, for its last line; what is empty is left out.

    Attributes:
        version: of the program, e.g. ``"0.1.0"``.
        date: e.g. ``"2026-03-31"``.
        command: that made it.
    """

    version: str = ""
    date: str = ""
    command: str = ""


NOBODY = Made()


@dataclass(frozen=True, slots=True)
class PageContext:
    """The place of a query's page in its report.

    Attributes:
        title: of the report, for the link back.
        place: of the query, from 1; names its pages.
        queries: how many there are.
        made: what the last line of the page says.
    """

    title: str
    place: int
    queries: int
    made: Made = NOBODY


def numbered(name: str, part: int) -> str:
    """Name of a page's part: ``queries.html``, then ``queries-2.html``, ``queries-3.html``, ..."""
    return name if part == 1 else name.replace(".html", f"-{part}.html")


def query_page(place: int, part: int = 1) -> str:
    """Path of a query's page below the report's folder, e.g. ``query/000012.html``."""
    return numbered(f"query/{place:06d}.html", part)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list that may take several.

    Attributes:
        number: from 1.
        name: of its file; empty for a page by itself.
        first: place of its first entry, from 1.
        last: place of its last one; below `first` if there is none.
    """

    number: int
    name: str
    first: int
    last: int


def pages_of(names: Sequence[str], ends: Sequence[int]) -> tuple[Page, ...]:
    """Pages of these names, of which each ends with that entry."""
    return tuple(
        Page(number, name, start + 1, end)
        for number, (name, (start, end)) in enumerate(
            zip(names, pairwise((0, *ends)), strict=True), start=1
        )
    )
