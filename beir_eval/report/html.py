"""The report as one HTML page that needs nothing else: no network and no other file.

Its content-security policy allows the style sheet and the script that are in it, by their
SHA-256, and nothing else. All text from run folders is escaped.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from beir_eval.experiment.run_folder import FigureNote
from beir_eval.report import numbers
from beir_eval.report.as_json import render_json
from beir_eval.report.figures import render_svg
from beir_eval.report.model import Figure, Point, Report, Section
from beir_eval.report.notes import findings, paper_note
from beir_eval.report.tables import figure_table, section_tables
from personas.report import formats
from personas.report.page import asset, environment, policy
from personas.report.site import NOBODY, Made

if TYPE_CHECKING:
    from jinja2 import Environment

_CHART = 400.0
_DRAWN, _HEIGHT = 120, 12
"""Pixels of an interval that is drawn in a table."""


def render_html(report: Report, *, made: Made = NOBODY) -> str:
    """Return the whole report as one HTML page. The same report gives the same page.

    Tables scroll within the page where they are wide; with scripts on, they sort by column. The
    report as JSON, without the values of the queries, is in the page to be saved.

    Args:
        report: its content.
        made: version, date and command for the last line.
    """
    rows = [row for section in report.sections for row in section.rows]
    figures = base64.b64encode(render_json(report).encode()).decode()
    page = (
        _environment()
        .get_template("templates/evaluation.html")
        .render(
            report=report,
            sections=[
                {
                    "section": section,
                    "charts": _charts(report, section),
                    "tables": section_tables(report, section),
                    "svg": section.figure
                    and render_svg(section.figure, measure=report.measure, embedded=True),
                    "points": section.figure and figure_table(report, section.figure),
                }
                for section in report.sections
            ],
            datasets=sorted({each.name for section in report.sections for each in section.columns}),
            rankers=len({row.label for row in rows}),
            models=sorted({row.models for row in rows if row.models}),
            by_lot=any(
                section.by_lot(place)
                for section in report.sections
                for place in range(len(section.columns))
            ),
            verdict=findings(report),
            download=Markup(f"data:application/json;base64,{figures}"),  # noqa: S704
            made=made,
        )
    )
    return formats.printable(page)


def _charts(report: Report, section: Section) -> list[str]:
    """Draw each ranker's mean with its interval, one chart a data set."""
    charts = []
    for place, column in enumerate(section.columns):
        points = [
            Point(row.label, cell.honest, cell.interval, cell.queries)
            for row in section.rows
            if (cell := row.cells[place])
        ]
        note = FigureNote(kind="bars", title=column.name)
        figure = Figure(note, (("", tuple(points)),), "")
        charts.append(render_svg(figure, measure=report.measure, width=_CHART, embedded=True))
    return charts


def _drawn(span: tuple[float, float, float], reach: tuple[float, float]) -> Markup:
    """Place an interval and its middle on a line from the lowest to the highest end, with 0."""
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
    # The drawings are our own, and all text in them is escaped.
    made.filters.update(paper_note=paper_note, svg=Markup, drawn=_drawn)
    style = "".join(
        asset(*each)
        for each in (
            *(("report.css",), ("survey.css",)),
            *(("report.css", "beir_eval"), ("figure.css", "beir_eval")),
        )
    )
    script = asset("tables.js") + asset("report.js", "beir_eval")
    # Our own files, not text from outside: the hashes hold only if they stay as they are.
    made.globals.update(
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        policy=Markup(policy([style], script)),  # noqa: S704
        nothing=numbers.NOTHING,
    )
    return made
