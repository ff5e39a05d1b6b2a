"""Fill a ledger with a million answers; measure look-ups, writes, the file, and its upkeep.

    python benchmarks/ledger.py --replies 1000000

Prints one JSON object; times are microseconds unless they are named seconds. A write takes
until it is confirmed as durable: among 128 at once it waits for the others of its transaction,
so ``wall_each``, the time of all writes divided by their number, is what one costs. A claim is
one key claimed and released, each confirmed, while as many others are held.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.sqlite_file import file_bytes
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.ledger.store import MOST_KEYS
from personas.ranking.usage import Usage

MODEL = "openai:gpt-5-mini"
FILLERS = 512
MEASURED = 20_000


def key_of(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


def score_reply(number: int) -> ChatReply:
    usage = Usage(1, 700 + number % 300, 512, 9, 0.4 + number % 1000 / 997)
    return ChatReply(f'{{"Score": {number % 11}}}', usage, model="gpt-5-mini-2026-08-07")


async def write(ledger: Ledger, numbers: Iterable[int], concurrency: int) -> list[float]:
    """Keep the answers of `numbers`; seconds that each one took."""
    remaining = iter(numbers)
    taken: list[float] = []

    async def worker() -> None:
        for number in remaining:
            reply, key = score_reply(number), key_of(number)
            start = time.perf_counter()
            await ledger.keep(key, reply, model=MODEL, stage="score")
            taken.append(time.perf_counter() - start)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    return taken


async def look_up(ledger: Ledger, keys: Iterable[bytes], *, there: bool) -> list[float]:
    taken = []
    for key in keys:
        start = time.perf_counter()
        found = await ledger.find(key)
        taken.append(time.perf_counter() - start)
        if (found is not None) != there:
            raise SystemExit("the ledger has lost an answer, or made one up")
    return taken


async def claim(ledger: Ledger, held: int) -> list[float]:
    """Claim requests one after the other while others are held; seconds that each one took."""
    store, taken = ledger.store, []
    others = [key_of(-1 - number) for number in range(held)]
    for start in range(0, held, MOST_KEYS):
        await store.claim_many(others[start : start + MOST_KEYS])
    for number in range(MEASURED // 10):
        keys = (key_of(-1 - held - number),)
        began = time.perf_counter()
        await store.claim_many(keys)
        await store.release(keys)
        taken.append(time.perf_counter() - began)
    for start in range(0, held, MOST_KEYS):
        await store.release(others[start : start + MOST_KEYS])
    return taken


def in_microseconds(taken: list[float]) -> dict[str, float]:
    percentiles = statistics.quantiles(taken, n=100)
    return {"median": round(percentiles[49] * 1e6, 1), "p99": round(percentiles[98] * 1e6, 1)}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return round(time.perf_counter() - start, 2)


def fresh_numbers(start: int) -> Iterator[range]:
    while True:
        yield range(start, start + MEASURED)
        start += MEASURED


def measure(path: Path, replies: int) -> dict[str, object]:
    ledger = Ledger(path)
    filling = seconds(lambda: asyncio.run(write(ledger, range(replies), FILLERS)))
    asyncio.run(ledger.aclose())
    size = file_bytes(path)
    results: dict[str, object] = {
        "replies": replies,
        "fill_seconds": filling,
        "file_bytes": size,
        "bytes_a_reply": round(size / replies, 1),
    }
    choice = random.Random(7)
    hits = [key_of(choice.randrange(replies)) for _ in range(MEASURED)]
    misses = [key_of(replies * 2 + number) for number in range(MEASURED)]
    results["look_up_hit"] = in_microseconds(asyncio.run(look_up(ledger, hits, there=True)))
    results["look_up_miss"] = in_microseconds(asyncio.run(look_up(ledger, misses, there=False)))
    for held in (128, 2048):
        results[f"claim_among_{held}"] = in_microseconds(asyncio.run(claim(ledger, held)))
    fresh = fresh_numbers(replies)
    for name, concurrency in (("write_alone", 1), ("write_among_128", 128)):
        cpu, wall = time.process_time(), time.perf_counter()
        taken = asyncio.run(write(ledger, next(fresh), concurrency))
        results[name] = {
            **in_microseconds(taken),
            "cpu_each": round((time.process_time() - cpu) / MEASURED * 1e6, 1),
            "wall_each": round((time.perf_counter() - wall) / MEASURED * 1e6, 1),
        }
    asyncio.run(ledger.aclose())
    results["stats_seconds"] = seconds(lambda: asyncio.run(SQLiteStore(path).stats()))
    results["verify_seconds"] = seconds(lambda: asyncio.run(SQLiteStore(path).verify()))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill a ledger and measure it.")
    parser.add_argument("--replies", type=int, default=1_000_000)
    parser.add_argument("--folder", help="where the ledger is made; without, a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        results = measure(Path(folder) / "ledger.sqlite", arguments.replies)
    json.dump({**results, "cores": os.cpu_count()}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
