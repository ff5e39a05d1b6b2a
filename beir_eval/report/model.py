"""The parts of a report before it has a form; they follow from the run folders alone.

The same folders always make the same report: no time of day, no path, nothing of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beir_eval.experiment.run_folder import DataManifest, FigureNote, Metrics, RunManifest
from beir_eval.measures.across import Pooled
from beir_eval.measures.significance import Comparison, Interval
from beir_eval.report.numbers import BOUNDS_SIGN, MISSING_SIGN, measure_text
from personas.weak_judges import WeakJudge


@dataclass(frozen=True, slots=True)
class Column:
    """A data set of a section.

    Attributes:
        name: heading.
        data: what was ranked there.
        paper_queries: queries of the data set in the paper's experiments; None if not in it.
        conditions: how much was ranked, and how much the paper ranked, in words.
    """

    name: str
    data: DataManifest
    paper_queries: int | None
    conditions: str = ""


@dataclass(frozen=True, slots=True)
class TableCell:
    """One run's value on one data set.

    Attributes:
        value: mean of the report's measure, 0 to 1.
        interval: confidence interval of `honest`.
        paper: the paper's number, 0 to 1; None if it has none.
        rank: 1 for the best of the column by `honest`, 2 for the second, first stage included;
            equal values share. 0 for all others, for those of which too many scores are missing,
            and where the column has one run only.
        comparison: with the baseline's, both `honest`; None for the baseline itself and where it
            is missing.
        metrics: the rest.
        manifest: of the run; None for the first stage.
        by_lot: mean with ties in random order; None where it cannot be known.
        missing: share of the scores or comparisons asked for that are missing, 0 to 1.
        signs: marks beside the value, as the legend of its table explains them.
        beats: labels of the rows that it is significantly better than, all pairs of the section
            tested and corrected as one family.
        judged: share of the ranks that the measure looks at whose documents are judged.
        condensed: the measure of the list without its unjudged documents, ties in random order.
        ceiling: the measure of the best order of the documents that it ranked.
        overlap: mean rank-biased overlap with the first stage, see
            `beir_eval.measures.overlap.rank_biased_overlap`. The last four are 0 to 1, and None
            where they cannot be known.
    """

    value: float
    interval: Interval
    paper: float | None
    rank: int
    comparison: Comparison | None
    metrics: Metrics
    manifest: RunManifest | None
    by_lot: float | None = None
    missing: float = 0.0
    signs: str = ""
    beats: tuple[str, ...] = ()
    judged: float | None = None
    condensed: float | None = None
    ceiling: float | None = None
    overlap: float | None = None

    @property
    def sound(self) -> bool:
        """True if the value is the ranker's: no score is missing, and no rank in it is a bound."""
        return MISSING_SIGN not in self.signs and BOUNDS_SIGN not in self.signs

    @property
    def honest(self) -> float:
        """The mean that owes nothing to the order in which tied passages came, if it is known."""
        return self.value if self.by_lot is None else self.by_lot

    @property
    def queries(self) -> int:
        """Queries that the mean is over."""
        return max((len(values) for values in self.metrics.per_query.values()), default=0)


@dataclass(frozen=True, slots=True)
class Row:
    """One ranker over the data sets of a section.

    Attributes:
        label: the ranker's.
        is_baseline: whether the others are compared with it.
        weak_judge: why the judge is weak, as `RankingRecord.weak_judge` has it; may be empty.
        models: the models' names, e.g. ``"local:smollm2-135m"``, or role by role where they
            differ; empty for the first stage.
        average: mean of `value` over the columns, None if any is missing. Averages are not tested.
        average_by_lot: the same of `TableCell.honest`.
        paper_average: mean of the paper's numbers over the same columns; None if any is missing.
        cells: one a column of the section; None where it was not run, or is not finished.
        not_run: the paper's numbers by column, of a row of which nothing was run; else None.
        foreign: whether another program ranked, and a TREC run was given.
        pooled: the difference to the baseline over all columns; None for the baseline, and where
            there are no two columns to pool.
    """

    label: str
    is_baseline: bool
    weak_judge: WeakJudge
    models: str
    average: float | None
    average_by_lot: float | None
    paper_average: float | None
    cells: tuple[TableCell | None, ...]
    not_run: tuple[float | None, ...] | None = None
    foreign: bool = False
    pooled: Pooled | None = None

    def paper(self, place: int) -> float | None:
        """Return the paper's number for the `place`-th column, 0 to 1; None if it has none."""
        if self.not_run is not None:
            return self.not_run[place]
        cell = self.cells[place]
        return cell.paper if cell else None


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a figure, ties in random order; `x` is a number for lines, else a name."""

    x: float | str
    value: float
    interval: Interval
    queries: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a section.

    Attributes:
        note: its kind and words.
        lines: (name, points) of every line, or of every group of rows.
        paper: the paper's words on its own figure; may be empty.
    """

    note: FigureNote
    lines: tuple[tuple[str, tuple[Point, ...]], ...]
    paper: str


@dataclass(frozen=True, slots=True)
class Section:
    """The runs of one suite, or those without a suite.

    A data set on which no run is finished has no column; it is in `unfinished` only.

    Attributes:
        name: of the suite; ``"runs"`` for those without one.
        title: heading.
        baseline: label of the row that the others are compared with.
        paper_source: what the paper's numbers are of; empty if there are none.
        columns: data sets.
        rows: the first stage's first, then the rankers', in the suite's order, then foreign runs
            that are in no folder, then those of which nothing was run.
        figure: the figure that the runs make, or None.
        unfinished: (data set, label) of runs left out because they are not finished.
        changed: runs and data whose files are not as they were written, and which files.
        measured: what the values are, e.g. ``"nDCG@10"``, or ``"nDCG@10 of the top 5"`` where
            fewer passages were ranked than the measure looks at.
        notes: sentences below the tables: which models, their defaults where they are weak, what
            was not run, how calls are counted.
    """

    name: str
    title: str
    baseline: str
    paper_source: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    figure: Figure | None
    unfinished: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    measured: str = ""

    @property
    def averaged(self) -> bool:
        """True if there are averages: over two data sets or more, and each of them once."""
        names = [column.data.dataset for column in self.columns]
        return 1 < len(names) == len(set(names))

    def by_lot(self, place: int) -> bool:
        """Return whether ties in random order change a value of that column, as it is shown."""
        cells = [row.cells[place] for row in self.rows]
        return any(measure_text(each.value) != measure_text(each.honest) for each in cells if each)

    def cells(self) -> Iterator[tuple[Row, Column, TableCell]]:
        """Yield what was run, row by row."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if cell is not None:
                    yield row, column, cell


@dataclass(frozen=True, slots=True)
class Report:
    """Everything.

    Attributes:
        measure: whose values the tables show, as ir-measures writes it.
        correction: of the p-values of the paired t-tests, e.g. ``"holm"``.
        level: of the confidence intervals, e.g. 0.95.
        margin: of the tests of equivalence, e.g. 0.01.
        sections: by name of the suite in their natural order; runs without a suite last.
    """

    measure: str
    correction: str
    level: float
    margin: float
    sections: tuple[Section, ...]
