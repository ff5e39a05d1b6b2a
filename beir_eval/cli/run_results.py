"""Progress and results of ``beir-eval run``: the live display, tables, what went wrong."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Column
from rich.text import Text

from beir_eval.answers.metrics import AnswerMetrics, grid_row, suite_cautions
from beir_eval.answers.questions import read_questions
from beir_eval.cli.anova import show_anova
from beir_eval.errors import SettingError
from beir_eval.experiment.cell import Cell, CellResult, ExperimentListener
from beir_eval.experiment.run import Experiment
from beir_eval.experiment.run_folder import METRICS, RunFolder, ScoreCounts
from beir_eval.experiment.suite_form import folder_name
from beir_eval.files import read_form
from beir_eval.measures.anova import Anova, anova
from beir_eval.report.tables import measure_text
from beir_eval.report.warnings import flaw_notices, measured_to
from mcranker import events
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.output import DONE, ERROR, MISSING_SCORES, Failure, as_flags, failure
from mcranker.cli.progress import ProgressDisplay, Tracker, live_is_wanted
from mcranker.cli.results import cost_text
from personas.console import numbers, table
from personas.format import counted, seconds
from personas.io.atomic import write_whole
from personas.ranking.usage import UsageTable
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.experiment.suite import DatasetSpec
    from mcranker.events import Event
    from personas.ranking.types import Query

GRID = "grid.csv"


@dataclass(slots=True)
class CellTracker(Tracker):
    """Counts the passages of one cell, queries in progress by the share of their scores."""

    unit: str = "passages"
    name: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    _queries_done: int = 0
    _finished: int = 0
    _shares: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = sum(self.sizes.values())
        self._update()

    def take(self, event: Event) -> None:
        """Count one event."""
        match event:
            case events.RankingStarted(query_id=query_id, usage=usage):
                self.current[query_id] = usage
            case events.PassageScored(query_id=query_id, done=done, total=total):
                self._shares[query_id] = done / max(total, 1)
                self._update()

    def end_query(self, query_id: str) -> None:
        """Count one query that is finished, or failed."""
        self._queries_done += 1
        self._finished += self.sizes.get(query_id, 0)
        self._shares.pop(query_id, None)
        self.usage.add_all(self.current.pop(query_id, UsageTable()))
        self._update()

    @property
    def reached(self) -> str:
        """Progress in words."""
        return f"in {self.name}, after {self._queries_done} of {len(self.sizes)} queries"

    def _update(self) -> None:
        queries, shares = len(self.sizes), self._shares.items()
        self.stage = f"{self.name}, query {min(self._queries_done + 1, queries)} of {queries}"
        under_way = sum(self.sizes.get(each, 0) * share for each, share in shares)
        self.done = self._finished + int(under_way)


class Display(ExperimentListener):
    """Shows the cell in progress, and a line for each one that is done, on standard error."""

    def __init__(self, invocation: Invocation, *, quiet: bool) -> None:
        self._invocation = invocation
        self._quiet = quiet
        self._live: ProgressDisplay | None = None
        self._since = time.perf_counter()
        self._name = ""
        self.tracker = CellTracker()

    def dataset_begins(self, spec: DatasetSpec) -> None:
        self._invocation.doing(f"preparing the data set {spec.name}")

    def cell_begins(self, cell: Cell, place: int, count: int) -> None:
        named = f"{cell.dataset}, {cell.spec.label}" if cell.dataset else cell.spec.label
        self._name = plain(f"{named} ({place} of {count})")
        self._since = time.perf_counter()
        # The cells after it are taken to be as long as this one.
        self._track(CellTracker(name=self._name, sizes=cell.sizes, after=count - place))

    def part_begins(self, what: str, queries: Iterable[str]) -> None:
        name = f"{self._name}, {what}"
        self._track(CellTracker(name=name, sizes=dict.fromkeys(queries, 1), unit="questions"))

    def _track(self, tracker: CellTracker) -> None:
        self.close()
        self.tracker = tracker
        self._invocation.reached = lambda: f"{self.tracker.reached}; run it again to go on"
        self._live = ProgressDisplay(tracker, wanted=live_is_wanted(quiet=self._quiet))
        self._live.__enter__()

    def event(self, event: Event) -> None:
        self.tracker.take(event)
        if self._live is not None:
            self._live.update()

    def query_done(self, query: Query) -> None:
        self.tracker.end_query(query.id)
        if self._live is not None:
            self._live.update()

    def cell_ends(self, result: CellResult) -> None:
        self.close()
        if self._quiet:
            return
        took = seconds(time.perf_counter() - self._since)
        reused = f", {result.reused:,} from the ledger" if result.reused else ""
        calls = f"{counted(result.calls, 'call')}{reused}, {took}"
        if result.metrics is not None:
            measure = result.metrics.measures[0]
            value = f"{measure} {measure_text(result.metrics.means[measure])}"
            done = calls if result.metrics.taken else "foreign run"
            say(f"{self._name}: {value}; {done}")
        elif result.answers is not None:
            judge, found = next(iter(result.answers.judges.items()))
            mean = "-" if found.mean is None else f"{found.mean:.3f}"
            say(f"{self._name}: {judge} {mean}; {calls}")
        elif result.unsupported:
            say(f"{self._name}: left out")

    def close(self) -> None:
        """Take the live display away."""
        if self._live is not None:
            self._live.__exit__()
            self._live = None


def verdict(results: Sequence[CellResult]) -> tuple[int, list[Failure]]:
    """Return the exit code, and what went wrong; what does not count as an error comes first."""
    code, errors = DONE, []
    scores = [each.metrics.scores for each in results if each.metrics]
    if missing := sum(each.missing for each in scores if each):
        code = MISSING_SCORES
        message = f"{counted(missing, *ScoreCounts.unit(scores))} missing; the report says why"
        errors.append(Failure("MissingScores", message))
    for result in results:
        for name, judge in result.answers.judges.items() if result.answers else ():
            if judge.missing:
                code = MISSING_SCORES
                why = as_flags(next(iter(judge.reasons)))
                message = f"{result.name}: {name}: {counted(judge.missing, 'value')} missing"
                errors.append(Failure("MissingScores", f"{message}, e.g. {why}"))
    for result in results:
        metrics = result.metrics or result.answers
        if metrics is None or not metrics.failed:
            continue
        code = ERROR
        where, why = next(iter(metrics.failed.items()))
        kind, said = "QueriesFailed", ("query", "queries", "not ranked")
        if result.answers:
            kind, said = "AnswersFailed", ("answer", "answers", "failed")
        message = (
            f"{result.name}: {counted(len(metrics.failed), *said[:2])} {said[2]}; "
            f"the first, {where!r}: {as_flags(why)}; run it again to try them again"
        )
        errors.append(Failure(kind, message, retryable=True))
    unsupported = [result for result in results if result.unsupported]
    for result in unsupported:
        message = f"{result.name}: left out: {result.stopped}"
        errors.append(Failure("Unsupported", message))
    if unsupported and not any(each.metrics for each in results):
        code = ERROR
    for result in results:
        if result.stopped is not None and not result.unsupported:
            code, found = ERROR, failure(result.stopped)
            errors.append(replace(found, message=f"{result.name}: stopped: {found.message}"))
    return code, errors


def as_dict(result: CellResult) -> dict[str, Any]:
    """A result as plain values that JSON can hold."""
    metrics = result.metrics or result.answers
    named = ("dataset", "label", "calls", "reused", "cost")
    return {
        **{name: getattr(result, name) for name in named},
        "path": str(result.path),
        "metrics": metrics.model_dump(mode="json") if metrics else None,
        "first_stage": dict(result.first_stage.means) if result.first_stage else None,
    }


def show_rankers(console: Console, results: Sequence[CellResult]) -> None:
    """Print a row for each cell of rankers."""
    stages = [result.first_stage for result in results if result.first_stage]
    measure = stages[0].measures[0] if stages else ""
    shown = measured_to(measure, [result.depth for result in results])
    headings = ("queries", shown, "ties by lot", "first stage", "calls now", "from ledger")
    rows = (
        (
            *(result.dataset, result.label, f"{len(stage.per_query[measure]):,}"),
            *_measured(result, measure),
            measure_text(stage.means[measure]),
            *(f"{result.calls:,}", f"{result.reused:,}"),
            f"{metrics.scores.missing:,}" if metrics and metrics.scores else "-",
            cost_text(result.cost),
        )
        for result, stage in zip(results, stages, strict=True)
        for metrics in [result.metrics]
    )
    label = Column("ranker", min_width=8, overflow="fold")
    # Headings of two words may take two lines, so that no number is cut.
    narrow = [replace(each, no_wrap=False) for each in numbers(*headings, "missing", "cost")]
    console.print(table(["data set", label, *narrow], rows))


def _measured(result: CellResult, measure: str) -> tuple[str, str]:
    """Return the measure, or why there is none, and the measure with ties drawn by lot."""
    if result.metrics is None:
        return "left out" if result.unsupported else "stopped", "-"
    ties = result.metrics.ties.get(measure)
    by_lot = "-" if ties is None or ties.by_lot is None else measure_text(ties.by_lot)
    return measure_text(result.metrics.means[measure]), by_lot


def show_pipelines(
    console: Console, experiment: Experiment, results: Sequence[CellResult], found: Anova | None
) -> None:
    """Print a row for each pipeline, and the analysis of a grid."""
    form, rows = experiment.form, []
    notes = {each.label: each.note for each in experiment.rankers}
    theirs = {label: note.theirs if note else {} for label, note in notes.items()}
    for each in results:
        metrics = each.answers
        if metrics is None:
            rows.append((each.label, *("stopped" for _ in form.judges), *("-",) * 5))
            continue
        missing = sum(judge.missing for judge in metrics.judges.values())
        cells = (_judged(metrics, name, theirs[each.label].get(name)) for name in form.judges)
        rows.append(
            (
                *(each.label, *cells, f"{missing:,}", f"{metrics.calls:,}"),
                *(f"{metrics.input_tokens + metrics.output_tokens:,}", cost_text(metrics.cost)),
                "-" if metrics.seconds is None else f"{metrics.seconds:.2f}",
            )
        )
    judges = (each.replace("_", " ") for each in form.judges)
    headings = numbers(*judges, "missing", "calls", "tokens", "cost", "seconds")
    narrow = [replace(each, no_wrap=False) for each in headings]
    console.print(table([Column("pipeline", min_width=8, overflow="fold"), *narrow], rows))
    console.print(Text("±: standard deviation of the runs' means. Missing values are in no mean."))
    if any(theirs.values()):
        console.print(Text("In brackets: the paper's value, of its own models and judges."))
    if found is not None:
        show_anova(console, found)
        if ours := [each.name for each in form.factors if each.ours]:
            line = f"Levels of {', '.join(ours)} are not in the paper; they are ours."
            console.print(Text(line))


def _judged(metrics: AnswerMetrics, name: str, theirs: float | None) -> str:
    judge = metrics.judges[name]
    mean = "-" if judge.mean is None else f"{judge.mean:.3f}"
    spread = "" if judge.run_spread is None else f" ± {judge.run_spread:.3f}"
    lacking = f", {judge.undefined:,} undefined" if judge.undefined else ""
    return mean + spread + ("" if theirs is None else f" ({theirs:g})") + lacking


def analysed(
    experiment: Experiment, results: Sequence[CellResult]
) -> tuple[list[str], Anova | None]:
    """Write the table of a grid's points, and analyse them; with what misleads, in sentences."""
    finished = {each.label: each.answers for each in results if each.answers}
    folders = (RunFolder.open(each.path).manifest.answers for each in results if each.answers)
    judge = next((each.judge for each in folders if each), "")
    values = (
        (f"{label}: {name}", one.as_values(name, judge, own=judge in of.writers))
        for label, of in finished.items()
        for name, one in of.judges.items()
    )
    warned = [each.sentence for each in (*suite_cautions(finished), *flaw_notices(values))]
    rows, formula = [*_grid(experiment)], experiment.form.anova.get("formula", "")
    found = None
    if rows:
        write_whole(Path(experiment.plan.out) / GRID, _as_csv(rows))
        points = sum(bool(x.note and x.note.point) for x in experiment.suite.pipelines)
        if formula and len(rows) == points:
            try:
                found = anova(rows, formula)
            except SettingError as refused:  # the answers are there all the same
                warned.append(f"no analysis of variance: {refused}")
    return warned, found


def _grid(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield the rows of all points that are finished, now or by a former command like this."""
    form = experiment.form
    questions = len(read_questions(form.questions)[: form.limit])
    for spec in experiment.suite.pipelines:
        path = Path(experiment.plan.out) / folder_name(spec.label) / METRICS
        if spec.note and spec.note.point and path.exists():
            of = read_form(path, AnswerMetrics)
            if ([*of.judges], of.runs, of.questions) == (form.judges, form.runs, questions):
                yield grid_row(spec.note.point, of)


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
