"""The page of a suite of pipelines: which is best, by how much, at what price, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beir_eval.answers.figures import THEIRS, Mark, Value, boxes, effects, read_runs, scatter
from beir_eval.answers.metrics import AnswerMetrics, grid_row, suite_cautions
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.pipeline_cell import read_answers_of, read_judgements
from beir_eval.experiment.run_folder import (
    ANSWERS,
    JUDGEMENTS,
    MANIFEST,
    METRICS,
    AnswersNote,
    FigureNote,
    RunManifest,
    SuiteNote,
)
from beir_eval.experiment.suite import others_runs
from beir_eval.files import read_form
from beir_eval.measures.anova import Anova, anova
from beir_eval.measures.values import Comparison, Values, compare_runs
from beir_eval.report.numbers import anova_cells
from beir_eval.report.warnings import some_of
from mcranker.rag.result import RAGResult
from personas.format import counted
from personas.report.page import NO_FOOTER, ReportFooter

WORST = 10  # questions that are shown with their answers
MOST_DOTS = 24  # pipelines above which there is no figure


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline of a report: what answered, its sums, and the folder of its answers."""

    manifest: RunManifest
    suite: SuiteNote
    judged: AnswersNote
    metrics: AnswerMetrics
    folder: Path

    @property
    def label(self) -> str:
        """Its name."""
        return self.manifest.label

    def value(self, judge: str) -> Value | None:
        """Its mean by a judge with the spreads; None without a value."""
        found = self.metrics.judges.get(judge)
        if found is None or found.mean is None:
            return None
        return Value(found.mean, found.run_spread, found.interval(judge))


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """Pipelines of a suite, compared."""

    suite: SuiteNote
    judges: AnswersNote
    rows: tuple[PipelineRow, ...]
    means: Mapping[str, float]
    best: PipelineRow | None
    compared: Mapping[str, Comparison]
    analysis: Anova | str
    worst: tuple[tuple[RAGResult, str], ...]
    unfinished: tuple[str, ...]


def is_answer_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether the folder holds answers of pipelines."""
    return any(Path(path).glob(f"*/run-1/{ANSWERS}"))


def build_answer_report(folder: str | os.PathLike[str]) -> AnswerReport:
    """Read the run folders of a suite of pipelines and compare them."""
    rows, unfinished = [], []
    for path in sorted(Path(folder).glob(f"*/{MANIFEST}")):
        manifest = read_form(path, RunManifest)
        if manifest.answers is None or manifest.suite is None:
            raise RunFolderError(f"{path.parent}: holds no answers of a pipeline")
        if not (path.parent / METRICS).exists():
            unfinished.append(manifest.label)
            continue
        metrics = read_form(path.parent / METRICS, AnswerMetrics)
        notes = manifest.suite, manifest.answers
        rows.append(PipelineRow(manifest, *notes, metrics, path.parent))
    if not rows:
        raise RunFolderError(f"{os.fspath(folder)}: holds no finished pipeline")
    rows.sort(key=lambda row: row.suite.place)
    suite, judges = rows[0].suite, rows[0].judged
    judge = judges.judges[0]
    means = {row.label: found.mean for row in rows if (found := row.value(judge))}
    valued = [row for row in rows if row.label in means]
    best = max(valued, key=lambda row: means[row.label], default=None)
    return AnswerReport(
        suite=suite,
        judges=judges,
        rows=tuple(rows),
        means=means,
        best=best,
        compared={} if best is None else dict(_compared(best, valued, judge)),
        analysis=_analysed(rows, suite.formula),
        worst=() if best is None else tuple(_worst(best, judge)),
        unfinished=tuple(unfinished),
    )


def render_answer_report(
    report: AnswerReport,
    *,
    footer: ReportFooter = NO_FOOTER,
    pages: Mapping[str, str] | None = None,
) -> str:
    """Return the report as one HTML page. The same report gives the same page."""
    from beir_eval.report.html import rendered

    return rendered(
        "answers.html",
        report=report,
        verdict=[*_verdict(report)],
        figures=[*_figures(report)],
        effects=effects(report.analysis) if isinstance(report.analysis, Anova) else "",
        head=report.judges.judges[0],
        cells=anova_cells,
        pages=pages or {},
        footer=footer,
    )


def _compared(
    best: PipelineRow, rows: Sequence[PipelineRow], judge: str
) -> Iterator[tuple[str, Comparison]]:
    ours = best.metrics.judges[judge].as_values(judge)
    pairs: dict[str, dict[str, Values]] = {}
    for row in rows:
        theirs = row.metrics.judges[judge].as_values(judge)
        if row is not best and ours.of.keys() & theirs.of.keys():
            pairs[row.label] = {"": theirs, best.label: ours}
    for label, found in compare_runs(pairs, "").items():
        yield label, found[best.label]


def _analysed(rows: Sequence[PipelineRow], formula: str) -> Anova | str:
    points = [grid_row(each.suite.point, each.metrics) for each in rows if each.suite.point]
    try:
        return anova(points, formula) if formula and points else ""
    except SettingError as refused:  # a part of the grid, or no variance
        return f"No analysis of variance: {refused}."


def _worst(best: PipelineRow, judge: str) -> Iterator[tuple[RAGResult, str]]:
    path = best.folder / "run-1"
    answers = read_answers_of(path / ANSWERS)
    values = best.metrics.judges[judge].questions
    judged = read_judgements(path / JUDGEMENTS)
    for name in sorted(values, key=lambda each: (values[each], each))[:WORST]:
        if name in answers:
            found = judged.get(name, {}).get(judge)
            yield answers[name], found.notes if found else ""


def _verdict(report: AnswerReport) -> Iterator[tuple[str, str]]:
    """Kind and sentence of what a reader must know: the result, and what may mislead."""
    rows = report.rows
    apart = {
        "judges": [row.judged.judge for row in rows],
        "questions": [row.manifest.data for row in rows],
        "numbers of runs": [str(row.judged.runs) for row in rows],
    }
    for what, values in apart.items():
        if len({*values}) > 1:
            yield "bad", f"Pipelines have different {what}: run the suite again with one for all."
    if report.best is not None and report.compared:
        yield "note", f"{'. '.join(_who_is_best(report, report.best))}."
    for row in rows:
        if row.metrics.failed:
            lost = counted(len(row.metrics.failed), "answer")
            yield "bad", f"{row.label}: {lost} failed, and count with the lowest value."
    yield from suite_cautions([(row.label, row.metrics) for row in rows], report.judges.judge)
    if isinstance(report.analysis, str) and report.analysis:
        yield "warn", report.analysis
    if report.unfinished:
        yield "warn", f"Not finished and left out: {some_of(report.unfinished)}."


def _who_is_best(report: AnswerReport, best: PipelineRow) -> Iterator[str]:
    """Yield the best by significance, by sign test against the next, and by its price."""
    from scipy.stats import binomtest

    means, compared = report.means, report.compared
    above = [label for label, each in compared.items() if each.decision == "better"]
    below = [label for label, each in compared.items() if each.decision == "worse"]
    first = [label for label, mean in means.items() if mean == means[best.label]]
    said = f"{some_of(first)} {'have' if len(first) > 1 else 'has'} the highest "
    said += f"{_words(report.judges.judges[0])}, {means[best.label]:.3f}"
    if below:
        yield f"{said}, but is significantly worse than {some_of(below)} on their common questions"
    elif len(above) == len(compared):
        yield f"{said}, significantly above every other"
    elif above:
        yield f"{said}; significantly above {some_of(above)}, not above the others"
    else:
        yield f"{said}, but above none of the others significantly"
    second = min(compared, key=lambda label: compared[label].difference)
    than = compared[second]
    low, high = than.interval.low, than.interval.high
    said = f"Against {second}, the next, {than.difference:+.3f} (95%: {low:+.3f} to {high:+.3f}): "
    said += f"{than.wins} better, {than.ties} equal, {than.losses} worse"
    said += f", {than.left_out} that only one has" * bool(than.left_out)
    if decided := than.wins + than.losses:
        said += f" (sign test, p = {binomtest(than.wins, decided).pvalue:.2g})"
    yield said
    cheapest = min(report.rows, key=lambda row: row.metrics.calls)
    if best.metrics.calls > cheapest.metrics.calls > 0:
        times = best.metrics.calls / cheapest.metrics.calls
        yield f"It takes {times:.1f} times the calls of {cheapest.label}"


def _figures(report: AnswerReport) -> Iterator[tuple[str, str, str]]:
    """Yield title, SVG, and the words under it, of each figure."""
    if len(report.rows) <= MOST_DOTS:
        form, judges = report.suite.figure or FigureNote(), report.judges.judges
        yield from _scatters(report.rows, form, judges)
        yield from _boxes(report.rows, form, judges)


def _scatters(
    rows: Sequence[PipelineRow], form: FigureNote, judges: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    two = form.quality or judges[:2]
    if len(two) < 2 or len(rows) < 2:
        return
    x, y = two
    marks = {
        row.label: Mark(row.label, across, up)
        for row in rows
        if (across := row.value(x)) and (up := row.value(y))
    }
    theirs = theirs_of(form, x, y)
    trends = [
        (series + number, [of[each] for each in line.through if each in of])
        for of, series in ((marks, 1), (theirs, THEIRS + 1))
        for number, line in enumerate(form.lines)
    ]
    note = "Thin whiskers: 95% interval over questions; thick ones: standard deviation of the "
    note += "means of runs."
    if theirs:
        note += " Hollow: the paper's, of its own models and judges."
    if form.lines:
        lines = "; ".join(f"{', '.join(each.through)} ({each.name})" for each in form.lines)
        note += f" Lines: least squares through {lines}; dashed: the paper's."
    if marks:
        svg = scatter([*marks.values(), *theirs.values()], _words(x), _words(y), trends)
        yield f"{_words(y)} against {_words(x)}", svg, note
    fast = [
        Mark(row.label, Value(speed), mark.x.times(mark.y))
        for row in rows
        if (mark := marks.get(row.label))
        and (speed := row.metrics.characters_per_second) is not None
    ]
    fast += [
        Mark(mark.label, Value(form.theirs[label]["speed"]), mark.x.times(mark.y), THEIRS)
        for label, mark in theirs.items()
        if "speed" in form.theirs.get(label, {})
    ]
    if form.quality and len(fast) > 1:
        note = f"Quality is {_words(x)} times {_words(y)}, its whisker the standard deviation of "
        note += "that product over runs. Speed: characters of answers by their time, where "
        note += "nothing came from the ledger."
        yield "quality against speed", scatter(fast, "characters a second", "quality"), note


def theirs_of(form: FigureNote, x: str, y: str) -> dict[str, Mark]:
    """System -> the paper's point, with the standard deviations over its runs."""
    return {
        label: Mark(
            f"{label} (paper)",
            Value(of[x], of.get(f"{x} sd")),
            Value(of[y], of.get(f"{y} sd")),
            THEIRS,
        )
        for label, of in form.theirs.items()
        if {x, y} <= of.keys()
    }


def _boxes(
    rows: Sequence[PipelineRow], form: FigureNote, judges: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    others = read_runs(others_runs(form.runs)) if form.runs else {}
    for judge in judges:
        values = {row.label: found for row in rows if (found := row.metrics.judges.get(judge))}
        means = {
            label: [each for each in found.run_means if each is not None]
            for label, found in values.items()
            if found.run_spread is not None
        }
        known = others.get(judge, {})
        if means and (known or any(found.run_spread for found in values.values())):
            svg = boxes({**means, **known}, _words(judge), theirs=len(known))
            note = "Means of runs: whiskers to the lowest and the highest, a box from the first "
            note += f"to the third quartile.{f' Grey: {form.source}.' if known else ''}"
            yield f"{_words(judge)} over runs", svg, note


def _words(judge: str) -> str:
    return judge.replace("_", " ")
