"""The tables of a report as plain cells, for the forms that are text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beir_eval.report.model import Column, Figure, Report, Row, Section, TableCell
from beir_eval.report.numbers import (
    LEGEND,
    NOTHING,
    heading,
    interval,
    mark,
    p_text,
    points,
    rate,
    signed_points,
)
from personas.words import counted, dollars, seconds, whole

PAPER = "paper"
AVERAGE = "average"
_TESTS = {
    "student": "a paired Student's t-test",
    "fisher": "a paired randomization test",
    "tukey": "Tukey's HSD test",
}
_CORRECTIONS = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini-Hochberg",
}
_PLACE = ("ranker", "data set")
_COMPARED = ("difference", "interval", "p", "corrected p", "wins", "ties", "losses")
_ANSWERS = (
    "scores asked",
    "missing",
    "missing rate",
    "left out",
    "unreadable replies",
    "queries without results",
    "queries failed",
    "ties at worst",
    "ties at best",
)
_TAKEN = ("calls", "tokens in", "of them cached", "tokens out", "cost", "model time")


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands in one place of a table.

    Attributes:
        text: not escaped for any form.
        best: the best of its column.
        second: the second best of its column.
        mark: of significance; empty if there is none.
    """

    text: str
    best: bool = False
    second: bool = False
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        title: what it shows.
        headings: of the columns.
        rows: as many entries as there are headings.
        texts: how many columns hold words, from the left; all others hold numbers.
        note: what its marks mean; may be empty.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    texts: int = 1
    note: str = ""


def section_tables(report: Report, section: Section) -> tuple[Table, ...]:
    """All tables of a section, in their order; none where no run is finished."""
    if not section.rows:
        return ()
    tables = [_values(report, section)]
    if any(cell.comparison for _, _, cell in _cells(section)):
        tables.append(_comparisons(report, section))
    tables += [_answers(report, section), _taken(section)]
    return tuple(table for table in tables if table.rows)


def figure_table(report: Report, figure: Figure) -> Table:
    """The values that a figure shows."""
    line = figure.note.kind == "line"
    names = ("line", figure.note.x_label or "x") if line else ("group", "bar")
    rows = [
        tuple(
            map(
                _words,
                (
                    name,
                    _axis(point.x),
                    points(point.value),
                    interval(point.interval.low, point.interval.high),
                ),
            )
        )
        for name, points_of in figure.lines
        for point in points_of
    ]
    return Table(
        title=figure.note.title,
        headings=(*names, heading(report.measure), f"{_percent(report.level)} interval"),
        rows=tuple(rows),
        texts=2,
    )


def condition_lines(section: Section) -> list[tuple[str, str]]:
    """(Data set, how much of it was ranked) for every column."""
    return [(column.name, column.conditions) for column in section.columns]


def legend(report: Report, section: Section) -> str:
    """What the marks of the first table mean."""
    comparisons = sum(cell.comparison is not None for _, _, cell in _cells(section))
    if not comparisons:
        return ""
    test = _TESTS[report.test]
    if report.correction in _CORRECTIONS:
        by = _CORRECTIONS[report.correction]
        test += f", corrected for {counted(comparisons, 'comparison')} ({by})"
    elif report.test != "tukey":
        test += ", not corrected"
    return f"{LEGEND}: differs from {section.baseline} by {test}."


def _values(report: Report, section: Section) -> Table:
    measure = heading(report.measure)
    with_paper = [
        any(cell and cell.paper is not None for cell in column)
        for column in zip(*(row.cells for row in section.rows), strict=True)
    ]
    with_average = len(section.columns) > 1
    paper_average = any(row.paper_average is not None for row in section.rows)
    headings = ["ranker"]
    for column, paper in zip(section.columns, with_paper, strict=True):
        headings += [column.name, f"{column.name}, {PAPER}"][: 1 + paper]
    if with_average:
        headings += [AVERAGE, f"{AVERAGE}, {PAPER}"][: 1 + paper_average]
    rows = []
    for row in section.rows:
        entries = [_words(row.label)]
        for cell, paper in zip(row.cells, with_paper, strict=True):
            entries += [_value(cell), _words(points(cell.paper if cell else None))][: 1 + paper]
        if with_average:
            average = Entry(points(row.average), best=row.rank == 1, second=row.rank == 2)
            entries += [average, _words(points(row.paper_average))][: 1 + paper_average]
        rows.append(tuple(entries))
    return Table(f"{measure} x 100", tuple(headings), tuple(rows), note=legend(report, section))


def _comparisons(report: Report, section: Section) -> Table:
    level = f"{_percent(report.level)} interval"
    rows = []
    for row, column, cell in _cells(section):
        found = cell.comparison
        if found is None:
            continue
        between = cell.difference
        rows.append(
            (
                _words(row.label),
                _words(column.name),
                Entry(signed_points(found.difference), mark=mark(found.p_adjusted)),
                _words(interval(between.low, between.high, signed=True) if between else NOTHING),
                _words(p_text(found.p_value)),
                _words(p_text(found.p_adjusted)),
                *(_words(whole(each)) for each in (found.wins, found.ties, found.losses)),
            )
        )
    return Table(
        title=f"{heading(report.measure)} x 100 against {section.baseline}, query by query",
        headings=(*_PLACE, *(level if each == "interval" else each for each in _COMPARED)),
        rows=tuple(rows),
        texts=2,
        note=f"{legend(report, section)} Intervals: bootstrap over the queries, "
        f"{whole(report.resamples)} resamples, seed {report.seed}.",
    )


def _answers(report: Report, section: Section) -> Table:
    rows = []
    for row, column, cell in _cells(section):
        metrics, scores = cell.metrics, cell.metrics.scores
        ties = metrics.ties.get(report.measure)
        rows.append(
            (
                _words(row.label),
                _words(column.name),
                _words(whole(scores.asked) if scores else NOTHING),
                _words(whole(scores.missing) if scores else NOTHING),
                _words(rate(scores.missing, scores.asked) if scores else NOTHING),
                _words(whole(scores.skipped) if scores else NOTHING),
                _words(whole(scores.unreadable) if scores else NOTHING),
                _words(whole(len(metrics.missing_queries))),
                _words(whole(len(metrics.failed)) if cell.manifest else NOTHING),
                _words(points(ties.worst if ties else None)),
                _words(points(ties.best if ties else None)),
            )
        )
    return Table(
        title="What came back",
        headings=(*_PLACE, *_ANSWERS),
        rows=tuple(rows),
        texts=2,
        note="Queries without results count 0. Scores left out were not needed for the first "
        "ranks. Ties: the measure if passages with equal scores stood in the worst and in the "
        "best order.",
    )


def _taken(section: Section) -> Table:
    rows = []
    for row, column, cell in _cells(section):
        taken = cell.metrics.taken
        if taken is None:
            continue
        rows.append(
            (
                _words(row.label),
                _words(column.name),
                _words(whole(taken.calls)),
                _words(whole(taken.input_tokens)),
                _words(whole(taken.cached_input_tokens)),
                _words(whole(taken.output_tokens)),
                _words("not known" if taken.cost is None else dollars(taken.cost)),
                _words(seconds(taken.seconds)),
            )
        )
    return Table(
        title="What it took",
        headings=(*_PLACE, *_TAKEN),
        rows=tuple(rows),
        texts=2,
    )


def _cells(section: Section) -> Iterator[tuple[Row, Column, TableCell]]:
    for row in section.rows:
        for column, cell in zip(section.columns, row.cells, strict=True):
            if cell is not None:
                yield row, column, cell


def _value(cell: TableCell | None) -> Entry:
    if cell is None:
        return _words(NOTHING)
    found = cell.comparison
    return Entry(
        points(cell.value),
        best=cell.rank == 1,
        second=cell.rank == 2,
        mark=mark(found.p_adjusted if found else None),
    )


def _words(text: str) -> Entry:
    return Entry(text)


def _percent(level: float) -> str:
    return f"{100 * level:g}%"


def _axis(x: float | str) -> str:
    return x if isinstance(x, str) else f"{x:g}"
