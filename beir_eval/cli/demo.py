"""``mcranker demo``: rank the mini collection, show one team at work, and measure the result."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from beir_eval.cli.flags import count_flag
from mcranker.cli.fetching import fetch_models
from mcranker.cli.invocation import Invocation
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.progress import Live, QueryTracker, live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.tables import show_ranking
from mcranker.cli.verb import Verb, quiet_flag
from personas.console import print_page, table
from personas.format import counted

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.data.datasets import Dataset
    from beir_eval.measures.metrics import Evaluation
    from mcranker.llm.chat import Capabilities
    from mcranker.ranking import Ranking
    from mcranker.trec import Run

COLLECTION = "mini"
MEASURE = "nDCG@10"
BM25_ORDER, TEAM_ORDER = "BM25", "the team"
SIGNIFICANT = 0.05
QUERIES, DEPTH = 10, 12
WIDTH = 96  # columns of running text

LIMITS_OF_ENCODERS = """\
What to make of this: an encoder compares words and meaning, it does not reason.
It finds what is about the query, and not which of that answers it, as is tested
here. A model that reasons may: --model openai:NAME, anthropic:NAME, local:NAME."""

LIMITS_OF_WEAK_MODELS = """\
What to make of this: a model of 135 million parameters tells topics apart, and
not which passage answers the query, as is tested here. It shows how the method
works, not how well. A larger model may: --model openai:NAME, anthropic:NAME."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The demo's rankings, the measures of both orders, and a reading of them."""

    rankings: tuple[Ranking, ...]
    measures: dict[str, Evaluation]
    limits: str


def _demo(ctx: click.Context) -> int:
    given = ctx.params
    from beir_eval.data.load import load
    from beir_eval.retrieval.first_stage import retrieve

    dataset = load(COLLECTION)
    count = min(given["queries"], len(dataset.queries))
    if not given["quiet"]:
        said = (
            f"The mini collection: {len(dataset.corpus)} passages, {count} of its "
            f"{len(dataset.queries)} queries. BM25 finds {given['depth']} passages a query, "
            "a team of three ranks them."
        )
        print(textwrap.fill(said, WIDTH), flush=True)
    fetch_models(given_options(ctx).models, quiet=given["quiet"])
    ctx.ensure_object(Invocation).doing("finding passages by BM25")
    run = retrieve(dataset, given["depth"])
    outcome = run_loop(partial(_rank_all, ctx, dataset, run, count))
    print_page(lambda console: _show(console, outcome, dataset))
    return 3 if any(ranking.missing for ranking in outcome.rankings) else 0


async def _rank_all(ctx: click.Context, dataset: Dataset, run: Run, count: int) -> _Outcome:
    from beir_eval.measures.metrics import evaluate
    from mcranker import MCRanker, Passage, Query, RankingDone

    quiet, invocation = ctx.params["quiet"], ctx.ensure_object(Invocation)
    rankings: list[Ranking] = []
    live = live_is_wanted(quiet=quiet)
    with invocation.noting(not quiet):
        ranker = MCRanker(team_size=3, **given_options(ctx).options)
    async with ranker:
        for query_id in list(dataset.queries)[:count]:
            documents = [(dataset.corpus[doc_id], score) for doc_id, score in run[query_id]]
            docs = [Passage(each.id, each.text, each.title, score) for each, score in documents]
            tracker = QueryTracker.of(ranker)
            invocation.reached = _Reached(len(rankings) + 1, count, tracker)
            query = Query(dataset.queries[query_id], query_id)
            async with ranker.astream(query, docs) as events:
                with Live(tracker, wanted=live) as display, invocation.held():
                    async for event in events:
                        tracker.take(event)
                        display.update()
            assert isinstance(event, RankingDone), "the last event of every ranking"
            rankings.append(event.ranking)
    invocation.doing("measuring")
    judged = {query_id: dataset.qrels[query_id] for query_id in list(dataset.queries)[:count]}
    orders = {
        BM25_ORDER: {query_id: [doc_id for doc_id, _ in run[query_id]] for query_id in judged},
        TEAM_ORDER: {ranking.query.id: ranking.ids for ranking in rankings},
    }
    return _Outcome(
        rankings=tuple(rankings),
        measures={
            name: evaluate(_as_run(order), judged, (MEASURE,)) for name, order in orders.items()
        },
        limits=_limits(ranker.models.scoring.capabilities),
    )


def _limits(offers: Capabilities) -> str:
    if not offers.prompts:
        return LIMITS_OF_ENCODERS
    return LIMITS_OF_WEAK_MODELS if offers.weak else ""


def _as_run(order: dict[str, list[str]]) -> dict[str, list[tuple[str, float]]]:
    return {
        query_id: [(doc_id, -float(rank)) for rank, doc_id in enumerate(ids)]
        for query_id, ids in order.items()
    }


@dataclass(frozen=True, slots=True)
class _Reached:
    """Keeps the demo's progress in words."""

    place: int
    count: int
    tracker: QueryTracker

    def __call__(self) -> str:
        return f"in query {self.place} of {self.count}, {self.tracker.reached}"


def _show(console: Console, outcome: _Outcome, dataset: Dataset) -> None:
    from rich.text import Text

    gains = {ranking.query.id: _gain(outcome, ranking) for ranking in outcome.rankings}
    shown = max(outcome.rankings, key=lambda ranking: gains[ranking.query.id])
    said = "The query that the team helps most" if gains[shown.query.id] > 0 else "The first query"
    console.print()
    console.print(Text(f"{said}:"))
    show_ranking(console, shown, top=10)
    grades = dataset.qrels[shown.query.id]
    best = ", ".join(doc_id for doc_id in shown.ids if grades.get(doc_id, 0) == 2)
    some = ", ".join(doc_id for doc_id in shown.ids if grades.get(doc_id, 0) == 1)
    console.print(Text(f"By the judgements, {best} answer the query; {some} in part."))
    console.print()
    console.print(_table(outcome, dataset))
    console.print(Text(_verdict(outcome)))
    if outcome.limits:
        console.print()
        console.print(Text(outcome.limits))


def _table(outcome: _Outcome, dataset: Dataset) -> object:
    from rich.table import Column

    columns = [Column(name, justify="right") for name in outcome.measures]
    evaluations = outcome.measures.values()
    rows = (
        (
            textwrap.shorten(dataset.queries[each.query.id], 60, placeholder=" ..."),
            *(f"{found.per_query[MEASURE][each.query.id]:.3f}" for found in evaluations),
        )
        for each in outcome.rankings
    )
    made = table([Column(f"{MEASURE} of the order of", no_wrap=True), *columns], rows)
    made.add_section()
    made.add_row("mean", *(f"{each.means[MEASURE]:.3f}" for each in evaluations))
    return made


def _gain(outcome: _Outcome, ranking: Ranking) -> float:
    """Return nDCG@10 of the team's order less that of BM25's."""
    values = [outcome.measures[name].per_query[MEASURE] for name in (TEAM_ORDER, BM25_ORDER)]
    return values[0][ranking.query.id] - values[1][ranking.query.id]


def _verdict(outcome: _Outcome) -> str:
    from beir_eval.measures.significance import compare_runs

    values = {name: each.per_query[MEASURE] for name, each in outcome.measures.items()}
    before, after = (outcome.measures[name].means[MEASURE] for name in (BM25_ORDER, TEAM_ORDER))
    tested = compare_runs({COLLECTION: values}, BM25_ORDER)[COLLECTION][TEAM_ORDER]
    said = "no significant difference"
    if tested.p_value < SIGNIFICANT:
        said = f"significantly {'better' if tested.difference > 0 else 'worse'}"
    count = counted(len(outcome.rankings), "query", "queries")
    return f"The team {after:.3f} against {before:.3f}, p = {tested.p_value:.2g} ({count}): {said}."


command = Verb(
    "demo",
    _demo,
    params=[
        count_flag("queries", QUERIES, "Queries to rank."),
        count_flag("depth", DEPTH, "Passages that BM25 hands over for each query."),
        *option_flags("model", "base_url", "ledger"),
        quiet_flag(),
    ],
    help="""Rank a small collection that comes with the package, and see how good that is.

    Shows the query that the team helps most, with its team, criteria and ranking, and then the
    nDCG@10 of BM25's order and of the team's over all queries ranked, with a paired t-test.
    """,
)
