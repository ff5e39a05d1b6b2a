"""How the pages of a report over many queries are called, and what leads from one to another.

Names are made of numbers only, never of a query, an id or a persona.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CASES",
    "CRITERIA",
    "OVERVIEW",
    "PAGE_BYTES",
    "PERSONAS",
    "QUERIES",
    "Around",
    "numbered",
    "query_page",
]

OVERVIEW = "index.html"
QUERIES = "queries.html"
PERSONAS = "personas.html"
CRITERIA = "criteria.html"
CASES = "cases.html"

PAGE_BYTES = 1_000_000
"""No page of such a report has more bytes."""


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a query's page.

    Attributes:
        title: of the report, for the link back.
        place: of the query, from 1; names its pages.
        queries: how many there are.
    """

    title: str
    place: int
    queries: int


def numbered(name: str, part: int) -> str:
    """Name of a page's part: ``queries.html``, then ``queries-2.html``, ``queries-3.html``, ..."""
    return name if part == 1 else name.replace(".html", f"-{part}.html")


def query_page(place: int, part: int = 1) -> str:
    """Path of a query's page below the report's folder, e.g. ``query/000012.html``."""
    return numbered(f"query/{place:06d}.html", part)
