"""A report as Markdown, as GitHub reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from beir_eval.report.model import Report, Section
from beir_eval.report.notes import findings, paper_note
from beir_eval.report.tables import Entry, Table, figure_table, section_tables
from personas.sanitize import plain

_KINDS = {"bad": "**Warning:** ", "warn": "**Note:** ", "note": "", "good": ""}
# Everything that could begin markup, wherever it stands.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#$&])")


def render_markdown(report: Report, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report; the same report always makes the same text.

    Args:
        report: its content.
        figures: section -> file of its figure, relative to where the text will stand; the
            figure's values are there as a table in any case.
    """
    lines = ["# Evaluation", ""]
    if warnings := findings(report):
        lines += [*(f"- {_KINDS[each.kind]}{escaped(each.sentence)}" for each in warnings), ""]
    for section in report.sections:
        lines += _section(report, section, (figures or {}).get(section.name))
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Return `text` in one line as Markdown shows it as it is; control characters are shown."""
    return _MARKUP.sub(r"\\\1", plain(text))


def _section(report: Report, section: Section, figure_file: str | None) -> Iterator[str]:
    yield from (f"## {escaped(section.title)}", "")
    for column in section.columns:
        yield f"- **{escaped(column.name)}**: {escaped(column.conditions)}"
    if section.columns:
        yield ""
    for table in section_tables(report, section):
        yield from _table(table)
    if section.figure:
        if figure_file:
            yield from (f"![{escaped(section.figure.note.title)}](<{figure_file}>)", "")
        yield from _table(figure_table(report, section.figure))
        if section.figure.paper:
            yield from (f"The paper's figure, in words: {escaped(section.figure.paper)}.", "")
    if section.paper_source:
        yield f"- {escaped(paper_note(section.paper_source))}"
    for note in section.notes:
        yield f"- {escaped(note)}"
    yield ""


def _table(table: Table) -> Iterator[str]:
    yield from (f"### {escaped(table.title)}", "")
    yield _row(escaped(each) for each in table.headings)
    numbers = len(table.headings) - table.texts
    yield _row([*["---"] * table.texts, *["---:"] * numbers])
    for row in table.rows:
        yield _row(map(_entry, row))
    yield ""
    if table.note:
        yield from (escaped(table.note), "")


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _entry(entry: Entry) -> str:
    text = escaped(entry.text)
    if entry.best:
        text = f"**{text}**"
    if entry.second:
        text = f"<u>{text}</u>"
    mark = f"<sup>{entry.mark}</sup>" if entry.lettered else entry.mark
    return text + mark + "".join(f" ({escaped(tag)})" for tag in entry.tags)
