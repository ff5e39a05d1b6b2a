"""The tables of a report as plain cells, for the forms that are text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beir_eval.experiment.run_folder import FOREIGN
from beir_eval.measures.ties import DRAWS
from beir_eval.report.model import Column, Figure, Report, Row, Section, TableCell
from beir_eval.report.notes import MOST_MISSING
from beir_eval.report.numbers import (
    LEGEND,
    MISSING_SIGN,
    NOTHING,
    TIES_SIGN,
    gain_text,
    interval,
    measure_text,
    p_text,
    rate,
)
from personas.words import counted, dollars, seconds, whole

PAPER = "paper"
NOT_RUN = "not run"
BY_LOT = "ties by lot"
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
_PLACE = ("ranker", "data set", "queries")
_COMPARED = ("difference", "interval", "p", "corrected p", "wins", "ties", "losses")
_ANSWERS = (
    "scores asked",
    "missing",
    "missing rate",
    "left out",
    "unreadable replies",
    "queries without results",
    "queries failed",
    "short teams",
    "ties at worst",
    "ties at best",
    "ties by lot",
)
_MISSING_LEGEND = f"{MISSING_SIGN}: more than 1% of its scores are missing."
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
                    whole(point.queries),
                    measure_text(point.value),
                    interval(point.interval.low, point.interval.high),
                ),
            )
        )
        for name, points_of in figure.lines
        for point in points_of
    ]
    return Table(
        title=figure.note.title,
        headings=(
            *names,
            "queries",
            f"{report.measure}, {BY_LOT}",
            f"{_percent(report.level)} interval",
        ),
        rows=tuple(rows),
        texts=2,
    )


def condition_lines(section: Section) -> list[tuple[str, str]]:
    """(Data set, how much of it was ranked) for every column."""
    return [(column.name, column.conditions) for column in section.columns]


def has_paper(section: Section, place: int) -> bool:
    """Whether a column has numbers of the paper."""
    return any(row.paper(place) is not None for row in section.rows)


def column_queries(section: Section, place: int) -> int:
    """How many queries the means of a column are over."""
    return max(cell.queries for row in section.rows if (cell := row.cells[place]))


def lost(cell: TableCell) -> str:
    """The share of missing scores, where it is too high to be passed over; else empty."""
    scores = cell.metrics.scores
    if scores is None or cell.missing <= MOST_MISSING:
        return ""
    return f"{rate(scores.missing, scores.asked)} missing"


def ties_note(report: Report, section: Section) -> str:
    """What the figures for ties are."""
    said = (
        "Ties: the measure if equal scores had put the passages in the worst order, in the best, "
        f"and by lot (mean of {DRAWS} draws a query)."
    )
    every = (cell.metrics.ties.get(report.measure) for _, _, cell in _cells(section))
    if not any(ties and ties.sampled for ties in every):
        return said
    return (
        f"{said} Where personas' ties count as well, worst and best are the ends of these draws "
        "and of the orders by grade."
    )


def legend(report: Report, section: Section) -> str:
    """What the marks of the first table mean."""
    comparisons = sum(cell.comparison is not None for _, _, cell in _cells(section))
    if not comparisons:
        lost = any(MISSING_SIGN in cell.signs for _, _, cell in _cells(section))
        return _MISSING_LEGEND if lost else ""
    test = _TESTS[report.test]
    if report.correction in _CORRECTIONS:
        by = _CORRECTIONS[report.correction]
        test += f", corrected for {counted(comparisons, 'comparison')} ({by})"
    elif report.test != "tukey":
        test += ", not corrected"
    said = (
        f"{LEGEND}: differs from {section.baseline} by {test}, ties drawn by lot. The comparisons "
        "are all those of this section; other folders make others."
    )
    signs = {sign for _, _, cell in _cells(section) for sign in cell.signs}
    if TIES_SIGN in signs:
        said += f" {TIES_SIGN}: at least half of its lead over {section.baseline} is due to ties."
    return f"{said} {_MISSING_LEGEND}" if MISSING_SIGN in signs else said


def _values(report: Report, section: Section) -> Table:
    paper_average = any(row.paper_average is not None for row in section.rows)
    headings = ["ranker"]
    lots = [section.by_lot(place) for place in range(len(section.columns))]
    papers = [has_paper(section, place) for place in range(len(section.columns))]
    for place, column in enumerate(section.columns):
        name = f"{column.name} (n = {column_queries(section, place)})"
        headings += [name, *[f"{column.name}, {BY_LOT}"][: lots[place]]]
        headings += [f"{column.name}, {PAPER}"][: papers[place]]
    if section.averaged:
        headings += [AVERAGE, *[f"{AVERAGE}, {BY_LOT}"][: any(lots)]]
        headings += [f"{AVERAGE}, {PAPER}"][:paper_average]
    rows = []
    for row in section.rows:
        entries = [_words(f"{row.label} ({FOREIGN})" if row.foreign else row.label)]
        for place, (cell, lot, paper) in enumerate(zip(row.cells, lots, papers, strict=True)):
            entries += _value(cell, lot=lot) if row.not_run is None else _not_run(lot=lot)
            entries += [_words(measure_text(row.paper(place)))][:paper]
        if section.averaged:
            entries += [
                _words(measure_text(row.average)),
                *[_words(measure_text(row.average_by_lot))][: any(lots)],
            ]
            entries += [_words(measure_text(row.paper_average))][:paper_average]
        rows.append(tuple(entries))
    return Table(section.measured, tuple(headings), tuple(rows), note=legend(report, section))


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
                _words(whole(cell.queries)),
                Entry(gain_text(found.difference), mark=cell.signs),
                _words(interval(between.low, between.high, signed=True) if between else NOTHING),
                _words(p_text(found.p_value)),
                _words(p_text(found.p_adjusted)),
                *(_words(whole(each)) for each in (found.wins, found.ties, found.losses)),
            )
        )
    return Table(
        title=f"{section.measured}, {BY_LOT}, against {section.baseline}, query by query",
        headings=(*_PLACE, *(level if each == "interval" else each for each in _COMPARED)),
        rows=tuple(rows),
        texts=2,
        note=f"{legend(report, section)} Intervals: Student's, over the queries.",
    )


def _answers(report: Report, section: Section) -> Table:
    rows = []
    for row, column, cell in _cells(section):
        metrics, scores = cell.metrics, cell.metrics.scores
        failed = len(metrics.failed)
        ties = metrics.ties.get(report.measure)
        rows.append(
            (
                _words(row.label),
                _words(column.name),
                _words(whole(cell.queries)),
                _words(whole(scores.asked) if scores else NOTHING),
                _words(whole(scores.missing) if scores else NOTHING),
                _words(rate(scores.missing, scores.asked) if scores else NOTHING),
                _words(whole(scores.skipped) if scores else NOTHING),
                _words(whole(scores.unreadable) if scores else NOTHING),
                _words(whole(len(metrics.missing_queries))),
                _words(NOTHING if cell.manifest is None or row.foreign else whole(failed)),
                _words(NOTHING if metrics.short_teams is None else whole(metrics.short_teams)),
                _words(measure_text(ties.worst if ties else None)),
                _words(measure_text(ties.best if ties else None)),
                _words(measure_text(ties.by_lot if ties else None)),
            )
        )
    return Table(
        title="What came back",
        headings=(*_PLACE, *_ANSWERS),
        rows=tuple(rows),
        texts=2,
        note="Queries without results count 0. Short teams: queries for which fewer recruits "
        "were named than asked for. Scores left out were not needed for the first "
        f"ranks. {ties_note(report, section)}",
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
                _words(whole(cell.queries)),
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


def _value(cell: TableCell | None, *, lot: bool) -> list[Entry]:
    """The value as ranked and, if asked for, with ties drawn by lot; marks go with the latter."""
    if cell is None:
        return [_words(NOTHING)] * (1 + lot)
    lacking = lost(cell)
    value = measure_text(cell.value) + (f" ({lacking})" if lacking else "")
    marked = Entry(
        measure_text(cell.honest) if lot else value,
        best=cell.rank == 1,
        second=cell.rank == 2,
        mark=cell.signs,
    )
    return [_words(value), marked] if lot else [marked]


def _not_run(*, lot: bool) -> list[Entry]:
    return [_words(NOT_RUN), *[_words(NOTHING)][:lot]]


def _words(text: str) -> Entry:
    return Entry(text)


def _percent(level: float) -> str:
    return f"{100 * level:g}%"


def _axis(x: float | str) -> str:
    return x if isinstance(x, str) else f"{x:g}"
