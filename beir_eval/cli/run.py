"""``beir-eval run``: rankers over data sets, into run folders."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beir_eval.cli.run_plan import given_experiment, needed_models, run_flags
from beir_eval.cli.tracking import Display
from beir_eval.experiment.run import CellResult, Experiment
from beir_eval.experiment.run_folder import ScoreCounts
from beir_eval.report.numbers import measure_text
from mcranker.cli.failures import DONE, ERROR, MISSING_SCORES, failure, print_json
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import print_line
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.progress import live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb
from personas.format import counted, dollars
from personas.io.atomic import check_place

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.estimate import Estimate


_WARNINGS = ("MissingScores", "Unsupported")


def _run(ctx: click.Context) -> int:
    given, invocation = ctx.params, ctx.ensure_object(Invocation)
    invocation.doing("getting ready; nothing was sent")
    experiment = given_experiment(ctx)
    quiet = given["quiet"]
    with invocation.noting(live_is_wanted(quiet=quiet)):
        if given["dry_run"]:
            invocation.doing("estimating; nothing was sent")
            return _dry_run(ctx, experiment)
        fetch_models(needed_models(experiment), quiet=quiet)
    _check_out(Path(experiment.plan.out))
    results = run_loop(partial(_run_all, experiment, invocation, quiet=quiet))
    return _show(ctx, experiment, results)


async def _run_all(
    experiment: Experiment, invocation: Invocation, *, quiet: bool
) -> list[CellResult]:
    watch = Display(invocation, quiet=quiet)
    try:
        return [result async for result in experiment.run(watch)]
    finally:
        watch.close()


def _check_out(out: Path) -> None:
    """Raise an `OSError` before anything is paid for if nothing can be written."""
    out.mkdir(parents=True, exist_ok=True)
    check_place(out / "probe")


def _dry_run(ctx: click.Context, experiment: Experiment) -> int:
    from mcranker.cli.estimate import check_local_models
    from mcranker.estimate import Estimate as Sum
    from personas.console import print_page

    check_local_models(needed_models(experiment))
    rows = list(experiment.estimate())
    total = sum((estimate for _, _, estimate in rows), start=Sum())
    if ctx.params["output"] == "json":
        listed = [
            {"dataset": dataset, "label": label, **estimate.to_dict()}
            for dataset, label, estimate in rows
        ]
        print_json(estimates=listed, total=total.to_dict())
    else:
        print_page(lambda console: _show_estimates(console, rows, total))
    return DONE


def _show(ctx: click.Context, experiment: Experiment, results: list[CellResult]) -> int:
    from personas.console import print_page

    code, errors = _verdict(results)
    if ctx.params["output"] == "json":
        listed = [_as_dict(result) for result in results]
        return print_json(code, errors, results=listed)
    print_page(lambda console: _show_results(console, results))
    for error in errors:
        say(f"{'warning' if error['code'] in _WARNINGS else 'error'}: {error['message']}")
    if any(result.metrics is not None for result in results):
        out = experiment.plan.out
        print_line(f"For tables, significance and figures: beir-eval report {out}")
    if any(result.metrics is not None and result.metrics.taken for result in results):
        print_line(f"To see why: personas report {out} --out FOLDER")
    return code


def _show_estimates(
    console: Console, rows: list[tuple[str, str, Estimate]], total: Estimate
) -> None:
    """A row for each cell, and the sum."""
    from rich.text import Text

    from personas.console import numbers, table

    def figures(each: Estimate) -> list[str]:
        fewest = f"{each.calls_at_least:,} to " if each.calls_at_least < each.calls else ""
        counts = (each.reused, each.input_tokens, each.output_tokens)
        return [
            f"{fewest}{each.calls:,}",
            *(f"{count:,}" for count in counts),
            *(_cost(each.cost), _cost(each.cost_at_most)),
        ]

    columns = numbers("calls", "in ledger", "tokens in", "tokens out", "cost", "at most")
    made = table(
        ["data set", "ranker", *columns],
        ((dataset, label, *figures(each)) for dataset, label, each in rows),
    )
    made.add_section()
    made.add_row("all", "", *figures(total))
    console.print(made)
    console.print(
        Text(
            "A call whose answer the ledger will have from an earlier row is counted there. "
            "Nothing was sent."
        )
    )


def _verdict(results: list[CellResult]) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code, and the entries of an envelope's ``errors``."""
    code, errors = DONE, []
    finished = [(result, result.metrics) for result in results if result.metrics is not None]
    missing = sum(metrics.scores.missing for _, metrics in finished if metrics.scores)
    if missing:
        code = MISSING_SCORES
        unit = ScoreCounts.unit(metrics.scores for _, metrics in finished)
        message = f"{counted(missing, *unit)} missing; the report says why"
        errors.append({"code": "MissingScores", "message": message, "retryable": False})
    for result, metrics in finished:
        if metrics.failed:
            code = ERROR
            query_id, why = next(iter(metrics.failed.items()))
            count = counted(len(metrics.failed), "query", "queries")
            message = (
                f"{result.dataset}, {result.label}: {count} not ranked; the first, "
                f"{query_id!r}: {why}; run it again to try them again"
            )
            errors.append({"code": "QueriesFailed", "message": message, "retryable": True})
    unsupported = [result for result in results if result.unsupported]
    for result in unsupported:
        message = f"{result.dataset}, {result.label}: left out: {result.stopped}"
        errors.append({"code": "Unsupported", "message": message, "retryable": False})
    if unsupported and not finished:
        code = ERROR
    for result in results:
        if result.stopped is not None and not result.unsupported:
            code = ERROR
            found = failure(result.stopped)
            message = f"{result.dataset}, {result.label}: stopped: {found.message}"
            errors.append({**found.entry, "message": message})
    return code, errors


def _as_dict(result: CellResult) -> dict[str, Any]:
    """A result as plain values that JSON can hold."""
    return {
        "dataset": result.dataset,
        "label": result.label,
        "path": str(result.path),
        "metrics": result.metrics.model_dump(mode="json") if result.metrics else None,
        "first_stage": dict(result.first_stage.means),
        "calls": result.calls,
        "reused": result.reused,
        "cost": result.cost,
    }


def _show_results(console: Console, results: list[CellResult]) -> None:
    """A row for each cell."""
    from rich.table import Column

    from beir_eval.report.warnings import measured_to
    from personas.console import numbers, table

    measure = results[0].first_stage.measures[0] if results else ""
    shown = measured_to(measure, [result.depth for result in results])
    columns = numbers(
        "queries",
        shown,
        "ties by lot",
        "first stage",
        "calls now",
        "from ledger",
        "missing",
        "cost",
    )
    rows = (
        (
            result.dataset,
            result.label,
            f"{len(result.first_stage.per_query[measure]):,}",
            measure_text(result.metrics.means[measure]) if result.metrics else _end(result),
            _by_lot(result, measure),
            measure_text(result.first_stage.means[measure]),
            f"{result.calls:,}",
            f"{result.reused:,}",
            f"{result.metrics.scores.missing:,}"
            if result.metrics and result.metrics.scores
            else "-",
            _cost(result.cost),
        )
        for result in results
    )
    label = Column("ranker", min_width=8, overflow="fold")
    # Headings of two words may take two lines, so that no number is cut.
    narrow = [dataclasses.replace(each, no_wrap=False) for each in columns]
    console.print(table(["data set", label, *narrow], rows))


def _end(result: CellResult) -> str:
    return "left out" if result.unsupported else "stopped"


def _by_lot(result: CellResult, measure: str) -> str:
    ties = result.metrics.ties.get(measure) if result.metrics else None
    return "-" if ties is None or ties.by_lot is None else measure_text(ties.by_lot)


def _cost(cost: float | None) -> str:
    return "-" if cost is None else dollars(cost)


command = Verb(
    "run",
    _run,
    params=run_flags(),
    help="""Run rankers over data sets, into run folders.

    SUITE is a name that 'beir-eval suites' lists, or a TOML file. What was stopped goes on when
    the same command is given again: rankings that are there are kept, and every answer is in
    the ledger. Flags for the method hold for all rankers of the suite.

    \b
      beir-eval run smoke
      beir-eval run table1 --dataset scifact --model openai:NAME --dry-run
      beir-eval run table4 --dataset nfcorpus --limit 50 --model openai:NAME --max-cost 5
      beir-eval run --dataset ./my_folder --ranker mcranker --ranker direct --model openai:NAME
    """,
)
