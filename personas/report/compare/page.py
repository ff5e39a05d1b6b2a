"""The page of a comparison: of two rankings of one query, or of several queries of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from personas.ranking.comparison import (
    ComparedPassage,
    CriterionChange,
    PersonaChange,
    RankingComparison,
)
from personas.report.compare.sentences import (
    Name,
    Sentence,
    change_text,
    criterion_text,
    given_pair,
    reason,
    verdict,
)
from personas.report.compare.slope import FIRST, label_of, left_out, slope_chart
from personas.report.diff_lines import DiffLine, diff_lines
from personas.report.formats import judgement
from personas.report.markup import change as coloured
from personas.report.markup import iso, moved
from personas.report.page import render_page
from personas.words import signed, whole

DETAILED = 150
"""Passages that are explained on a page, shared among its queries."""

_LEAST_DETAILED, _MOST_DETAILED = 5, 50  # of one query
_TEXT = 700
_NAME = 80
_CAUSES, _CRITERIA, _LINES, _SETTINGS, _NOTES = 12, 8, 200, 60, 12
_ROWS = 1000


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query of two runs in the list of all.

    Attributes:
        query_id: its id; may be empty.
        text: the query.
        moved: passages with another rank.
        passages: passages of either run.
        shared: passages that both have among their first ten.
        before: measure of the first run; None where it is not known.
        after: measure of the second.
    """

    query_id: str
    text: str
    moved: int
    passages: int
    shared: int
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """What stands above the queries where there are several.

    Attributes:
        title: what is compared, in words.
        facts: label -> value, such as means.
        notes: what must be known before the rest is believed, the worst first.
        verdict: how much changed; a few sentences.
        measure: of the rows, e.g. ``"nDCG@10"``.
        rows: all queries, those that changed most first.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    verdict: Sequence[str]
    measure: str
    rows: Sequence[QueryRow]


@dataclass(frozen=True, slots=True)
class _Mover:
    anchor: str
    label: Markup
    ranks: str
    moved: Markup
    grade: str
    relevant: bool
    why: Markup
    scores: str
    rows: Sequence[_CauseRow]
    more_rows: int
    by_criterion: bool
    text: str


@dataclass(frozen=True, slots=True)
class _CauseRow:
    persona: Markup
    edited: bool
    scores: str
    change: Markup | str
    effect: Markup
    criteria: Sequence[tuple[Markup, str, Markup | str]]
    more: int


@dataclass(frozen=True, slots=True)
class _Query:
    number: int
    comparison: RankingComparison
    verdict: Sequence[Markup]
    notes: Sequence[str]
    team: Sequence[DiffLine]
    more_lines: int
    chart: Markup
    left_out: int
    movers: Sequence[_Mover]
    more_movers: int


def render_comparison(
    comparisons: Sequence[RankingComparison],
    *,
    before: str = "before",
    after: str = "after",
    runs: ComparedRuns | None = None,
) -> str:
    """The comparison as one HTML page that needs nothing else.

    The same data give the same page, byte for byte.

    Args:
        comparisons: a query each, to be explained; one, unless `runs` says what they are of.
        before: what the first ranking is called, such as its file.
        after: what the second one is called.
        runs: what stands above several queries.

    Raises:
        ValueError: several comparisons without `runs`.
    """
    if len(comparisons) != 1 and runs is None:
        raise ValueError(f"{len(comparisons)} comparisons: say by runs= what they are of")
    share = DETAILED // max(1, len(comparisons))
    share = min(max(share, _LEAST_DETAILED), _MOST_DETAILED)
    queries = [_query(number, each, share) for number, each in enumerate(comparisons, start=1)]
    same_team = _same_team(comparisons) if runs is not None else None
    return render_page(
        "comparison.html",
        assets=("comparison",),
        queries=queries,
        runs=runs,
        shared_team=queries[0] if same_team and queries else None,
        explained={each.comparison.after.query.id: each.number for each in queries},
        before=before,
        after=after,
        first=FIRST,
        most=_ROWS,
        settings_shown=_SETTINGS,
    )


def _same_team(comparisons: Sequence[RankingComparison]) -> bool:
    """Whether the same was done to one team in all."""
    return len(comparisons) > 1 and all(
        each.before.team == comparisons[0].before.team
        and each.after.team == comparisons[0].after.team
        for each in comparisons
    )


def _query(number: int, comparison: RankingComparison, share: int) -> _Query:
    movers = comparison.movers[:share]
    anchors = {id(each): f"q{number}-p{place}" for place, each in enumerate(movers, start=1)}
    lines = list(diff_lines(comparison.team)) if comparison.team else []
    return _Query(
        number=number,
        comparison=comparison,
        verdict=[_markup(each) for each in verdict(comparison)],
        notes=comparison.notes[:_NOTES],
        team=lines[:_LINES],
        more_lines=max(0, len(lines) - _LINES),
        chart=slope_chart(comparison, lambda each: anchors.get(id(each), "")),
        left_out=left_out(comparison),
        movers=[_mover(each, anchors[id(each)], comparison) for each in movers],
        more_movers=len(comparison.movers) - len(movers),
    )


def _mover(each: ComparedPassage, anchor: str, comparison: RankingComparison) -> _Mover:
    graded = comparison.after.grades is not None
    ranks = [whole(hit.rank) if hit else "–" for hit in (each.before, each.after)]  # noqa: RUF001
    finals = [hit.score if hit else None for hit in (each.before, each.after)]
    text = each.text
    return _Mover(
        anchor=anchor,
        label=iso(label_of(each), 160),
        ranks=" → ".join(ranks),
        moved=moved(each.moved)
        if each.moved is not None
        else Markup('<span class="same">{}</span>').format("new" if each.after else "gone"),
        grade=judgement(each.grade, graded=each.grade is not None and each.grade > 1)
        if graded
        else "",
        relevant=each.grade is not None and each.grade > 0,
        why=_markup(reason(each)),
        scores="" if finals == [None, None] else change_text(*finals),
        rows=[_row(cause) for cause in each.causes[:_CAUSES]],
        more_rows=max(0, len(each.causes) - _CAUSES),
        by_criterion=any(cause.criteria for cause in each.causes),
        text=text,
    )


def _row(cause: PersonaChange) -> _CauseRow:
    name = iso(cause.persona, _NAME)
    if cause.was:
        name = Markup("{} <small>was {}</small>").format(name, iso(cause.was, _NAME))
    sides = [absent or "" for absent in (cause.absent_before, cause.absent_after)]
    one, two = given_pair(cause)
    by_rank = cause.rank_before is not None or cause.rank_after is not None
    return _CauseRow(
        persona=name,
        edited=cause.edited,
        scores=f"{sides[0] or one} → {sides[1] or two}",
        change="" if cause.change is None or by_rank else coloured(signed(cause.change, 2)),
        effect=moved(cause.effect),
        criteria=[_criterion(each) for each in cause.criteria[:_CRITERIA]],
        more=max(0, len(cause.criteria) - _CRITERIA),
    )


def _criterion(each: CriterionChange) -> tuple[Markup, str, Markup | str]:
    return iso(each.name, _NAME), criterion_text(each), coloured(signed(each.added, 2))


def _markup(sentence: Sentence) -> Markup:
    return Markup("").join(
        iso(part, _NAME) if isinstance(part, Name) else Markup("{}").format(part)
        for part in sentence
    )
