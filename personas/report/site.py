"""Names of the pages of a report over many queries, and their places in it.

Names are made of numbers only, never of a query, an id or a persona.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

OVERVIEW = "index.html"
QUERIES = "queries.html"

PAGE_BYTES = 1_000_000
"""No page of such a report has more bytes."""


@dataclass(frozen=True, slots=True)
class ReportFooter:
    """Version, date and command of a report, for its last line; empty ones are left out."""

    version: str = ""
    date: str = ""  # such as 2026-03-31
    command: str = ""


NO_FOOTER = ReportFooter()


@dataclass(frozen=True, slots=True)
class PageContext:
    """The place of a query's page in its report."""

    title: str  # of the report, for the link back
    place: int  # of the query, from 1; names its pages
    queries: int
    footer: ReportFooter = NO_FOOTER


def numbered(name: str, part: int) -> str:
    """Name of a page's part: ``queries.html``, then ``queries-2.html``, ``queries-3.html``, ..."""
    return name if part == 1 else name.replace(".html", f"-{part}.html")


def query_page(place: int, part: int = 1) -> str:
    """Path of a query's page below the report's folder, e.g. ``query/000012.html``."""
    return numbered(f"query/{place:06d}.html", part)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list that may take several."""

    number: int  # from 1
    name: str  # of its file; empty for a page by itself
    first: int  # place of its first entry, from 1
    last: int  # place of its last one; below `first` if there is none


def pages_of(names: Sequence[str], ends: Sequence[int]) -> tuple[Page, ...]:
    """Pages of these names, of which each ends with that entry."""
    return tuple(
        Page(number, name, start + 1, end)
        for number, (name, (start, end)) in enumerate(
            zip(names, pairwise((0, *ends)), strict=True), start=1
        )
    )
