"""Seconds of a query whose provider refuses calls, by HTTP over the loopback.

    python benchmarks/refusals.py --refused 0 0.01 0.05 0.1

Prints for each share of calls refused by chance the seconds of one query of 2,000 passages and 3
personas at 100 ms a call and 64 at once; then, with a learned limit, the seconds of a first query
of 100 passages and 3 personas at 300 ms a call, and of 1,200 calls at 100 ms where 100 a second
with a burst of 100 are taken.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import time

from fixed_latency_server import answered, serving

from mcranker import MCRanker


async def seconds_of(port: int, passages: int, concurrency: int | None) -> float:
    """Seconds for one query with a team of three."""
    docs = {f"d{place}": f"Passage {place} says this." for place in range(passages)}
    async with MCRanker(
        team="scientific_claims",
        model="openai:benchmark",
        base_url=f"http://127.0.0.1:{port}/v1",
        api_key="none",
        ledger=None,
        concurrency=concurrency,
    ) as ranker:
        start = time.perf_counter()
        ranking = await ranker.arank("what is measured here?", docs)
    if ranking.missing:
        raise SystemExit(f"{len(ranking.missing)} passages were not scored")
    return time.perf_counter() - start


def measured(
    passages: int,
    latency: float,
    *,
    concurrency: int | None = None,
    refused: float = 0.0,
    rate: float = math.inf,
) -> str:
    """Seconds, and how many calls were answered."""
    with serving(latency, refused=refused, rate=rate) as port:
        seconds = asyncio.run(seconds_of(port, passages, concurrency))
        return f"{seconds:7.2f} s, {answered(port)} calls answered"


def main() -> None:
    parser = argparse.ArgumentParser(description="Queries where the provider refuses calls.")
    parser.add_argument("--refused", type=float, nargs="*", default=[0.0, 0.01, 0.05, 0.1])
    for share in parser.parse_args().refused:
        told = measured(2000, 0.1, concurrency=64, refused=share)
        print(f"refused {share:4.0%}, 64 at once: {told}", flush=True)
    print(f"first query, learned: {measured(100, 0.3)}", flush=True)
    print(f"first query, 256 at once: {measured(100, 0.3, concurrency=256)}", flush=True)
    print(f"100 a second, learned: {measured(400, 0.1, rate=100.0)}", flush=True)


if __name__ == "__main__":
    main()
