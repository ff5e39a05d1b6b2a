"""Cost of the embedded encoder: cold, with its vectors on disk, and for a query known before.

    python benchmarks/encoder.py --dataset mini --passages 100
    python benchmarks/encoder.py --dataset /data/beir/scifact --passages 100

A team of three ranks the first passages for two queries, without a ledger: with nothing known, with
the passages' vectors in the cache, and with all vectors there.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import beir_eval
from mcranker import MCRanker, Passage

MODEL = "local:minilm"


def measure(query: str, docs: list[Passage], model: str) -> dict[str, float]:
    """Seconds and processor seconds of one ranking by a ranker of its own."""
    with MCRanker(model=model, team_size=3, ledger=None) as ranker:
        began, effort = time.perf_counter(), time.process_time()
        ranking = ranker.rank(query, docs)
        took = time.perf_counter() - began, time.process_time() - effort
    if ranking.missing:
        raise SystemExit(f"{len(ranking.missing)} scores are missing: {ranking.missing[0].reason}")
    tokens = ranking.usage
    return {
        "seconds": round(took[0], 3),
        "processor_seconds": round(took[1], 3),
        "ms_a_passage": round(1000 * took[0] / len(docs), 2),
        "processor_ms_a_passage": round(1000 * took[1] / len(docs), 2),
        "tokens_encoded": tokens.input_tokens - tokens.cached_input_tokens,
    }


def run(dataset: str, passages: int, model: str = MODEL) -> dict[str, Any]:
    """All three rankings."""
    data = beir_eval.load(dataset)
    docs = [
        Passage(each.id, each.text, each.title) for each in list(data.corpus.values())[:passages]
    ]
    first, second = list(data.queries.values())[:2]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MCRANKER_VECTORS"] = str(Path(folder, "vectors"))
        measured = {
            "nothing known": measure(first, docs, model),
            "vectors on disk, new query": measure(second, docs, model),
            "the first query again": measure(first, docs, model),
        }
    return {"dataset": data.name, "passages": len(docs), "personas": 3, "measured": measured}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mini", help="a name, or a folder in BEIR format")
    parser.add_argument("--passages", type=int, default=100)
    given = parser.parse_args()
    result = run(given.dataset, given.passages)
    print(f"{result['passages']} passages of {result['dataset']} x {result['personas']} personas")
    for name, row in result["measured"].items():
        print(
            f"{name:28} {row['seconds']:7.2f} s {row['ms_a_passage']:7.1f} ms a passage, "
            f"{row['processor_ms_a_passage']:6.1f} ms of processor time"
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
