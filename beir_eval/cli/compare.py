"""``compare``: what moved between two rankings, or two runs, and whose scores moved it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from beir_eval.cli.flags import count_flag, html_flag, is_given, qrels_flag
from beir_eval.compare import compare_files, compare_run_folders
from mcranker.cli.flags import Reads, Verb, flag, output_flag, refuse, refuse_page
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, footer, present
from mcranker.paths import is_file, is_folder
from personas.io.atomic import write_whole
from personas.io.lines import STDIN
from personas.io.rankings import SUFFIXES
from personas.report.comparison import Compared, render_comparison, show_comparison


def _compare(ctx: click.Context) -> int:
    given = ctx.params
    before, after = sources = given["before"], given["after"]
    refuse_page(ctx)
    stored = [_holds_rankings(name) for name in sources]
    if any(stored) and not all(stored):
        run, other = sources if stored[1] else (after, before)
        raise click.UsageError(
            f"{run!r} is a run and {other!r} is none; give two runs (OUT/DATASET/RANKER), "
            "or two files or folders of saved rankings",
            ctx,
        )
    found: Compared
    if all(stored):
        names = ("measure", "queries")
        unfit = "--{} goes with runs; leave it out".format
        refuse(ctx, *((is_given(ctx, each), unfit(each)) for each in names))
        found = compare_files(before, after, query=given["query"], qrels=given["qrels"])
    else:
        refuse(ctx, (given["qrels"], "run folders bring their own judgements; leave out --qrels"))
        options = {"measure": given["measure"], "top": given["queries"], "query": given["query"]}
        found = compare_run_folders(before, after, **options)
    if given["html"] is None:
        shown = partial(show_comparison, found=found, top=given["passages"])
        return present(ctx, shown, comparison=found.to_dict())
    one, other = (Path(name).name or name for name in sources)
    page = render_comparison(found, before=one, after=other, footer=footer(ctx))
    write_whole(given["html"], page)
    say(f"the page is {given['html']}")
    return DONE


def _holds_rankings(name: str) -> bool:
    """True for a file or folder of saved rankings; False for a run."""
    path = Path(name)
    if is_file(path / "manifest.json"):
        return False
    if is_folder(path) or name == STDIN or path.suffix.lower() in SUFFIXES:
        return True
    if not is_file(path):
        return False
    with path.open("rb") as file:
        return file.read(1) in (b"{", b"[")


command = Verb(
    "compare",
    _compare,
    params=[
        click.Argument(["before"], type=Reads(), metavar="BEFORE"),
        click.Argument(["after"], type=Reads(), metavar="AFTER"),
        flag("--query", "Query to explain; of runs, else the most changed.", metavar="ID|NUMBER"),
        count_flag("queries", 5, "Queries of runs to explain."),
        count_flag("passages", 10, "Passages to list of each query: those that moved most."),
        flag("--measure", "Measure to compare runs by.", default="nDCG@10", metavar="NAME"),
        qrels_flag(" Of saved rankings; run folders have their own."),
        output_flag("comparison"),
        html_flag(),
    ],
    help="""See what moved between two rankings or two runs, and whose scores moved it.

    No model is called. BEFORE and AFTER are what 'mcranker rank' wrote with --save or --output
    json, or folders of such files, --query naming one of several; or runs of a data set: folders of
    'beir-eval run' (OUT/DATASET/RANKER).

    For each query: the passages that moved, their ranks and relevance, the part of each in nDCG,
    and the share of each persona in the change of scores.

    \b
      mcranker compare before.json after.json --html moved.html
      mcranker compare runs/x/scifact/direct runs/x/scifact/mc
    """,
)
