"""From run folders to a report: the numbers of every place in its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from beir_eval.errors import SettingError
from beir_eval.experiment.labels import natural
from beir_eval.experiment.run_folder import FIRST_STAGE, Metrics, RunFolder, SuiteNote
from beir_eval.measures import paper
from beir_eval.measures.significance import compare_runs, confidence_intervals
from beir_eval.report.arrangement import NO_SUITE_TITLE, Arrangement, Slot, arrange
from beir_eval.report.metrics_cache import Measured, MetricsCache, by_lot
from beir_eval.report.model import Column, Figure, Point, Report, Row, Section, TableCell
from beir_eval.report.numbers import TIES_SIGN, mark
from beir_eval.report.warnings import (
    flaw_of,
    measured_to,
    missing_share,
    model_names,
    notes,
)

MEASURE = "nDCG@10"
"""The measure of the paper's numbers, and of a report without any finished run."""
EQUAL = 1e-12
"""Values that differ by no more share a rank."""


def build_report(
    runs: Sequence[RunFolder],
    *,
    measure: str | None = None,
    baseline: str | None = None,
    correction: str = "holm",
    level: float = 0.95,
    provider_prices: bool = False,
) -> Report:
    """Measure and compare the runs, in sections by suite; the order of `runs` makes no difference.

    Args:
        runs: of any suites, data sets and folders; unfinished ones are listed, not counted.
        measure: whose values the tables show, as ir-measures writes it; computed from the TREC
            runs where the folders do not have it. None for the first measure of the first run.
        baseline: label of the run that the others are compared with, or of the first stage
            (``"first stage"``, ``"BM25"``), in all sections that have it. The other sections, and
            None, take the suite's, else the first stage.
        correction: of the p-values, over all comparisons of a section: one of
            `beir_eval.measures.significance.CORRECTIONS`.
        level: of the confidence intervals, above 0 and below 1.
        provider_prices: price answers of other servers (``base_url``) like the provider's own of
            that model; without, their cost is not known.

    Raises:
        RunFolderError: a folder is damaged, or its run and its data do not belong together.
        RunError: a TREC run is needed for `measure` and cannot be read.
        SettingError: no run has the label `baseline`, or another option is out of its range.
        MeasureError: `measure` is unknown, or has values outside 0 to 1.
        SuiteError: a suite names a table or a figure that the paper has not.
        ExtraMissing: a test, or `measure`, needs a package that is not installed.
    """
    plans = arrange(runs)
    if baseline is not None and not any(plan.row(baseline) for plan in plans):
        known = {plan.shown(label) for plan in plans for label in plan.labels}
        labels = ", ".join(map(repr, sorted(known, key=natural))) or "no finished run at all"
        raise SettingError(
            f"baseline={baseline!r} is no label of a finished run; there is {labels}"
        )
    first = next((run for plan in plans for run in plan.runs.values()), None)
    measures = first.metrics().measures if first else (MEASURE,)
    wanted = (measure or measures[0]).lower()
    cache = MetricsCache(
        next((each for each in measures if each.lower() == wanted), measure or measures[0]),
        provider_prices=provider_prices,
    )
    report = Report(cache.measure, correction, level, ())
    sections = tuple(_section(plan, plan.baseline(baseline), cache, report) for plan in plans)
    return replace(report, sections=sections)


def _section(plan: Arrangement, baseline: str, cache: MetricsCache, report: Report) -> Section:
    columns = plan.columns()
    cells = _cells(plan, baseline, cache, report)
    rows = [_row(plan, label, label == baseline, columns, cells) for label in plan.labels]
    with_paper = report.measure.lower() == MEASURE.lower()
    for label, numbers in plan.not_run() if rows else ():
        if label in plan.never_run or with_paper:
            nothing = (None,) * len(numbers)
            papers = numbers if with_paper else nothing
            rows.append(
                Row(label, False, "", "", None, None, _mean(papers), nothing, not_run=papers)
            )
    names = {content: column.name for content, column in zip(plan.data, columns, strict=True)}
    changed = {f"data of {names[content]}": each.changed() for content, each in plan.data.items()}
    for (content, label), run in plan.runs.items():
        changed[f"{label} on {names[content]}"] = run.changed()
    section = Section(
        name=plan.name,
        title=plan.suite.title if plan.suite else NO_SUITE_TITLE,
        columns=columns,
        rows=tuple(rows),
        baseline=plan.shown(baseline),
        figure=_figure(plan.suite, columns, rows),
        unfinished=plan.unfinished,
        paper_source="",
        changed=tuple(f"{what} ({', '.join(files)})" for what, files in changed.items() if files),
        measured=measured_to(report.measure, [column.data.depth for column in columns]),
    )
    said = list(notes(section))
    if plan.never_run:
        said.append(f"Rankers of the suite that were not run: {', '.join(plan.never_run)}.")
    source = paper.paper_source() if section.has_paper else ""
    return replace(section, notes=tuple(said), paper_source=source)


def _cells(
    plan: Arrangement, baseline: str, cache: MetricsCache, report: Report
) -> dict[Slot, TableCell]:
    measure = report.measure
    measured: dict[Slot, Measured] = {
        **{(each, FIRST_STAGE): cache.of_first_stage(data) for each, data in plan.data.items()},
        **{place: cache.of_run(run, plan.data[place[0]]) for place, run in plan.runs.items()},
    }
    flaws = {place: flaw_of(each.metrics) for place, each in measured.items()}
    values: dict[str, dict[str, dict[str, float]]] = {content: {} for content in plan.data}
    for (content, label), each in measured.items():
        values[content][label] = by_lot(each.metrics, measure)
    sound = {
        content: {label: each for label, each in column.items() if not flaws[content, label]}
        for content, column in values.items()
    }
    ranks = {
        content: _ranks(
            {label: _honest_mean(measured[content, label].metrics, measure) for label in column}
        )
        for content, column in sound.items()
    }
    # Measures of a report lie within 0 and 1, and so do the intervals.
    intervals = {
        content: confidence_intervals(column, level=report.level, low=0.0, high=1.0)
        for content, column in values.items()
    }
    compared = compare_runs(
        values,
        baseline,
        correction=report.correction,
        level=report.level,
        farthest=1.0,
    )
    cells = {}
    for place, each in measured.items():
        content, label = place
        metrics, manifest, base = each.metrics, plan.manifest(place), (content, baseline)
        than, bounds, signs = compared[content].get(label), metrics.ties.get(measure), flaws[place]
        if than is not None and base in measured:
            gain = metrics.means[measure] - measured[base].metrics.means[measure]
            ties = TIES_SIGN if gain > EQUAL and than.difference < gain / 2 else ""
            # What has flaws, or is compared with such a baseline, is not significant.
            signs = ("" if signs or flaws[base] else mark(than.p_adjusted)) + ties + signs
        cells[place] = TableCell(
            value=metrics.means[measure],
            paper=plan.paper_value(place) if measure.lower() == MEASURE.lower() else None,
            rank=ranks[content].get(label, 0),
            interval=intervals[content][label],
            comparison=than,
            metrics=metrics,
            manifest=manifest,
            by_lot=bounds.by_lot if bounds else None,
            missing=missing_share(metrics),
            signs=signs,
            judged=metrics.means.get(cache.judged),
            ceiling=each.ceiling,
        )
    return cells


def _honest_mean(metrics: Metrics, measure: str) -> float:
    bounds = metrics.ties.get(measure)
    return metrics.means[measure] if bounds is None else bounds.by_lot


def _row(
    plan: Arrangement,
    label: str,
    is_baseline: bool,
    columns: Sequence[Column],
    cells: Mapping[Slot, TableCell],
) -> Row:
    row = tuple(cells.get((content, label)) for content in plan.data)
    manifests = {
        column.name: cell.manifest
        for column, cell in zip(columns, row, strict=True)
        if cell and cell.manifest
    }
    return Row(
        label=plan.shown(label),
        cells=row,
        average=_mean([cell.value if cell else None for cell in row]),
        average_by_lot=_mean([cell.honest if cell else None for cell in row]),
        paper_average=_mean([cell.paper if cell else None for cell in row]),
        is_baseline=is_baseline,
        weak_judge=max(
            (run.manifest.weak_judge for (_, each), run in plan.runs.items() if each == label),
            default="",
        ),
        models=model_names(manifests),
        foreign=any(manifest.foreign for manifest in manifests.values()),
    )


def _ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Return 1 for the best value, 2 for the second, equal ones alike; 0 for all others."""
    ranks = dict.fromkeys(values, 0)
    rank, last = 0, math.inf
    for label in sorted(values, key=lambda each: -values[each]) if len(values) > 1 else ():
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
    """Return the suite's figure; None if it has none, or nothing of it was run."""
    if suite is None or suite.figure is None:
        return None
    note = suite.figure
    lines: dict[str, list[Point]] = {}
    for place, column in enumerate(columns):
        for row in rows:
            cell = row.cells[place]
            if cell is None or cell.manifest is None or cell.manifest.suite is None:
                continue
            x, series = cell.manifest.suite.x, cell.manifest.suite.series
            at: float | str = row.label if x is None else str(x)
            if note.kind == "line":
                if not isinstance(x, int | float):
                    continue
                at = float(x)
            several = f"{series}, {column.name}" if len(columns) > 1 else series
            name = several if series else column.name
            point = Point(at, cell.honest, cell.interval, cell.queries)
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
