"""The parts of a report before it has a form; they follow from the run folders alone.

The same folders always make the same report: no time of day, no path, nothing of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from beir_eval.experiment.run_folder import (
    PIPELINE,
    DataManifest,
    FigureNote,
    Metrics,
    RunManifest,
)
from beir_eval.measures.anova import Anova
from beir_eval.measures.values import Comparison, Values
from personas.ranking.types import WeakJudge
from personas.report.warnings import Notice

if TYPE_CHECKING:
    from beir_eval.answers.metrics import AnswerMetrics


@dataclass(frozen=True, slots=True)
class Column:
    """A data set of rankers, or a judge of pipelines."""

    name: str  # heading
    conditions: str  # how much was ranked, and how much the paper ranked, in words
    data: DataManifest | None = None  # None for a judge of answers
    paper_queries: int | None = None  # in the paper's experiments; None if not in them
    judge: str = ""  # the model that judged; empty if people did


@dataclass(frozen=True)
class TableCell:
    """One system's values on one data set, or by one judge."""

    values: Values
    metrics: Metrics | None = None  # of a ranker
    manifest: RunManifest | None = None  # of the run; None for the first stage
    ceilings: Mapping[str, float] = field(default_factory=dict)
    """Query id -> value of the best order of what it ranked; empty where it is not known."""
    judged: float | None = None  # share of the ranks that the measure looks at
    paper: float | None = None
    rank: int = 0
    """1 for the best of the column by `honest`, 2 for the second, first stage included; equal
    values share. 0 for all others, for those whose place missing scores could change, and where
    the column has one run only."""
    comparison: Comparison | None = None
    """With the baseline's, both `honest`; None for the baseline and where that is missing."""
    signs: str = ""  # marks beside the value, as the legend of its table explains them

    @property
    def value(self) -> float:
        """The mean, ties as ranked."""
        assert self.values.mean is not None, "a judged query has a value"
        return self.values.mean

    @property
    def honest(self) -> float:
        """The mean that owes nothing to the order in which tied passages came, if it is known."""
        return self.value if self.values.by_lot is None else self.values.by_lot

    @property
    def ceiling(self) -> float | None:
        """The mean of `ceilings`."""
        return mean_of([*self.ceilings.values()])


@dataclass(frozen=True, slots=True)
class Row:
    """A ranker over the data sets of a section, or a pipeline by its judges."""

    label: str
    cells: tuple[TableCell | None, ...]  # by column; None where not run, or not finished
    is_baseline: bool = False
    weak_judge: WeakJudge = ""  # as `RankingRecord.weak_judge`
    models: str = ""
    """Their names, e.g. ``"local:smollm2-135m"``, or role by role where they differ; empty for
    the first stage."""
    not_run: tuple[float | None, ...] | None = None
    """The paper's numbers by column, of a row of which nothing was run; else None."""
    foreign: bool = False  # another program ranked, and a TREC run was given
    answers: AnswerMetrics | None = None  # of a pipeline

    def paper(self, place: int) -> float | None:
        """Return the paper's number for the `place`-th column; None if it has none."""
        if self.not_run is not None:
            return self.not_run[place]
        cell = self.cells[place]
        return cell.paper if cell else None

    @property
    def average(self) -> float | None:
        """The mean of `TableCell.value`; None if one is missing. Averages are not tested."""
        return mean_of([cell.value if cell else None for cell in self.cells])

    @property
    def average_by_lot(self) -> float | None:
        """The mean of `TableCell.honest`."""
        return mean_of([cell.honest if cell else None for cell in self.cells])

    @property
    def paper_average(self) -> float | None:
        """The mean of the paper's numbers over the same columns."""
        return mean_of([self.paper(place) for place in range(len(self.cells))])


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a section: values by a number or by name, in groups."""

    note: FigureNote  # its kind and words
    lines: tuple[tuple[str, tuple[tuple[float | str, Values], ...]], ...]
    """Name and points of every group."""
    paper: str = ""  # the paper's words on its own figure


@dataclass(frozen=True, slots=True)
class Section:
    """The runs of one suite, or those without a suite."""

    name: str  # of the suite; "runs" for those without one
    title: str
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    """The first stage, the rankers in the suite's order, foreign runs that are in no folder, and
    those of which nothing was run; or the pipelines."""
    baseline: str = ""  # label of the row that the others are compared with
    measured: str = ""
    """E.g. ``"nDCG@10"``, or ``"nDCG@10 of the top 5"`` where fewer passages were ranked than the
    measure looks at; of pipelines the judge that heads the tables."""
    kind: str = "ranker"
    figure: Figure | None = None
    paper_source: str = ""  # what the paper's numbers are of
    unfinished: tuple[tuple[str, str], ...] = ()  # (data set, label) of runs that are left out
    changed: tuple[str, ...] = ()  # runs and data whose files are not as written, and which files
    warnings: tuple[Notice, ...] = ()  # of pipelines alone
    notes: tuple[str, ...] = ()  # sentences below the tables
    analysis: Anova | None = None  # of a grid of pipelines
    worst: tuple[tuple[str, ...], ...] = ()
    """Question, value, answer, right answers and the judge's notes of the best pipeline's worst."""
    worst_of: str = ""  # the label of the best pipeline
    drawings: tuple[tuple[str, str, str], ...] = ()  # title, SVG and words of a pipelines' figure

    @property
    def of_pipelines(self) -> bool:
        """True for pipelines, false for rankers."""
        return self.kind == PIPELINE

    @property
    def averaged(self) -> bool:
        """True if there are averages: over two data sets or more, judged alike, each once."""
        names = [column.data.dataset for column in self.columns if column.data]
        judges = {column.judge for column in self.columns}
        return 1 < len(names) == len(set(names)) and len(judges) == 1

    @property
    def has_paper(self) -> bool:
        """True if a row has a number of the paper."""
        places = range(len(self.columns))
        return any(row.paper(place) is not None for row in self.rows for place in places)

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
    sections: tuple[Section, ...]  # in the natural order of the suites' names; without one, last


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if a value is missing, or there is none."""
    known = [each for each in values if each is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
