"""Calls that ``top_k`` saves, on simulated scores and on a real run of the embedded model.

    python benchmarks/topk.py            # tables, as Markdown
    python benchmarks/topk.py --local    # the real run, some minutes

Every ranking is made by `MCRanker` with a model that replays known scores, and its first ranks
are compared with those of all scores; a difference ends the program.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist, mean
from typing import Literal
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import beir_eval
from mcranker import (
    Capabilities,
    ChatReply,
    ChatRequest,
    MCRanker,
    Passage,
    Query,
    RankerConfig,
    Ranking,
    ScriptedChat,
)
from mcranker.method.schedule import SAMPLE
from mcranker.method.topk import NecessaryCalls
from personas import Team
from personas.ensembles import ENSEMBLES, Rule

PASSAGES, QUERIES, SEED = 100, 20, 3
TEAMS, AGREEMENT, TOP_KS = (3, 5), (0.3, 0.6, 0.9), (1, 5, 10, 20)
SHARES = (0.30, 0.14, 0.13, 0.10, 0.08, 0.07, 0.06, 0.05, 0.04, 0.02, 0.01)  # of 0, 1, … 10
FIRST_STAGE, STRICTNESS = 0.35, 0.5
ORDERS_AGREEMENT = 0.6
ORDERS: tuple[Literal["auto", "team"], ...] = ("auto", "team")
LOCAL_MODEL, LOCAL_QUERIES, LOCAL_DEPTH, LOCAL_TOP_KS = "local:smollm2-135m", 3, 20, (3, 5)
LOCAL_SCORING: tuple[Literal["integer", "expected"], ...] = ("integer", "expected")

Matrix = NDArray[np.float64]


def simulated_scores(rng: np.random.Generator, judges: int, agreement: float) -> Matrix:
    """Whole scores from 0 to 10 of passages in first-stage order, shape (passages, judges).

    A passage's quality is normal; the first stage's score and every judge's impression of it
    correlate with it: the former by `FIRST_STAGE`, the impressions of two judges among each
    other by `agreement`. Judges differ in strictness, by a standard deviation of `STRICTNESS`,
    and an average judge gives each score to its share of the passages in `SHARES`.
    """
    quality = rng.normal(size=PASSAGES)
    first_stage = FIRST_STAGE * quality + math.sqrt(1 - FIRST_STAGE**2) * rng.normal(size=PASSAGES)
    quality = quality[np.argsort(-first_stage)]
    noise = rng.normal(size=(PASSAGES, judges))
    seen = math.sqrt(agreement) * quality[:, None] + math.sqrt(1 - agreement) * noise
    seen += STRICTNESS * rng.normal(size=judges)
    limits = [NormalDist().inv_cdf(share) for share in itertools.accumulate(SHARES[:-1])]
    return np.searchsorted(limits, seen).astype(np.float64)


class Replay:
    """Rankings of one query from scores that are known, shape (passages, judges)."""

    def __init__(self, values: Matrix, top: float) -> None:
        self.values = values
        self.whole = top > 1
        self.team = [f"Judge {number}" for number in range(values.shape[1])]
        self.docs = [Passage(str(place), f"passage {place}") for place in range(len(values))]

    @cached_property
    def full(self) -> Ranking:
        return self.rank(RankerConfig(criteria="none", repair_attempts=0))

    def saved(self, k: int, order: Literal["auto", "team"] = "team") -> float:
        """Calls that ``top_k=k`` saves, as a share of all; ends if the first ranks differ."""
        with patch("mcranker.method.schedule.SAMPLE", 0 if order == "team" else SAMPLE):
            short = self.rank(RankerConfig(criteria="none", repair_attempts=0, top_k=k))
        first = [
            [(hit.doc_id, hit.score, hit.scores) for hit in each[:k]] for each in (short, self.full)
        ]
        if first[0] != first[1]:
            raise SystemExit(f"the first {k} ranks differ")
        return 1 - short.usage.calls / self.values.size

    def rank(self, config: RankerConfig) -> Ranking:
        if not self.whole:
            config = RankerConfig.of(config, {"scoring": "expected", "labels": ("No", "Yes")})
        capabilities = Capabilities(json_schema=True, label_logprobs=True)
        model = ScriptedChat(self._answer, capabilities=capabilities)
        with MCRanker(team=self.team, model=model, config=config) as ranker:
            return ranker.rank("query", self.docs)

    def _answer(self, request: ChatRequest) -> ChatReply:
        column = self.team.index(request.tag.persona)
        value = float(self.values[int(request.tag.doc_id), column])
        if math.isnan(value):
            return ChatReply("no score")
        if self.whole:
            return ChatReply(json.dumps({"Score": int(value)}))
        odds = {"No": math.log1p(-value), "Yes": math.log(value)}
        return ChatReply("", label_logprobs=odds)


def simulated_table() -> str:
    rng = np.random.default_rng(SEED)
    rows = []
    for judges, agreement in itertools.product(TEAMS, AGREEMENT):
        queries = [Replay(simulated_scores(rng, judges, agreement), 10) for _ in range(QUERIES)]
        cells = [
            f"{mean(each.saved(k, 'auto') for each in queries):.0%} "
            f"({mean(each.saved(k, 'team') for each in queries):.0%})"
            for k in TOP_KS
        ]
        rows.append([str(judges), str(agreement), *cells])
    return table(["personas", "correlation", *(f"k = {k}" for k in TOP_KS)], rows)


def orders_table() -> str:
    """The orders that can be had beside those that only hindsight knows, for three personas."""
    rng = np.random.default_rng(SEED)
    queries = [simulated_scores(rng, 3, ORDERS_AGREEMENT) for _ in range(QUERIES)]
    rows = []
    for k in TOP_KS:
        found: dict[str, list[float]] = {"auto": [], "team": [], "spread": [], "best": []}
        for values in queries:
            each = {
                order: Replay(values[:, order], 10).saved(k)
                for order in itertools.permutations(range(3))
            }
            widest = tuple(np.argsort(-values.std(axis=0), kind="stable").tolist())
            found["auto"].append(Replay(values, 10).saved(k, "auto"))
            found["team"].append(each[0, 1, 2])
            found["spread"].append(each[widest])
            found["best"].append(max(each.values()))
        rows.append([str(k), *(f"{mean(shares):.1%}" for shares in found.values())])
    return table(["k", "auto", "team", "widest spread first", "best of all orders"], rows)


def bookkeeping(passages: int = 100_000, judges: int = 3, k: int = 100) -> str:
    """Measure the search for the next calls with very many passages, without any model."""
    rng = np.random.default_rng(SEED)
    values = rng.choice(11, (passages, judges), p=SHARES).astype(np.float64)
    open_calls = np.ones(values.shape, dtype=np.bool_)
    open_calls[:, 0] = False
    made = passages
    rule = Rule(ENSEMBLES.get("sum"), top=10.0)
    start = time.process_time()
    calls = NecessaryCalls(
        rule.reach(values, open_calls).tolist(),
        range(passages),
        k=k,
        order=range(judges),
        asked=[1] * passages,
    )
    while (call := calls.take()) is not None:
        row, column = call
        made += 1
        open_calls[row, column] = False
        bound = rule.reach(values[row : row + 1], open_calls[row : row + 1])
        calls.settle(row, float(bound[0]))
    spent = time.process_time() - start
    heads = ["passages", "personas", "k", "calls needed", "CPU seconds", "CPU µs a call"]
    cells = [f"{passages:,}", str(judges), str(k), f"{made:,}", f"{spent:.1f}"]
    return table(heads, [[*cells, f"{spent / made * 1e6:.0f}"]])


def local_table() -> str:
    """Rank with the embedded model in full, and with ``top_k`` by a replay and once more live.

    A replay has the very scores of the full run. Live they may differ a little: what the
    model's prompt cache holds moves its probabilities.
    """
    dataset = beir_eval.load("mini")
    run = beir_eval.retrieve(dataset, LOCAL_DEPTH)
    heads = ["scoring", "query", "k", "in full", "auto", "team", "live, auto", "same first k live"]
    rows = []
    for scoring, query_id in itertools.product(
        LOCAL_SCORING, list(dataset.queries)[:LOCAL_QUERIES]
    ):
        query = Query(dataset.queries[query_id], query_id)
        docs = [
            Passage(doc_id, dataset.corpus[doc_id].text, dataset.corpus[doc_id].title)
            for doc_id, _ in run[query_id]
        ]
        full = local_ranking(query, docs, RankerConfig(scoring=scoring), None)
        replay = Replay(full.matrix.values, 10 if scoring == "integer" else 1)
        for k in LOCAL_TOP_KS:
            live = local_ranking(query, docs, RankerConfig(scoring=scoring, top_k=k), full.team)
            every = full.matrix.values.size
            needed = [round((1 - replay.saved(k, order)) * every) for order in ORDERS]
            made = every - live.skipped
            same = "yes" if live.ids[:k] == full.ids[:k] else difference(full, live, k)
            rows.append([scoring, query_id, *map(str, (k, every, *needed, made)), same])
    return table(heads, rows)


def local_ranking(
    query: Query, docs: list[Passage], config: RankerConfig, team: Team | None
) -> Ranking:
    # Its default share of the first stage does not go with top_k.
    config = RankerConfig.of(config, {"first_stage_weight": 0.0})
    with MCRanker(model=LOCAL_MODEL, team=team, ledger=None, config=config) as ranker:
        return ranker.rank(query, docs)


def difference(full: Ranking, live: Ranking, k: int) -> str:
    """Return the overlap of the first `k`, and the largest difference of a score."""
    common = len(set(full.ids[:k]) & set(live.ids[:k]))
    moved = float(np.nanmax(np.abs(full.matrix.values - live.matrix.values), initial=0.0))
    return f"{common} of {k}; scores moved by up to {moved:.3f}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what top_k saves.")
    parser.add_argument("--local", action="store_true", help="run the embedded model")
    arguments = parser.parse_args()
    made = (
        {"local": local_table}
        if arguments.local
        else {
            "simulated": simulated_table,
            "orders": orders_table,
            "bookkeeping": bookkeeping,
        }
    )
    for name, make in made.items():
        print(f"{name}\n\n{make()}")


if __name__ == "__main__":
    main()
