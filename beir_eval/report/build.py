"""From run folders to a report: the numbers of every place in its tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from beir_eval.errors import MeasureError, RunFolderError, SettingError
from beir_eval.experiment.labels import column_names, natural, other_server, row_labels
from beir_eval.experiment.rankings import RANKINGS
from beir_eval.experiment.run_folder import FIRST_STAGE, DataFolder, Metrics, RunFolder, SuiteNote
from beir_eval.measures import paper
from beir_eval.measures.significance import (
    Comparison,
    Interval,
    compare_runs,
    confidence_intervals,
    usual_correction,
)
from beir_eval.measures.ties import Tied, tie_figures
from beir_eval.report.model import Column, Figure, Point, Report, Row, Section, TableCell
from beir_eval.report.notes import (
    MOST_MISSING,
    conditions,
    measured_to,
    missing_share,
    model_names,
    notes,
)
from beir_eval.report.numbers import MISSING_SIGN, TIES_SIGN, mark
from mcranker.trec import Run, with_ties
from personas.ensembles import Rule

MEASURE = "nDCG@10"
"""What the paper's numbers are of; heads a report on runs of which none is finished."""
EQUAL = 1e-12
"""Values that differ by no more share a rank."""
Values: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Data set -> label -> query id -> value."""


NO_SUITE, NO_SUITE_TITLE = "runs", "Runs"
Slot = tuple[str, str]
"""A column, by the content of its data, and a row, by its label."""


def build_report(
    runs: Sequence[RunFolder],
    *,
    measure: str | None = None,
    baseline: str | None = None,
    test: str = "student",
    correction: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    provider_prices: bool = False,
) -> Report:
    """What the runs came to, in sections by suite; the order of `runs` makes no difference.

    Args:
        runs: of any suites, data sets and folders; unfinished ones are listed, not counted.
        measure: whose values the tables show, as ir-measures writes it; computed from the TREC
            runs where the folders do not have it. None for the first measure of the first run.
        baseline: label of the run that the others are compared with, or of the first stage
            (``"first stage"``, ``"BM25"``), in all sections that have it. The other sections, and
            None, take the suite's, else the first stage.
        test: paired test, one of `beir_eval.measures.significance.TESTS`.
        correction: of the p-values, over all comparisons of a section: one of
            `beir_eval.measures.significance.CORRECTIONS`; None for the one that goes with the test.
        level: of the confidence intervals, above 0 and below 1.
        seed: of the randomization test, 0 or more.
        provider_prices: price answers of other servers (``base_url``) like the provider's own of
            that model; without, their cost is not known.

    Raises:
        RunFolderError: a folder is damaged, or its run and its data do not belong together.
        RunError: a TREC run is needed for `measure` and cannot be read.
        SettingError: no run has the label `baseline`, or another option is out of its range.
        MeasureError: `measure` is unknown, or has values outside 0 to 1.
        SuiteError: a suite names a table or a figure that the paper has not.
        ExtraMissing: the test, or `measure`, needs a package that is not installed.
    """
    settings = Settings(test, correction or usual_correction(test), level, seed)
    arrangements = arrange(runs)
    _check_baseline(baseline, arrangements)
    shelf = Shelf(_measure(measure, arrangements), provider_prices=provider_prices)
    return Report(
        measure=shelf.measure,
        sections=tuple(
            _section(each, each.baseline(baseline), shelf, settings) for each in arrangements
        ),
        test=settings.test,
        correction=settings.correction,
        level=level,
        seed=seed,
    )


def _section(plan: Arrangement, baseline: str, shelf: Shelf, settings: Settings) -> Section:
    columns = plan.columns()
    cells = _cells(plan, baseline, shelf, settings)
    rows = _rows(plan, baseline, columns, cells)
    measured = measured_to(shelf.measure, [column.data.depth for column in columns])
    has_paper = any(cell.paper is not None for cell in cells.values())
    return Section(
        name=plan.name,
        title=plan.title,
        columns=columns,
        rows=rows,
        baseline=plan.shown(baseline),
        figure=_figure(plan.suite, columns, rows),
        unfinished=plan.unfinished,
        paper_source=paper.paper_source() if has_paper else "",
        notes=(*notes(columns, rows, plan.unfinished, plan.shown(baseline)), *_absent(plan)),
        measured=measured,
    )


def _absent(plan: Arrangement) -> list[str]:
    if not plan.never_run:
        return []
    return [f"Rankers of the suite that were not run: {', '.join(plan.never_run)}."]


def _cells(
    plan: Arrangement, baseline: str, shelf: Shelf, settings: Settings
) -> dict[Slot, TableCell]:
    metrics = _metrics(plan, shelf)
    by_column: dict[str, dict[str, Metrics]] = {content: {} for content in plan.data}
    for (content, label), each in metrics.items():
        by_column[content][label] = each
    measure = shelf.measure
    ranks = {
        content: _ranks(
            {
                label: _honest_mean(each, measure)
                for label, each in column.items()
                if missing_share(each) <= MOST_MISSING
            }
        )
        for content, column in by_column.items()
    }
    found = _statistics(
        {
            content: {label: _honest(each, measure) for label, each in column.items()}
            for content, column in by_column.items()
        },
        baseline,
        settings,
    )
    is_papers_measure = shelf.measure.lower() == MEASURE.lower()
    return {
        place: TableCell(
            value=each.means[shelf.measure],
            paper=plan.paper_value(place) if is_papers_measure else None,
            rank=ranks[place[0]].get(place[1], 0),
            interval=found.intervals[place],
            comparison=found.comparisons.get(place),
            metrics=each,
            manifest=plan.runs[place].manifest if place in plan.runs else None,
            difference=found.differences.get(place),
            by_lot=bounds.by_lot if (bounds := each.ties.get(measure)) else None,
            missing=missing_share(each),
            signs=_signs(
                each,
                by_column[place[0]].get(baseline),
                found.comparisons.get(place),
                measure,
            ),
        )
        for place, each in metrics.items()
    }


def _honest(metrics: Metrics, measure: str) -> dict[str, float]:
    """Query id -> value, ties drawn by lot where that is known."""
    return {**metrics.per_query[measure], **metrics.by_lot.get(measure, {})}


def _honest_mean(metrics: Metrics, measure: str) -> float:
    bounds = metrics.ties.get(measure)
    return metrics.means[measure] if bounds is None or bounds.by_lot is None else bounds.by_lot


def _signs(
    metrics: Metrics, base: Metrics | None, comparison: Comparison | None, measure: str
) -> str:
    """What stands beside a value: significance, and what it owes to ties and missing scores."""
    lost = missing_share(metrics) > MOST_MISSING
    signs = MISSING_SIGN if lost else ""
    if base is None or comparison is None:
        return signs
    ranked = metrics.means[measure] - base.means[measure]
    if ranked > EQUAL and comparison.difference < ranked / 2:
        signs = TIES_SIGN + signs
    if lost or missing_share(base) > MOST_MISSING:
        return signs  # what stood in for the scores is no finding
    return mark(comparison.p_adjusted) + signs


def _metrics(plan: Arrangement, shelf: Shelf) -> dict[Slot, Metrics]:
    """Every column's first stage, then all runs."""
    found = {
        (content, FIRST_STAGE): shelf.of_first_stage(data) for content, data in plan.data.items()
    }
    for place, run in plan.runs.items():
        found[place] = shelf.of_run(run, plan.data[place[0]])
    return found


def _rows(
    plan: Arrangement, baseline: str, columns: Sequence[Column], cells: Mapping[Slot, TableCell]
) -> tuple[Row, ...]:
    rows = {
        label: tuple(cells.get((content, label)) for content in plan.data) for label in plan.labels
    }
    made = []
    for label, row in rows.items():
        manifests = {
            column.name: cell.manifest
            for column, cell in zip(columns, row, strict=True)
            if cell and cell.manifest
        }
        made.append(
            Row(
                label=plan.shown(label),
                cells=row,
                average=_mean([cell.value if cell else None for cell in row]),
                average_by_lot=_mean([cell.honest if cell else None for cell in row]),
                paper_average=_mean([cell.paper if cell else None for cell in row]),
                is_baseline=label == baseline,
                weak=any(manifest.weak for manifest in manifests.values()),
                models=model_names(manifests),
            )
        )
    for label in plan.never_run if made else ():
        nothing = (None,) * len(columns)
        made.append(Row(label, False, False, "", None, None, None, nothing))
    return tuple(made)


def _measure(asked: str | None, arrangements: Sequence[Arrangement]) -> str:
    """The measure, under the name that the first finished run has for it."""
    first = next((run for plan in arrangements for run in plan.runs.values()), None)
    measures = first.metrics().measures if first else (MEASURE,)
    if asked is None:
        return measures[0]
    return next((each for each in measures if each.lower() == asked.lower()), asked)


def _check_baseline(baseline: str | None, arrangements: Sequence[Arrangement]) -> None:
    if baseline is not None and not any(plan.has(baseline) for plan in arrangements):
        known = {plan.shown(label) for plan in arrangements for label in plan.labels}
        labels = ", ".join(map(repr, sorted(known, key=natural))) or "no finished run at all"
        raise SettingError(
            f"baseline={baseline!r} is no label of a finished run; there is {labels}"
        )


def _ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Label -> 1 for the best value, 2 for the second, equal ones alike; 0 for all others."""
    ranks = dict.fromkeys(values, 0)
    if len(values) < 2:
        return ranks
    rank, last = 0, math.inf
    for label in sorted(values, key=lambda each: -values[each]):
        if last - values[label] > EQUAL:
            rank, last = rank + 1, values[label]
        if rank > 2:
            break
        ranks[label] = rank
    return ranks


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _figure(
    suite: SuiteNote | None, columns: Sequence[Column], rows: Sequence[Row]
) -> Figure | None:
    """The suite's figure; None if it has none, or nothing of it was run.

    Lines go by `SuiteNote.x` from left to right; bars stand in the order of the rows.

    Raises:
        SuiteError: it names a figure that the paper has not.
    """
    if suite is None or suite.figure is None:
        return None
    note = suite.figure
    lines: dict[str, list[Point]] = {}
    for place, column in enumerate(columns):
        for row in rows:
            cell = row.cells[place]
            if cell is None or cell.manifest is None or cell.manifest.suite is None:
                continue
            point = _point(note.kind, cell, cell.manifest.suite, row.label)
            if point is not None:
                name = _line_name(cell.manifest.suite.series, column.name, len(columns))
                lines.setdefault(name, []).append(point)
    if not lines:
        return None
    if note.kind == "line":
        for points in lines.values():
            points.sort(key=lambda point: float(point.x))
    return Figure(
        note=note,
        lines=tuple((name, tuple(points)) for name, points in lines.items()),
        paper=paper.paper_words(note.paper) if note.paper else "",
    )


def _point(kind: str, cell: TableCell, suite: SuiteNote, label: str) -> Point | None:
    """None where a run has no number to stand at on the axis of a line figure."""
    x = suite.x
    if kind == "bars":
        return Point(label if x is None else str(x), cell.honest, cell.interval, cell.queries)
    if isinstance(x, int | float):
        return Point(float(x), cell.honest, cell.interval, cell.queries)
    return None


def _line_name(series: str, column: str, columns: int) -> str:
    if not series:
        return column
    return series if columns == 1 else f"{series}, {column}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How it is tested, as `beir_eval.measures.significance` takes it."""

    test: str
    correction: str
    level: float
    seed: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """By data set and label.

    Attributes:
        intervals: of the values.
        comparisons: with the baseline's; none for the baseline itself, and where it is missing.
        differences: intervals of the differences of `comparisons`.
    """

    intervals: Mapping[tuple[str, str], Interval]
    comparisons: Mapping[tuple[str, str], Comparison]
    differences: Mapping[tuple[str, str], Interval]


def _statistics(values: Values, baseline: str, settings: Settings) -> Statistics:
    """Intervals of all values, and comparisons with the baseline as one family.

    Measures of a report lie within 0 and 1, and so do the intervals.

    Raises:
        SettingError: one of the settings is unknown or out of its range.
        ExtraMissing: the test needs a package that is not installed.
    """
    compared = compare_runs(
        values,
        baseline,
        test=settings.test,
        correction=settings.correction,
        seed=settings.seed,
    )
    intervals: dict[tuple[str, str], Interval] = {}
    differences: dict[tuple[str, str], Interval] = {}
    for data, runs in values.items():
        of_values = confidence_intervals(runs, level=settings.level, low=0.0, high=1.0)
        of_differences = confidence_intervals(
            {
                label: {
                    query_id: value - runs[baseline][query_id]
                    for query_id, value in runs[label].items()
                }
                for label in compared[data]
            },
            level=settings.level,
            low=-1.0,
            high=1.0,
        )
        intervals |= {(data, label): found for label, found in of_values.items()}
        differences |= {(data, label): found for label, found in of_differences.items()}
    return Statistics(
        intervals=intervals,
        comparisons={
            (data, label): comparison
            for data, by_label in compared.items()
            for label, comparison in by_label.items()
        },
        differences=differences,
    )


class Shelf:
    """Metrics of run folders, all with one measure.

    What folders of former versions lack, the measure or its ties drawn by lot, is computed from
    their rankings where they are there.

    Args:
        measure: as ir-measures writes it; upper and lower case make no difference where the
            folders have it.
        provider_prices: as `build_report` has it.
    """

    def __init__(self, measure: str, *, provider_prices: bool = False) -> None:
        self.measure = measure
        self._provider_prices = provider_prices
        self._kept: dict[Path, Metrics] = {}
        self._qrels: dict[str, Mapping[str, Mapping[str, int]]] = {}

    def of_first_stage(self, data: DataFolder) -> Metrics:
        """Metrics of the first stage's run.

        Raises:
            RunFolderError, RunError: a file cannot be read.
            MeasureError: the measure is unknown, or has values outside 0 to 1.
        """
        if data.path not in self._kept:
            metrics = self._with_measure(data.metrics(), data.path, data, data.first_stage)

            def tied() -> dict[str, Tied]:
                run = data.first_stage()
                return {each: Tied.of_scores(with_ties(found)) for each, found in run.items()}

            trec = data.path / "first_stage.trec"
            self._kept[data.path] = self._with_ties(metrics, data, trec, tied)
        return self._kept[data.path]

    def of_run(self, run: RunFolder, data: DataFolder) -> Metrics:
        """Metrics of a finished run, over the same queries as those of its first stage.

        Raises:
            RunFolderError: they are of other queries, or a file cannot be read.
            RunError: the run cannot be read.
            MeasureError: the measure is unknown, or has values outside 0 to 1.
        """
        if run.path not in self._kept:
            metrics = self._with_measure(run.metrics(), run.path, data, run.run)
            if metrics.taken and other_server(run.manifest) and not self._provider_prices:
                taken = metrics.taken.model_copy(update={"cost": None})
                metrics = metrics.model_copy(update={"taken": taken})

            def tied() -> dict[str, Tied]:
                return _tied(run, data)

            self._kept[run.path] = self._with_ties(metrics, data, run.path / RANKINGS, tied)
        metrics, first_stage = self._kept[run.path], self.of_first_stage(data)
        ours, theirs = (each.per_query[self.measure] for each in (metrics, first_stage))
        if ours.keys() != theirs.keys():
            odd = min(ours.keys() ^ theirs.keys())
            raise RunFolderError(
                f"{run.path}: its metrics and those of its first stage are of different queries, "
                f"e.g. {odd!r} is in one only; run the same 'beir-eval run' again"
            )
        return metrics

    def _with_measure(
        self, metrics: Metrics, path: Path, data: DataFolder, run: Callable[[], Run]
    ) -> Metrics:
        measure = self.measure
        if measure not in metrics.means or measure not in metrics.per_query:
            metrics = _added(metrics, measure, run(), self._qrels_of(data))
        values = metrics.per_query[measure].values()
        if not all(0 <= value <= 1 for value in (*values, metrics.means[measure])):
            raise MeasureError(
                f"{path}: measure {measure!r} has values outside 0 to 1; a report takes measures "
                "such as 'nDCG@10', 'R@100' or 'AP'"
            )
        return metrics

    def _with_ties(
        self, metrics: Metrics, data: DataFolder, file: Path, tied: Callable[[], dict[str, Tied]]
    ) -> Metrics:
        """With ties drawn by lot, if `file` is there from which `tied` reads what was ranked."""
        known = metrics.ties.get(self.measure)
        if (known is not None and known.by_lot is not None) or not file.exists():
            return metrics
        found = tie_figures(tied(), self._qrels_of(data), (self.measure,))
        by_lot = {name: dict(values) for name, values in found.by_lot.items()}
        return metrics.model_copy(
            update={
                "ties": {**metrics.ties, **found.bounds},
                "by_lot": {**metrics.by_lot, **by_lot},
            }
        )

    def _qrels_of(self, data: DataFolder) -> Mapping[str, Mapping[str, int]]:
        content = data.manifest.content
        if content not in self._qrels:
            self._qrels[content] = data.qrels()
        return self._qrels[content]


def _tied(run: RunFolder, data: DataFolder) -> dict[str, Tied]:
    texts: Mapping[str, tuple[str, str]] | None = None
    found = {}
    for ranking in run.rankings():
        if texts is None and Rule.of(ranking.config).keeps_order:
            texts = data.passages()
        found[ranking.query.id] = Tied.of_ranking(ranking, texts)
    return found


def _added(
    metrics: Metrics, measure: str, run: Run, qrels: Mapping[str, Mapping[str, int]]
) -> Metrics:
    from beir_eval.measures.metrics import evaluate

    found = evaluate(run, qrels, (measure,))
    return metrics.model_copy(
        update={
            "measures": (*metrics.measures, measure),
            "means": {**metrics.means, **found.means},
            "per_query": {**metrics.per_query, measure: dict(found.per_query[measure])},
        }
    )


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where the runs of a section stand.

    Attributes:
        name: of the suite; ``"runs"`` without one.
        suite: note of its first run; None without a suite.
        data: content -> what was ranked, in the order of the columns.
        labels: of the rows, the first stage's first; empty where no run is finished.
        runs: the finished runs.
        unfinished: (data set, label) of the others.
        never_run: labels of the suite's other rankers.
    """

    name: str
    suite: SuiteNote | None
    data: Mapping[str, DataFolder]
    labels: tuple[str, ...]
    runs: Mapping[Slot, RunFolder]
    unfinished: tuple[tuple[str, str], ...]
    never_run: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Heading of the section."""
        return self.suite.title if self.suite else NO_SUITE_TITLE

    def columns(self) -> tuple[Column, ...]:
        """A column for each of `data`, in its order."""
        manifests = [folder.manifest for folder in self.data.values()]
        queries = [paper.paper_queries(each.paper) if each.paper else None for each in manifests]
        return tuple(
            Column(name, data, count, conditions(data, count))
            for name, data, count in zip(column_names(manifests), manifests, queries, strict=True)
        )

    def shown(self, label: str) -> str:
        """A row's label in tables: of the first stage its own name, if all data sets have one."""
        names = {folder.manifest.first_stage.name for folder in self.data.values()}
        if label != FIRST_STAGE or len(names) != 1 or names & set(self.labels):
            return label
        return names.pop()

    def baseline(self, asked: str | None) -> str:
        """The row that the others are compared with: the one asked for, the suite's, or first."""
        named = {self.shown(label): label for label in self.labels}
        for wanted in (asked, self.suite.baseline if self.suite else None):
            if wanted is not None and self.has(wanted):
                return named.get(wanted, wanted)
        return FIRST_STAGE

    def has(self, label: str) -> bool:
        """Whether a row is called so, here or in tables."""
        return label in self.labels or label in [self.shown(each) for each in self.labels]

    def paper_value(self, place: Slot) -> float | None:
        """The paper's nDCG@10 for that place, 0 to 1; None if it has none.

        Raises:
            SuiteError: the suite names a table that the paper has not.
        """
        content, label = place
        data = self.data[content].manifest
        if label == FIRST_STAGE:
            suite = self.suite
            # Another first stage than the paper's is not to be mistaken for it.
            row = paper.FIRST_STAGE_ROW if paper.FIRST_STAGE_ROW in data.first_stage.name else None
        else:
            suite = self.runs[place].manifest.suite
            row = suite.paper_row if suite else None
        if suite is None or suite.paper_table is None or row is None or data.paper is None:
            return None
        return paper.paper_value(suite.paper_table, row, data.paper)


def arrange(runs: Sequence[RunFolder]) -> list[Arrangement]:
    """Sections by suite in the natural order of the names, runs without a suite last.

    Raises:
        RunFolderError: a run and its data do not belong together, or cannot be read.
    """
    groups: dict[str, list[RunFolder]] = {}
    for run in sorted(runs, key=_row_order):
        groups.setdefault(run.manifest.suite.name if run.manifest.suite else NO_SUITE, []).append(
            run
        )
    names = sorted(groups, key=lambda name: (name == NO_SUITE, natural(name)))
    return [_arranged(name, groups[name]) for name in names]


def _arranged(name: str, members: Sequence[RunFolder]) -> Arrangement:
    data = [run.data() for run in members]
    finished: dict[Slot, RunFolder] = {}
    folders: dict[str, DataFolder] = {}
    unfinished = []
    for label, run, folder in zip(row_labels(members), members, data, strict=True):
        if run.manifest.finished:
            finished[folder.manifest.content, label] = run
            folders.setdefault(folder.manifest.content, folder)
        else:
            unfinished.append((folder.manifest.dataset, label))
    labels = dict.fromkeys(label for _, label in finished)
    return Arrangement(
        name=name,
        suite=members[0].manifest.suite,
        data=dict(sorted(folders.items(), key=lambda item: _column_order(item[1]))),
        labels=(FIRST_STAGE, *labels) if labels else (),
        runs=finished,
        unfinished=tuple(unfinished),
        never_run=_never_run(members),
    )


def _never_run(members: Sequence[RunFolder]) -> tuple[str, ...]:
    suite = members[0].manifest.suite
    begun = {run.manifest.label for run in members}
    return tuple(label for label in (suite.rankers if suite else ()) if label not in begun)


def _row_order(run: RunFolder) -> tuple[object, ...]:
    place = run.manifest.suite.place if run.manifest.suite else 0
    return (place, natural(run.manifest.label), run.path.resolve().parts)


def _column_order(folder: DataFolder) -> tuple[object, ...]:
    data, known = folder.manifest, paper.DATASETS
    place = known.index(data.paper) if data.paper in known else len(known)
    return (place, natural(data.dataset), data.queries, data.depth, data.split, data.content)
