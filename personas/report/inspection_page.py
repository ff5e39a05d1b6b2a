"""The page of one ranked query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from personas.inspection import InspectedHit, Inspection
from personas.report.formats import bare, contained, cut, decimals, exact, fixed, weight
from personas.report.page import render_page
from personas.schema import Member

__all__ = ["render_inspection"]

TEXT_LIMIT = 20_000
"""Characters of one passage that are shown at most."""
PAGE_LIMIT = 600_000
"""Characters of all passages that are shown at most; long ones are cut alike to fit."""

_NONE = "\N{EN DASH}"
_SKIPPED = "\N{MIDDLE DOT}"
_LEVELS = 10
_SNIPPET = 90
_LABEL = 160
_TOOLTIP = 300
_LONG_WORD = 16
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

    kind: Literal["scored", "missing", "skipped", "unasked", "unjudged"]
    text: str
    level: int
    title: str
    exact: str


@dataclass(frozen=True, slots=True)
class _Judgement:
    """One persona's line in a passage's details."""

    persona: str
    member: int | None
    cell: _Cell
    rank_without: int | None
    effect: int
    criteria: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One passage: its row in the table and its details.

    `title` is the whole title where the label does not hold it, `left_out` how many
    characters of the text are not shown.
    """

    hit: InspectedHit
    label: str
    title: str
    score: str
    score_title: str
    disagreement: float | None
    raised_most_by: tuple[str, ...]
    sunk_most_by: tuple[str, ...]
    cells: tuple[_Cell, ...]
    judgements: tuple[_Judgement, ...]
    missing: tuple[tuple[str, str], ...]
    text: str
    left_out: int


@dataclass(frozen=True, slots=True)
class _Column:
    """One persona's column, with the mean of its scores; a long word must be broken."""

    name: str
    mean: str
    long_word: bool


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
            if inspection.config.get(name) not in (None, "", [], (), 0.0)
        ],
        judged=len(inspection.judged),
        partly=len(inspection.partly_judged),
        skipped_mark=_SKIPPED,
        models=_models(inspection),
    )


def _entries(inspection: Inspection) -> list[_Entry]:
    hits = inspection.hits
    limit = _fair_limit([len(hit.text) for hit in hits])
    places = decimals([score for hit in hits for score in hit.known_scores])
    final_places = decimals([final for hit in hits if (final := _final(hit)) is not None])
    return [_entry(inspection, hit, limit, places, final_places) for hit in hits]


def _entry(
    inspection: Inspection, hit: InspectedHit, limit: int, places: int, final_places: int
) -> _Entry:
    cells = tuple(_cell(hit, name, inspection.top, places) for name in inspection.personas)
    final, at_most = _final(hit), "" if hit.at_most is None else "\N{LESS-THAN OR EQUAL TO} "
    label = hit.title.strip() or " ".join(hit.text[: 4 * _SNIPPET].split())[:_SNIPPET]
    return _Entry(
        hit=hit,
        label=cut(label, _LABEL) or "(no text)",
        title=hit.title if len(hit.title) > _LABEL else "",
        score="" if final is None else at_most + fixed(final, final_places),
        score_title="" if final is None else exact(final),
        disagreement=hit.disagreement,
        raised_most_by=hit.raised_most_by,
        sunk_most_by=hit.sunk_most_by,
        cells=cells,
        judgements=() if final is None else _judgements(inspection, hit, cells),
        missing=tuple(hit.missing.items()),
        text=contained(hit.text[:limit]),
        left_out=max(0, len(hit.text) - limit),
    )


def _final(hit: InspectedHit) -> float | None:
    """What the passage is ranked by."""
    return hit.score if hit.at_most is None else hit.at_most


def _cell(hit: InspectedHit, persona: str, top: float, places: int) -> _Cell:
    score = hit.scores[persona]
    if score is not None:
        level = min(_LEVELS, max(0, round(_LEVELS * score / top)))
        return _Cell("scored", fixed(score, places), level, "", exact(score))
    if persona in hit.missing:
        why = cut(bare(hit.missing[persona]), _TOOLTIP) or "no reason is known"
        return _Cell("missing", _NONE, 0, f"missing: {why}", "")
    if persona in hit.skipped:
        return _Cell("skipped", _SKIPPED, 0, "not asked: it could not reach the first ranks", "")
    if hit.judged:
        return _Cell("unasked", _SKIPPED, 0, "not asked for", "")
    return _Cell("unjudged", "", 0, "not judged", "")


def _judgements(
    inspection: Inspection, hit: InspectedHit, cells: Sequence[_Cell]
) -> tuple[_Judgement, ...]:
    effects = hit.effects
    return tuple(
        _Judgement(
            persona=name,
            member=_number(inspection, name),
            cell=cell,
            rank_without=hit.rank_without.get(name),
            effect=effects.get(name, 0),
            criteria=_criteria(hit.criteria.get(name, {}), inspection.member(name)),
        )
        for name, cell in zip(inspection.personas, cells, strict=True)
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
        mean = fixed(sum(known) / len(known), 2) if known else _NONE
        longest = max(map(len, name.split()), default=0)
        columns.append(_Column(name, mean, longest > _LONG_WORD))
    return columns


def _models(inspection: Inspection) -> list[tuple[str, str]]:
    roles = list(inspection.models.items())
    if len({name for _, name in roles}) == 1:
        return [("model", roles[0][1])]
    return [(f"{cut(role, 40)} model", name) for role, name in roles]


def _number(inspection: Inspection, persona: str) -> int | None:
    names = inspection.team.names if inspection.team else ()
    return names.index(persona) + 1 if persona in names else None


def _fair_limit(lengths: Sequence[int]) -> int:
    """The longest limit up to `TEXT_LIMIT` that keeps the sum of the texts in `PAGE_LIMIT`."""
    room = PAGE_LIMIT
    for place, length in enumerate(sorted(min(length, TEXT_LIMIT) for length in lengths)):
        share = room // (len(lengths) - place)
        if length > share:
            return share
        room -= length
    return TEXT_LIMIT
