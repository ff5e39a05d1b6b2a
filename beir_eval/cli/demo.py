"""``mcranker demo``: rank the mini collection, show one team at work, and measure the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.text import Text

from beir_eval.cli.flags import count_flag
from beir_eval.data.first_stage import retrieve
from beir_eval.data.load import load
from beir_eval.measures.metrics import Evaluation, evaluate
from beir_eval.measures.values import compare_runs
from mcranker import MCRanker, Passage, Query, RankingDone
from mcranker.cli.flags import Verb
from mcranker.cli.invocation import Invocation, run_loop
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, MISSING_SCORES, print_line
from mcranker.cli.progress import Tracker, fetch_models, showing
from personas.console import numbers, print_page, table
from personas.format import counted
from personas.report.screen import clipped
from personas.report.terminal import show_ranking

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.data.datasets import Dataset
    from mcranker.inputs.trec import Run
    from mcranker.ranking import Ranking

COLLECTION = "mini"
MEASURE = "nDCG@10"
BM25_ORDER, TEAM_ORDER = "BM25", "the team"
QUERIES, DEPTH = 10, 12

LIMITS_OF_ENCODERS = """\
What to make of this: an encoder compares words and meaning, it does not reason.
It finds what is about the query, and not which of that answers it, as is tested
here. A model that reasons may: --model openai:NAME, anthropic:NAME, local:NAME."""


def _demo(ctx: click.Context) -> int:
    given, invocation = ctx.params, ctx.ensure_object(Invocation)
    dataset = load(COLLECTION)
    queries = dict(list(dataset.queries.items())[: given["queries"]])
    if not given["quiet"]:
        print_line(
            f"The mini collection: {len(dataset.corpus)} passages, {len(queries)} of its "
            f"{len(dataset.queries)} queries.\nBM25 finds {given['depth']} passages a query, "
            "a team of three ranks them."
        )
    options = given_options(ctx)
    fetch_models(options.models, quiet=given["quiet"])
    invocation.doing("finding passages by BM25")
    run = retrieve(dataset, given["depth"])
    with invocation.noting(not given["quiet"]):
        ranker = MCRanker(team_size=3, **options.options)
    rankings = run_loop(partial(_rank_all, ctx, ranker, dataset, queries, run))
    judged = {query_id: dataset.qrels[query_id] for query_id in queries}
    by_team = {
        ranking.query.id: [(doc_id, -float(rank)) for rank, doc_id in enumerate(ranking.ids)]
        for ranking in rankings
    }
    measures = {
        BM25_ORDER: evaluate({query_id: run[query_id] for query_id in queries}, judged, (MEASURE,)),
        TEAM_ORDER: evaluate(by_team, judged, (MEASURE,)),
    }
    limits = "" if ranker.models.scoring.capabilities.prompts else LIMITS_OF_ENCODERS
    print_page(lambda console: _show(console, rankings, measures, judged, limits))
    return MISSING_SCORES if any(ranking.missing for ranking in rankings) else DONE


async def _rank_all(
    ctx: click.Context, ranker: MCRanker, dataset: Dataset, queries: Mapping[str, str], run: Run
) -> list[Ranking]:
    rankings: list[Ranking] = []
    async with ranker:
        for query_id, text in queries.items():
            documents = [(dataset.corpus[doc_id], score) for doc_id, score in run[query_id]]
            docs = [Passage(each.id, each.text, each.title, score) for each, score in documents]
            where = f"in query {len(rankings) + 1} of {len(queries)}, {{}}"
            async with ranker.astream(Query(text, query_id), docs) as events:
                with showing(ctx, Tracker("starting", unit=""), where) as display:
                    async for event in events:
                        display.take(event)
            assert isinstance(event, RankingDone), "the last event of every ranking"
            rankings.append(event.ranking)
    return rankings


def _show(
    console: Console,
    rankings: Sequence[Ranking],
    measures: Mapping[str, Evaluation],
    qrels: Mapping[str, Mapping[str, int]],
    limits: str,
) -> None:
    values = {name: each.per_query[MEASURE] for name, each in measures.items()}

    def gain(ranking: Ranking) -> float:
        return values[TEAM_ORDER][ranking.query.id] - values[BM25_ORDER][ranking.query.id]

    shown = max(rankings, key=gain)
    said = "The query that the team helps most" if gain(shown) > 0 else "The first query"
    console.print(Text(f"\n{said}:"))
    show_ranking(console, shown, shown, top=10)
    grades = qrels[shown.query.id]
    best, some = (
        ", ".join(doc_id for doc_id in shown.ids if grades.get(doc_id, 0) == grade)
        for grade in (2, 1)
    )
    console.print(Text(f"By the judgements, {best} answer the query; {some} in part.\n"))
    rows = [
        (clipped(each.query.text, 60), *(f"{of[each.query.id]:.3f}" for of in values.values()))
        for each in rankings
    ]
    means = [each.means[MEASURE] for each in measures.values()]
    rows.append(("mean", *(f"{mean:.3f}" for mean in means)))
    console.print(table([f"{MEASURE} of the order of", *numbers(*values)], rows))
    tested = compare_runs({COLLECTION: values}, BM25_ORDER)[COLLECTION][TEAM_ORDER]
    verdict = f"significantly {tested.decision}" if tested.decision else "no significant difference"
    count = counted(len(rankings), "query", "queries")
    said = f"not tested ({count})"
    if tested.p_value is not None:
        said = f"p = {tested.p_value:.2g} ({count}): {verdict}"
    console.print(Text(f"The team {means[1]:.3f} against {means[0]:.3f}, {said}."))
    if limits:
        console.print(Text(f"\n{limits}"))


command = Verb(
    "demo",
    _demo,
    params=[
        count_flag("queries", QUERIES, "Queries to rank."),
        count_flag("depth", DEPTH, "Passages that BM25 hands over for each query."),
        *option_flags("model", "base_url", "ledger"),
    ],
    help="""Rank a small collection that comes with the package, and see how good that is.

    Shows the query that the team helps most, with its team, criteria and ranking, and then the
    nDCG@10 of BM25's order and of the team's over all queries ranked, with a paired t-test.
    """,
)
