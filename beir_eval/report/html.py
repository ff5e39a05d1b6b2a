"""The report as one HTML page that needs nothing else: no network, no script, no other file.

Its content-security policy allows the style sheets and the script that are in it, by their
SHA-256, and nothing else. All text from run folders is escaped, and its marks of writing
direction end where it ends.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from beir_eval.report import numbers
from beir_eval.report.as_json import render_json
from beir_eval.report.drawing import STYLE as FIGURE_STYLE
from beir_eval.report.figures import render_svg
from beir_eval.report.model import Column, Report, Row, Section, TableCell
from beir_eval.report.notes import paper_note
from beir_eval.report.tables import (
    Table,
    column_queries,
    figure_table,
    has_paper,
    legend,
    lost,
    ties_note,
)
from beir_eval.report.verdict import findings
from personas.report import formats
from personas.report.page import asset, environment, policy
from personas.report.site import NOBODY, Made
from personas.words import counted, whole

if TYPE_CHECKING:
    from jinja2 import Environment

_NUMBERS = (
    "interval",
    "p_text",
    "measure_text",
    "rate",
    "gain_text",
)
_WIDE = 4
_FEW_GAPS = 3
_FEW_ROWS = 24
"""Differences up to which their table is open."""
_MOST_GAPS = 200
_REASON = 160


@dataclass(frozen=True, slots=True)
class _Gap:
    """What lacks in a run."""

    dataset: str
    label: str
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _View:
    """A section with what its tables need to be laid out.

    Attributes:
        section: what is shown.
        has_paper: for each column, and last for the averages, whether the paper's numbers stand
            there.
        by_lot: the same of values with ties drawn by lot.
        queries: for each column, how many queries its means are over.
        models: whether rows differ in their models, so that each names its own.
        gaps: runs with queries or scores that lack, at most `_MOST_GAPS`.
        more_gaps: how many more there are.
        legend: what the marks mean; empty if nothing is compared.
        ties_note: what the figures for ties are.
        svg: the figure; empty if there is none.
        values: of the figure, as a table; None if there is none.
    """

    section: Section
    has_paper: tuple[bool, ...]
    by_lot: tuple[bool, ...]
    queries: tuple[int, ...]
    models: bool
    gaps: tuple[_Gap, ...]
    more_gaps: int
    legend: str
    ties_note: str
    svg: str
    values: Table | None


def render_html(report: Report, *, made: Made = NOBODY) -> str:
    """The whole report as one HTML page. The same report gives the same page, byte for byte.

    Tables scroll within the page where they are wide; with scripts on, they sort by column. The
    report as JSON, without the values of the queries, is in the page to be saved.

    Args:
        report: what it says.
        made: what the last line tells of its making.
    """
    views = [_view(report, section) for section in report.sections]
    runs = {
        (column.name, row.label, view.section.name)
        for view in views
        for row in view.section.rows
        for column, cell in zip(view.section.columns, row.cells, strict=True)
        if cell is not None and cell.manifest is not None
    }
    datasets = {column.name for view in views for column in view.section.columns}
    template = _environment().get_template("templates/evaluation.html")
    figures = base64.b64encode(render_json(report).encode()).decode()
    page = template.render(
        report=report,
        views=views,
        runs=len(runs),
        datasets=len(datasets),
        rankers=len({row.label for view in views for row in view.section.rows}),
        verdict=findings(report),
        download=Markup(f"data:application/json;base64,{figures}"),  # noqa: S704
        made=made,
    )
    return formats.printable(page)


def _view(report: Report, section: Section) -> _View:
    gaps = _gaps(section)
    places = range(len(section.columns))
    lots = [section.by_lot(place) for place in places]
    return _View(
        section=section,
        has_paper=(
            *(has_paper(section, place) for place in places),
            any(row.paper_average is not None for row in section.rows),
        ),
        by_lot=(*lots, any(lots)),
        queries=tuple(column_queries(section, place) for place in places),
        models=len({row.models for row in section.rows if row.models}) > 1,
        gaps=gaps[:_MOST_GAPS],
        more_gaps=max(0, len(gaps) - _MOST_GAPS),
        legend=legend(report, section),
        ties_note=ties_note(report, section),
        svg=render_svg(section.figure, measure=report.measure) if section.figure else "",
        values=figure_table(report, section.figure) if section.figure else None,
    )


def _gaps(section: Section) -> tuple[_Gap, ...]:
    return tuple(
        _Gap(column.name, row.label, what)
        for place, column in enumerate(section.columns)
        for row in section.rows
        if (cell := row.cells[place]) is not None and (what := _what_lacks(cell))
    )


def _what_lacks(cell: TableCell) -> tuple[str, ...]:
    found = []
    metrics = cell.metrics
    if without := len(metrics.missing_queries):
        found.append(
            f"{counted(without, 'query has', 'queries have')} no results and "
            f"{'counts' if without == 1 else 'count'} as 0"
        )
    if failed := len(metrics.failed):
        reasons = ", ".join(dict.fromkeys(metrics.failed.values()))
        found.append(
            f"{counted(failed, 'query was', 'queries were')} not ranked "
            f"({formats.cut(reasons, _REASON)})"
        )
    if metrics.scores and metrics.scores.missing:
        scores = metrics.scores
        reasons = ", ".join(f"{why}: {whole(n)}" for why, n in scores.reasons.items())
        found.append(
            f"{whole(scores.missing)} of {whole(scores.asked)} scores are missing"
            + (f" ({formats.cut(reasons, _REASON)})" if reasons else "")
        )
    return tuple(found)


def _tooltip(cell: TableCell, column: Column, row: Row, section: Section) -> str:
    """What a pointer over a value shows."""
    ends = numbers.interval(cell.interval.low, cell.interval.high)
    told = [
        f"{column.name}, {row.label}: {numbers.measure_text(cell.value)}, with ties drawn by lot "
        f"{numbers.measure_text(cell.honest)} (interval {ends})"
    ]
    if cell.comparison is not None:
        than = cell.comparison
        told += [
            f"{numbers.gain_text(than.difference)} against {section.baseline}",
            f"p {numbers.p_text(than.p_value)}, corrected {numbers.p_text(than.p_adjusted)}",
            f"better on {than.wins}, equal on {than.ties}, worse on {than.losses} queries",
        ]
    return formats.bare("; ".join(told))


@cache
def _environment() -> Environment:
    # The frame of the page and its look are those of the project's other reports.
    made = environment("beir_eval")
    made.filters.update({name: getattr(numbers, name) for name in _NUMBERS})
    # The drawing is our own, and all text in it is escaped.
    made.filters.update(paper_note=paper_note, svg=Markup, lost=lost)
    style = "".join((asset("report.css"), asset("survey.css"), asset("report.css", "beir_eval")))
    script = asset("tables.js") + asset("report.js", "beir_eval")
    # Our own files, not text from outside: the hashes hold only if they stay as they are.
    made.globals.update(
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        policy=Markup(policy([style, FIGURE_STYLE], script)),  # noqa: S704
        tooltip=_tooltip,
        marks=numbers.LEGEND,
        nothing=numbers.NOTHING,
        wide=_WIDE,
        few_gaps=_FEW_GAPS,
        few_rows=_FEW_ROWS,
    )
    return made
