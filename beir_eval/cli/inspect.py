"""``mcranker inspect``: why the passages of a ranking that was kept rank where they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from beir_eval.cli.flags import count_flag, html_flag, qrels_flag
from beir_eval.data.datasets import read_qrels
from beir_eval.errors import RunFolderError
from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    RANKINGS,
    DataFolder,
    Ranked,
    RunFolder,
    find_runs,
    index_rankings,
)
from beir_eval.persona_report.sources import KeptQuery, Source, find_sources
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, footer, present, print_json
from mcranker.cli.verb import Reads, Verb, flag, output_flag, refuse_page
from mcranker.paths import is_file, is_folder
from personas.console import print_page
from personas.errors import SchemaError
from personas.format import counted
from personas.io.atomic import write_whole
from personas.io.lines import STDIN
from personas.io.rankings import read_rankings
from personas.io.select import Grades, Listed, choose, grades_of, place_of_query
from personas.ranking.record import RankingRecord
from personas.report import render_inspection
from personas.report.inspection import inspection_dict
from personas.report.screen import NOTE, Column, Screen, clipped
from personas.report.terminal import find_hit, show_inspection

if TYPE_CHECKING:
    from rich.console import Console


_LONGEST_ID = 24
_MOST_NAMED = 8
_MANIFEST = "manifest.json"


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
    folder = None if source == STDIN else _run_folder_of(source)
    if folder is None:
        found = choose(read_rankings(source), query, grades)
    else:
        found = _choose_from_run(folder, query, grades)
    if isinstance(found, list) or grades is None:
        return found
    named = found.query.id or (query if query in grades else "")
    of_query = grades_of(grades, named, judgements, found.ids)
    return found.beside(grades=of_query, other=found.other)


def _run_folder_of(source: str) -> Path | None:
    """The run folder that a path means: itself, or that of its ``rankings.jsonl``."""
    path = Path(source)
    if not is_folder(path):
        folder = path.parent.resolve() if path.parent.name in {"", ".."} else path.parent
        is_run = path.name == RANKINGS and is_file(folder / _MANIFEST)
        return folder if is_run and is_folder(folder.parent / DATA_FOLDER) else None
    if not is_file(path / _MANIFEST):
        found = find_runs([source])
        named = ", ".join(repr(str(run.path)) for run in found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        count = counted(len(found), "run")
        raise RunFolderError(
            f"{source!r} is no run, but holds {count}: {named}{more}; give one of them"
        )
    if path.resolve().name == DATA_FOLDER:
        data = DataFolder.open(path).manifest
        raise RunFolderError(
            f"{source}: holds what was ranked ({data.dataset}); give the folder of a run beside it"
        )
    return path.resolve() if path.name in {"", ".."} else path


def _choose_from_run(
    folder: Path, query: str | None, grades: Grades | None
) -> RankingRecord | list[Listed]:
    """The ranking of a run that `query` names; or a list, if it is None and there are several."""
    run, path = RunFolder.open(folder), folder / RANKINGS
    source = next(found for found in find_sources([folder])[0] if found.run.path == run.path)
    ranked = index_rankings(path, finished=run.manifest.finished)
    texts = source.data.queries()
    known = source.data.qrels() if grades is None else grades
    ids = [query_id for query_id in texts if query_id in ranked.offsets]
    if query is None and len(ids) > 1:
        if lost := [query_id for query_id in texts if query_id not in ranked.offsets]:
            are = f"{counted(len(lost), 'query', 'queries')} {'is' if len(lost) == 1 else 'are'}"
            why = _why_not(source, lost[0])
            say(f"{are} not among them; the first, {lost[0]!r}, {why}")
        return choose(_lines(path, ranked, ids), None, known)
    if query is None:
        query_id = ids[0]
    elif query in texts and query not in ids:
        raise RunFolderError(f"{source.run.path}: query {query!r} {_why_not(source, query)}")
    else:
        try:
            query_id = ids[place_of_query(query, ids)]
        except SchemaError as error:
            raise RunFolderError(f"{source.run.path}: {error}") from None
    offset, others = ranked.offsets[query_id], source.others()
    kept = KeptQuery(offset, others.get(query_id), known.get(query_id))
    return source.read([kept])[0]


def _why_not(source: Source, query_id: str) -> str:
    if not source.run.manifest.finished:
        return "is not ranked yet; run the same 'beir-eval run' again"
    reason = source.run.metrics().failed.get(query_id)
    return f"was not ranked: {reason}" if reason else "was not ranked"


def _lines(path: Path, ranked: Ranked, ids: list[str]) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as lines:
        for query_id in ids:
            lines.seek(ranked.offsets[query_id])
            yield f"{path}: query {query_id!r}", lines.readline()


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
