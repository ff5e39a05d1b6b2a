"""``mcranker demo``: rank the mini collection, show one team at work, and measure the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import click
from rich.console import Console
from rich.text import Text

from beir_eval.cli.flags import count_flag
from beir_eval.experiment.cell import Plan
from beir_eval.experiment.run import Experiment
from beir_eval.experiment.suite import DatasetSpec, Suite
from beir_eval.measures.metrics import evaluate
from beir_eval.measures.values import compare_runs
from mcranker import MCRanker
from mcranker.cli.flags import Verb
from mcranker.cli.invocation import Invocation, run_loop
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, MISSING_SCORES, print_line
from mcranker.cli.progress import Tracker, fetch_models, in_order
from mcranker.ranking import Ranking
from personas.console import numbers, print_page, table
from personas.format import counted
from personas.report.screen import clipped
from personas.report.terminal import show_ranking

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
    data = DatasetSpec(COLLECTION)
    plan = Plan("", (data,), limit=given["queries"], depth=given["depth"], cache=False)
    prepared = Experiment(Suite("", "", "", (), ()), plan).prepared(data)
    qrels, counts = prepared.qrels, prepared.manifest
    if not given["quiet"]:
        print_line(
            f"The mini collection: {counts.documents} passages, {counts.queries} of its "
            f"{counts.queries_in_full} queries.\nBM25 finds {given['depth']} passages a query, "
            "a team of three ranks them."
        )
    options = given_options(ctx)
    fetch_models(options.models, quiet=given["quiet"])
    with invocation.noting(not given["quiet"]):
        ranker = MCRanker(team_size=3, **options.options)
    rankings = list[Ranking]()

    async def rank() -> None:
        tracker = Tracker(total=counts.queries)
        async with ranker, ranker.arank_many(prepared.work()) as ranked:
            await in_order(ctx, ranked, lambda each: rankings.append(each.result()), tracker)

    run_loop(rank)
    by_team = {each.query.id: [(doc_id, 0.0) for doc_id in each.ids] for each in rankings}
    measured = {
        name: evaluate(order, qrels, (MEASURE,)).per_query[MEASURE]
        for name, order in ((BM25_ORDER, prepared.run), (TEAM_ORDER, by_team))
    }
    limits = "" if ranker.models.scoring.capabilities.prompts else LIMITS_OF_ENCODERS
    print_page(lambda console: _show(console, rankings, measured, qrels, limits))
    return MISSING_SCORES if any(ranking.missing for ranking in rankings) else DONE


def _show(
    console: Console,
    rankings: Sequence[Ranking],
    measured: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    limits: str,
) -> None:
    before, after = measured.values()
    gains = {each: after[each] - before[each] for each in after}
    shown = max(rankings, key=lambda each: gains[each.query.id])
    helped = gains[shown.query.id] > 0
    said = "The query that the team helps most" if helped else "The first query"
    console.print(Text(f"\n{said}:"))
    show_ranking(console, shown, shown, top=10)
    grades = qrels[shown.query.id]
    best, some = (
        ", ".join(doc_id for doc_id in shown.ids if grades.get(doc_id, 0) == grade)
        for grade in (2, 1)
    )
    console.print(Text(f"By the judgements, {best} answer the query; {some} in part.\n"))
    tested = compare_runs({COLLECTION: measured}, BM25_ORDER)[COLLECTION][TEAM_ORDER]
    means = [fmean(each.values()) for each in measured.values()]
    rows = [
        (clipped(each.query.text, 60), *(f"{of[each.query.id]:.3f}" for of in (before, after)))
        for each in rankings
    ]
    rows.append(("mean", *(f"{mean:.3f}" for mean in means)))
    console.print(table([f"{MEASURE} of the order of", *numbers(*measured)], rows))
    count = counted(len(rankings), "query", "queries")
    said = f"not tested ({count})"
    if tested.p_value is not None:
        significant = f"significantly {tested.decision}" if tested.decision else ""
        said = f"p = {tested.p_value:.2g} ({count}): {significant or 'no significant difference'}"
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
