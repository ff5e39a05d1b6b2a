"""``mcranker inspect``: why the passages of a ranking that was kept rank where they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from pydantic_core import to_jsonable_python

from beir_eval.cli.flags import run_folders
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, Writes
from mcranker.cli.made import command_line, today
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.verb import Verb, output_flag
from personas.format import counted
from personas.io.atomic import write_whole
from personas.io.lines import STDIN
from personas.provenance import provenance
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.ranking.usage import Usage
from personas.survey.query import QueryFindings

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.cli.inspect_sources import Listed

_LONGEST_ID = 24
_OF_CALLS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens")
_OF_HITS = (
    *("rank", "doc_id", "score", "at_most", "scores", "ranks", "criteria", "missing", "skipped"),
    *("cut", "suspicions", "disagreement", "score_range", "first_stage_rank", "first_stage_score"),
    *("moved", "grade"),
    *("other", "rank_of_all", "rank_without", "raised_most_by", "sunk_most_by", "title", "text"),
)


def _inspect(ctx: click.Context) -> int:
    given = ctx.params
    _check_usage(ctx)
    chosen = _chosen(ctx)
    if isinstance(chosen, list):
        if given["html"] is not None or given["passage"] is not None:
            raise click.UsageError(
                f"there are {len(chosen):,} queries in it; pick one with --query ID", ctx
            )
        _list(chosen, given["output"])
    elif given["html"] is not None:
        from mcranker import __version__
        from personas.report import render_inspection
        from personas.report.site import Made

        made = Made(__version__, today(), command_line(ctx))
        page = render_inspection(chosen, grades=chosen.grades, other=chosen.other, made=made)
        write_whole(given["html"], page)
    else:
        _show(chosen, given)
    return DONE


def _check_usage(ctx: click.Context) -> None:
    given = ctx.params
    if given["html"] is None:
        return
    if given["passage"] is not None:
        raise click.UsageError("the page of --html shows every passage; leave --passage out", ctx)
    if given["output"] == "json":
        raise click.UsageError("--html writes the page and prints nothing; leave --output out", ctx)


def _chosen(ctx: click.Context) -> RankingRecord | list[Listed]:
    from beir_eval.cli.inspect_runs import choose_from_run, run_folder_of
    from beir_eval.cli.inspect_sources import choose, grades_of
    from beir_eval.data.qrels import read_qrels
    from mcranker.errors import InputError
    from personas.io.rankings import read_rankings

    source, query, judgements = (ctx.params[name] for name in ("file", "query", "qrels"))
    grades = None if judgements is None else read_qrels(judgements)
    folder = None if source == STDIN else run_folder_of(source)
    if folder is None:
        found = choose(read_rankings(source, InputError), query, grades)
    else:
        found = choose_from_run(folder, query, grades)
    if isinstance(found, list) or grades is None:
        return found
    named = found.query.id or (query if query in grades else "")
    of_query = grades_of(grades, named, judgements, found.ids)
    return found.beside(grades=of_query, other=found.other)


def _list(rows: list[Listed], output: str) -> None:
    if output == "json":
        print_json(queries=[asdict(row) for row in rows])
        return
    from personas.console import print_page

    print_page(lambda console: _show_list(console, rows))


def _show(ranking: RankingRecord, given: dict[str, Any]) -> None:
    from personas.report.terminal.terminal import find_hit, show_inspection

    passage = given["passage"]
    hits = ranking.hits if passage is None else (find_hit(ranking, passage),)
    if given["output"] == "json":
        print_json(inspection=_inspection_dict(ranking, hits))
        return
    from personas.console import print_page

    print_page(lambda console: show_inspection(console, ranking, top=given["top"], passage=passage))


def _show_list(console: Console, rows: Sequence[Listed]) -> None:
    """The queries, a line each, and how to pick one."""
    from rich.text import Text

    from personas.report.terminal.screen import NOTE, Column, Screen, clipped

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


def _inspection_dict(inspection: RankingRecord, hits: Sequence[Hit]) -> dict[str, Any]:
    """All that can be worked out of a ranking, as plain values.

    Args:
        inspection: the ranking.
        hits: the passages to list.
    """
    from personas.report.query.warnings import warnings

    findings = QueryFindings.of(1, inspection)
    figures, names = findings.figures, [judge.name for judge in findings.judges]
    other = inspection.other
    found: dict[str, Any] = to_jsonable_python(
        {
            "query": {"text": inspection.query.text, "id": inspection.query.id},
            "ranker": inspection.ranker,
            "other": None if other is None else {"name": other.name, "top": other.top},
            "top_score": inspection.top,
            "team": inspection.team,
            "written_by": {
                member.name: provenance(member)
                for member in (inspection.team.members if inspection.team else ())
            },
            "agreement": {
                "kendall_tau": figures.tau,
                "krippendorff_alpha": figures.alpha,
                "disagreement": figures.disagreement,
                "pairs": [
                    {"personas": [names[one], names[two]], "kendall_tau": tau}
                    for (one, two), tau in findings.taus.items()
                ],
            },
            "ndcg@10": {
                "ranking": figures.ndcg,
                "first_stage": figures.first_stage_ndcg,
                "other": figures.other_ndcg,
                "without": findings.left_out.without if findings.left_out else {},
            },
            "leave_one_out_exact": inspection.leave_one_out_exact,
            "warnings": warnings(inspection),
            "passages": len(inspection.hits),
            "missing": len(inspection.missing),
            "skipped": inspection.skipped,
            "comparisons": inspection.comparisons,
            "left_out": inspection.left_out,
            "hits": [{name: getattr(hit, name) for name in _OF_HITS} for hit in hits],
            "models": inspection.models,
            "calls": {
                "total": _calls(inspection.usage, inspection.cost),
                "reused": inspection.reused.calls,
                "by_stage": [
                    {"stage": row.stage, "persona": row.persona, "model": row.model}
                    | _calls(row.usage, row.cost)
                    for row in inspection.rows_of_calls()
                ],
            },
            "seconds": inspection.seconds,
        }
    )
    return found


def _calls(usage: Usage, cost: float | None) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in _OF_CALLS} | {"cost": cost}


command = Verb(
    "inspect",
    _inspect,
    params=[
        click.Argument(["file"], type=run_folders(), metavar="FILE"),
        click.Option(
            ["--query"],
            metavar="ID|NUMBER",
            help="Which query, if there are several. Without: a list of them. With --qrels also "
            "the id of the judgements, if the only ranking has none.",
        ),
        click.Option(
            ["--passage"], metavar="RANK|ID", help="Show one passage in detail, with its text."
        ),
        click.Option(
            ["--top"],
            type=WholeNumber(min=1),
            default=20,
            show_default=True,
            help="Passages listed in a table.",
        ),
        click.Option(
            ["--qrels"],
            type=Reads(),
            help="Judgements: query id, document id and grade, as BEIR or TREC write them. A run "
            "folder has its own.",
        ),
        click.Option(["--html"], type=Writes(), help="Write an HTML page instead."),
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
