"""The page of one ranked query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from personas.inspection import InspectedHit, Inspection
from personas.report.formats import bare, cut, decimals, exact, fixed, weight
from personas.report.page import render_page
from personas.schema import Member

__all__ = ["render_inspection"]

TEXT_LIMIT = 20_000
"""Characters of one passage that are shown at most."""
PAGE_LIMIT = 600_000
"""Characters of all passages that are shown at most; long ones are cut alike to fit."""

_LEVELS = 10
_SNIPPET = 90
_TOOLTIP = 300
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
_ORIGINS = {
    "fixed": "Fixed by the method",
    "recruited": "Recruited by the model",
    "library": "From the library",
    "human": "Written by a person",
}


@dataclass(frozen=True, slots=True)
class _Cell:
    """One persona's score of one passage, as the heat map shows it."""

    kind: Literal["scored", "missing", "unasked", "unjudged"]
    text: str
    level: int
    title: str
    sort: str


@dataclass(frozen=True, slots=True)
class _Judgement:
    """One persona's line in a passage's details."""

    persona: str
    member: int | None
    cell: _Cell
    exact: str
    rank_without: int | None
    effect: int
    criteria: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One passage: its row in the table and its details."""

    hit: InspectedHit
    label: str
    score: str
    score_title: str
    cells: tuple[_Cell, ...]
    judgements: tuple[_Judgement, ...]
    missing: tuple[tuple[str, str], ...]
    text: str
    left_out: int


@dataclass(frozen=True, slots=True)
class _Column:
    """One persona's column: where its card is, and the mean of its scores."""

    name: str
    member: int | None
    mean: str


def render_inspection(data: Mapping[str, Any]) -> str:
    """The inspection report of one ranked query: one HTML page that needs nothing else.

    The same data give the same page, byte for byte. Passages are cut to `TEXT_LIMIT`
    characters, and further where all of them together exceed `PAGE_LIMIT`; the page says
    how much was left out.

    Args:
        data: what ``Ranking.to_dict()`` made.

    Raises:
        SchemaError: `data` is something else.
    """
    inspection = Inspection.from_dict(data)
    return render_page(
        "inspection.html",
        inspection=inspection,
        entries=_entries(inspection),
        columns=_columns(inspection),
        members=inspection.team.members if inspection.team else (),
        origins=_ORIGINS,
        in_short=[
            (name.replace("_", " "), inspection.config[name])
            for name in _IN_SHORT
            if inspection.config.get(name) not in (None, "", [], ())
        ],
        judged=len(inspection.judged),
    )


def _entries(inspection: Inspection) -> list[_Entry]:
    hits = inspection.hits
    limit = _fair_limit([len(hit.text) for hit in hits])
    places = decimals([score for hit in hits for score in hit.known_scores])
    final_places = decimals([hit.score for hit in hits if hit.score is not None])
    return [_entry(inspection, hit, limit, places, final_places) for hit in hits]


def _entry(
    inspection: Inspection, hit: InspectedHit, limit: int, places: int, final_places: int
) -> _Entry:
    cells = tuple(_cell(hit, name, inspection.top, places) for name in inspection.personas)
    label = hit.title.strip() or " ".join(hit.text[: 4 * _SNIPPET].split())[:_SNIPPET]
    return _Entry(
        hit=hit,
        label=label or "(no text)",
        score="" if hit.score is None else fixed(hit.score, final_places),
        score_title="" if hit.score is None else exact(hit.score),
        cells=cells,
        judgements=tuple(
            _judgement(inspection, hit, name, cell)
            for name, cell in zip(inspection.personas, cells, strict=True)
        )
        if hit.judged
        else (),
        missing=tuple(hit.missing.items()),
        text=hit.text[:limit],
        left_out=max(0, len(hit.text) - limit),
    )


def _cell(hit: InspectedHit, persona: str, top: float, places: int) -> _Cell:
    score = hit.scores[persona]
    if score is not None:
        level = min(_LEVELS, max(0, round(_LEVELS * score / top)))
        return _Cell("scored", fixed(score, places), level, "", exact(score))
    if persona in hit.missing:
        why = cut(bare(hit.missing[persona]), _TOOLTIP) or "no reason is known"
        return _Cell("missing", "–", 0, f"missing: {why}", "")
    if hit.judged:
        return _Cell("unasked", "·", 0, "not asked for", "")
    return _Cell("unjudged", "", 0, "not judged", "")


def _judgement(inspection: Inspection, hit: InspectedHit, name: str, cell: _Cell) -> _Judgement:
    score = hit.scores[name]
    member = inspection.member(name)
    return _Judgement(
        persona=name,
        member=_number(inspection, name),
        cell=cell,
        exact="" if score is None else exact(score),
        rank_without=hit.rank_without.get(name),
        effect=hit.effects.get(name, 0),
        criteria=_criteria(hit.criteria.get(name, {}), member),
    )


def _criteria(
    scores: Mapping[str, float], member: Member | None
) -> tuple[tuple[str, str, str], ...]:
    rubric = member.rubric if member else None
    weights = {each.name: weight(each.weight) for each in rubric.criteria} if rubric else {}
    return tuple((name, weights.get(name, ""), exact(score)) for name, score in scores.items())


def _columns(inspection: Inspection) -> list[_Column]:
    columns = []
    for name in inspection.personas:
        scores = [hit.scores[name] for hit in inspection.hits]
        known = [score for score in scores if score is not None]
        mean = fixed(sum(known) / len(known), 2) if known else "–"
        columns.append(_Column(name, _number(inspection, name), mean))
    return columns


def _number(inspection: Inspection, persona: str) -> int | None:
    names = inspection.team.names if inspection.team else ()
    return names.index(persona) + 1 if persona in names else None


def _fair_limit(lengths: Sequence[int]) -> int:
    """The longest limit up to `TEXT_LIMIT` that keeps the sum of the texts in `PAGE_LIMIT`."""
    room = PAGE_LIMIT
    for place, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - place)
        if length > share:
            return min(TEXT_LIMIT, share)
        room -= length
    return TEXT_LIMIT
