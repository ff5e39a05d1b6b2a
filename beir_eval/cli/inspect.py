"""``mcranker inspect``: why the passages of a ranking that was kept rank where they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from beir_eval.cli.flags import count_flag, html_flag, qrels_flag
from beir_eval.data.datasets import read_qrels
from beir_eval.errors import RunFolderError
from mcranker.cli.flags import Reads, Verb, flag, output_flag, refuse, refuse_page
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, footer, ledger_files, present, print_json
from mcranker.paths import is_folder
from mcranker.replayed import replies_of
from personas.console import numbers, print_page, table
from personas.format import counted, optional
from personas.io.atomic import write_whole
from personas.io.rankings import read_rankings
from personas.io.select import Listed, choose, grades_of
from personas.ranking.record import RankingRecord
from personas.report import render_inspection
from personas.report.inspection import NO_REPLIES, inspection_dict
from personas.report.screen import clipped
from personas.report.terminal import find_hit, show_passage, show_ranking

_LONGEST_ID = 24


def _inspect(ctx: click.Context) -> int:
    given = ctx.params
    html, passage = given["html"], given["passage"]
    refuse_page(ctx, "passage")
    refuse(ctx, (html is None and given["ledger"] is not None, "--ledger goes with --html"))
    chosen = _chosen(given["file"], given["query"], given["qrels"])
    if isinstance(chosen, list):
        several = f"there are {len(chosen):,} queries in it; pick one with --query ID"
        refuse(ctx, (html is not None or passage is not None, several))
        queries = [asdict(row) for row in chosen]
        return present(ctx, lambda console: _show_list(console, chosen), queries=queries)
    if html is not None:
        replies = NO_REPLIES if given["ledger"] is None else replies_of(chosen, given["ledger"])
        made = render_inspection(
            chosen,
            grades=chosen.grades,
            other=chosen.other,
            replies=replies,
            footer=footer(ctx),
        )
        if given["ledger"] is not None and not replies:
            say(f"{given['ledger']}: no prompt of this ranking is answered there")
        write_whole(html, made)
        return DONE
    hits = chosen.hits if passage is None else (find_hit(chosen, passage),)
    if given["output"] == "json":
        return print_json(inspection=inspection_dict(chosen, hits))
    if passage is None:
        print_page(lambda console: show_ranking(console, chosen, hits, given["top"]))
    else:
        print_page(lambda console: show_passage(console, chosen, hits[0]))
    return DONE


def _chosen(source: str, query: str | None, qrels: str | None) -> RankingRecord | list[Listed]:
    if is_folder(Path(source)):
        raise RunFolderError(
            f"{source}: a folder; of a run, 'personas report {source} --out FOLDER' makes a page "
            "for each query"
        )
    grades = None if qrels is None else read_qrels(qrels)
    found = choose(read_rankings(source), query, grades)
    if isinstance(found, list) or grades is None or qrels is None:
        return found
    named = found.query.id or (query if query in grades else "")
    return found.beside(grades=grades_of(grades, named, qrels, found.ids), other=found.other)


def _show_list(console: Console, rows: Sequence[Listed]) -> None:
    """The queries, a line each, and how to pick one."""
    scored = any(row.ndcg is not None for row in rows)
    cells = (
        (
            *(str(row.number), clipped(row.query_id, _LONGEST_ID)),
            *([optional(row.ndcg)] if scored else []),
            clipped(row.text, 2 * console.width),
        )
        for row in rows
    )
    values = numbers("nDCG@10") if scored else []
    console.print(table([*numbers("number"), "id", *values, "query"], cells))
    count = counted(len(rows), "query", "queries")
    console.print(Text(f"{count}; pick one by id or number, e.g. --query {rows[0].number}"))


command = Verb(
    "inspect",
    _inspect,
    params=[
        click.Argument(["file"], type=Reads(), metavar="FILE"),
        flag("--query", "Which query of several. Without: a list.", metavar="ID|NUMBER"),
        flag("--passage", "Show one passage in detail, with its text.", metavar="RANK|ID"),
        count_flag("top", 20, "Passages listed in a table."),
        qrels_flag(),
        html_flag(),
        flag(
            "--ledger",
            "Show each score's prompt and reply on the page, as this ledger has them.",
            metavar="FILE|URL",
            type=Reads(ledger_files),
        ),
        output_flag("inspection (or queries)"),
    ],
    help="""Show why passages of a saved ranking rank where they do. No model is called.

    FILE is what 'mcranker rank' or 'rank-run' wrote with --save or --output json, or - for
    standard input. Of run folders, 'personas report' makes a page for each query.

    \b
      mcranker inspect ranking.json
      mcranker inspect ranking.json --passage 3
      mcranker inspect rankings.jsonl --query q7 --qrels qrels.tsv
      mcranker inspect rankings.jsonl --query q7 --html why.html --ledger ledger.sqlite
    """,
)
