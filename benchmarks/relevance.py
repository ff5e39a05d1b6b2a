"""The meaning of a relevance on judged collections, and that it does not depend on other passages.

    python benchmarks/relevance.py --model local:minilm mini
    python benchmarks/relevance.py DATA/scifact:train DATA/scifact DATA/cranfield mini

The default team ranks BM25's first 100 passages of every query. Printed is, for each range of
relevance, the share of passages that are judged relevant, with how many there are; passages
without a judgement count as not relevant, so true shares are higher. Then three examples: passages
in three orders, three irrelevant ones, and a right one alone. At the end the same as JSON.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from typing import Any

import beir_eval
from mcranker import MCRanker, Passage, Query

EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0)
MASKS = "best masks against covid"
RIGHT = "N95 masks protect best against COVID-19: they filter 95% of particles."
OTHERS = (
    "Bananas are yellow.",
    "The French Revolution began in 1789.",
    "To bake bread, mix flour, water, salt and yeast.",
)
RELATED = "Cloth masks filter few small particles."


def shares(ranker: MCRanker, dataset: str, depth: int, queries: int | None) -> list[dict[str, Any]]:
    """By range: passages, how many of them are judged, and how many relevant."""
    name, _, split = dataset.partition(":")
    data = beir_eval.load(name, split=split or "test")
    run = beir_eval.retrieve(data, depth)
    counts = [[0, 0, 0] for _ in EDGES[1:]]

    def work() -> Any:
        for query_id in [each for each in run if each in data.qrels][:queries]:
            found = [(data.corpus[doc_id], score) for doc_id, score in run[query_id]]
            docs = [Passage(each.id, each.text, each.title, score) for each, score in found]
            yield Query(data.queries[query_id], query_id), docs

    for ranked in ranker.rank_many(work()):
        grades = data.qrels[ranked.query.id]
        for hit in ranked.result():
            if hit.relevance is None:
                continue
            place = max(at for at, edge in enumerate(EDGES[:-1]) if hit.relevance >= edge)
            grade = grades.get(hit.doc_id)
            counts[place][0] += 1
            counts[place][1] += grade is not None
            counts[place][2] += grade is not None and grade > 0
    return [
        {"from": low, "to": high, "passages": n, "judged": judged, "relevant": relevant}
        for (low, high), (n, judged, relevant) in zip(pairwise(EDGES), counts, strict=True)
    ]


def examples(ranker: MCRanker) -> dict[str, Any]:
    """Relevance by text, rounded."""

    def relevances(*texts: str) -> dict[str, float | None]:
        ranking = ranker.rank(MASKS, list(texts))
        return {hit.passage.text: hit.relevance and round(hit.relevance, 3) for hit in ranking}

    docs = (RIGHT, RELATED, OTHERS[0])
    return {
        "three orders": [relevances(*docs[turn:], *docs[:turn]) for turn in range(3)],
        "three irrelevant": relevances(*OTHERS),
        "one right": relevances(RIGHT),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="+", help="a name or folder, with :SPLIT or without")
    parser.add_argument("--model", default="local:minilm")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--queries", type=int, help="only the first N of each")
    given = parser.parse_args()
    with MCRanker(model=given.model, ledger=None) as ranker:
        found: dict[str, Any] = {"model": given.model}
        for dataset in given.datasets:
            found[dataset] = shares(ranker, dataset, given.depth, given.queries)
            print(dataset)
            for row in found[dataset]:
                n, relevant = row["passages"], row["relevant"]
                said = f"{relevant / n:6.3f}" if n else "     -"
                print(f"  {row['from']:.1f} to {row['to']:.1f}  {said}  n = {n:,}")
        found["examples"] = examples(ranker)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
