"""The tables of a report, as every form of it shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beir_eval.experiment.run_folder import FOREIGN
from beir_eval.measures.ties import DRAWS
from beir_eval.measures.values import POWER
from beir_eval.report.model import Figure, Report, Section, TableCell
from beir_eval.report.numbers import (
    LEVELS,
    MISSING_SIGN,
    NOTHING,
    TIES_SIGN,
    gain_text,
    interval,
    measure_text,
    p_text,
    rate,
)
from personas.format import counted, dollars, fixed, optional, seconds, whole

PAPER = "paper"
NOT_RUN = "not run"
BY_LOT = "ties by lot"
AVERAGE = "average"
CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One place of a table."""

    text: str  # not escaped for any form
    value: float | None = None  # to sort by; None where it is text
    best: bool = False  # of its column
    second: bool = False
    mark: str = ""  # of significance
    tags: tuple[str, ...] = ()  # words in brackets after the text
    below: str = ""  # a line below the text, on pages only
    kind: str = ""  # "warn" for what deserves a look, "paper" for a number of the paper
    span: tuple[float, float, float] | None = None  # ends and middle of an interval to be drawn


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its first `texts` columns hold words, all others numbers; `note` may be empty."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    texts: int = 1
    note: str = ""

    @property
    def reach(self) -> tuple[float, float]:
        """The lowest and the highest end of all spans; 0 is within."""
        ends = [end for row in self.rows for each in row for end in each.span or ()]
        return min([0.0, *ends]), max([0.0, *ends])


def section_tables(report: Report, section: Section) -> tuple[Table, ...]:
    """Return all tables: values first, then the differences if there are any, then the others."""
    if not section.rows:
        return ()
    tables = (
        _values(report, section),
        _by_cell(
            f"Differences from {section.baseline}: {section.measured}, {BY_LOT}, query by query",
            section,
            _differences(report),
            note=f"{_legend(report, section)} Intervals: Student's, over the queries.".strip(),
            where="comparison",
        ),
        _by_cell(
            f"Effect sizes: differences from {section.baseline}",
            section,
            _EFFECTS,
            note="Effect size: mean difference over its standard deviation (Cohen's d of paired "
            f"values). Detectable: the smallest difference that {POWER:.0%} of experiments with as "
            "many queries would find by an uncorrected test.",
            where="comparison",
        ),
        _by_cell(
            "Judgements and candidates",
            section,
            (
                (f"{report.measure}, {BY_LOT}", "honest", _measure),
                ("judged", "judged", _share),
                ("ceiling", "ceiling", _measure),
                (
                    "of the ceiling",
                    lambda of: of.honest / of.ceiling if of.ceiling else None,
                    _share,
                ),
            ),
            note="Judged: share of the ranks that the measure looks at whose documents are judged. "
            "Ceiling: the measure of the best order of the same documents.",
        ),
        _ties(report, section),
        _by_cell("Completeness", section, _COMPLETENESS, note=_COMPLETENESS_NOTE),
        _by_cell("Cost", section, _COST, where="metrics.taken"),
        _by_cell("Time", section, _TIME, note=_TIME_NOTE, where="metrics.taken"),
    )
    return tuple(table for table in tables if table.rows)


def figure_table(report: Report, figure: Figure) -> Table:
    """Return the values that a figure shows."""
    line = figure.note.kind == "line"
    names = ("line", figure.note.x_label or "x") if line else ("group", "row")
    rows = [
        (
            *(Entry(name), Entry(point.x if isinstance(point.x, str) else f"{point.x:g}")),
            *(_count(point.queries), _measure(point.value)),
            Entry(interval(point.interval.low, point.interval.high)),
        )
        for name, points in figure.lines
        for point in points
    ]
    headings = (*names, "queries", f"{report.measure}, {BY_LOT}", _level(report))
    return Table(figure.note.title, headings, tuple(rows), texts=2)


def _values(report: Report, section: Section) -> Table:
    places = range(len(section.columns))
    lots = [section.by_lot(place) for place in places]
    papers = [any(row.paper(place) is not None for row in section.rows) for place in places]
    headings = ["ranker"]
    for column, place, lot, paper in zip(section.columns, places, lots, papers, strict=True):
        queries = max(cell.queries for row in section.rows if (cell := row.cells[place]))
        headings.append(f"{column.name} (n = {queries})")
        headings += [f"{column.name}, {BY_LOT}"] * lot + [f"{column.name}, {PAPER}"] * paper
    average_paper = any(row.paper_average is not None for row in section.rows)
    if section.averaged:
        headings += [AVERAGE, *[f"{AVERAGE}, {BY_LOT}"] * any(lots)]
        headings += [f"{AVERAGE}, {PAPER}"] * average_paper
    several = len({row.models for row in section.rows if row.models}) > 1
    rows = []
    for row in section.rows:
        about = ("baseline" * row.is_baseline, row.weak_judge, row.models * several)
        foreign = (FOREIGN,) * row.foreign
        entries = [Entry(row.label, tags=foreign, below=" · ".join(filter(None, about)))]
        for place, lot, paper in zip(places, lots, papers, strict=True):
            cell = row.cells[place]
            if cell is None:
                entries += [Entry(NOTHING if row.not_run is None else NOT_RUN)]
                entries += [Entry(NOTHING)] * lot
            else:
                entries += _value(cell, lot=lot)
            entries += [_paper(row.paper(place))] * paper
        if section.averaged:
            entries += [_measure(row.average), *[_measure(row.average_by_lot)] * any(lots)]
            entries += [_paper(row.paper_average)] * average_paper
        rows.append(tuple(entries))
    note = _legend(report, section)
    ranks = {cell.rank for _, _, cell in section.cells()}
    best = "Bold: best" * (1 in ranks) + ", underlined: second" * (2 in ranks)
    note = " ".join(filter(None, (f"{best}, first stage included." * bool(best), note)))
    return Table(section.measured, tuple(headings), tuple(rows), note=note)


def _value(cell: TableCell, *, lot: bool) -> list[Entry]:
    """Return the value as ranked and, if wanted, with ties by lot, which then has the marks."""
    values = cell.values
    tags: tuple[str, ...] = ()
    if values.is_open:
        tags = (f"{interval(*values.ends)} by what is missing",)
    marked = Entry(
        measure_text(cell.honest if lot else cell.value),
        cell.honest,
        best=cell.rank == 1,
        second=cell.rank == 2,
        mark=cell.signs,
        tags=() if lot else tags,
        below=interval(cell.interval.low, cell.interval.high),
    )
    return [Entry(measure_text(cell.value), cell.value, tags=tags), marked] if lot else [marked]


def _legend(report: Report, section: Section) -> str:
    """Explain the marks that occur in the section."""
    signs = {sign for _, _, cell in section.cells() for sign in cell.signs}
    levels = [f"{sign} p < {level:g}" for level, sign in reversed(LEVELS) if sign in signs]
    said = []
    if levels:
        compared = sum(cell.comparison is not None for *_, cell in section.cells())
        corrected = ", not corrected"
        if report.correction in CORRECTIONS:
            name, count = CORRECTIONS[report.correction], counted(compared, "comparison")
            corrected = f", corrected for {count} ({name})"
        said.append(
            f"{', '.join(levels)}: differs from {section.baseline} by a paired Student's t-test"
            f"{corrected}, ties in random order. The comparisons are all those of this section; "
            "other folders make others."
        )
    if TIES_SIGN in signs:
        said.append(f"{TIES_SIGN}: at least half of its lead over {section.baseline} is ties.")
    if MISSING_SIGN in signs:
        said.append(f"{MISSING_SIGN}: scores, queries or answers that are missing could change it.")
    judges = dict.fromkeys(each.judge for each in section.columns if each.judge)
    said += [f"Judged by a model, {judge}, not by people." for judge in judges]
    return " ".join(said)


_Form = Callable[[Any], Entry]
_Columns = Sequence[tuple[str, str | Callable[[TableCell], Any], _Form]]
"""Heading, attribute of the cell or a function of it, and the entry that shows such a value."""


def _get(cell: TableCell, path: str) -> Any:
    """Return the attribute; None where something on the way is None."""
    found: Any = cell
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return found


def _by_cell(
    title: str, section: Section, columns: _Columns, *, note: str = "", where: str = "metrics"
) -> Table:
    """Return a row for each value of the first table; columns that say nothing are left out."""
    names = ("ranker", "data set")[: 1 + (len(section.columns) > 1)]
    found = [
        (
            *map(Entry, (row.label, column.name)[: len(names)]),
            *(form(_get(cell, of) if isinstance(of, str) else of(cell)) for _, of, form in columns),
        )
        for row, column, cell in section.cells()
        if _get(cell, where) is not None
    ]
    headings = (*names, *(heading for heading, *_ in columns))
    kept = [
        place
        for place in range(len(headings))
        if place < len(names) or any(row[place].text != NOTHING for row in found)
    ]
    rows = tuple(tuple(row[place] for place in kept) for row in found)
    return Table(title, tuple(headings[place] for place in kept), rows, len(names), note)


def _differences(report: Report) -> _Columns:
    correction = CORRECTIONS.get(report.correction)
    return (
        (
            "difference",
            lambda cell: cell.comparison and (cell.comparison.difference, cell.signs),
            lambda of: Entry(gain_text(of[0]), of[0], mark=of[1]),
        ),
        (_level(report), "comparison", _ends),
        ("p", "comparison.p_value", _p),
        *([(f"p ({correction})", "comparison.p_adjusted", _p)] if correction else []),
        (
            "better / equal / worse",
            "comparison",
            lambda than: Entry(" / ".join(map(whole, (than.wins, than.ties, than.losses)))),
        ),
    )


def _ties(report: Report, section: Section) -> Table:
    def of(name: str) -> Callable[[TableCell], float | None]:
        return lambda cell: getattr(cell.metrics.ties.get(report.measure), name, None)

    said = (
        "Passages with equal scores, or that comparisons left undecided, in the worst order, in "
        f"the best, and in random order (by lot: mean of {DRAWS} draws per query)."
    )
    if any(of("sampled")(cell) for _, _, cell in section.cells()):
        said += (
            " Where ties of single personas count as well, worst and best are the ends "
            "of these draws and of the orders by grade."
        )
    columns: _Columns = (
        ("as ranked", "value", _measure),
        ("at worst", of("worst"), _measure),
        ("at best", of("best"), _measure),
        ("by lot", of("by_lot"), _measure),
    )
    return _by_cell("Ties", section, columns, note=said)


def _level(report: Report) -> str:
    return f"{100 * report.level:g}% interval"


def _form(shown: Callable[[Any], str], kind: str = "") -> _Form:
    """Show a number by `shown`, and a dash for None; `kind` is that of numbers other than 0."""
    return lambda of: Entry(NOTHING if of is None else shown(of), of, kind=kind if of else "")


_measure, _share, _p = (
    _form(measure_text),
    _form(lambda of: f"{fixed(100 * of, 0)}%"),
    _form(p_text),
)
_count, _bad_count, _seconds = _form(whole), _form(whole, "warn"), _form(seconds)
_paper = _form(measure_text, "paper")


def _ends(of: Any) -> Entry:
    low, high = of.interval.low, of.interval.high
    return Entry(interval(low, high, signed=True), span=(low, of.difference, high))


def _missing(scores: Any) -> Entry:
    if not scores or not scores.missing:
        return Entry("0", 0) if scores else Entry(NOTHING)
    text = f"{whole(scores.missing)} ({rate(scores.missing, scores.asked)})"
    return Entry(text, scores.missing, kind="warn")


def _not_ranked(cell: TableCell) -> int | None:
    ours = cell.manifest is None or cell.manifest.foreign is None
    return len(cell.values.failed) if ours and cell.values.asked else None


_EFFECTS: _Columns = (
    ("effect size", "comparison.effect", _form(lambda effect: optional(effect, 2))),
    ("detectable", "comparison.detectable", _measure),
)
_COMPLETENESS: _Columns = (
    ("asked", "metrics.scores.asked", _count),
    ("missing", "metrics.scores", _missing),
    ("unreadable replies", "metrics.scores.unreadable", _count),
    ("no results", lambda cell: len(cell.metrics.missing_queries), _bad_count),
    ("not ranked", _not_ranked, _bad_count),
    ("short teams", "metrics.short_teams", _bad_count),
    ("unknown documents", "manifest.foreign.unknown_documents", _bad_count),
)
_COMPLETENESS_NOTE = (
    "Asked: scores, or comparisons. No results, not ranked: queries; the first count 0. Short "
    "teams: queries for which fewer recruits were named than asked for. Unknown documents, of "
    "foreign runs: not in the corpus or, where it is not at hand, neither ranked nor judged here; "
    "they keep their ranks."
)
_COST: _Columns = (
    ("calls", "metrics.taken.calls", _count),
    ("tokens in", "metrics.taken.input_tokens", _count),
    ("of them cached", "metrics.taken.cached_input_tokens", _count),
    ("tokens out", "metrics.taken.output_tokens", _count),
    (
        "cost",
        "metrics.taken.cost",
        lambda cost: Entry("not known" if cost is None else dollars(cost), cost),
    ),
)
_TIME: _Columns = (
    ("model time", "metrics.taken.seconds", _seconds),
    ("queries timed", "metrics.taken.query_seconds.queries", _count),
    *(
        (f"a query, {name}", f"metrics.taken.query_seconds.{name}", _seconds)
        for name in ("p50", "p90", "p99")
    ),
)
_TIME_NOTE = (
    "A query takes from its beginning to its end, beside the others that are ranked at the same "
    "time; p90 is what nine tenths of them took at most. Queries that the ledger answered, in part "
    "or in whole, are not timed."
)
