"""The tables of a report as plain cells, for every form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from beir_eval.experiment.run_folder import FOREIGN, TieBounds
from beir_eval.measures.overlap import PERSISTENCE
from beir_eval.measures.significance import POWER, SIGNIFICANT, Comparison, Interval
from beir_eval.measures.ties import DRAWS
from beir_eval.report.model import Column, Figure, Report, Row, Section, TableCell
from beir_eval.report.notes import MOST_MISSING
from beir_eval.report.numbers import (
    BOUNDS_SIGN,
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
from personas.words import counted, dollars, fixed, optional, seconds, whole

PAPER = "paper"
NOT_RUN = "not run"
BY_LOT = "ties by lot"
AVERAGE = "average"
CORRECTIONS = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini-Hochberg",
}
_SIGNS = {
    MISSING_SIGN: "more than 1% of its scores or comparisons are missing.",
    BOUNDS_SIGN: "counts ranks below top_k, which are by upper bounds.",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands in one place of a table.

    Attributes:
        text: not escaped for any form.
        best: the best of its column.
        second: the second best of its column.
        mark: of significance; empty if there is none.
        value: to sort by; None where it is text.
        warn: whether it deserves a look.
        span: lower end, middle and upper end of an interval that can be drawn.
    """

    text: str
    best: bool = False
    second: bool = False
    mark: str = ""
    value: float | None = None
    warn: bool = False
    span: tuple[float, float, float] | None = None


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

    @property
    def reach(self) -> tuple[float, float]:
        """From the lowest to the highest end of all spans; 0 is within."""
        ends = [end for row in self.rows for each in row for end in each.span or ()]
        return min([0.0, *ends]), max([0.0, *ends])


def section_tables(report: Report, section: Section) -> tuple[Table, ...]:
    """All tables of a section, in their order; none where no run is finished."""
    if not section.rows:
        return ()
    tables = (_values(report, section), *detail_tables(report, section))
    return tuple(table for table in tables if table.rows)


def detail_tables(report: Report, section: Section) -> tuple[Table, ...]:
    """All but the first; the differences come first of them, where there are any."""
    tables = (
        _differences(report, section),
        _equivalence(report, section),
        _pairs(report, section),
        _across(report, section),
        _judgements(report, section),
        _ties(report, section),
        _completeness(section),
        _cost(section),
        _time(section),
    )
    return tuple(table for table in tables if table.rows)


def figure_table(report: Report, figure: Figure) -> Table:
    """The values that a figure shows."""
    line = figure.note.kind == "line"
    names = ("line", figure.note.x_label or "x") if line else ("group", "bar")
    rows = [
        (
            Entry(name),
            Entry(_axis(point.x)),
            _count(point.queries),
            _measure(point.value),
            Entry(interval(point.interval.low, point.interval.high)),
        )
        for name, points_of in figure.lines
        for point in points_of
    ]
    headings = (*names, "queries", f"{report.measure}, {BY_LOT}", _level(report))
    return Table(figure.note.title, headings, tuple(rows), texts=2)


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


def legend(report: Report, section: Section) -> str:
    """What the marks of the first table mean."""
    comparisons = sum(cell.comparison is not None for _, _, cell in _cells(section))
    said = []
    if comparisons:
        corrected = _corrected(report, comparisons, "comparison")
        said.append(
            f"{LEGEND}: differs from {section.baseline} by a paired Student's t-test{corrected}, "
            "ties drawn by lot. The comparisons are all those of this section; other folders make "
            "others."
        )
    signs = {sign for _, _, cell in _cells(section) for sign in cell.signs}
    if TIES_SIGN in signs:
        said.append(f"{TIES_SIGN}: at least half of its lead over {section.baseline} is ties.")
    said += [f"{sign}: {meaning}" for sign, meaning in _SIGNS.items() if sign in signs]
    return " ".join(said)


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
        entries = [Entry(f"{row.label} ({FOREIGN})" if row.foreign else row.label)]
        for place, (cell, lot, paper) in enumerate(zip(row.cells, lots, papers, strict=True)):
            entries += _value(cell, lot=lot) if row.not_run is None else _not_run(lot=lot)
            entries += [_measure(row.paper(place))][:paper]
        if section.averaged:
            entries += [_measure(row.average), *[_measure(row.average_by_lot)][: any(lots)]]
            entries += [_measure(row.paper_average)][:paper_average]
        rows.append(tuple(entries))
    return Table(section.measured, tuple(headings), tuple(rows), note=legend(report, section))


Cells = Sequence[tuple[str, Callable[[TableCell], Entry]]]
"""Headings, and what stands below them."""


def _by_cell(
    title: str,
    section: Section,
    columns: Cells,
    *,
    note: str = "",
    where: Callable[[TableCell], bool] = lambda _: True,
) -> Table:
    """A row for each value of the first table; columns that say nothing are left out."""
    several = len(section.columns) > 1
    names = ("ranker", "data set") if several else ("ranker",)
    found = [
        ((row.label, column.name)[: len(names)], [make(cell) for _, make in columns])
        for row, column, cell in _cells(section)
        if where(cell)
    ]
    kept = [
        place
        for place in range(len(columns))
        if any(entries[place].text != NOTHING for _, entries in found)
    ]
    return Table(
        title=title,
        headings=(*names, *(columns[place][0] for place in kept)),
        rows=tuple(
            (*map(Entry, words), *(entries[place] for place in kept)) for words, entries in found
        ),
        texts=len(names),
        note=note,
    )


def _differences(report: Report, section: Section) -> Table:
    def of(make: Callable[[Comparison], Entry]) -> Callable[[TableCell], Entry]:
        return lambda cell: make(_compared(cell))

    def difference(cell: TableCell) -> Entry:
        value = _compared(cell).difference
        return Entry(gain_text(value), mark=cell.signs, value=value)

    corrected: Cells = ()
    if report.correction in CORRECTIONS:
        name = f"p ({CORRECTIONS[report.correction]})"
        corrected = ((name, of(lambda than: _p(than.p_adjusted))),)
    return _by_cell(
        f"Differences from {section.baseline}: {section.measured}, {BY_LOT}, query by query",
        section,
        (
            ("difference", difference),
            (_level(report), of(lambda than: _ends(than.interval, than.difference))),
            ("p", of(lambda than: _p(than.p_value))),
            *corrected,
            ("better / equal / worse", of(lambda than: Entry(_contest(than)))),
        ),
        note=f"{legend(report, section)} Intervals: Student's, over the queries.",
        where=lambda cell: cell.comparison is not None,
    )


def _equivalence(report: Report, section: Section) -> Table:
    def of(make: Callable[[Comparison], Entry]) -> Callable[[TableCell], Entry]:
        return lambda cell: make(_compared(cell))

    margin = f"{report.margin:g}"
    comparisons = sum(cell.comparison is not None for _, _, cell in _cells(section))
    return _by_cell(
        f"Effect sizes and equivalence with {section.baseline}",
        section,
        (
            ("effect size", of(lambda than: _number(than.effect, 2))),
            ("detectable", of(lambda than: _measure(than.detectable))),
            (f"p of worse by {margin}", of(lambda than: _p(than.p_not_worse))),
            (f"p of not within ±{margin}", of(lambda than: _p(than.p_equivalent))),
            ("shown", lambda cell: Entry(_shown(cell, margin))),
        ),
        note="Effect size: mean difference over its standard deviation (Cohen's d of paired "
        f"values). Detectable: the smallest difference that {POWER:.0%} of experiments with as "
        "many queries would find by an uncorrected test. The p-values are of one-sided t-tests; "
        f"within ±{margin} takes two of them (TOST)"
        f"{_corrected(report, comparisons, 'comparison')}.",
        where=lambda cell: cell.comparison is not None,
    )


def _shown(cell: TableCell, margin: str) -> str:
    than = _compared(cell)
    if not cell.sound:
        return NOTHING
    if than.p_adjusted < SIGNIFICANT:
        return "better" if than.difference > 0 else "worse"
    if than.p_equivalent < SIGNIFICANT:
        return f"within ±{margin}"
    return f"not worse by {margin}" if than.p_not_worse < SIGNIFICANT else "nothing"


def _pairs(report: Report, section: Section) -> Table:
    """All pairs, as papers print them: letters of the rows that a value is better than."""
    ranked = [row for row in section.rows if row.not_run is None]
    letters = {row.label: letter for row, letter in zip(ranked, _letters(), strict=False)}
    tested = [
        sum(1 for row in ranked if (cell := row.cells[place]) and cell.sound)
        for place in range(len(section.columns))
    ]
    pairs = sum(count * (count - 1) // 2 for count in tested)
    if pairs < 2:
        return Table("", (), ())
    return Table(
        title=f"All pairs: {section.measured}, {BY_LOT}",
        headings=("ranker", "letter", *(column.name for column in section.columns)),
        rows=tuple(
            (
                Entry(row.label),
                Entry(letters[row.label]),
                *(
                    Entry(
                        measure_text(cell.honest),
                        best=cell.rank == 1,
                        second=cell.rank == 2,
                        mark=_separated([letters[each] for each in cell.beats]),
                        value=cell.honest,
                    )
                    if cell
                    else Entry(NOTHING)
                    for cell in row.cells
                ),
            )
            for row in ranked
        ),
        texts=2,
        note="Superscripts: significantly better than the rankers with these letters, by paired "
        f"Student's t-tests{_corrected(report, pairs, 'pair')}, p < {SIGNIFICANT:g}.",
    )


def _letters() -> Iterator[str]:
    """A to z, then aa to zz."""
    yield from ascii_lowercase
    yield from (one + other for one in ascii_lowercase for other in ascii_lowercase)


def _separated(letters: Sequence[str]) -> str:
    return ("," if any(len(each) > 1 for each in letters) else "").join(letters)


def _across(report: Report, section: Section) -> Table:
    rows = []
    for row in section.rows:
        found = row.pooled
        if found is None:
            continue
        rows.append(
            (
                Entry(row.label),
                Entry(f"{found.better} of {found.collections}", value=found.better),
                Entry(gain_text(found.difference), value=found.difference),
                _ends(found.interval, found.difference),
                _p(found.p_value),
                _p(found.p_adjusted),
                _measure(found.between),
            )
        )
    return Table(
        title=f"Over all data sets: differences from {section.baseline}",
        headings=(
            *("ranker", "better on", "difference", _level(report), "p"),
            f"p ({CORRECTIONS.get(report.correction, 'not corrected')})",
            "between sets",
        ),
        rows=tuple(rows),
        note="A random-effects meta-analysis of the data sets' mean differences (DerSimonian and "
        "Laird; intervals of Hartung and Knapp). Between sets: the standard deviation of the true "
        "differences, as estimated.",
    )


def _judgements(report: Report, section: Section) -> Table:
    has_overlap = any(cell.overlap is not None for _, _, cell in _cells(section))
    overlap = (
        f" Overlap: rank-biased overlap with the first stage (p = {PERSISTENCE:g}); 1 is the same "
        "order."
        if has_overlap
        else ""
    )
    return _by_cell(
        "Judgements and candidates",
        section,
        (
            (f"{report.measure}, {BY_LOT}", lambda cell: _measure(cell.honest)),
            ("judged", lambda cell: _share(cell.judged)),
            ("judged only", lambda cell: _measure(cell.condensed)),
            ("ceiling", lambda cell: _measure(cell.ceiling)),
            ("of the ceiling", lambda cell: _share(_ratio(cell.honest, cell.ceiling))),
            ("overlap", lambda cell: _measure(cell.overlap)),
        ),
        note="Judged: share of the ranks that the measure looks at whose documents are judged. "
        "Judged only: the measure once unjudged documents are taken out of the list (the condensed "
        "list); none with top_k, whose later ranks are not known. Ceiling: the measure of the best "
        f"order of the same documents.{overlap}",
    )


def _ties(report: Report, section: Section) -> Table:
    def of(make: Callable[[TieBounds], float | None]) -> Callable[[TableCell], Entry]:
        def entry(cell: TableCell) -> Entry:
            found = cell.metrics.ties.get(report.measure)
            return _measure(make(found) if found else None)

        return entry

    bounds = [cell.metrics.ties.get(report.measure) for _, _, cell in _cells(section)]
    said = (
        "Passages with equal scores, or that comparisons left undecided, in the worst order, in "
        f"the best, and in random order (by lot: mean of {DRAWS} draws per query)."
    )
    if any(each and each.sampled for each in bounds):
        said += (
            " Where ties of single personas or members count as well, worst and best are the ends "
            "of these draws and of the orders by grade."
        )
    return _by_cell(
        "Ties",
        section,
        (
            ("as ranked", lambda cell: _measure(cell.value)),
            ("at worst", of(lambda ties: ties.worst)),
            ("at best", of(lambda ties: ties.best)),
            ("by lot", of(lambda ties: ties.by_lot)),
        ),
        note=said,
    )


def _completeness(section: Section) -> Table:
    def scores(name: str) -> Callable[[TableCell], Entry]:
        return lambda cell: _count(
            getattr(cell.metrics.scores, name) if cell.metrics.scores else None
        )

    def undecided(name: str) -> Callable[[TableCell], Entry]:
        return lambda cell: _count(getattr(cell.metrics.scores, name, 0) or None)

    def missing(cell: TableCell) -> Entry:
        found = cell.metrics.scores
        return _part(found.missing, found.asked) if found else Entry(NOTHING)

    def not_ranked(cell: TableCell) -> Entry:
        ours = cell.manifest is not None and cell.manifest.foreign is None
        return _count(len(cell.metrics.failed) if ours else None, bad=True)

    def unknown(cell: TableCell) -> Entry:
        note = cell.manifest.foreign if cell.manifest else None
        count = (note.unknown_documents, note.unseen_documents) if note else (None,)
        return _count(next((each for each in count if each is not None), None), bad=True)

    return _by_cell(
        "Completeness",
        section,
        (
            ("asked", scores("asked")),
            ("missing", missing),
            ("left out", scores("skipped")),
            ("tied", undecided("tied")),
            ("inconsistent", undecided("inconsistent")),
            ("unreadable replies", scores("unreadable")),
            ("no results", lambda cell: _count(len(cell.metrics.missing_queries), bad=True)),
            ("not ranked", not_ranked),
            ("short teams", lambda cell: _count(cell.metrics.short_teams, bad=True)),
            ("unknown documents", unknown),
        ),
        note="Asked: scores, or comparisons. Left out: not needed for the first ranks (top_k). "
        "Tied: pairs that comparisons did not decide; inconsistent: the answer went with the order "
        "they were shown in. No results, not ranked: queries; the first count 0. Short teams: "
        "queries for which fewer recruits were named than asked for. Unknown documents, of foreign "
        "runs: not in the corpus or, where it is not at hand, neither ranked nor judged here; they "
        "keep their ranks.",
    )


def _cost(section: Section) -> Table:
    def taken(name: str) -> Callable[[TableCell], Entry]:
        return lambda cell: _count(
            getattr(cell.metrics.taken, name) if cell.metrics.taken else None
        )

    def cost(cell: TableCell) -> Entry:
        value = cell.metrics.taken.cost if cell.metrics.taken else None
        return Entry("not known" if value is None else dollars(value), value=value)

    return _by_cell(
        "Cost",
        section,
        (
            ("calls", taken("calls")),
            ("tokens in", taken("input_tokens")),
            ("of them cached", taken("cached_input_tokens")),
            ("tokens out", taken("output_tokens")),
            ("cost", cost),
        ),
        where=lambda cell: cell.metrics.taken is not None,
    )


def _time(section: Section) -> Table:
    def percentile(name: str) -> Callable[[TableCell], Entry]:
        def entry(cell: TableCell) -> Entry:
            found = cell.metrics.taken.query_seconds if cell.metrics.taken else None
            value = getattr(found, name) if found else None
            return Entry(NOTHING) if value is None else Entry(seconds(value), value=value)

        return entry

    def model_time(cell: TableCell) -> Entry:
        value = cell.metrics.taken.seconds if cell.metrics.taken else 0.0
        return Entry(seconds(value), value=value)

    def timed(cell: TableCell) -> Entry:
        found = cell.metrics.taken.query_seconds if cell.metrics.taken else None
        return _count(found.queries if found else None)

    return _by_cell(
        "Time",
        section,
        (
            ("model time", model_time),
            ("queries timed", timed),
            *((f"a query, {name}", percentile(name)) for name in ("p50", "p90", "p99")),
        ),
        note="A query takes from its beginning to its end, beside the others that are ranked at "
        "the same time; p90 is what nine tenths of them took at most. Queries that the "
        "ledger answered, in part or in whole, are not timed.",
        where=lambda cell: cell.metrics.taken is not None,
    )


def _cells(section: Section) -> Iterator[tuple[Row, Column, TableCell]]:
    for row in section.rows:
        for column, cell in zip(section.columns, row.cells, strict=True):
            if cell is not None:
                yield row, column, cell


def _compared(cell: TableCell) -> Comparison:
    assert cell.comparison is not None, "rows without one are left out"
    return cell.comparison


def _value(cell: TableCell | None, *, lot: bool) -> list[Entry]:
    """The value as ranked and, if asked for, with ties drawn by lot; marks go with the latter."""
    if cell is None:
        return [Entry(NOTHING)] * (1 + lot)
    without = lost(cell)
    value = measure_text(cell.value) + (f" ({without})" if without else "")
    marked = Entry(
        measure_text(cell.honest) if lot else value,
        best=cell.rank == 1,
        second=cell.rank == 2,
        mark=cell.signs,
        value=cell.honest,
    )
    return [Entry(value, value=cell.value), marked] if lot else [marked]


def _not_run(*, lot: bool) -> list[Entry]:
    return [Entry(NOT_RUN), *[Entry(NOTHING)][:lot]]


def _measure(value: float | None) -> Entry:
    return Entry(measure_text(value), value=value)


def _number(value: float | None, places: int) -> Entry:
    return Entry(optional(value, places) or NOTHING, value=value)


def _share(value: float | None) -> Entry:
    return Entry(NOTHING if value is None else f"{fixed(100 * value, 0)}%", value=value)


def _ratio(part: float, of: float | None) -> float | None:
    return part / of if of else None


def _p(value: float) -> Entry:
    return Entry(p_text(value), value=value)


def _count(value: int | None, *, bad: bool = False) -> Entry:
    if value is None:
        return Entry(NOTHING)
    return Entry(whole(value), value=value, warn=bad and value > 0)


def _part(part: int, of: int) -> Entry:
    text = f"{whole(part)} ({rate(part, of)})" if part else "0"
    return Entry(text, value=part, warn=part > 0)


def _ends(of: Interval, middle: float) -> Entry:
    return Entry(interval(of.low, of.high, signed=True), span=(of.low, middle, of.high))


def _contest(than: Comparison) -> str:
    return " / ".join(map(whole, (than.wins, than.ties, than.losses)))


def _corrected(report: Report, count: int, what: str) -> str:
    if report.correction not in CORRECTIONS:
        return ", not corrected"
    return f", corrected for {counted(count, what)} ({CORRECTIONS[report.correction]})"


def _level(report: Report) -> str:
    return f"{100 * report.level:g}% interval"


def _axis(x: float | str) -> str:
    return x if isinstance(x, str) else f"{x:g}"
