"""The report as one HTML page that needs nothing else: no network and no other file.

Its content-security policy allows the style sheet and the script that are in it, by their
SHA-256, and nothing else. All text from run folders is escaped.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from beir_eval.experiment.run_folder import FigureNote
from beir_eval.report import numbers
from beir_eval.report.as_json import render_json
from beir_eval.report.figures import render_svg
from beir_eval.report.model import Figure, Point, Report, Section
from beir_eval.report.tables import figure_table, section_tables
from beir_eval.report.warnings import paper_note, warnings
from personas.report import formats
from personas.report.page import NO_FOOTER, ReportFooter, asset, environment, policy

if TYPE_CHECKING:
    from jinja2 import Environment

_CHART = 400.0


def render_html(report: Report, *, footer: ReportFooter = NO_FOOTER) -> str:
    """Return the whole report as one HTML page. The same report gives the same page.

    Tables scroll within the page where they are wide; with scripts on, they sort by column. The
    report as JSON, without the values of the queries, is in the page to be saved.

    Args:
        report: its content.
        footer: version, date and command for the last line.
    """
    columns = [
        (section, place) for section in report.sections for place in range(len(section.columns))
    ]
    rows = [row for section in report.sections for row in section.rows]
    data = base64.b64encode(render_json(report).encode()).decode()
    return rendered(
        "evaluation.html",
        report=report,
        sections=[
            {
                "section": section,
                "charts": [_chart(report, section, p) for p in range(len(section.columns))],
                "tables": section_tables(report, section),
                "svg": section.figure
                and render_svg(section.figure, measure=report.measure, embedded=True),
                "points": section.figure and figure_table(report, section.figure),
            }
            for section in report.sections
        ],
        datasets=sorted({section.columns[place].name for section, place in columns}),
        rankers=len({row.label for row in rows}),
        models=sorted({row.models for row in rows if row.models}),
        by_lot=any(section.by_lot(place) for section, place in columns),
        verdict=warnings(report),
        download=Markup(f"data:application/json;base64,{data}"),  # noqa: S704
        footer=footer,
    )


def rendered(template: str, **values: Any) -> str:
    """Return the page that a template of this folder makes of the values."""
    made = _environment().get_template(f"templates/{template}")
    return formats.printable(made.render(values))


def _chart(report: Report, section: Section, place: int) -> str:
    """Draw each ranker's mean with its interval on the data set of a column."""
    points = tuple(
        Point(row.label, cell.honest, cell.interval, cell.queries)
        for row in section.rows
        if (cell := row.cells[place])
    )
    figure = Figure(FigureNote(kind="bars", title=section.columns[place].name), (("", points),), "")
    return render_svg(figure, measure=report.measure, width=_CHART, embedded=True)


@cache
def _environment() -> Environment:
    # The frame of the page and its look are those of the project's other reports.
    made = environment("beir_eval")
    # The drawings are our own, and all text in them is escaped.
    made.filters.update(paper_note=paper_note, svg=Markup)
    sheets = ("personas", "report.css survey.css"), ("beir_eval", "report.css figure.css")
    style = "".join(asset(name, of) for of, names in sheets for name in names.split())
    script = asset("tables.js") + asset("report.js", "beir_eval")
    # Our own files, not text from outside: the hashes hold only if they stay as they are.
    made.globals.update(
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        policy=Markup(policy([style], script)),  # noqa: S704
        nothing=numbers.NOTHING,
    )
    return made
