"""Rerank BM25's passages for some queries of a BEIR folder, and measure NDCG@10 and time.

    python benchmarks/rerank_beir.py FOLDER --queries 3 --depth 20 --scoring integer

FOLDER is a data set in BEIR format, or ``mini``. Prints one JSON object a ranker: `MCRanker`
and, with --direct, the DIRECT baseline; BM25's own NDCG@10 stands beside.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import beir_eval
from mcranker import DirectRanker, MCRanker, Passage, Query, Ranker, RankerConfig


def measure(
    ranker: Ranker, dataset: beir_eval.Dataset, run: beir_eval.Run, queries: list[str]
) -> dict[str, Any]:
    """Rank the queries one after the other; NDCG@10 of both orders, seconds, calls, missing."""
    qrels = {query_id: dataset.qrels[query_id] for query_id in queries}
    ranked: dict[str, list[tuple[str, float]]] = {}
    rankings = []
    start = time.perf_counter()
    for query_id in queries:
        docs = [
            Passage(doc_id, dataset.corpus[doc_id].text, dataset.corpus[doc_id].title, score)
            for doc_id, score in run[query_id]
        ]
        ranking = ranker.rank(Query(dataset.queries[query_id], query_id), docs)
        ranked[query_id] = [(doc_id, -float(rank)) for rank, doc_id in enumerate(ranking.ids)]
        rankings.append(ranking)
    before = beir_eval.evaluate({each: run[each] for each in queries}, qrels)
    after = beir_eval.evaluate(ranked, qrels)
    return {
        "ranker": ranker.name,
        "scoring": ranker.config.scoring,
        "labels": ranker.config.labels,
        "models": dict(rankings[0].models),
        "queries": len(queries),
        "bm25": round(before.means["nDCG@10"], 4),
        "ndcg@10": round(after.means["nDCG@10"], 4),
        "seconds": round(time.perf_counter() - start, 1),
        "calls": sum(ranking.usage.calls for ranking in rankings),
        "missing": sum(len(ranking.missing) for ranking in rankings),
        "distinct_scores": round(
            sum(len({hit.score for hit in ranking}) for ranking in rankings) / len(rankings), 1
        ),
        "personas": [list(ranking.personas) for ranking in rankings],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Rerank BM25's passages of a BEIR folder.")
    parser.add_argument("folder")
    parser.add_argument("--queries", type=int, default=3)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--scoring", choices=["integer", "expected", "per_criterion"])
    parser.add_argument("--labels", type=lambda text: tuple(text.split(",")))
    parser.add_argument("--first-stage-weight", type=float)
    parser.add_argument("--direct", action="store_true")
    arguments = parser.parse_args()

    dataset = beir_eval.load(arguments.folder)
    run = beir_eval.retrieve(dataset, arguments.depth)
    queries = list(dataset.queries)[: arguments.queries]
    chosen = {
        name: getattr(arguments, name)
        for name in ("scoring", "labels", "first_stage_weight")
        if getattr(arguments, name) is not None
    }
    config = RankerConfig(**chosen)
    kinds: list[type[MCRanker] | type[DirectRanker]] = [MCRanker]
    kinds += [DirectRanker] if arguments.direct else []
    for kind in kinds:
        with kind(model=arguments.model, base_url=arguments.base_url, config=config) as ranker:
            print(json.dumps(measure(ranker, dataset, run, queries)), flush=True)


if __name__ == "__main__":
    main()
