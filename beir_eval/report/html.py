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
from beir_eval.report.model import Report, Section
from beir_eval.report.notes import paper_note
from beir_eval.report.tables import (
    Table,
    column_queries,
    detail_tables,
    figure_table,
    has_paper,
    legend,
    lost,
)
from beir_eval.report.verdict import findings
from personas.report import formats
from personas.report.page import asset, environment, policy
from personas.report.site import NOBODY, Made

if TYPE_CHECKING:
    from jinja2 import Environment

_WIDE = 4
_DRAWN, _HEIGHT = 120, 12
"""Pixels of an interval that is drawn."""


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
        legend: what the marks mean; empty if there are none.
        svg: the figure; empty if there is none.
        differences: from the baseline; None if nothing is compared.
        details: the other tables.
    """

    section: Section
    has_paper: tuple[bool, ...]
    by_lot: tuple[bool, ...]
    queries: tuple[int, ...]
    models: bool
    legend: str
    svg: str
    differences: Table | None
    details: tuple[Table, ...]


def render_html(report: Report, *, made: Made = NOBODY) -> str:
    """The whole report as one HTML page. The same report gives the same page, byte for byte.

    Tables scroll within the page where they are wide; with scripts on, they sort by column. The
    report as JSON, without the values of the queries, is in the page to be saved.

    Args:
        report: what it says.
        made: what the last line tells of its making.
    """
    views = [_view(report, section) for section in report.sections]
    datasets = {column.name for view in views for column in view.section.columns}
    template = _environment().get_template("templates/evaluation.html")
    figures = base64.b64encode(render_json(report).encode()).decode()
    page = template.render(
        report=report,
        views=views,
        datasets=sorted(datasets),
        rankers=len({row.label for view in views for row in view.section.rows}),
        judges=sorted({row.models for view in views for row in view.section.rows if row.models}),
        by_lot=any(any(view.by_lot) for view in views),
        paper=any(view.section.paper_source for view in views),
        verdict=findings(report),
        download=Markup(f"data:application/json;base64,{figures}"),  # noqa: S704
        made=made,
    )
    return formats.printable(page)


def _view(report: Report, section: Section) -> _View:
    details = detail_tables(report, section) if section.rows else ()
    compared = any(cell.comparison for row in section.rows for cell in row.cells if cell)
    values = (figure_table(report, section.figure),) if section.figure else ()
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
        legend=legend(report, section),
        svg=render_svg(section.figure, measure=report.measure) if section.figure else "",
        differences=details[0] if compared else None,
        details=(*values, *details[compared:]),
    )


def _drawn(span: tuple[float, float, float], reach: tuple[float, float]) -> Markup:
    """An interval and its middle, on a line from the lowest to the highest end, with 0 marked."""
    low, high = reach
    width = high - low or 1.0
    start, middle, end, zero = (
        round(4 + (_DRAWN - 8) * (each - low) / width, 1) for each in (*span, 0.0)
    )
    half = _HEIGHT / 2
    return Markup(  # noqa: S704 - numbers of our own
        f'<svg class="span" width="{_DRAWN}" height="{_HEIGHT}" aria-hidden="true">'
        f'<path class="zero" d="M{zero} 0V{_HEIGHT}"/><path d="M{start} {half}H{end}"/>'
        f'<circle cx="{middle}" cy="{half}" r="3"/></svg>'
    )


@cache
def _environment() -> Environment:
    # The frame of the page and its look are those of the project's other reports.
    made = environment("beir_eval")
    made.filters.update(measure_text=numbers.measure_text, interval=numbers.interval)
    # The drawings are our own, and all text in them is escaped.
    made.filters.update(paper_note=paper_note, svg=Markup, lost=lost, drawn=_drawn)
    style = "".join((asset("report.css"), asset("survey.css"), asset("report.css", "beir_eval")))
    script = asset("tables.js") + asset("report.js", "beir_eval")
    # Our own files, not text from outside: the hashes hold only if they stay as they are.
    made.globals.update(
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        policy=Markup(policy([style, FIGURE_STYLE], script)),  # noqa: S704
        nothing=numbers.NOTHING,
        wide=_WIDE,
    )
    return made
