"""From run folders to a report: the numbers of every place in its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from beir_eval.errors import SettingError
from beir_eval.experiment.labels import natural
from beir_eval.experiment.run_folder import (
    FIRST_STAGE,
    Metrics,
    RunFolder,
    RunManifest,
    SuiteNote,
)
from beir_eval.measures import paper
from beir_eval.measures.across import Pooled, pooled
from beir_eval.measures.significance import (
    MARGIN,
    Comparison,
    adjust,
    better_than,
    compare_runs,
    confidence_intervals,
)
from beir_eval.report.arrangement import Arrangement, Slot, arrange, with_foreign
from beir_eval.report.model import Column, Figure, Point, Report, Row, Section, TableCell
from beir_eval.report.notes import (
    bounded_at,
    flaws_of,
    measured_to,
    missing_share,
    model_names,
    notes,
)
from beir_eval.report.numbers import TIES_SIGN, mark
from beir_eval.report.shelf import Measured, Shelf, by_lot
from personas.words import counted

MEASURE = "nDCG@10"
"""What the paper's numbers are of; heads a report on runs of which none is finished."""
EQUAL = 1e-12
"""Values that differ by no more share a rank."""


def build_report(
    runs: Sequence[RunFolder],
    *,
    measure: str | None = None,
    baseline: str | None = None,
    correction: str = "holm",
    level: float = 0.95,
    margin: float = MARGIN,
    provider_prices: bool = False,
    foreign: Mapping[str, str] | None = None,
) -> Report:
    """What the runs came to, in sections by suite; the order of `runs` makes no difference.

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
        margin: of the tests of equivalence, see `beir_eval.measures.significance.Comparison`.
        provider_prices: price answers of other servers (``base_url``) like the provider's own of
            that model; without, their cost is not known.
        foreign: label -> path of a TREC run of another program, which gets a row in every section
            that has its queries; ``{dataset}`` in the path is the name of each data set.

    Raises:
        RunFolderError: a folder is damaged, or its run and its data do not belong together.
        RunError: a TREC run is needed for `measure` and cannot be read; a foreign run cannot be
            read, or has no query of any data set.
        SettingError: a foreign run's label is taken; no run has the label `baseline`, or
            another option is out of its range.
        MeasureError: `measure` is unknown, or has values outside 0 to 1.
        SuiteError: a suite names a table or a figure that the paper has not.
        ExtraMissing: a test, or `measure`, needs a package that is not installed.
    """
    settings = Settings(correction, level, margin)
    arrangements = with_foreign(arrange(runs), foreign or {})
    _check_baseline(baseline, arrangements)
    shelf = Shelf(_measure(measure, arrangements), provider_prices=provider_prices)
    return Report(
        measure=shelf.measure,
        sections=tuple(
            _section(each, each.baseline(baseline), shelf, settings) for each in arrangements
        ),
        correction=correction,
        level=level,
        margin=margin,
    )


def _section(plan: Arrangement, baseline: str, shelf: Shelf, settings: Settings) -> Section:
    columns = plan.columns()
    cells = _cells(plan, baseline, shelf, settings)
    rows = _rows(plan, baseline, columns, cells)
    rows = _with_pooled(rows, plan, baseline, shelf.measure, settings)
    if rows:
        rows += _not_run(plan, with_paper=_is_papers(shelf.measure))
    measured = measured_to(shelf.measure, [column.data.depth for column in columns])
    has_paper = any(row.paper(place) is not None for row in rows for place in range(len(columns)))
    return Section(
        name=plan.name,
        title=plan.title,
        columns=columns,
        rows=rows,
        baseline=plan.shown(baseline),
        figure=_figure(plan.suite, columns, rows),
        unfinished=plan.unfinished,
        paper_source=paper.paper_source() if has_paper else "",
        notes=(*notes(columns, rows, plan.shown(baseline)), *_absent(plan)),
        changed=_changed(plan, columns),
        measured=measured,
    )


def _changed(plan: Arrangement, columns: Sequence[Column]) -> tuple[str, ...]:
    """Runs and data whose files are not as they were written."""
    names = {content: column.name for content, column in zip(plan.data, columns, strict=True)}
    changed = {f"data of {names[content]}": each.changed() for content, each in plan.data.items()}
    for (content, label), run in plan.runs.items():
        changed[f"{label} on {names[content]}"] = run.changed()
    return tuple(f"{what} ({', '.join(files)})" for what, files in changed.items() if files)


def _absent(plan: Arrangement) -> list[str]:
    said = []
    if plan.never_run:
        said.append(f"Rankers of the suite that were not run: {', '.join(plan.never_run)}.")
    if unverified := sum(not run.manifest.files for run in plan.runs.values()):
        said.append(
            f"{counted(unverified, 'run')} of a version that kept no SHA-256 of its files: not "
            "verified."
        )
    return said


def _not_run(plan: Arrangement, *, with_paper: bool) -> tuple[Row, ...]:
    made = []
    for label, numbers in plan.not_run():
        if label not in plan.never_run and not with_paper:
            continue
        papers = numbers if with_paper else (None,) * len(numbers)
        nothing = (None,) * len(numbers)
        made.append(Row(label, False, "", "", None, None, _mean(papers), nothing, not_run=papers))
    return tuple(made)


def _is_papers(measure: str) -> bool:
    return measure.lower() == MEASURE.lower()


def _cells(
    plan: Arrangement, baseline: str, shelf: Shelf, settings: Settings
) -> dict[Slot, TableCell]:
    measured = _measured(plan, shelf)
    measure = shelf.measure
    by_column: dict[str, dict[str, Metrics]] = {content: {} for content in plan.data}
    for (content, label), each in measured.items():
        by_column[content][label] = each.metrics
    flaws = {
        place: flaws_of(each.metrics, plan.manifest(place), measure)
        for place, each in measured.items()
    }
    sound = {
        content: {label: each for label, each in column.items() if not flaws[content, label]}
        for content, column in by_column.items()
    }
    ranks = {
        content: _ranks({label: _honest_mean(each, measure) for label, each in column.items()})
        for content, column in sound.items()
    }
    values = _values(by_column, measure)
    # Measures of a report lie within 0 and 1, and so do the intervals.
    intervals = {
        content: confidence_intervals(column, level=settings.level, low=0.0, high=1.0)
        for content, column in values.items()
    }
    compared = compare_runs(
        values,
        baseline,
        correction=settings.correction,
        margin=settings.margin,
        level=settings.level,
        farthest=1.0,
    )
    beaten = better_than(_values(sound, measure), correction=settings.correction)
    return {
        place: TableCell(
            value=each.metrics.means[measure],
            paper=plan.paper_value(place) if _is_papers(measure) else None,
            rank=ranks[place[0]].get(place[1], 0),
            interval=intervals[place[0]][place[1]],
            comparison=compared[place[0]].get(place[1]),
            metrics=each.metrics,
            manifest=plan.manifest(place),
            by_lot=bounds.by_lot if (bounds := each.metrics.ties.get(measure)) else None,
            missing=missing_share(each.metrics),
            signs=_signs(
                each.metrics,
                by_column[place[0]].get(baseline),
                compared[place[0]].get(place[1]),
                measure,
                flaws=(flaws[place], flaws.get((place[0], baseline), "")),
            ),
            beats=tuple(plan.shown(label) for label in beaten[place[0]].get(place[1], ())),
            judged=each.metrics.means.get(shelf.companions.judged),
            condensed=_condensed(each.metrics, plan.manifest(place), shelf),
            ceiling=each.ceiling,
            overlap=each.overlap,
        )
        for place, each in measured.items()
    }


def _values(
    columns: Mapping[str, Mapping[str, Metrics]], measure: str
) -> dict[str, dict[str, dict[str, float]]]:
    return {
        content: {label: by_lot(each, measure) for label, each in column.items()}
        for content, column in columns.items()
    }


def _honest_mean(metrics: Metrics, measure: str) -> float:
    bounds = metrics.ties.get(measure)
    return metrics.means[measure] if bounds is None or bounds.by_lot is None else bounds.by_lot


def _condensed(metrics: Metrics, manifest: RunManifest | None, shelf: Shelf) -> float | None:
    """None as well where ranks below ``top_k`` would move up."""
    name = shelf.companions.condensed
    if name is None or name not in metrics.means or bounded_at(metrics, manifest) is not None:
        return None
    return _honest_mean(metrics, name)


def _signs(
    metrics: Metrics,
    base: Metrics | None,
    comparison: Comparison | None,
    measure: str,
    *,
    flaws: tuple[str, str],
) -> str:
    """What stands beside a value: significance, what it owes to ties, and its flaws.

    Args:
        metrics: of the run.
        base: of the baseline.
        comparison: of both.
        measure: that is compared.
        flaws: of the run and of the baseline; what has any is no finding.
    """
    signs = flaws[0]
    if base is None or comparison is None:
        return signs
    ranked = metrics.means[measure] - base.means[measure]
    if ranked > EQUAL and comparison.difference < ranked / 2:
        signs = TIES_SIGN + signs
    return signs if any(flaws) else mark(comparison.p_adjusted) + signs


def _measured(plan: Arrangement, shelf: Shelf) -> dict[Slot, Measured]:
    """Every column's first stage, then all runs."""
    found = {
        (content, FIRST_STAGE): shelf.of_first_stage(data) for content, data in plan.data.items()
    }
    for place, run in plan.runs.items():
        found[place] = shelf.of_run(run, plan.data[place[0]])
    for place, added in plan.added.items():
        found[place] = shelf.of_foreign(added, plan.data[place[0]])
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
                weak_judge=max(
                    (run.weak_judge for (_, each), run in plan.runs.items() if each == label),
                    default="",
                ),
                models=model_names(manifests),
                foreign=any(manifest.foreign for manifest in manifests.values()),
            )
        )
    return tuple(made)


def _with_pooled(
    rows: Sequence[Row], plan: Arrangement, baseline: str, measure: str, settings: Settings
) -> tuple[Row, ...]:
    """The rows with their differences over all data sets, corrected for all of them."""
    names = [data.manifest.dataset for data in plan.data.values()]
    base = next((row for row in rows if row.is_baseline), None)
    if base is None or len(set(names)) < len(names):
        return tuple(rows)
    found: dict[str, Pooled] = {}
    for row in rows:
        pairs = [
            (by_lot(cell.metrics, measure), by_lot(theirs.metrics, measure))
            for cell, theirs in zip(row.cells, base.cells, strict=True)
            if cell and theirs and cell.sound and theirs.sound
        ]
        over = pooled(
            [{each: ours[each] - theirs[each] for each in ours} for ours, theirs in pairs],
            level=settings.level,
        )
        if over and row is not base:
            found[row.label] = over
    corrected = adjust([each.p_value for each in found.values()], settings.correction)
    found = {
        label: replace(each, p_adjusted=p_value)
        for (label, each), p_value in zip(found.items(), corrected, strict=True)
    }
    return tuple(replace(row, pooled=found.get(row.label)) for row in rows)


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

    correction: str
    level: float
    margin: float
