"""The parts of a report before it has a form; they follow from the run folders alone.

The same folders always make the same report: no time of day, no path, nothing of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beir_eval.experiment.run_folder import DataManifest, FigureNote, Metrics, RunManifest
from beir_eval.measures.values import Comparison, Interval, Values
from beir_eval.report.numbers import measure_text
from personas.ranking.types import WeakJudge


@dataclass(frozen=True, slots=True)
class Column:
    """A data set of a section."""

    name: str  # heading
    data: DataManifest
    paper_queries: int | None  # in the paper's experiments; None if not in them
    conditions: str = ""  # how much was ranked, and how much the paper ranked, in words
    judge: str = ""  # the model that judged; empty if people did


@dataclass(frozen=True, slots=True)
class TableCell:
    """One system's values on one data set."""

    values: Values
    interval: Interval  # confidence interval of `honest`
    paper: float | None
    rank: int
    """1 for the best of the column by `honest`, 2 for the second, first stage included; equal
    values share. 0 for all others, for those whose place missing scores could change, and where
    the column has one run only."""
    comparison: Comparison | None
    """With the baseline's, both `honest`; None for the baseline and where that is missing."""
    metrics: Metrics
    manifest: RunManifest | None  # of the run; None for the first stage
    signs: str = ""  # marks beside the value, as the legend of its table explains them
    judged: float | None = None  # share of the ranks that the measure looks at
    ceiling: float | None = None  # the measure of the best order of what it ranked

    @property
    def value(self) -> float:
        """The mean, ties as ranked."""
        assert self.values.mean is not None, "a judged query has a value"
        return self.values.mean

    @property
    def by_lot(self) -> float | None:
        """The mean with ties in random order, if that is known."""
        return self.values.by_lot if self.values.lots_known else None

    @property
    def honest(self) -> float:
        """The mean that owes nothing to the order in which tied passages came, if it is known."""
        found = self.values.by_lot
        return self.value if found is None else found

    @property
    def missing(self) -> float:
        """Share of the scores or comparisons asked for."""
        return self.values.missing / self.values.asked if self.values.asked else 0.0

    @property
    def queries(self) -> int:
        """Queries that the mean is over."""
        return len(self.values.of)


@dataclass(frozen=True, slots=True)
class Row:
    """One ranker over the data sets of a section; averages are None if a value is missing."""

    label: str
    is_baseline: bool
    weak_judge: WeakJudge  # as `RankingRecord.weak_judge`; may be empty
    models: str
    """Their names, e.g. ``"local:smollm2-135m"``, or role by role where they differ; empty for
    the first stage."""
    average: float | None  # of `TableCell.value` over the columns; averages are not tested
    average_by_lot: float | None  # of `TableCell.honest`
    paper_average: float | None  # over the same columns
    cells: tuple[TableCell | None, ...]  # by column; None where not run, or not finished
    not_run: tuple[float | None, ...] | None = None
    """The paper's numbers by column, of a row of which nothing was run; else None."""
    foreign: bool = False  # another program ranked, and a TREC run was given

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
    """A figure of a section."""

    note: FigureNote  # its kind and words
    lines: tuple[tuple[str, tuple[Point, ...]], ...]  # of every line, or every group of rows
    paper: str  # the paper's words on its own figure; may be empty


@dataclass(frozen=True, slots=True)
class Section:
    """The runs of one suite, or those without a suite."""

    name: str  # of the suite; "runs" for those without one
    title: str
    baseline: str  # label of the row that the others are compared with
    paper_source: str  # what the paper's numbers are of; empty if there are none
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    """The first stage, the rankers in the suite's order, foreign runs that are in no folder, and
    those of which nothing was run."""
    figure: Figure | None
    unfinished: tuple[tuple[str, str], ...]  # (data set, label) of runs that are left out
    notes: tuple[str, ...] = ()  # sentences below the tables
    changed: tuple[str, ...] = ()  # runs and data whose files are not as written, and which files
    measured: str = ""
    """E.g. ``"nDCG@10"``, or ``"nDCG@10 of the top 5"`` where fewer passages were ranked than the
    measure looks at."""

    @property
    def averaged(self) -> bool:
        """True if there are averages: over two data sets or more, judged alike, each once."""
        names = [column.data.dataset for column in self.columns]
        judges = {column.judge for column in self.columns}
        return 1 < len(names) == len(set(names)) and len(judges) == 1

    @property
    def has_paper(self) -> bool:
        """True if a row has a number of the paper."""
        places = range(len(self.columns))
        return any(row.paper(place) is not None for row in self.rows for place in places)

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
    """Everything."""

    measure: str  # whose values the tables show, as ir-measures writes it
    correction: str  # of the p-values of the paired t-tests, e.g. "holm"
    level: float  # of the confidence intervals, e.g. 0.95
    sections: tuple[Section, ...]  # in the natural order of the suites' names; without one, last
