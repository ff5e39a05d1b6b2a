"""The page of a suite of pipelines: which is best, by how much, at what price, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beir_eval.answers.figures import (
    THEIRS,
    Mark,
    Trend,
    boxes,
    effects,
    product_spread,
    read_runs,
    scatter,
)
from beir_eval.answers.judges import judge_of
from beir_eval.answers.metrics import METRICS, AnswerMetrics, cautions, grid_row
from beir_eval.answers.run import (
    ANSWERS,
    JUDGEMENTS,
    MANIFEST,
    AnswerManifest,
    read_answers_of,
    read_judgements,
)
from beir_eval.answers.suite import Line, others_runs
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.files import read_form
from beir_eval.measures.anova import Anova, anova
from beir_eval.measures.significance import SIGNIFICANT, Comparison, Interval, compare_runs
from beir_eval.report.numbers import anova_cells
from mcranker.rag.record import AnswerRecord
from personas.format import counted
from personas.report.site import NO_FOOTER, ReportFooter

WORST = 10
"""Questions that are shown with their answers."""
MOST_DOTS = 24
"""Pipelines above which there is no figure."""


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline of a report.

    Attributes:
        manifest: what answered.
        metrics: its sums.
        folder: where its answers are.
        intervals: judge -> 95% interval of its mean over questions.
    """

    manifest: AnswerManifest
    metrics: AnswerMetrics
    folder: Path
    intervals: Mapping[str, Interval | None]

    @property
    def label(self) -> str:
        """Its name."""
        return self.manifest.label

    def mean(self, judge: str) -> float | None:
        """Its mean over questions; None without a value."""
        found = self.metrics.judges.get(judge)
        return None if found is None else found.mean


@dataclass(frozen=True, slots=True)
class WorstAnswer:
    """An answer that a judge found worst, with the golden ones and the judge's value and notes."""

    record: AnswerRecord
    golden: str
    value: float
    notes: str


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """Pipelines of a suite, compared.

    Attributes:
        title: of the suite.
        description: of the suite.
        judges: names; the first heads the tables.
        rows: in the order of the suite.
        best: the row with the highest mean by the first judge; None without a value.
        compared: label -> the best one less this one, by the first judge, over the questions that
            both have a value for; p-values by Holm.
        analysis: of a grid; None without.
        worst: answers of the best pipeline with the lowest values.
        unfinished: labels of folders that have no sums yet.
    """

    title: str
    description: str
    judges: tuple[str, ...]
    rows: tuple[PipelineRow, ...]
    best: PipelineRow | None
    compared: Mapping[str, Comparison]
    analysis: Anova | None
    worst: tuple[WorstAnswer, ...]
    unfinished: tuple[str, ...]

    @property
    def judge(self) -> str:
        """The model that judged; empty if none did."""
        return self.rows[0].manifest.judge if self.rows else ""


def is_answer_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether the folder holds answers of pipelines."""
    return any(Path(path).glob(f"*/run-1/{ANSWERS}"))


def build_answer_report(folder: str | os.PathLike[str]) -> AnswerReport:
    """Read the run folders of a suite of pipelines and compare them.

    Raises:
        RunFolderError: there are none, or one cannot be read.
    """
    rows, unfinished = [], []
    for path in sorted(Path(folder).glob(f"*/{MANIFEST}")):
        manifest = read_form(path, AnswerManifest)
        if not (path.parent / METRICS).exists():
            unfinished.append(manifest.label)
            continue
        metrics = read_form(path.parent / METRICS, AnswerMetrics)
        spans = {name: judge.interval(name) for name, judge in metrics.judges.items()}
        rows.append(PipelineRow(manifest, metrics, path.parent, spans))
    if not rows:
        raise RunFolderError(f"{os.fspath(folder)}: holds no finished pipeline")
    rows.sort(key=lambda row: row.manifest.place)
    first = rows[0].manifest
    judge = first.judges[0]
    means = [(mean, row) for row in rows if (mean := row.mean(judge)) is not None]
    best = max(means, key=lambda found: found[0])[1] if means else None
    return AnswerReport(
        title=first.title,
        description=" ".join(first.description.split()),
        judges=first.judges,
        rows=tuple(rows),
        best=best,
        compared={} if best is None else dict(_compared(best, rows, judge)),
        analysis=_analysed(rows, first),
        worst=() if best is None else tuple(_worst(best, judge)),
        unfinished=tuple(unfinished),
    )


def render_answer_report(
    report: AnswerReport,
    *,
    footer: ReportFooter = NO_FOOTER,
    pages: Mapping[str, str] | None = None,
) -> str:
    """Return the report as one HTML page. The same report gives the same page.

    Args:
        report: what is shown.
        footer: version, date and command for the last line.
        pages: question id -> address of the page of an answer among the worst.
    """
    from beir_eval.report.html import rendered

    return rendered(
        "answers.html",
        report=report,
        verdict=[*_verdict(report)],
        figures=[*_figures(report)],
        effects=effects(report.analysis) if report.analysis else "",
        head=report.judges[0],
        cells=anova_cells,
        pages=pages or {},
        footer=footer,
    )


def _compared(
    best: PipelineRow, rows: Sequence[PipelineRow], judge: str
) -> Iterator[tuple[str, Comparison]]:
    of_best = best.metrics.judges[judge].questions
    pairs: dict[str, dict[str, Mapping[str, float]]] = {}
    for row in rows:
        values = row.metrics.judges[judge].questions
        both = [each for each in of_best if each in values]
        if row is not best and len(both) > 1:
            pairs[row.label] = {
                "": {each: values[each] for each in both},
                best.label: {each: of_best[each] for each in both},
            }
    low, high = judge_of(judge).scale
    # A pair each, since two pipelines may have values for different questions.
    for label, found in compare_runs(pairs, "", farthest=high - low).items():
        yield label, found[best.label]


def _analysed(rows: Sequence[PipelineRow], first: AnswerManifest) -> Anova | None:
    points = [row for row in rows if row.manifest.point]
    if not first.formula or not points:
        return None
    try:
        return anova(
            [grid_row(each.manifest.point, each.metrics) for each in points], first.formula
        )
    except SettingError:  # a part of the grid, or no variance
        return None


def _worst(best: PipelineRow, judge: str) -> Iterator[WorstAnswer]:
    path = best.folder / "run-1"
    answers = {each.id: each for each in read_answers_of(path / ANSWERS)}
    values = best.metrics.judges[judge].questions
    judged = dict(read_judgements(path / JUDGEMENTS))
    for name in sorted(values, key=lambda each: (values[each], each))[:WORST]:
        answer = answers.get(name)
        if answer is None:
            continue
        found = judged.get(name, {}).get(judge)
        golden = "; ".join(best.manifest.golden.get(name, ()))
        notes = "" if found is None else found.notes
        yield WorstAnswer(answer, golden, values[name], notes)


def _verdict(report: AnswerReport) -> Iterator[tuple[str, str]]:
    """Kind and sentence of what a reader must know, the worst first."""
    judge, rows = report.judges[0], report.rows
    known = cautions(
        ((f"{row.label}: {name}", one) for row in rows for name, one in row.metrics.judges.items()),
        questions=rows[0].metrics.questions,
        runs=rows[0].metrics.runs,
        judge=report.judge,
        writers={name for row in rows for name in row.metrics.writers},
    )
    for row in rows:
        if row.metrics.failed:
            lost = counted(len(row.metrics.failed), "answer")
            yield "bad", f"{row.label}: {lost} failed, counted in no mean."
    yield from known
    if report.unfinished:
        yield "warn", f"Not finished and left out: {', '.join(report.unfinished[:10])}."
    if report.best is not None and report.compared:
        yield "note", _who_is_best(report, report.best, judge)


def _who_is_best(report: AnswerReport, best: PipelineRow, judge: str) -> str:
    name = judge.replace("_", " ")
    worse = [x for x in report.compared if report.compared[x].p_adjusted < SIGNIFICANT]
    others = [row.label for row in report.rows if row.mean(judge) == best.mean(judge)]
    said = f"{', '.join(others[:5])} {'have' if len(others) > 1 else 'has'} the highest {name}, "
    said += f"{best.mean(judge):.3f}"
    if len(worse) == len(report.compared):
        said += "; the difference to every other is significant"
    elif worse:
        said += f"; significantly above {', '.join(worse[:5])}, not above the others"
    else:
        said += ", but above none of the others significantly"
    said += _sign_test(report)
    cheapest = min(report.rows, key=lambda row: row.metrics.calls)
    if best.metrics.calls > cheapest.metrics.calls > 0:
        times = best.metrics.calls / cheapest.metrics.calls
        said += f". It takes {times:.1f} times the calls of {cheapest.label}"
    return f"{said}."


def _sign_test(report: AnswerReport) -> str:
    """The best one against the next, question by question."""
    from scipy.stats import binomtest

    means = {row.label: row.mean(report.judges[0]) or 0.0 for row in report.rows}
    second = max(report.compared, key=lambda label: means[label])
    found = report.compared[second]
    said = f". Against {second}, the next, {found.wins} better, {found.ties} equal, "
    said += f"{found.losses} worse"
    if not found.wins + found.losses:
        return said
    p = binomtest(found.wins, found.wins + found.losses).pvalue
    return f"{said} (sign test, p = {p:.2g})"


def _figures(report: AnswerReport) -> Iterator[dict[str, str]]:
    """Figures with the words under them: ``name``, ``svg`` and ``note`` of each."""
    rows, form = report.rows, report.rows[0].manifest.figure
    two = form.quality or report.judges[:2]
    if len(two) == 2 and 2 <= len(rows) <= MOST_DOTS:
        x, y = two
        marks = {row.label: mark for row in rows if (mark := _mark(row, x, y)) is not None}
        theirs = {
            row.label: Mark(f"{row.label} (paper)", given[x], given[y], series=THEIRS)
            for row in rows
            if {x, y} <= (given := row.manifest.theirs).keys()
        }
        trends = [
            Trend(line.name, [of[each] for each in line.through if each in of], series + number)
            for of, series in ((marks, 1), (theirs, THEIRS + 1))
            for number, line in enumerate(form.lines)
        ]
        names = _words(x), _words(y)
        note = "Thin whiskers: 95% interval over questions; thick ones: standard deviation of the "
        note += "means of runs."
        if theirs:
            note += " Hollow: the paper's, of its own models and judges."
        if form.lines:
            note += f" Lines: least squares through {_listed(form.lines)}; dashed: the paper's."
        if marks:
            drawn = scatter([*marks.values(), *theirs.values()], *names, trends)
            yield {"name": f"{names[1]} against {names[0]}", "svg": drawn, "note": note}
        fast = [mark for row in rows if (mark := _speed_mark(row, x, y)) is not None]
        if form.quality and len(fast) > 1:
            note = f"Quality is {names[0]} times {names[1]}, its whisker the standard deviation of "
            note += "that product over runs. Speed: characters of answers by their time, where "
            note += "nothing came from the ledger."
            drawn = scatter(fast, "characters a second", "quality")
            yield {"name": "quality against speed", "svg": drawn, "note": note}
    others = read_runs(others_runs(form.runs)) if form.runs else {}
    for judge in report.judges if len(rows) <= MOST_DOTS else ():
        means = {
            row.label: values
            for row in rows
            if (found := row.metrics.judges.get(judge)) is not None
            and len(values := [each for each in found.run_means if each is not None]) > 1
        }
        known = others.get(judge, {})
        if means and (known or any(len({*values}) > 1 for values in means.values())):
            drawn = boxes({**means, **known}, _words(judge), theirs=len(known))
            note = "Means of runs: whiskers to the lowest and the highest, a box from the first "
            note += f"to the third quartile.{f' Grey: {form.source}.' if known else ''}"
            yield {"name": f"{_words(judge)} over runs", "svg": drawn, "note": note}


def _mark(row: PipelineRow, x: str, y: str) -> Mark | None:
    across, up = row.metrics.judges.get(x), row.metrics.judges.get(y)
    if across is None or up is None or across.mean is None or up.mean is None:
        return None
    spans = [(s.low, s.high) if (s := row.intervals.get(each)) else None for each in (x, y)]
    spreads = across.run_spread, up.run_spread
    return Mark(row.label, across.mean, up.mean, *spreads, spans[0], spans[1])


def _speed_mark(row: PipelineRow, x: str, y: str) -> Mark | None:
    mark, speed = _mark(row, x, y), row.metrics.characters_per_second
    if mark is None or speed is None:
        return None
    sd = None
    if mark.x_sd is not None and mark.y_sd is not None:
        sd = product_spread(mark.x, mark.x_sd, mark.y, mark.y_sd)
    return Mark(row.label, speed, mark.x * mark.y, y_sd=sd)


def _listed(lines: Sequence[Line]) -> str:
    return "; ".join(f"{', '.join(each.through)} ({each.name})" for each in lines)


def _words(judge: str) -> str:
    return judge.replace("_", " ")
