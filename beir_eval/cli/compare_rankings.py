"""``mcranker compare``: passages that moved between rankings, and the scores that moved them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from beir_eval.cli.compare import write_page
from beir_eval.cli.flags import run_folders
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, Writes
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.verb import Verb, output_flag
from mcranker.paths import is_file

if TYPE_CHECKING:
    from personas.report.compare.text import Compared

_RANKINGS = run_folders("*.json", "*.jsonl", "*.ndjson")


def _compare(ctx: click.Context) -> int:
    given = ctx.params
    if given["html"] is not None and given["output"] == "json":
        raise click.UsageError("--html writes the page and prints nothing; leave --output out", ctx)
    found = _found(ctx)
    sources = given["before"], given["after"]
    if given["html"] is not None:
        write_page(ctx, found, sources, (_name(sources[0]), _name(sources[1])))
        return DONE
    from personas.console import print_page
    from personas.report.compare.text import as_dict, show_comparison

    if given["output"] == "json":
        print_json(comparison=as_dict(found))
    else:
        print_page(lambda console: show_comparison(console, found, top=given["top"]))
    return DONE


def _found(ctx: click.Context) -> Compared:
    given = ctx.params
    before, after = given["before"], given["after"]
    are_runs = [is_file(Path(name) / "manifest.json") for name in (before, after)]
    if any(are_runs) and not all(are_runs):
        run, other = (before, after) if are_runs[0] else (after, before)
        raise click.UsageError(
            f"{run!r} is a run folder and {other!r} is none; give two run folders, or two files "
            "of rankings",
            ctx,
        )
    judgements = given["qrels"]
    if any(are_runs):
        from beir_eval.compare.runs import compare_pair
        from beir_eval.compare.sources import open_pair

        if judgements:
            raise click.UsageError("run folders have their own judgements; leave --qrels out", ctx)
        pair = open_pair(before, after)
        runs = compare_pair(pair, top=given["queries"], query=given["query"])
        return runs if given["query"] is None else runs.comparisons[0]
    from beir_eval.cli.compare_sources import compare_files
    from beir_eval.data.qrels import read_qrels

    return compare_files(
        before,
        after,
        query=given["query"],
        queries=given["queries"],
        grades=None if judgements is None else read_qrels(judgements),
        source=judgements or "",
    )


def _name(source: str) -> str:
    """The source without its folders, unless it is named like them."""
    return Path(source).name or source


command = Verb(
    "compare",
    _compare,
    params=[
        click.Argument(["before"], type=_RANKINGS, metavar="BEFORE"),
        click.Argument(["after"], type=_RANKINGS, metavar="AFTER"),
        click.Option(
            ["--query"],
            metavar="ID|NUMBER",
            help="Which query, if there are several. Without: those that changed most.",
        ),
        click.Option(
            ["--queries"],
            type=WholeNumber(min=1, max=100),
            default=5,
            show_default=True,
            help="Queries to explain, if there are several: those that changed most.",
        ),
        click.Option(
            ["--top"],
            type=WholeNumber(min=1),
            default=10,
            show_default=True,
            help="Moved passages listed in a table.",
        ),
        click.Option(
            ["--qrels"],
            type=Reads(),
            help="Judgements: query id, document id and grade, as BEIR or TREC write them. Run "
            "folders have their own.",
        ),
        click.Option(["--html"], type=Writes(), help="Write an HTML page instead."),
        output_flag("comparison"),
    ],
    help="""See what moved from one ranking to another, and whose scores moved it.

    No model is called.

    BEFORE and AFTER are what 'mcranker rank' wrote with --save or --output json, of one query or
    of many; folders of such files; or two run folders of 'beir-eval run'.

    \b
      mcranker rank "best masks" --docs passages.jsonl --save before.json --save-team team.yaml
      ... edit team.yaml ...
      mcranker rank "best masks" --docs passages.jsonl --team team.yaml --save after.json
      mcranker compare before.json after.json --html moved.html
    """,
)
