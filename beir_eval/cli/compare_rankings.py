"""``mcranker compare``: what moved from one ranking to another, and whose scores moved it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beir_eval.cli.flags import run_folders
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, Writes
from mcranker.cli.invocation import say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.verb import Verb, output_flag
from mcranker.paths import is_file
from personas.io.atomic import write_whole
from personas.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from personas.ranking.comparison import RankingComparison
    from personas.report.compare.page import ComparedRuns

_RANKINGS = run_folders("*.json", "*.jsonl", "*.ndjson")
_LISTED = 20  # queries in a table


def _compare(ctx: click.Context) -> int:
    given = ctx.params
    _check_usage(ctx)
    comparisons, runs = _found(ctx)
    if given["html"] is not None:
        from personas.report.compare.page import render_comparison

        page = render_comparison(
            comparisons, before=_name(given["before"]), after=_name(given["after"]), runs=runs
        )
        write_whole(given["html"], page)
        say(f"the page is {given['html']}")
    elif given["output"] == "json":
        from personas.report.diff_lines import diff_lines

        found = [
            {
                **each.to_dict(),
                "team": [asdict(line) for line in diff_lines(each.team)] if each.team else [],
            }
            for each in comparisons
        ]
        if runs is None:
            print_json(comparison=found[0])
        else:
            print_json(queries=[asdict(row) for row in runs.rows], comparisons=found)
    else:
        from personas.console import print_page

        print_page(lambda console: _show(console, comparisons, runs, given["top"]))
    return DONE


def _check_usage(ctx: click.Context) -> None:
    given = ctx.params
    if given["html"] is None:
        return
    if given["output"] == "json":
        raise click.UsageError("--html writes the page and prints nothing; leave --output out", ctx)


def _found(ctx: click.Context) -> tuple[list[RankingComparison], ComparedRuns | None]:
    given = ctx.params
    before, after = given["before"], given["after"]
    are_runs = [is_file(Path(name) / "manifest.json") for name in (before, after)]
    if all(are_runs):
        return _found_in_runs(ctx)
    if any(are_runs):
        run, other = (before, after) if are_runs[0] else (after, before)
        raise click.UsageError(
            f"{run!r} is a run folder and {other!r} is none; give two run folders, or two files "
            "of rankings",
            ctx,
        )
    from beir_eval.cli.compare_sources import compare_files
    from beir_eval.data.qrels import read_qrels

    judgements = given["qrels"]
    return compare_files(
        before,
        after,
        query=given["query"],
        queries=given["queries"],
        grades=None if judgements is None else read_qrels(judgements),
        source=judgements or "",
    )


def _found_in_runs(ctx: click.Context) -> tuple[list[RankingComparison], ComparedRuns | None]:
    from beir_eval.compare.pages import compared_runs
    from beir_eval.compare.pair import compare_pair
    from beir_eval.compare.sources import open_pair

    given = ctx.params
    if given["qrels"]:
        raise click.UsageError("run folders have their own judgements; leave --qrels out", ctx)
    pair = open_pair(given["before"], given["after"])
    found = compare_pair(pair, top=given["queries"])
    if given["query"] is None:
        return compared_runs(pair, found)
    return compared_runs(pair, found, query=given["query"])[0], None


def _name(source: str) -> str:
    """The source without its folders, unless it is named like them."""
    return Path(source).name or source


def _show(
    console: Console,
    comparisons: Sequence[RankingComparison],
    runs: ComparedRuns | None,
    top: int,
) -> None:
    from personas.report.compare.terminal import show_comparison

    if runs is not None:
        _show_runs(console, runs)
    for each in comparisons:
        if runs is not None:
            console.print()
        show_comparison(console, each, top=top)


def _show_runs(console: Console, runs: ComparedRuns) -> None:
    from rich.text import Text

    from personas.report.terminal.screen import NOTE, Column, Screen, clipped
    from personas.words import optional, signed

    screen = Screen(console)
    screen.words(clipped(runs.title, 300), "bold")
    for note in runs.notes:
        screen.words(clipped(note, 600), "yellow", hang=2)
    for sentence in runs.verdict:
        screen.words(clipped(sentence, 600), hang=2)
    screen.line()
    rows = runs.rows[:_LISTED]
    columns = [Column(("id",), [Text(clipped(row.query_id, 24)) for row in rows], right=False)]
    if runs.measure:
        columns += [
            Column((f"{runs.measure}", "before"), [Text(optional(row.before)) for row in rows]),
            Column(("", "after"), [Text(optional(row.after)) for row in rows]),
            Column(
                ("", "change"),
                [
                    Text(
                        ""
                        if row.before is None or row.after is None
                        else signed(row.after - row.before)
                    )
                    for row in rows
                ],
            ),
        ]
    columns.append(Column(("moved",), [Text(f"{row.moved}/{row.passages}") for row in rows]))
    room = max(10, screen.width - sum(column.width + 2 for column in columns))
    texts = [Text(clipped(row.text, 4 * room)) for row in rows]
    columns.append(Column(("query",), texts, right=False, fixed_width=room))
    screen.cells(columns, 2)
    if len(runs.rows) > len(rows):
        more = counted(len(runs.rows) - len(rows), "more query", "more queries")
        screen.words(f"{more}; --output json lists all", NOTE)


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
        output_flag("comparison (or queries, comparisons)"),
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
