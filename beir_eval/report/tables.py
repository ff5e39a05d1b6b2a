"""The tables of a report and their numbers as text: the same in every form of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beir_eval.experiment.run_folder import FOREIGN
from beir_eval.measures.anova import AnovaRow
from beir_eval.measures.ties import DRAWS
from beir_eval.measures.values import POWER
from beir_eval.report.model import Report, Section, TableCell
from personas import format as formatting
from personas.format import counted, dollars, fixed, optional, seconds, whole

NOTHING = "\N{EN DASH}"
"""Shown where there is no number."""
LEVELS = ((0.01, "‡"), (0.05, "†"))
"""A corrected p-value below the number gets the mark; the strictest first."""
TIES_SIGN, MISSING_SIGN = "§", "¶"
"""Marks of a value that leads by ties, and of one that lacks scores or comparisons."""
PAPER, NOT_RUN, BY_LOT, AVERAGE = "paper", "not run", "ties by lot", "average"


def measure_text(value: float | None) -> str:
    """A measure: ``0.679``."""
    return NOTHING if value is None else fixed(value, 3)


def gain_text(value: float | None) -> str:
    """A difference of measures: ``+0.012``, ``0.000``; below 0 with a true minus sign."""
    return NOTHING if value is None else formatting.signed(value, 3)


def interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Both ends: ``0.612 to 0.740``."""
    shown = gain_text if signed else measure_text
    return f"{shown(low)} to {shown(high)}"


def p_text(p_value: float | None) -> str:
    """A p-value with three decimals: ``0.032``; ``<0.001`` below that."""
    return NOTHING if p_value is None else formatting.p_text(p_value)


def mark(p_adjusted: float | None) -> str:
    """``†``, ``‡`` or nothing, as `LEVELS` says."""
    if p_adjusted is None:
        return ""
    return next((sign for level, sign in LEVELS if p_adjusted < level), "")


def anova_cells(row: AnovaRow) -> tuple[str, ...]:
    """SS, DF, MS, F, p and both effect sizes of a term as texts; empty where there is none."""
    p = "" if row.p is None else "<0.0001" if row.p < 0.0001 else f"{row.p:.4f}"
    f, omega, one_way = (
        "" if each is None else f"{each:.4f}" for each in (row.f, row.omega, row.omega_one_way)
    )
    ss, ms = (f"{x:.1e}" if 0 < x < 0.001 else f"{x:.4f}" for x in (row.ss, row.ms))
    return ss, f"{row.df}", ms, f, p, omega, one_way


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


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its first `texts` columns hold words, all others numbers; `note` may be empty."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    texts: int = 1
    note: str = ""


def section_tables(report: Report, section: Section) -> tuple[Table, ...]:
    """Return all tables: values first, then the differences if there are any, then the others."""
    if not section.rows:
        return ()
    legend = _legend(section)
    by_lot = "" if section.of_pipelines else f", {BY_LOT}, query by query"
    tables = [
        _values(section, legend),
        _by_cell(
            f"Differences from {section.baseline}: {section.measured}{by_lot}",
            section,
            _DIFFERENCES,
            note=f"{legend} {_DIFFERENCES_NOTE}".strip(),
            where="comparison",
        ),
    ]
    if section.of_pipelines:
        tables += [_effort(section), *_analysis(section), _worst(section)]
    else:
        tables += [
            _by_cell(
                "Judgements and candidates",
                section,
                ((f"{report.measure}, {BY_LOT}", "honest", _measure), *_CANDIDATES),
                note="Judged: share of the ranks that the measure looks at whose documents are "
                "judged. Ceiling: the measure of the best order of the same documents.",
            ),
            _ties(report, section),
            _by_cell("Completeness", section, _COMPLETENESS, note=_COMPLETENESS_NOTE),
            _by_cell("Cost", section, _COST, where="metrics.taken"),
            _by_cell("Time", section, _TIME, note=_TIME_NOTE, where="metrics.taken"),
        ]
    return tuple(table for table in tables if table.rows)


def by_lot_differs(section: Section, place: int) -> bool:
    """Return whether ties in random order change a value of that column, as it is shown."""
    cells = [row.cells[place] for row in section.rows]
    return any(measure_text(each.value) != measure_text(each.honest) for each in cells if each)


def _values(section: Section, legend: str) -> Table:
    places = range(len(section.columns))
    lots = [by_lot_differs(section, place) for place in places]
    papers = [any(row.paper(place) is not None for row in section.rows) for place in places]
    headings = [section.kind]
    for column, place, lot, paper in zip(section.columns, places, lots, papers, strict=True):
        found = [cell for row in section.rows if (cell := row.cells[place])]
        queries = max((len(cell.values.of) for cell in found), default=0)
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
    ranks = {cell.rank for _, _, cell in section.cells()}
    best = "Bold: best" * (1 in ranks) + ", underlined: second" * (2 in ranks)
    stage = "" if section.of_pipelines else ", first stage included"
    note = f"{best}{stage}. {legend}" if best else legend
    return Table(section.measured, tuple(headings), tuple(rows), note=note.strip())


def _value(cell: TableCell, *, lot: bool) -> list[Entry]:
    """Return the value as ranked and, if wanted, with ties by lot, which then has the marks."""
    values = cell.values
    tags: tuple[str, ...] = ()
    if values.is_open:
        tags = (f"{interval(*values.ends)} by what is missing",)
    if values.undefined:
        tags = (*tags, f"{whole(values.undefined)} undefined")
    below = interval(values.interval.low, values.interval.high) if len(values.of) > 1 else ""
    if len(values.runs) > 1:
        below += f" · SD of runs {measure_text(statistics.stdev(values.runs))}"
    marked = Entry(
        measure_text(cell.honest if lot else cell.value),
        cell.honest,
        best=cell.rank == 1,
        second=cell.rank == 2,
        mark=cell.signs,
        tags=() if lot else tags,
        below=below,
    )
    return [Entry(measure_text(cell.value), cell.value, tags=tags), marked] if lot else [marked]


def _legend(section: Section) -> str:
    """Explain the marks that occur in the section."""
    signs = {sign for _, _, cell in section.cells() for sign in cell.signs}
    levels = [f"{sign} p < {level:g}" for level, sign in reversed(LEVELS) if sign in signs]
    said = []
    if levels:
        count = counted(sum(cell.comparison is not None for *_, cell in section.cells()), "test")
        said.append(
            f"{', '.join(levels)}: differs from {section.baseline} by a paired Student's t-test, "
            f"corrected for {count} (Holm), ties in random order. The tests are all those of this "
            "section; other folders make others."
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
    names = (section.kind, "data set")[
        : 1 + (len(section.columns) > 1 and not section.of_pipelines)
    ]
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


def _ties(report: Report, section: Section) -> Table:
    def of(name: str) -> Callable[[TableCell], float | None]:
        def found(cell: TableCell) -> float | None:
            return getattr(cell.metrics and cell.metrics.ties.get(report.measure), name, None)

        return found

    said = (
        "Passages with equal scores, or that comparisons left undecided, in the worst order, in "
        f"the best, and in random order (by lot: mean of {DRAWS} draws per query)."
    )
    if any(of("sampled")(cell) for _, _, cell in section.cells()):
        said += (
            " Where ties of single personas count as well, worst and best are the ends "
            "of these draws and of the orders by grade."
        )
    names = {"at worst": "worst", "at best": "best", "by lot": "by_lot"}
    columns = [(heading, of(name), _measure) for heading, name in names.items()]
    return _by_cell("Ties", section, [("as ranked", "value", _measure), *columns], note=said)


def _effort(section: Section) -> Table:
    """Missing values, calls, tokens, cost and seconds of each pipeline."""
    headings = ("missing", "failed", "calls", "tokens", "cost", "seconds")
    rows = []
    for row in section.rows:
        if (of := row.answers) is not None:
            missing = sum(each.missing for each in of.judges.values())
            tokens = of.input_tokens + of.output_tokens
            numbers = (_bad_count(missing), _bad_count(len(of.failed)), _count(of.calls))
            took = (_count(tokens), _cost(of.cost), _seconds(of.seconds))
            rows.append((Entry(row.label), *numbers, *took))
    said = (
        "Missing and undefined values are in no mean; answers that failed count with the lowest "
        "value. Calls, tokens and cost are those of the pipeline alone, without judges and "
        "vectors, whether the ledger had the replies or not. Seconds: median of an answer that "
        "needed nothing from the ledger."
    )
    return Table("Completeness and cost", (section.kind, *headings), tuple(rows), note=said)


def _analysis(section: Section) -> list[Table]:
    """The analysis of variance of a grid, and the means by level."""
    if (found := section.analysis) is None:
        return []
    balanced = "" if found.balanced else ", not balanced"
    said = f"{found.note} {found.formula}; {counted(found.observations, 'observation')}{balanced}. "
    said += "One-way: partial ω² with DF + residual DF + 1 for N."
    terms = tuple((Entry(row.term), *map(Entry, anova_cells(row))) for row in found.rows)
    headings = ("term", "SS", "DF", "MS", "F", "p", "partial ω²", "one-way")
    means = tuple(
        (Entry(factor), Entry(level), _measure(mean))
        for factor, levels in found.means.items()
        for level, mean in levels.items()
    )
    return [
        Table("Analysis of variance", headings, terms, note=said.strip()),
        Table("Means by level", ("factor", "level", section.measured), means, texts=2),
    ]


def _worst(section: Section) -> Table:
    headings = ("question", section.measured, "answer", "golden", "notes")
    rows = tuple(tuple(map(Entry, each)) for each in section.worst)
    return Table(f"Worst answers of {section.worst_of}", headings, rows, texts=len(headings))


def _form(shown: Callable[[Any], str], kind: str = "") -> _Form:
    """Show a number by `shown`, and a dash for None; `kind` is that of numbers other than 0."""
    return lambda of: Entry(NOTHING if of is None else shown(of), of, kind=kind if of else "")


_measure, _p = _form(measure_text), _form(p_text)
_share = _form(lambda of: f"{fixed(100 * of, 0)}%")
_count, _bad_count, _seconds = _form(whole), _form(whole, "warn"), _form(seconds)
_paper = _form(measure_text, "paper")


def _cost(cost: float | None) -> Entry:
    return Entry("not known" if cost is None else dollars(cost), cost)


def _missing(scores: Any) -> Entry:
    if not scores or not scores.missing:
        return Entry("0", 0) if scores else Entry(NOTHING)
    text = f"{whole(scores.missing)} ({scores.missing / scores.asked:.1%})"
    return Entry(text, scores.missing, kind="warn")


def _not_ranked(cell: TableCell) -> int | None:
    ours = cell.manifest is None or cell.manifest.foreign is None
    return len(cell.values.failed) if ours and cell.values.asked else None


_DIFFERENCES: _Columns = (
    (
        "difference",
        lambda cell: cell.comparison and (cell.comparison.difference, cell.signs),
        lambda of: Entry(gain_text(of[0]), of[0], mark=of[1]),
    ),
    (
        "95% interval",
        "comparison.interval",
        lambda of: Entry(interval(of.low, of.high, signed=True)),
    ),
    ("p", "comparison.p_value", _p),
    ("p (Holm)", "comparison.p_adjusted", _p),
    (
        "better / equal / worse",
        "comparison",
        lambda than: Entry(" / ".join(map(whole, (than.wins, than.ties, than.losses)))),
    ),
    ("effect size", "comparison.effect", _form(lambda effect: optional(effect, 2))),
    ("detectable", "comparison.detectable", _measure),
)
_DIFFERENCES_NOTE = (
    "Intervals: Student's, over the queries that both have. Effect size: mean difference over its "
    "standard deviation (Cohen's d of paired values). Detectable: the smallest difference that "
    f"{POWER:.0%} of experiments with as many queries would find by an uncorrected test."
)
_CANDIDATES: _Columns = (
    ("judged", "judged", _share),
    ("ceiling", "ceiling", _measure),
    ("of the ceiling", lambda of: of.honest / of.ceiling if of.ceiling else None, _share),
)
_COMPLETENESS: _Columns = (
    ("asked", "metrics.scores.asked", _count),
    ("missing", "metrics.scores", _missing),
    ("unreadable replies", "metrics.scores.unreadable", _count),
    ("no results", "metrics.missing_queries", lambda of: _bad_count(len(of))),
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
    ("cost", "metrics.taken.cost", _cost),
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
