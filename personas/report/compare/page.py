"""The page of a comparison: of two rankings of one query, or of several queries of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from personas.ranking.comparison import ComparedPassage, ComparedRuns, RankingComparison
from personas.report.compare.sentences import (
    Name,
    Sentence,
    change_text,
    criterion_text,
    given_pair,
    label_of,
    reason,
    sides,
    summary,
)
from personas.report.diff_lines import DiffLine, diff_lines
from personas.report.formats import judgement
from personas.report.markup import iso
from personas.report.page import render_page
from personas.report.site import NO_FOOTER, ReportFooter

DETAILED = 150
"""Passages that are explained on a page, shared among its queries."""
FIRST = 20
"""Ranks whose moves are drawn on either side."""

_LEAST_DETAILED, _MOST_DETAILED = 5, 50  # of one query
_BOUNDS = {"causes": 12, "criteria": 8, "settings": 60, "notes": 12, "rows": 1000, "kept": 200}
_LINES = 200
_ROW = 1.875  # rem, as in comparison.css
_THIN, _THICK = 1.5, 5.0


@dataclass(frozen=True, slots=True)
class _Query:
    """A comparison and what is drawn of it; `drawn` are passages with their rows on both sides."""

    number: int
    comparison: RankingComparison
    lines: Sequence[tuple[DiffLine, Sequence[DiffLine]]]
    more_lines: int
    explained: Sequence[ComparedPassage]
    kept: Sequence[ComparedPassage]
    left: Sequence[ComparedPassage]
    right: Sequence[ComparedPassage]
    drawn: Sequence[tuple[str, float, float, float]]

    def anchor(self, each: ComparedPassage) -> str:
        """The id of the passage's explanation; empty where there is none."""
        place = next((n for n, other in enumerate(self.explained, 1) if other is each), 0)
        return f"q{self.number}-p{place}" if place else ""


def render_comparison(
    found: RankingComparison | ComparedRuns,
    *,
    before: str = "before",
    after: str = "after",
    dates: tuple[str, str] = ("", ""),
    footer: ReportFooter = NO_FOOTER,
) -> str:
    """The comparison as one HTML page that needs nothing else."""
    runs = found if isinstance(found, ComparedRuns) else None
    comparisons = [found] if isinstance(found, RankingComparison) else found.comparisons
    share = DETAILED // max(1, len(comparisons))
    share = min(max(share, _LEAST_DETAILED), _MOST_DETAILED)
    queries = [_query(number, each, share) for number, each in enumerate(comparisons, start=1)]
    same_team = len(comparisons) > 1 and all(
        each.before.team == comparisons[0].before.team
        and each.after.team == comparisons[0].after.team
        for each in comparisons
    )
    return render_page(
        "comparison.html",
        assets=("comparison",),
        queries=queries,
        runs=runs,
        sides=sides(comparisons[0]) if runs is None else (),
        shared_team=queries[0] if same_team else None,
        explained={each.comparison.after.query.id: each.number for each in queries},
        names=(before, after),
        dates=dates,
        first=FIRST,
        bounds=_BOUNDS,
        footer=footer,
        summary=lambda each: [_markup(sentence) for sentence in summary(each)],
        reason=lambda each: _markup(reason(each)),
        label_of=label_of,
        change_text=change_text,
        given_pair=given_pair,
        criterion_text=criterion_text,
        judgement=judgement,
    )


def _query(number: int, comparison: RankingComparison, share: int) -> _Query:
    lines = list(diff_lines(comparison.team)) if comparison.team else []
    near = [
        each
        for each in comparison.movers
        if any(hit is not None and hit.rank <= FIRST for hit in (each.before, each.after))
    ]
    left = sorted((each for each in near if each.before), key=lambda each: _ranks(each)[0])
    right = sorted((each for each in near if each.after), key=lambda each: _ranks(each)[1])
    rows = {id(each): row for row, each in enumerate(right)}
    # Those that moved most are drawn last, above all others.
    both = sorted(
        (
            (each.weight, each.moved, row, rows[id(each)])
            for row, each in enumerate(left)
            if each.moved
        ),
        key=lambda drawn: drawn[0],
    )
    return _Query(
        number=number,
        comparison=comparison,
        lines=list(_folded(lines[:_LINES])),
        more_lines=max(0, len(lines) - _LINES),
        explained=comparison.movers[:share],
        kept=[each for each in comparison.passages if each.moved == 0],
        left=left,
        right=right,
        drawn=[
            (
                "up" if ranks > 0 else "down",
                _ROW * (old + 0.5),
                _ROW * (new + 0.5),
                _THIN + (_THICK - _THIN) * min(1.0, 2 * weight),
            )
            for weight, ranks, old, new in both
        ],
    )


def _ranks(each: ComparedPassage) -> tuple[int, int]:
    before, after = (hit.rank if hit else 0 for hit in (each.before, each.after))
    return before, after


def _folded(lines: Sequence[DiffLine]) -> Iterator[tuple[DiffLine, Sequence[DiffLine]]]:
    """Each line; members that joined or left with what is said of them, to be folded away."""
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        inner = []
        while line.heads and line.mark in "+-" and place < len(lines) and lines[place].level > 0:
            inner.append(lines[place])
            place += 1
        yield line, inner


def _markup(sentence: Sentence) -> Markup:
    return Markup("").join(
        iso(part, 80) if isinstance(part, Name) else Markup("{}").format(part) for part in sentence
    )
