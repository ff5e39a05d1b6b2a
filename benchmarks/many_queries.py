"""Memory of a long `rank_many`: 10,000 queries with a scripted model that answers at once.

    python benchmarks/many_queries.py --queries 10000 --passages 10

Prints the resident memory at intervals of queries, and how many bytes a query it grows by once
a tenth of the queries has warmed the process up: the slope of the least-squares line.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mcranker import MCRanker, Passage, Query, ScriptedChat

MIB = 2**20
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the process's memory; where Linux does not say, its peak."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def work(queries: int, passages: int) -> Iterator[tuple[Query, list[Passage]]]:
    """Queries with passages that all differ, made as they are asked for."""
    for number in range(queries):
        yield (
            Query(f"what is known about subject {number}", f"q{number}"),
            [
                Passage(f"d{number}-{place}", f"Passage {place} says this of {number}. " * 20)
                for place in range(passages)
            ],
        )


async def measure(queries: int, passages: int, every: int) -> dict[str, object]:
    """Rank them all; resident memory after at intervals of queries, and how it grows."""
    ranker = MCRanker(
        team="scientific_claims", model=ScriptedChat(lambda _: '{"Score": 5}'), ledger=None
    )
    samples: list[tuple[int, int]] = []
    start = time.perf_counter()
    done = 0
    async with ranker, ranker.arank_many(work(queries, passages)) as rankings:
        async for ranked in rankings:
            if ranked.result().missing:
                raise SystemExit(f"{ranked.query.id}: not every passage was scored")
            done += 1
            if done % every == 0:
                gc.collect()
                samples.append((done, resident_bytes()))
    warm = [sample for sample in samples if sample[0] > queries // 10]
    counts, held = zip(*warm, strict=True)
    slope = np.polyfit(counts, held, 1)[0] if len(warm) > 1 else 0.0
    return {
        "queries": done,
        "passages": passages,
        "calls": 3 * done * passages,
        "seconds": round(time.perf_counter() - start, 1),
        "resident_mib": {number: round(bytes_ / MIB, 2) for number, bytes_ in samples},
        "bytes_a_query": round(float(slope), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory of a long rank_many.")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--passages", type=int, default=10, help="for each query")
    parser.add_argument("--every", type=int, default=500, help="queries between two samples")
    arguments = parser.parse_args()
    result = asyncio.run(measure(arguments.queries, arguments.passages, arguments.every))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
