"""``beir-eval run``: rankers over data sets, into run folders."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from beir_eval.cli.run_flags import run_flags
from beir_eval.cli.run_plan import given_experiment, needed_models
from beir_eval.cli.run_results import as_dict, show_estimates, show_results, verdict
from beir_eval.cli.tracking import Display
from beir_eval.experiment.run import CellResult, Experiment
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import print_line
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.progress import live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import Verb

__all__ = ["command"]


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
    """Find out before anything is paid for that nothing can be written.

    Raises:
        OSError: the folder cannot be made, or nothing can be written there.
    """
    out.mkdir(parents=True, exist_ok=True)
    probe = out / ".write-test"
    try:
        probe.write_bytes(b"")
    finally:
        probe.unlink(missing_ok=True)


def _dry_run(ctx: click.Context, experiment: Experiment) -> int:
    from mcranker.cli.estimate import check_local_models
    from mcranker.cli.tables import print_page
    from mcranker.estimate import Estimate as Sum

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
        print_page(lambda console: show_estimates(console, rows, total))
    return DONE


def _show(ctx: click.Context, experiment: Experiment, results: list[CellResult]) -> int:
    from mcranker.cli.tables import print_page

    code, errors = verdict(results)
    if ctx.params["output"] == "json":
        listed = [as_dict(result) for result in results]
        return print_json(code, errors, results=listed)
    print_page(lambda console: show_results(console, results))
    for error in errors:
        say(f"{'warning' if error['code'] == 'MissingScores' else 'error'}: {error['message']}")
    if any(result.metrics is not None for result in results):
        out = experiment.plan.out
        print_line(f"For tables, significance and figures: beir-eval report {out}")
        print_line(f"To see why: personas report {out} --out FOLDER")
    return code


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
