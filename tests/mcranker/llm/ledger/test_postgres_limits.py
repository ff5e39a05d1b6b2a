"""Limits and budgets that processes share by a ledger in PostgreSQL."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from mcranker.config import RankerConfig
from mcranker.llm.ledger import postgres_schema
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.limits.budget import Booking, Sums
from mcranker.llm.limits.leases import Want
from mcranker.llm.models import Layers
from mcranker.llm.scripted import ScriptedChat
from tests.support.buckets import Bucket
from tests.support.ledger_support import request
from tests.support.postgres import database_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_of(tmp_path)


async def test_the_database_leases_as_a_bucket_does(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = 1_700_000_000.0
    monkeypatch.setattr(postgres_schema, "server_time", lambda: f"{time}::float8")
    store, luck = PostgresStore(url), random.Random(3)
    kinds = {"requests": 20.0, "tokens": 4000.0}
    buckets = {kind: Bucket(time, time) for kind in kinds}
    none = Want(1, 0, 0)
    await store.lease_limits("m", {"pause": none, "requests": none, "tokens": none})  # makes rows
    refused = 0
    for _ in range(300):
        time += luck.choice([0.0, 0.01, 0.1, 1.0, 5.0, -2.0])
        wants = {}
        for kind, rate in kinds.items():
            amount = rate * luck.choice([-0.1, 0.0, 0.05, 1.0, 3.0])
            least = luck.choice([0.0, rate / 10, 20 * rate]) if amount > 0 else 0.0
            wants[kind] = Want(rate, max(amount, least), least)
        found = await store.lease_limits("m", {"pause": none, **wants})
        for kind in kinds:
            # Times are sums of 1.7e9 s, whose last digit is 2.4e-7 s.
            expected = buckets[kind].lease(wants[kind], time)
            assert found[kind] == pytest.approx(expected, abs=1e-6 * kinds[kind])
            refused += found[kind].wait > 60
    assert refused > 10
    await store.aclose()


async def test_a_pause_of_one_process_is_known_to_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = 1_700_000_000.0
    monkeypatch.setattr(postgres_schema, "server_time", lambda: f"{time}::float8")
    first, second = PostgresStore(url), PostgresStore(url)

    async def told(store: PostgresStore, name: str, seconds: float) -> float:
        lease = await store.lease_limits(name, {"pause": Want(1, seconds, 0)})
        assert lease.keys() == {"pause"}
        return sum(lease["pause"])

    assert await told(first, "m", 30.0) == 30
    time += 10
    assert await told(second, "m", 5.0) == 20
    assert await told(second, "m", 25.0) == 25
    assert await told(second, "another", 0.0) == 0
    time += 40
    assert await told(first, "m", 0.0) == 0
    for each in (first, second):
        await each.aclose()


async def test_processes_that_book_at_once_keep_to_the_limit(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(4)]

    async def claim(place: int) -> int:
        granted = 0
        for _ in range(20):
            mine = Sums(0, 0.0), Sums(granted, 0.0)
            found = await stores[place].book("r", Booking(str(place), 30, None, *mine, (0.0,)))
            granted += found.granted
        return granted

    assert sum(await asyncio.gather(*map(claim, range(4)))) == 30
    for each in stores:
        await each.aclose()


async def test_a_limit_is_of_all_processes_together(url: str) -> None:
    starts: list[float] = []

    async def answer(_: Any) -> str:
        starts.append(asyncio.get_running_loop().time())
        return "7"

    # Of one process, but each with a store of its own, as two processes have.
    models, ledgers = [], []
    for _ in range(2):
        ledger = Ledger(url)
        ledger.store = PostgresStore(url)
        config = RankerConfig(requests_per_minute=1200, concurrency=50)
        models.append(Layers(config, ledger).around(ScriptedChat(answer, name="m"), retried=True))
        ledgers.append(ledger)
    await asyncio.gather(
        *(each.complete(request(f"{m} {n}")) for m, each in enumerate(models) for n in range(20))
    )
    # 1200 a minute are 20 a second; the first is made at once.
    assert len(starts) == 40
    assert 39 / 20 * 0.9 < starts[-1] - starts[0] < 39 / 20 * 1.5
    for each in models:
        await each.aclose()
    for ledger in ledgers:
        await ledger.store.aclose()
