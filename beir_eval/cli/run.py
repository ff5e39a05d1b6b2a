"""``beir-eval run``: rankers over data sets, into run folders."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Column

from beir_eval.answers.suite import is_answer_suite
from beir_eval.cli.run_plan import RUN_KEYS, given_experiment, run_flags
from beir_eval.cli.tracking import Display
from beir_eval.experiment.run import CellResult, Experiment
from beir_eval.experiment.run_folder import ScoreCounts
from beir_eval.report.numbers import measure_text
from beir_eval.report.warnings import measured_to
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.output import (
    DONE,
    ERROR,
    MISSING_SCORES,
    Failure,
    failure,
    print_json,
    print_line,
)
from mcranker.cli.progress import fetch_models, live_is_wanted, work_off
from mcranker.cli.results import check_local_models, cost_text, show_estimates
from mcranker.cli.verb import Verb
from mcranker.rankers.keys import needed_models
from personas.console import numbers, print_page, table
from personas.format import counted
from personas.io.atomic import check_place

if TYPE_CHECKING:
    from rich.console import Console

_WARNINGS = ("MissingScores", "Unsupported")
_SHARED = "A call whose answer the ledger will have from an earlier row is counted there."


def _run(ctx: click.Context) -> int:
    given, invocation = ctx.params, ctx.ensure_object(Invocation)
    invocation.doing("getting ready; nothing was sent")
    if given["suite"] is not None and is_answer_suite(given["suite"]):
        from beir_eval.cli.run_answers import run_pipelines

        return run_pipelines(ctx)
    for name in ("questions", "docs", "index_folder", "judge_model", "runs"):
        if given[name]:
            flag = name.replace("_folder", "").replace("_", "-")
            raise click.UsageError(f"--{flag} goes with a suite of pipelines", ctx)
    experiment = given_experiment(ctx)
    quiet, out = given["quiet"], Path(experiment.plan.out)
    asking = [(spec.ranker, spec.options) for spec in experiment.rankers if not spec.run]
    models = needed_models(asking)
    with invocation.noting(live_is_wanted(quiet=quiet)):
        if given["dry_run"]:
            invocation.doing("estimating; nothing was sent")
            check_local_models(models)
            rows = [({"dataset": a, "label": b}, each) for a, b, each in experiment.estimate()]
            return show_estimates(ctx, ["data set", "ranker"], rows, _SHARED)
        fetch_models(models, quiet=quiet)
    if given["worker"]:
        return run_loop(partial(work_off, ctx, experiment.work(), experiment.queries()))
    # An error before anything is paid for if nothing can be written.
    out.mkdir(parents=True, exist_ok=True)
    check_place(out / "probe")
    results = run_loop(partial(_run_all, experiment, invocation, quiet=quiet))
    return _show(ctx, out, results)


async def _run_all(
    experiment: Experiment, invocation: Invocation, *, quiet: bool
) -> list[CellResult]:
    watch = Display(invocation, quiet=quiet)
    try:
        return [result async for result in experiment.run(watch)]
    finally:
        watch.close()


def _show(ctx: click.Context, out: Path, results: list[CellResult]) -> int:
    code, errors = _verdict(results)
    if ctx.params["output"] == "json":
        return print_json(
            code, [each.entry for each in errors], results=[_as_dict(each) for each in results]
        )
    print_page(lambda console: _show_results(console, results))
    for error in errors:
        say(f"{'warning' if error.code in _WARNINGS else 'error'}: {error.message}")
    finished = [result.metrics for result in results if result.metrics is not None]
    if finished:
        print_line(f"For tables, significance and figures: beir-eval report {out}")
    if any(metrics.taken for metrics in finished):
        print_line(f"To see why: personas report {out} --out FOLDER")
    return code


def _verdict(results: list[CellResult]) -> tuple[int, list[Failure]]:
    """Return the exit code, and what went wrong."""
    code, errors = DONE, []
    finished = [(result, result.metrics) for result in results if result.metrics is not None]
    missing = sum(metrics.scores.missing for _, metrics in finished if metrics.scores)
    if missing:
        code = MISSING_SCORES
        unit = ScoreCounts.unit(metrics.scores for _, metrics in finished)
        message = f"{counted(missing, *unit)} missing; the report says why"
        errors.append(Failure("MissingScores", message))
    for result, metrics in finished:
        if metrics.failed:
            code = ERROR
            query_id, why = next(iter(metrics.failed.items()))
            message = (
                f"{_name(result)}: {counted(len(metrics.failed), 'query', 'queries')} not ranked; "
                f"the first, {query_id!r}: {why}; run it again to try them again"
            )
            errors.append(Failure("QueriesFailed", message, retryable=True))
    unsupported = [result for result in results if result.unsupported]
    for result in unsupported:
        message = f"{_name(result)}: left out: {result.stopped}"
        errors.append(Failure("Unsupported", message))
    if unsupported and not finished:
        code = ERROR
    for result in results:
        if result.stopped is not None and not result.unsupported:
            code = ERROR
            found = failure(result.stopped)
            errors.append(replace(found, message=f"{_name(result)}: stopped: {found.message}"))
    return code, errors


def _name(result: CellResult) -> str:
    return f"{result.dataset}, {result.label}"


def _as_dict(result: CellResult) -> dict[str, Any]:
    """A result as plain values that JSON can hold."""
    named = ("dataset", "label", "calls", "reused", "cost")
    return {
        **{name: getattr(result, name) for name in named},
        "path": str(result.path),
        "metrics": result.metrics.model_dump(mode="json") if result.metrics else None,
        "first_stage": dict(result.first_stage.means),
    }


def _show_results(console: Console, results: list[CellResult]) -> None:
    """A row for each cell."""
    measure = results[0].first_stage.measures[0] if results else ""
    shown = measured_to(measure, [result.depth for result in results])
    headings = ("queries", shown, "ties by lot", "first stage", "calls now", "from ledger")
    rows = (
        (
            *(result.dataset, result.label),
            f"{len(result.first_stage.per_query[measure]):,}",
            *_measured(result, measure),
            measure_text(result.first_stage.means[measure]),
            *(f"{result.calls:,}", f"{result.reused:,}"),
            f"{metrics.scores.missing:,}" if metrics and metrics.scores else "-",
            cost_text(result.cost),
        )
        for result in results
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


command = Verb(
    "run",
    _run,
    keys=RUN_KEYS,
    params=run_flags(),
    help="""Run rankers over data sets, into run folders.

    SUITE is a name that --suites lists, or a TOML file. What was stopped goes on when
    the same command is given again: rankings that are there are kept, and every answer is in
    the ledger. Options hold for all rankers of the suite, but not before what one sets itself.
    -o dataset=TEXT says what the collection is, -o topic_field=desc which field of TREC topics is
    the query; -o k1=X, b=X, index=... and fields=... are as in 'beir-eval retrieve'.
    A suite of pipelines answers questions, and judges say how good the answers are.

    \b
      beir-eval run smoke
      beir-eval run table1 --dataset scifact --model openai:NAME --dry-run
      beir-eval run table4 --dataset nfcorpus --limit 50 --model openai:NAME --max-cost 5
      beir-eval run --dataset ./my_folder --ranker mcranker --ranker direct --model openai:NAME \\
          -o temperature=0
      beir-eval run rebel_fig1 --questions questions.jsonl --docs papers/ --limit 20
    """,
)
