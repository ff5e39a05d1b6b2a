"""The page of one ranked query: by itself, or as pages of a report over many."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from personas.ensembles import Rule
from personas.inspection.inspection import InspectedHit, Inspection, OtherRanking
from personas.inspection.stored import StoredRanking
from personas.report.formats import cut, exact, fixed
from personas.report.page import render_page
from personas.report.query.agreement_view import agreement
from personas.report.query.heat_row import heat_row
from personas.report.query.judgements import judgements
from personas.report.query.passage_details import (
    GENEROUS,
    TEXT_LIMIT,
    TIGHT,
    Limits,
    passage_details,
)
from personas.report.query.passage_sheet import MISSING, SKIPPED, Sheet
from personas.report.query.query_parts import Part, Piece, ends_of_parts, fair_limit, parts_of
from personas.report.query.team_view import by_person, seen_members
from personas.report.site import OVERVIEW, PAGE_BYTES, QUERIES, Around, query_page

__all__ = ["inspection_pages", "render_inspection"]

PAGE_LIMIT = 600_000
"""Bytes of all passages' texts on a page by itself; long ones are cut alike to fit."""

_SPARE = 100
"""Bytes kept free for each part, in which its link may differ from what was measured."""
_LONG_WORD = 16
_FEW_COLUMNS = 5
_IN_SHORT = (
    "preset",
    "ensemble",
    "scoring",
    "scale",
    "labels",
    "missing",
    "criteria",
    "recruiting",
    "depth",
    "first_stage_weight",
    "prompts",
)


@dataclass(frozen=True, slots=True)
class _Column:
    """One persona's column, with the mean of its scores; a long word must be broken."""

    name: str
    mean: str
    long_word: bool


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How much is shown around the passages: characters, and rows of a list."""

    text: int = 2000
    line: int = 1000
    name: int = 200
    rows: int = 200


_BOUNDS = (
    _Bounds(),
    _Bounds(text=400, line=200, name=100, rows=100),
    _Bounds(text=60, line=30, name=30, rows=40),
    _Bounds(text=20, line=10, name=20, rows=3),
)
"""From generous to tight, for what would otherwise fill a page."""


def render_inspection(
    data: StoredRanking | Mapping[str, Any],
    *,
    grades: Mapping[str, int] | None = None,
    other: OtherRanking | None = None,
) -> str:
    """The inspection report of one ranked query: one HTML page that needs nothing else.

    The same data give the same page, byte for byte. Passages are cut to `TEXT_LIMIT` bytes,
    and further where all of them together exceed `PAGE_LIMIT`; the page says how much was
    left out. Bytes are those of the page: UTF-8, with markup in the text escaped.

    Args:
        data: what ``Ranking.to_dict()`` made.
        grades: document id -> judgement for this query, above 0 for relevant; without, the
            page says nothing of judgements.
        other: what another ranker made of the query.

    Raises:
        SchemaError: `data` is something else.
    """
    inspection = Inspection.from_dict(data, grades=grades, other=other)
    hits = inspection.hits
    limit = fair_limit([hit.text for hit in hits], TEXT_LIMIT, PAGE_LIMIT)
    page = _Page(inspection)
    pieces = [page.piece(hit, Limits(text=limit)) for hit in hits]
    return page.render(parts_of([""], [len(hits)]), 0, pieces)


def inspection_pages(inspection: Inspection, around: Around) -> list[str]:
    """The page of one query within a report, in several parts where one would be too large.

    Each has less than `PAGE_BYTES` bytes in UTF-8, with links to the report, to the queries
    before and after, and to its other parts. Every part has the next passages, best first,
    with their rows of the heat map; the team, the calls and the settings stand on part 1. That
    holds for teams of some hundred personas at most.

    Args:
        inspection: the query.
        around: its place in the report; part n is to be called
            ``query_page(around.place, n)``.
    """
    page = _Page(inspection, around)
    pieces, left = [], PAGE_BYTES
    for hit in inspection.hits:
        piece = page.piece(hit)
        left -= len(piece.row) + len(piece.details)  # characters, of a byte or more
        if left <= 0:
            return _in_parts(inspection, around)
        pieces.append(piece)
    made = page.render(parts_of([_name(around, 1)], [len(pieces)]), 0, pieces)
    return [made] if len(made.encode()) < PAGE_BYTES else _in_parts(inspection, around)


def _in_parts(inspection: Inspection, around: Around) -> list[str]:
    hits, room = inspection.hits, PAGE_BYTES - 1
    page = _Page(inspection, around, team_page=_name(around, 1))
    for bounds in _BOUNDS:
        page.bounds = bounds
        # What stands around the passages may fill half a page.
        if 2 * max(_frames(page, around, 1)) <= room:
            break
    pieces = [page.piece(hit) for hit in hits]
    for place, hit in enumerate(hits):
        if 2 * pieces[place].size > room:
            pieces[place] = page.piece(hit, TIGHT)
    sizes, number = [piece.size for piece in pieces], 1
    while True:
        first, other = _frames(page, around, number)
        ends = ends_of_parts(sizes, room - first, room - other)
        if len(ends) <= number:
            break
        number = len(ends)  # more parts have more links between them, and larger frames
    parts = parts_of([_name(around, each) for each in range(1, len(ends) + 1)], ends)
    return [page.render(parts, place, pieces) for place in range(len(parts))]


def _frames(page: _Page, around: Around, number: int) -> tuple[int, int]:
    """Bytes of part 1 and of another part without passages, if there are so many parts."""
    names = [_name(around, each) for each in range(1, number + 2)]
    # All passages on the last part: links to them have its name, which is the longest.
    parts = parts_of(names, [0] * number + [len(page.inspection.hits)])
    spare = _SPARE * len(names)
    first, other = (len(page.render(parts, place, []).encode()) for place in (0, 1))
    return first + spare, other + spare


def _name(around: Around, part: int) -> str:
    return query_page(around.place, part).rpartition("/")[2]


class _Page:
    """Renders the page of one query, or any part of it.

    Args:
        inspection: the query.
        around: its place in a report; None for a page by itself.
        team_page: name of the page that has the team; empty if it is the same one.

    Attributes:
        inspection: the query.
        bounds: how much is shown around the passages.
    """

    def __init__(
        self,
        inspection: Inspection,
        around: Around | None = None,
        *,
        team_page: str = "",
    ) -> None:
        self.inspection = inspection
        self.bounds = _BOUNDS[0]
        judged = judgements(inspection)
        self._sheet = Sheet(
            inspection, team_page=team_page, graded=judged is not None and judged.graded
        )
        members = seen_members(inspection)
        self._values: dict[str, Any] = {
            "inspection": inspection,
            "around": around,
            "links": _links(around) if around else {},
            "sheet": self._sheet,
            "judgements": judged,
            "agreement": agreement(inspection),
            "columns": _columns(inspection, self._sheet),
            "wide": len(inspection.personas) + _extra_columns(inspection) > _FEW_COLUMNS,
            "members": members,
            "by_person": by_person(members),
            "in_short": [
                (name.replace("_", " "), inspection.config[name])
                for name in _IN_SHORT
                if inspection.config.get(name) not in (None, "", [], (), 0.0)
            ],
            "ensemble": _ensemble(inspection),
            "judged": len(inspection.judged),
            "partly": len(inspection.partly_judged),
            "missing": [
                (hit.rank, name, why)
                for hit in inspection.hits
                for name, why in hit.missing.items()
            ],
            "missing_mark": MISSING,
            "skipped_mark": SKIPPED,
            "models": _models(inspection),
        }

    def piece(self, hit: InspectedHit, limits: Limits = GENEROUS) -> Piece:
        """The passage's row and details."""
        shown = self._sheet.shown(hit)
        return Piece(heat_row(self._sheet, shown), passage_details(self._sheet, shown, limits))

    def render(self, parts: Sequence[Part], place: int, pieces: Sequence[Piece]) -> str:
        """The part in that place; `pieces` are those of all parts, or none to measure its frame."""
        part = parts[place]
        its = pieces[part.first - 1 : part.last]
        starts = [each.first for each in parts]

        def page_of(rank: int) -> str:
            """The page with the passage's details; empty if it is the same one."""
            if part.first <= rank <= part.last:
                return ""
            return parts[bisect_right(starts, rank) - 1].name

        return render_page(
            "inspection.html",
            **self._values,
            bounds=self.bounds,
            part=part,
            parts=parts,
            page_of=page_of,
            filled={
                "rows": "".join([piece.row for piece in its]),
                "details": "".join([piece.details for piece in its]),
            },
        )


def _links(around: Around) -> dict[str, str]:
    """What the page leads to -> address, from the folder that it stands in."""
    found = {"overview": f"../{OVERVIEW}", "queries": f"../{QUERIES}"}
    if around.place > 1:
        found["previous"] = f"../{query_page(around.place - 1)}"
    if around.place < around.queries:
        found["next"] = f"../{query_page(around.place + 1)}"
    return found


def _columns(inspection: Inspection, sheet: Sheet) -> list[_Column]:
    columns = []
    for name in inspection.personas:
        scores = [hit.scores[name] for hit in inspection.hits]
        known = [score for score in scores if score is not None]
        mean = (
            fixed(math.fsum(known) / len(known), max(2, sheet.score_places)) if known else MISSING
        )
        longest = max(map(len, name.split()), default=0)
        columns.append(_Column(name, mean, longest > _LONG_WORD))
    return columns


def _extra_columns(inspection: Inspection) -> int:
    return (inspection.grades is not None) + 2 * (inspection.other is not None)


def _ensemble(inspection: Inspection) -> str:
    """How the final score comes about, in a sentence; empty if that is not known."""
    if len(inspection.personas) < 2:
        return ""
    said = inspection.ensemble.description if inspection.ensemble else ""
    weight = Rule.of(inspection.config).first_stage_weight
    if said and weight:
        return f"{said} The first stage’s score counts {exact(100 * weight)}% in it."  # noqa: RUF001
    return said


def _models(inspection: Inspection) -> list[tuple[str, str]]:
    roles = list(inspection.models.items())
    if len({name for _, name in roles}) == 1:
        return [("model", roles[0][1])]
    return [(f"{cut(role, 40)} model", name) for role, name in roles]
