"""From run folders to a report: the numbers of every place in its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from beir_eval.errors import SettingError
from beir_eval.experiment.labels import natural
from beir_eval.experiment.run_folder import FIRST_STAGE, RunFolder, SuiteNote
from beir_eval.measures import paper
from beir_eval.measures.values import Comparison, Values, compare_runs
from beir_eval.report.arrangement import NO_SUITE_TITLE, Arrangement, Slot, arrange
from beir_eval.report.load import Loader, Measured
from beir_eval.report.model import Column, Figure, Point, Report, Row, Section, TableCell
from beir_eval.report.numbers import MISSING_SIGN, TIES_SIGN, mark
from beir_eval.report.warnings import measured_to, model_names, notes

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
            `beir_eval.measures.values.CORRECTIONS`.
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
    loader = Loader(
        next((each for each in measures if each.lower() == wanted), measure or measures[0]),
        provider_prices=provider_prices,
    )
    report = Report(loader.measure, correction, level, ())
    sections = tuple(_section(plan, plan.baseline(baseline), loader, report) for plan in plans)
    return replace(report, sections=sections)


def _section(plan: Arrangement, baseline: str, loader: Loader, report: Report) -> Section:
    columns = plan.columns()
    cells = _cells(plan, baseline, loader, report)
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
        measured=measured_to(report.measure, [each.manifest.depth for each in plan.data.values()]),
    )
    said = list(notes(section))
    if plan.never_run:
        said.append(f"Rankers of the suite that were not run: {', '.join(plan.never_run)}.")
    source = paper.paper_source() if section.has_paper else ""
    return replace(section, notes=tuple(said), paper_source=source)


def _cells(
    plan: Arrangement, baseline: str, loader: Loader, report: Report
) -> dict[Slot, TableCell]:
    measured: dict[Slot, Measured] = {
        **{(each, FIRST_STAGE): loader.of_first_stage(data) for each, data in plan.data.items()},
        **{place: loader.of_run(run, plan.data[place[0]]) for place, run in plan.runs.items()},
    }
    values: dict[str, dict[str, Values]] = {content: {} for content in plan.data}
    for (content, label), each in measured.items():
        values[content][label] = each.values
    compared = compare_runs(values, baseline, correction=report.correction, level=report.level)
    ranks = {content: ranked(column) for content, column in values.items()}
    with_paper = report.measure.lower() == MEASURE.lower()
    return {
        (content, label): TableCell(
            values=each.values,
            interval=each.values.interval(report.level),
            paper=plan.paper_value((content, label)) if with_paper else None,
            rank=ranks[content].get(label, 0),
            comparison=compared[content].get(label),
            metrics=each.metrics,
            manifest=plan.manifest((content, label)),
            signs=signs_of(
                each.values, values[content].get(baseline), compared[content].get(label)
            ),
            judged=each.metrics.means.get(loader.judged),
            ceiling=each.ceiling,
        )
        for (content, label), each in measured.items()
    }


def signs_of(values: Values, base: Values | None, than: Comparison | None) -> str:
    """The marks of a value: of a difference that is sure, of a lead by ties, of what is missing."""
    signs = mark(than.p_adjusted) if than and than.decision else ""
    if than and base and values.mean is not None and base.mean is not None:
        gain = values.mean - base.mean
        by_ties = bool(values.lots or base.lots) and than.difference < gain / 2
        signs += TIES_SIGN * (gain > EQUAL and by_ties)
    return signs + MISSING_SIGN * values.is_open


def ranked(column: Mapping[str, Values]) -> dict[str, int]:
    """Return 1 for the best value, 2 for the second, equal ones alike; 0 for all others.

    One whose place depends on what it lacks has none.
    """
    known = {label: each.by_lot for label, each in column.items() if each.by_lot is not None}
    sure = {label: mean for label, mean in known.items() if not column[label].is_open}
    for label in known.keys() - sure.keys():
        ends = [end for end in column[label].ends if end is not None]
        places = {_places({**sure, label: end})[label] for end in ends}
        if len(places) == 1 and 0 not in places:
            sure[label] = known[label]
    return {**dict.fromkeys(column, 0), **_places(sure)}


def _places(means: Mapping[str, float]) -> dict[str, int]:
    ranks = dict.fromkeys(means, 0)
    rank, last = 0, math.inf
    for label in sorted(means, key=lambda each: -means[each]) if len(means) > 1 else ():
        if last - means[label] > EQUAL:
            rank, last = rank + 1, means[label]
        if rank > 2:
            break
        ranks[label] = rank
    return ranks


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
