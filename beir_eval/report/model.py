"""What a report says, before it has a form: sections of tables and figures.

Everything here follows from the run folders alone, so that the same folders always make the
same report: no time of day, no path, nothing of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from beir_eval.experiment.run_folder import DataManifest, FigureNote, Metrics, RunManifest
from beir_eval.measures.significance import Comparison, Interval


@dataclass(frozen=True, slots=True)
class Column:
    """A data set of a section.

    Attributes:
        name: heading.
        data: what was ranked there.
        paper_queries: queries of the data set in the paper's experiments; None if not in it.
        conditions: how much was ranked and how much the paper ranked, in words that every form
            of the report shows, e.g. ``"20 of 300 queries, top 20 by BM25 (bm25s, k1 0.9, b
            0.4); the paper: 300 queries, top 100"``.
    """

    name: str
    data: DataManifest
    paper_queries: int | None
    conditions: str = ""


@dataclass(frozen=True, slots=True)
class TableCell:
    """One run's value on one data set.

    Attributes:
        value: mean of the report's measure, 0 to 1 (tables show it times 100).
        interval: bootstrap confidence interval of `value`.
        paper: the paper's number, 0 to 1; None if it has none.
        rank: 1 for the best of the column, 2 for the second; equal values share; the first
            stage takes part. 0 for all others, and where the column has one run only.
        comparison: with the baseline's; None for the baseline itself and where it is missing.
        metrics: the rest.
        manifest: what ranked; None for the first stage.
        difference: bootstrap confidence interval of `comparison.difference`; None where there
            is no comparison.
    """

    value: float
    interval: Interval
    paper: float | None
    rank: int
    comparison: Comparison | None
    metrics: Metrics
    manifest: RunManifest | None
    difference: Interval | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One ranker over the data sets of a section.

    Attributes:
        label: the ranker's.
        is_baseline: whether the others are compared with it.
        weak: whether the scoring model is marked weak.
        models: the models' names, e.g. ``"local:smollm2-135m"``, or role by role where they
            differ; empty for the first stage.
        average: mean of `value` over the columns, None if any is missing.
        paper_average: mean of the paper's numbers over the same columns; None if any is missing.
        rank: as `TableCell.rank`, of the averages.
        cells: one a column of the section; None where it was not run, or is not finished.
    """

    label: str
    is_baseline: bool
    weak: bool
    models: str
    average: float | None
    paper_average: float | None
    rank: int
    cells: tuple[TableCell | None, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a figure; `x` is a number for lines and the bar's name for bars."""

    x: float | str
    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a section.

    Attributes:
        note: its kind and words.
        lines: (name, points) of every line; for bars, of every group.
        paper: what the paper says of its own figure, in its numbers' file; empty if nothing.
    """

    note: FigureNote
    lines: tuple[tuple[str, tuple[Point, ...]], ...]
    paper: str


@dataclass(frozen=True, slots=True)
class Section:
    """The runs of one suite, or those without a suite.

    A data set on which no run is finished has no column; it stands in `unfinished` only.

    Attributes:
        name: of the suite; ``"runs"`` for those without one.
        title: heading.
        baseline: label of the row that the others are compared with.
        paper_source: what the paper's numbers are of; empty if none stand there.
        columns: data sets.
        rows: the first stage's first, then the rankers', in the suite's order.
        figure: the figure that the runs make, or None.
        unfinished: (data set, label) of runs left out because they are not finished.
        notes: sentences that every form of the report shows below the tables: which models,
            their defaults where they are weak, what is unfinished, how calls are counted.
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


@dataclass(frozen=True, slots=True)
class Report:
    """Everything.

    Attributes:
        measure: whose values the tables show, as ir-measures writes it.
        test: name of the significance test, e.g. ``"student"``.
        correction: e.g. ``"holm"``.
        level: of the confidence intervals, e.g. 0.95.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        sections: by name of the suite in their natural order; runs without a suite last.
    """

    measure: str
    test: str
    correction: str
    level: float
    resamples: int
    seed: int
    sections: tuple[Section, ...]
