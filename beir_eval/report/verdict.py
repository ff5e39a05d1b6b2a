"""What to know before believing a report on runs, in sentences, worst news first."""

from __future__ import annotations

from collections.abc import Iterator

from beir_eval.report.model import Column, Report, Row, Section, TableCell
from beir_eval.report.notes import FEW_QUERIES, MOST_MISSING
from beir_eval.report.numbers import gain_text, interval, measure_text, p_text
from personas.plain import plain
from personas.report.query.verdict import ORDER, Finding, Kind
from personas.words import counted, whole

_SIGNIFICANT = 0.05
_ONE_BY_ONE = 3
"""Comparisons of a section up to which each has a sentence."""
_NAME = 80
_NAMED = 5


def findings(report: Report) -> tuple[Finding, ...]:
    """What to know before believing the report, worst news first; the sections in their order."""
    found = [each for section in report.sections for each in _of_section(report, section)]
    unique = dict.fromkeys(found)
    return tuple(sorted(unique, key=lambda each: ORDER.index(each.kind)))


def _of_section(report: Report, section: Section) -> Iterator[Finding]:
    cells = [
        (row, column, cell)
        for row in section.rows
        for column, cell in zip(section.columns, row.cells, strict=True)
        if cell is not None
    ]
    if section.unfinished:
        yield Finding(
            "bad", f"{counted(len(section.unfinished), 'run')} not finished and left out."
        )
    if lost := [row.label for row, _, cell in cells if _lacks(cell)]:
        yield Finding("bad", f"Queries or more than 1% of the scores are missing: {_names(lost)}.")
    yield from _comparisons(report, section, cells)
    if weak := [row.label for row in section.rows if row.weak]:
        yield Finding("warn", f"The judge is a weak model: {_names(weak)}.")
    if few := [column.name for _, column, cell in cells if cell.queries < FEW_QUERIES]:
        yield Finding(
            "warn",
            f"Fewer than {FEW_QUERIES} queries, so intervals and tests are rough: {_names(few)}.",
        )


def _lacks(cell: TableCell) -> bool:
    metrics = cell.metrics
    return bool(metrics.failed or metrics.missing_queries) or cell.missing > MOST_MISSING


def _comparisons(
    report: Report, section: Section, cells: list[tuple[Row, Column, TableCell]]
) -> Iterator[Finding]:
    compared = [each for each in cells if each[2].comparison is not None]
    if len(compared) > _ONE_BY_ONE:
        yield _counted(section, compared)
        return
    for row, column, cell in compared:
        than = cell.comparison
        assert than is not None, "those without one are left out"
        ends = ""
        if cell.difference is not None:
            ends = interval(cell.difference.low, cell.difference.high, signed=True)
            ends = f"{100 * report.level:g}% interval {ends}, "
        kind, words = _decision(cell)
        yield Finding(
            kind,
            f"{_name(row.label)} {words} {_name(section.baseline)} on {_name(column.name)}: "
            f"{measure_text(cell.honest)}, {gain_text(than.difference)} "
            f"({ends}p {p_text(than.p_adjusted)}).",
        )


def _decision(cell: TableCell) -> tuple[Kind, str]:
    than = cell.comparison
    if than is None or than.p_adjusted >= _SIGNIFICANT:
        return "warn", "is not shown to be better than"
    return ("good", "is better than") if than.difference > 0 else ("bad", "is worse than")


def _counted(section: Section, compared: list[tuple[Row, Column, TableCell]]) -> Finding:
    kinds = [_decision(cell)[0] for _, _, cell in compared]
    worse, better = kinds.count("bad"), kinds.count("good")
    return Finding(
        "bad" if worse else "good" if better == len(kinds) else "warn",
        f"Of {counted(len(kinds), 'comparison')} with {_name(section.baseline)} in "
        f"“{_name(section.title)}”, {whole(worse)} {'is' if worse == 1 else 'are'} worse, "
        f"{whole(len(kinds) - worse - better)} undecided, {whole(better)} better "
        f"(corrected p below {_SIGNIFICANT}).",
    )


def _names(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = len(unique) - _NAMED
    shown = ", ".join(map(_name, unique[:_NAMED]))
    return shown if more <= 0 else f"{shown} and {whole(more)} more"


def _name(text: str) -> str:
    return plain(text, _NAME)
