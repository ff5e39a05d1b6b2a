"""From run folders to a report: the numbers of every place in its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from beir_eval.errors import SettingError
from beir_eval.experiment.labels import natural
from beir_eval.experiment.run_folder import FIRST_STAGE, Metrics, RunFolder
from beir_eval.measures import paper
from beir_eval.measures.significance import usual_correction
from beir_eval.report.arrangement import Arrangement, Place, arrange
from beir_eval.report.figure import build_figure
from beir_eval.report.model import Cell, Column, Report, Row, Section
from beir_eval.report.notes import model_names, notes
from beir_eval.report.shelf import Shelf
from beir_eval.report.statistics import Settings, statistics

__all__ = ["build_report"]

MEASURE = "nDCG@10"
"""What the paper's numbers are of; heads a report on runs of which none is finished."""
EQUAL = 1e-12
"""Values that differ by no more share a rank."""


def build_report(
    runs: Sequence[RunFolder],
    *,
    measure: str | None = None,
    baseline: str | None = None,
    test: str = "student",
    correction: str | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
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
        level: of the bootstrap intervals, above 0 and below 1.
        resamples: of the bootstrap, 1 or more.
        seed: of the bootstrap and of tests by chance, 0 or more.

    Raises:
        RunFolderError: a folder is damaged, or its run and its data do not belong together.
        RunError: a TREC run is needed for `measure` and cannot be read.
        SettingError: no run has the label `baseline`, or another option is out of its range.
        MeasureError: `measure` is unknown, or has values outside 0 to 1.
        SuiteError: a suite names a table or a figure that the paper has not.
        ExtraMissing: the test, or `measure`, needs a package that is not installed.
    """
    settings = Settings(test, correction or usual_correction(test), level, resamples, seed)
    arrangements = arrange(runs)
    _check_baseline(baseline, arrangements)
    shelf = Shelf(_measure(measure, arrangements))
    return Report(
        measure=shelf.measure,
        sections=tuple(
            _section(each, each.baseline(baseline), shelf, settings) for each in arrangements
        ),
        test=settings.test,
        correction=settings.correction,
        level=level,
        resamples=resamples,
        seed=seed,
    )


def _section(plan: Arrangement, baseline: str, shelf: Shelf, settings: Settings) -> Section:
    columns = plan.columns()
    cells = _cells(plan, baseline, shelf, settings)
    rows = _rows(plan, baseline, columns, cells)
    has_paper = any(cell.paper is not None for cell in cells.values())
    return Section(
        name=plan.name,
        title=plan.title,
        columns=columns,
        rows=rows,
        baseline=plan.shown(baseline),
        figure=build_figure(plan.suite, columns, rows),
        unfinished=plan.unfinished,
        paper_source=paper.paper_source() if has_paper else "",
        notes=notes(columns, rows, plan.unfinished),
    )


def _cells(plan: Arrangement, baseline: str, shelf: Shelf, settings: Settings) -> dict[Place, Cell]:
    metrics = _metrics(plan, shelf)
    by_column: dict[str, dict[str, Metrics]] = {content: {} for content in plan.data}
    for (content, label), each in metrics.items():
        by_column[content][label] = each
    ranks = {
        content: _ranks({label: each.means[shelf.measure] for label, each in column.items()})
        for content, column in by_column.items()
    }
    found = statistics(
        {
            content: {label: each.per_query[shelf.measure] for label, each in column.items()}
            for content, column in by_column.items()
        },
        baseline,
        settings,
    )
    is_papers_measure = shelf.measure.lower() == MEASURE.lower()
    return {
        place: Cell(
            value=each.means[shelf.measure],
            paper=plan.paper_value(place) if is_papers_measure else None,
            rank=ranks[place[0]][place[1]],
            interval=found.intervals[place],
            comparison=found.comparisons.get(place),
            metrics=each,
            manifest=plan.runs[place].manifest if place in plan.runs else None,
            difference=found.differences.get(place),
        )
        for place, each in metrics.items()
    }


def _metrics(plan: Arrangement, shelf: Shelf) -> dict[Place, Metrics]:
    """Every column's first stage, then all runs."""
    found = {
        (content, FIRST_STAGE): shelf.of_first_stage(data) for content, data in plan.data.items()
    }
    for place, run in plan.runs.items():
        found[place] = shelf.of_run(run, plan.data[place[0]])
    return found


def _rows(
    plan: Arrangement, baseline: str, columns: Sequence[Column], cells: Mapping[Place, Cell]
) -> tuple[Row, ...]:
    rows = {
        label: tuple(cells.get((content, label)) for content in plan.data) for label in plan.labels
    }
    averages = {
        label: _mean([cell.value if cell else None for cell in row]) for label, row in rows.items()
    }
    ranks = _ranks({label: value for label, value in averages.items() if value is not None})
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
                average=averages[label],
                paper_average=_mean([cell.paper if cell else None for cell in row]),
                rank=ranks.get(label, 0),
                is_baseline=label == baseline,
                weak=any(manifest.weak for manifest in manifests.values()),
                models=model_names(manifests),
            )
        )
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
