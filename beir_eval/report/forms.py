"""The forms of a report: one HTML page, Markdown, LaTeX and JSON, all from the same tables.

The page needs nothing else, no network and no other file: its content-security policy allows the
style sheet and the script that are in it, by their SHA-256. All text from run folders is escaped.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
from markupsafe import Markup
from pydantic import BaseModel

from beir_eval.experiment.run_folder import FigureNote, Metrics
from beir_eval.measures.values import Interval, Values
from beir_eval.report.figures import render_svg
from beir_eval.report.model import Figure, Report, Row, Section, TableCell
from beir_eval.report.tables import NOTHING, by_lot_differs, section_tables
from beir_eval.report.warnings import paper_note, warnings
from personas.report.formats import printable
from personas.report.page import NO_FOOTER, ReportFooter, asset, environment, policy
from personas.sanitize import plain, safe_json

if TYPE_CHECKING:
    from jinja2 import Environment

VERSION = 1
"""Of the JSON."""
_CHART = 400.0
_WIDE = {1: 1000.0, 2: 660.0}
# Everything that could begin markup, wherever it stands.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#$&])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "§": r"$^{\S}$",
    "¶": r"$^{\P}$",
    "ω": r"$\omega$",
    "²": r"$^2$",
    "\N{MINUS SIGN}": "$-$",
    "±": r"$\pm$",
    "\N{EN DASH}": "--",
    # At the beginning of a row these would belong to the end of the row before.
    **{char: f"{{{char}}}" for char in "[]*"},
    **{char: f"\\{char}" for char in "{}$&#%_"},
}


def render_html(report: Report, *, footer: ReportFooter = NO_FOOTER) -> str:
    """Return the whole report as one HTML page. The same report gives the same page.

    Tables scroll within the page where they are wide; with scripts on, they sort by column. The
    report as JSON, without the values of the queries, is in the page to be saved.

    Args:
        report: its content.
        footer: version, date and command for the last line.
    """
    rows = [row for section in report.sections for row in section.rows]
    data = base64.b64encode(render_json(report).encode()).decode()
    page = (
        environment_of_reports()
        .get_template("templates/evaluation.html")
        .render(
            report=report,
            sections=[
                {
                    "section": section,
                    "charts": [] if section.of_pipelines else _charts(report, section),
                    "tables": section_tables(report, section),
                    "svg": section.figure
                    and render_svg(section.figure, measure=report.measure, embedded=True),
                    "by_lot": any(by_lot_differs(section, n) for n in range(len(section.columns))),
                }
                for section in report.sections
            ],
            models=sorted({row.models for row in rows if row.models}),
            verdict=warnings(report),
            download=Markup(f"data:application/json;base64,{data}"),  # noqa: S704
            footer=footer,
        )
    )
    return printable(page)


def render_markdown(report: Report, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report as GitHub reads it; the same report always makes the same text.

    Args:
        report: its content.
        figures: section -> file of its figure, relative to the text.
    """
    return _rendered("report.md", escaped_markdown, report, figures)


def render_latex(report: Report, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report with booktabs, for a paper; arguments as `render_markdown` has them."""
    delimiters = {
        f"{kind}_{side}_string": sign
        for kind, signs in {"block": "<% %>", "variable": "<< >>", "comment": "<# #>"}.items()
        for side, sign in zip(("start", "end"), signs.split(), strict=True)
    }
    return _rendered("report.tex", escaped_latex, report, figures, **delimiters)


def render_json(report: Report, *, per_query: bool = False) -> str:
    """The report, indented; the same report always makes the same text."""

    def plain_value(value: Any) -> Any:
        """Return what JSON shows for a value that it does not know."""
        match value:
            case Metrics() if not per_query:
                return value.model_dump(mode="json", exclude={"per_query", "by_lot"})
            case BaseModel():
                return value.model_dump(mode="json")
            case Interval():
                return [value.low, value.high]
            case Values():
                flaws = [each._asdict() for each in value.flaws()]
                kept = {} if not per_query else {"of": value.of, "lots": value.lots}
                return {"mean": value.mean, "ends": value.ends, "flaws": flaws, **kept}
            case Figure():
                lines = [
                    {
                        "name": name,
                        "points": [
                            {"x": x, "value": of.by_lot, "interval": of.interval}
                            for x, of in points
                        ],
                    }
                    for name, points in value.lines
                ]
                return {**value.note.model_dump(mode="json"), "paper": value.paper, "lines": lines}
        named = {each.name: getattr(value, each.name) for each in fields(value)}
        match value:
            case TableCell(values=of):
                del named["ceilings"]
                named |= {"value": of.mean, "ceiling": value.ceiling, "interval": of.interval}
                named["by_lot"] = of.by_lot if of.lots_known else None
                named["missing"] = of.missing / of.asked if of.asked else 0.0
            case Row():
                averages = ("average", "average_by_lot", "paper_average")
                named |= {name: getattr(value, name) for name in averages}
            case Section():
                del named["drawings"]
        return named

    options = orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SORT_KEYS
    options |= orjson.OPT_NON_STR_KEYS
    content = {"version": VERSION, "warnings": warnings(report), **plain_value(report)}
    text = orjson.dumps(content, default=plain_value, option=options)
    return safe_json(text.decode()) + "\n"


def escaped_markdown(text: str) -> str:
    """Return `text` in one line as Markdown shows it as it is; control characters are shown."""
    return _MARKUP.sub(r"\\\1", plain(text))


def escaped_latex(text: str) -> str:
    """Return `text` in one line, so that LaTeX sets it as it is; control characters are shown."""
    return "".join(_LATEX.get(char, char) for char in plain(text))


def _charts(report: Report, section: Section) -> list[tuple[str, str]]:
    """Draw each ranker's mean with its interval, a chart a data set, for phones and for screens."""
    charts = []
    widths = _CHART, _WIDE.get(len(section.columns), _CHART)
    for place, column in enumerate(section.columns):
        found = ((row.label, cell) for row in section.rows if (cell := row.cells[place]))
        points = tuple((label, cell.values) for label, cell in found)
        figure = Figure(FigureNote(kind="bars", title=column.name), (("", points),))
        near, wide = (
            render_svg(figure, measure=report.measure, width=width, embedded=True)
            for width in widths
        )
        charts.append((near, wide))
    return charts


def _rendered(
    name: str,
    escaped: Callable[[str], str],
    report: Report,
    figures: Mapping[str, str] | None,
    **delimiters: str,
) -> str:
    from jinja2 import Environment, PackageLoader

    made = Environment(  # noqa: S701 - no HTML: `e` is the escape of the form
        loader=PackageLoader("beir_eval", "report/templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        **delimiters,  # type: ignore[arg-type]  # the signs of the template's language
    )
    made.filters.update(e=escaped, paper_note=paper_note)
    text = made.get_template(name).render(
        report=report, warnings=warnings(report), figures=figures or {}, tables=section_tables
    )
    return text.rstrip("\n") + "\n"


@cache
def environment_of_reports() -> Environment:
    """Templates of this package, with the look of the project's other reports."""
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
        nothing=NOTHING,
    )
    return made
