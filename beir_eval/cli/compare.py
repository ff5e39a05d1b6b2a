"""``beir-eval compare``: the queries on which two runs differ most, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from beir_eval.cli.flags import count_flag, judgement_flags, run_folders
from mcranker.cli.failures import DONE, envelope
from mcranker.cli.files import Writes, output
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, output_flag

if TYPE_CHECKING:
    from beir_eval.compare.basis import Basis
    from beir_eval.compare.model import RunComparison
    from beir_eval.compare.pair import Direction
    from beir_eval.compare.sources import Pair


def _compare(ctx: click.Context) -> int:
    from beir_eval.compare.pair import compare_pair
    from beir_eval.compare.sources import open_pair

    given = ctx.params
    if given["qrels"] and given["dataset"]:
        raise click.UsageError("give --qrels or --dataset, not both", ctx)
    if given["html"] is not None and (given["output"] != "table" or given["out"] is not None):
        raise click.UsageError(
            "--html writes the page and prints nothing; leave --output and --out out", ctx
        )
    pair = open_pair(given["a"], given["b"], basis=_basis(ctx))
    comparison = compare_pair(
        pair,
        measure=given["measure"],
        top=given["top"],
        passages=given["passages"],
        direction=_direction(ctx),
    )
    if given["html"] is not None:
        _write_page(pair, comparison, given["html"])
    else:
        _write(comparison, given["output"], given["out"])
    return DONE


def _write_page(pair: Pair, comparison: RunComparison, name: str) -> None:
    from beir_eval.compare.pages import compared_runs
    from personas.io.atomic import write_whole
    from personas.report.compare.page import render_comparison

    explained, runs = compared_runs(pair, comparison)
    page = render_comparison(
        explained, before=comparison.a.label, after=comparison.b.label, runs=runs
    )
    write_whole(name, page)
    say(f"the page is {name}")


def _direction(ctx: click.Context) -> Direction:
    gains, losses = ctx.params["gains"], ctx.params["losses"]
    if gains == losses:
        return "both"
    return "gains" if gains else "losses"


def _basis(ctx: click.Context) -> Basis | None:
    from beir_eval.compare.basis import basis_of_dataset, basis_of_qrels

    if ctx.params["qrels"]:
        return basis_of_qrels(ctx.params["qrels"])
    if ctx.params["dataset"]:
        return basis_of_dataset(ctx.params["dataset"], split=ctx.params["split"])
    return None


def _write(comparison: RunComparison, form: str, out: str | None) -> None:
    from beir_eval.compare.text import as_dict, as_markdown, show_comparison
    from personas.console import print_page, rendered

    if form == "table" and out is None:
        print_page(lambda console: show_comparison(console, comparison))
        return
    if form == "json":
        text = envelope(DONE, [], comparison=as_dict(comparison))
    elif form == "md":
        text = as_markdown(comparison)
    else:
        text = rendered(lambda console: show_comparison(console, comparison))
    with output(out) as write:
        write(text)


command = Verb(
    "compare",
    _compare,
    params=[
        click.Argument(["a"], type=run_folders(), metavar="A"),
        click.Argument(["b"], type=run_folders(), metavar="B"),
        click.Option(
            ["--measure"],
            default="nDCG@10",
            show_default=True,
            metavar="NAME",
            help="Measure to compare by, as ir-measures writes it.",
        ),
        count_flag("top", 5, "Queries to explain: those that changed most."),
        count_flag("passages", 4, "Passages to show for each of them, at most."),
        click.Option(["--gains"], is_flag=True, help="Only queries on which B is better."),
        click.Option(["--losses"], is_flag=True, help="Only queries on which B is worse."),
        *judgement_flags(),
        output_flag("comparison", forms=("table", "md", "json"), said="md: Markdown; "),
        click.Option(["--out"], type=Writes(), help="Write to FILE instead of standard output."),
        click.Option(
            ["--html"],
            type=Writes(),
            help="Write an HTML page instead, with the ranks before and after of each query.",
        ),
    ],
    help="""See which queries two runs differ on most, and why.

    A and B are folders of 'beir-eval run' (OUT/DATASET/RANKER), TREC files, or
    'first-stage' for the first stage's run of the other one. Differences are those from A
    to B: what got better is better in B.

    For each query: the passages whose moves made the difference, where the first stage, A and B
    ranked them, and what each persona gave them. An effect is what a passage's move adds to the
    measure.
    """,
)
