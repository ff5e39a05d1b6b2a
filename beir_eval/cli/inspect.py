"""``mcranker inspect``: why the passages of a ranking that was kept rank where they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.text import Text

from beir_eval.cli.flags import count_flag, html_flag, qrels_flag
from beir_eval.cli.inspect_runs import choose_from_run, run_folder_of
from beir_eval.data.datasets import read_qrels
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads
from mcranker.cli.footer import footer
from mcranker.cli.verb import Verb, flag, output_flag, present, refuse_page
from personas.console import print_page
from personas.format import counted
from personas.io.atomic import write_whole
from personas.io.lines import STDIN
from personas.io.rankings import read_rankings
from personas.io.select import choose, grades_of
from personas.ranking.record import RankingRecord
from personas.report import render_inspection
from personas.report.query.as_json import inspection_dict
from personas.report.terminal.screen import NOTE, Column, Screen, clipped
from personas.report.terminal.terminal import find_hit, show_inspection

if TYPE_CHECKING:
    from rich.console import Console

    from personas.io.select import Listed

_LONGEST_ID = 24


def _inspect(ctx: click.Context) -> int:
    given = ctx.params
    html, passage = given["html"], given["passage"]
    refuse_page(ctx, "passage")
    chosen = _chosen(ctx)
    if isinstance(chosen, list):
        if html is not None or passage is not None:
            raise click.UsageError(
                f"there are {len(chosen):,} queries in it; pick one with --query ID", ctx
            )
        queries = [asdict(row) for row in chosen]
        return present(ctx, lambda console: _show_list(console, chosen), queries=queries)
    if html is not None:
        last = footer(ctx)
        page = render_inspection(chosen, grades=chosen.grades, other=chosen.other, footer=last)
        write_whole(html, page)
        return DONE
    hits = chosen.hits if passage is None else (find_hit(chosen, passage),)
    if given["output"] == "json":
        return print_json(inspection=inspection_dict(chosen, hits))
    print_page(lambda console: show_inspection(console, chosen, top=given["top"], passage=passage))
    return DONE


def _chosen(ctx: click.Context) -> RankingRecord | list[Listed]:
    source, query, judgements = (ctx.params[name] for name in ("file", "query", "qrels"))
    grades = None if judgements is None else read_qrels(judgements)
    folder = None if source == STDIN else run_folder_of(source)
    if folder is None:
        found = choose(read_rankings(source), query, grades)
    else:
        found = choose_from_run(folder, query, grades)
    if isinstance(found, list) or grades is None:
        return found
    named = found.query.id or (query if query in grades else "")
    of_query = grades_of(grades, named, judgements, found.ids)
    return found.beside(grades=of_query, other=found.other)


def _show_list(console: Console, rows: Sequence[Listed]) -> None:
    """The queries, a line each, and how to pick one."""
    screen = Screen(console)
    numbers = Column(("number",), [Text(str(row.number)) for row in rows])
    ids = [Text(clipped(row.query_id, _LONGEST_ID)) for row in rows]
    columns = [numbers, Column(("id",), ids, right=False)]
    if any(row.ndcg is not None for row in rows):
        values = [Text("" if row.ndcg is None else f"{row.ndcg:.3f}") for row in rows]
        columns.append(Column(("nDCG@10",), values))
    texts = [Text(clipped(row.text, 4 * screen.width)) for row in rows]
    screen.cells(columns, rest=Column(("query",), texts, right=False))
    example = next((row.query_id for row in rows if row.query_id), rows[0].number)
    screen.words(
        f"{counted(len(rows), 'query', 'queries')}; pick one by id or number, for example "
        f"--query {clipped(str(example), _LONGEST_ID)}",
        NOTE,
    )


command = Verb(
    "inspect",
    _inspect,
    params=[
        click.Argument(["file"], type=Reads(), metavar="FILE"),
        flag(
            "--query",
            "Which query, if there are several. Without: a list of them. With --qrels also the id "
            "of the judgements, if the only ranking has none.",
            metavar="ID|NUMBER",
        ),
        flag("--passage", "Show one passage in detail, with its text.", metavar="RANK|ID"),
        count_flag("top", 20, "Passages listed in a table."),
        qrels_flag(" A run folder has its own."),
        html_flag(),
        output_flag("inspection (or queries)"),
    ],
    help="""Show why passages of a saved ranking rank where they do. No model is called.

    FILE is what 'mcranker rank' wrote with --save or --output json, - for standard input, or a
    run folder of 'beir-eval run'.

    \b
      mcranker inspect ranking.json
      mcranker inspect ranking.json --passage 3
      mcranker inspect rankings.jsonl --query q7 --qrels qrels.tsv
      mcranker inspect runs/scifact/mc-2-recruits --query 36 --html why.html
    """,
)
