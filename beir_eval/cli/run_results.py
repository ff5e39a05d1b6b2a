"""Progress and results of ``beir-eval run``: the live display, tables, what went wrong."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column
from rich.text import Text

from beir_eval.answers.metrics import AnswerMetrics, JudgeMetrics, grid_row, suite_cautions
from beir_eval.answers.questions import read_questions
from beir_eval.experiment.cell import Cell, CellResult, ExperimentListener
from beir_eval.experiment.run import Experiment
from beir_eval.experiment.run_folder import METRICS, RunFolder, ScoreCounts
from beir_eval.experiment.suite import DatasetSpec
from beir_eval.experiment.suite_form import folder_name
from beir_eval.files import read_form
from beir_eval.report.tables import measure_text
from beir_eval.report.warnings import flaw_notices, measured_to
from mcranker import RankingStarted
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.output import DONE, ERROR, MISSING_SCORES, Failure, as_flags, failure
from mcranker.cli.progress import ProgressDisplay, Tracker, live_is_wanted
from mcranker.cli.results import cost_text
from mcranker.events import Event
from personas.console import numbers, table
from personas.format import counted, optional, seconds
from personas.io.atomic import write_whole
from personas.ranking.types import Query
from personas.sanitize import plain

GRID = "grid.csv"


class Display(ExperimentListener):
    """Shows the cell in progress, and a line for each one that is done, on standard error."""

    def __init__(self, invocation: Invocation, *, quiet: bool) -> None:
        self._invocation, self._quiet = invocation, quiet
        self._name, self._since = "", 0.0
        self.tracker = Tracker()
        self._live = ProgressDisplay(self.tracker, wanted=False)

    def dataset_begins(self, spec: DatasetSpec) -> None:
        self._invocation.doing(f"preparing the data set {spec.name}")

    def cell_begins(self, cell: Cell, place: int, count: int) -> None:
        named = f"{cell.dataset}, {cell.spec.label}" if cell.dataset else cell.spec.label
        self._name, self._since = plain(f"{named} ({place} of {count})"), time.perf_counter()
        # Each of the cells that follow is taken to be as long as this one.
        self._track(Tracker(self._name, len(cell.sizes), after=count - place))

    def part_begins(self, what: str, queries: Iterable[str]) -> None:
        name, total = f"{self._name}, {what}", len([*queries])
        self._track(Tracker(name, total, unit="questions", after=self.tracker.after))

    def _track(self, tracker: Tracker) -> None:
        self.close()
        self.tracker = tracker
        place = f"in {tracker.stage}, {{}}; run it again to go on"
        self._invocation.reached = lambda: place.format(tracker.reached)
        self._live = ProgressDisplay(tracker, wanted=live_is_wanted(quiet=self._quiet))
        self._live.__enter__()

    def event(self, event: Event) -> None:
        if isinstance(event, RankingStarted):
            self.tracker.current[event.query_id] = event.usage

    def query_done(self, query: Query) -> None:
        self.tracker.count(self.tracker.current.pop(query.id, None))
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
            say(f"{self._name}: {value}; {calls if result.metrics.taken else 'foreign run'}")
        elif result.answers is not None:
            judge, found = next(iter(result.answers.judges.items()))
            say(f"{self._name}: {judge} {optional(found.mean) or '-'}; {calls}")
        elif result.unsupported:
            say(f"{self._name}: left out")

    def close(self) -> None:
        """Take the live display away."""
        self._live.__exit__()


def verdict(results: Sequence[CellResult]) -> tuple[int, list[Failure]]:
    """Return the exit code, and what went wrong; what does not count as an error comes first."""
    warned, errors = list[Failure](), list[Failure]()
    scores = [each.metrics.scores for each in results if each.metrics]
    if missing := sum(each.missing for each in scores if each):
        message = f"{counted(missing, *ScoreCounts.unit(scores))} missing; the report says why"
        warned.append(Failure("MissingScores", message))
    for result in results:
        for name, judge in result.answers.judges.items() if result.answers else ():
            if judge.missing:
                why = as_flags(next(iter(judge.reasons)))
                message = f"{result.name}: {name}: {counted(judge.missing, 'value')} missing"
                warned.append(Failure("MissingScores", f"{message}, e.g. {why}"))
        metrics = result.metrics or result.answers
        if metrics and metrics.failed:
            where, why = next(iter(metrics.failed.items()))
            kind, what = "QueriesFailed", ("query not ranked", "queries not ranked")
            if result.answers:
                kind, what = "AnswersFailed", ("answer failed", "answers failed")
            message = (
                f"{result.name}: {counted(len(metrics.failed), *what)}; the first, {where!r}: "
                f"{as_flags(why)}; run it again to try them again"
            )
            errors.append(Failure(kind, message, retryable=True))
        if result.unsupported:
            message = f"{result.name}: left out: {result.stopped}"
            warned.append(Failure("Unsupported", message))
        elif result.stopped is not None:
            found = failure(result.stopped)
            errors.append(replace(found, message=f"{result.name}: stopped: {found.message}"))
    nothing = any(each.unsupported for each in results) and not any(x.metrics for x in results)
    code = MISSING_SCORES if any(x.code == "MissingScores" for x in warned) else DONE
    return ERROR if errors or nothing else code, [*warned, *errors]


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
    rows = []
    for result, stage in zip(results, stages, strict=True):
        metrics = result.metrics
        value, by_lot, missing = "left out" if result.unsupported else "stopped", "-", "-"
        if metrics:
            value = measure_text(metrics.means[measure])
            ties = metrics.ties.get(measure)
            by_lot = "-" if ties is None or ties.by_lot is None else measure_text(ties.by_lot)
            missing = f"{metrics.scores.missing:,}" if metrics.scores else "-"
        counts = (f"{result.calls:,}", f"{result.reused:,}", missing, cost_text(result.cost))
        values = (f"{len(stage.per_query[measure]):,}", value, by_lot)
        first = measure_text(stage.means[measure])
        rows.append((result.dataset, result.label, *values, first, *counts))
    shown = measured_to(measure, [result.depth for result in results])
    headings = ("queries", shown, "ties by lot", "first stage", "calls now", "from ledger")
    narrow = _narrow(*headings, "missing", "cost")
    label = Column("ranker", min_width=8, overflow="fold")
    console.print(table(["data set", label, *narrow], rows))


def show_pipelines(console: Console, judges: Sequence[str], results: Sequence[CellResult]) -> None:
    """Print a row for each pipeline."""
    rows = []
    for each in results:
        found = each.answers
        if found is None:
            rows.append((each.label, *("stopped" for _ in judges), *("-",) * 5))
            continue
        missing = sum(judge.missing for judge in found.judges.values())
        tokens = found.input_tokens + found.output_tokens
        counts = (f"{count:,}" for count in (missing, found.calls, tokens))
        values = (_judged(found.judges[name]) for name in judges)
        took = optional(found.seconds, 2) or "-"
        rows.append((each.label, *values, *counts, cost_text(found.cost), took))
    named = (each.replace("_", " ") for each in judges)
    narrow = _narrow(*named, "missing", "calls", "tokens", "cost", "seconds")
    console.print(table([Column("pipeline", min_width=8, overflow="fold"), *narrow], rows))
    console.print(Text("±: standard deviation of the runs' means. Missing values are in no mean."))


def _narrow(*headings: str) -> list[Column]:
    """Columns of numbers; headings of two words may take two lines, so that no number is cut."""
    return [replace(each, no_wrap=False) for each in numbers(*headings)]


def _judged(judge: JudgeMetrics) -> str:
    spread = "" if judge.run_spread is None else f" ± {judge.run_spread:.3f}"
    undefined = f", {judge.undefined:,} undefined" if judge.undefined else ""
    return (optional(judge.mean) or "-") + spread + undefined


def cautions_of(experiment: Experiment, results: Sequence[CellResult]) -> list[str]:
    """Write the table of a grid's points; what misleads, in sentences."""
    finished = {each.label: each.answers for each in results if each.answers}
    folders = (RunFolder.open(each.path).manifest.answers for each in results if each.answers)
    judge = next((each.judge for each in folders if each), "")
    values = (
        (f"{label}: {name}", one.as_values(name, judge, own=judge in of.writers))
        for label, of in finished.items()
        for name, one in of.judges.items()
    )
    if rows := [*_grid(experiment)]:
        text = io.StringIO()
        writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(Path(experiment.plan.out) / GRID, text.getvalue())
    return [each.sentence for each in (*suite_cautions(finished), *flaw_notices(values))]


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
