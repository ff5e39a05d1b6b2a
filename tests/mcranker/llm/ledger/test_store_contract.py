"""The contract of a `LedgerStore`: every store passes these tests.

A store to be tested is a function of a folder: stores of one folder are those of two processes.
"""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from mcranker.llm.ledger import postgres_schema, sqlite_store
from mcranker.llm.ledger import rows as ledger_rows
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.ledger.store import LedgerStore, NewAnswer, Selection
from personas.ranking.usage import Usage
from tests.support.ledger_support import MODEL, key, reply
from tests.support.postgres import database_of
from tests.support.scripted import answers as typed

pytestmark = pytest.mark.anyio

NOW = 1_700_000_000.5
Open = Callable[[], LedgerStore]


class Clock:
    """The time of the machine that the store is on, in seconds since 1970."""

    now = NOW

    def time(self) -> float:
        return self.now


def sqlite(folder: Path) -> LedgerStore:
    return SQLiteStore(folder / "ledger.sqlite")


def postgres(folder: Path) -> LedgerStore:
    return PostgresStore(database_of(folder))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (ledger_rows, sqlite_store):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=clock.time))
    monkeypatch.setattr(postgres_schema, "server_time", lambda: f"{clock.now}::float8")
    return clock


@pytest.fixture(params=[sqlite, postgres])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    stores: list[LedgerStore] = []

    def open_one() -> LedgerStore:
        stores.append(request.param(tmp_path))
        return stores[-1]

    yield open_one
    for store in stores:
        asyncio.run(store.aclose())


@pytest.fixture
def store(opened: Open) -> LedgerStore:
    return opened()


def new(
    number: int, text: str | None = None, stage: str = "score", model: str = MODEL
) -> NewAnswer:
    """An answer under the key of `number`, which is its text unless another is given."""
    return NewAnswer(key(number), reply(str(number) if text is None else text), model, stage)


async def texts(store: LedgerStore, *numbers: int) -> list[str | None]:
    found = await store.get_many([key(number) for number in numbers])
    assert all(each.reused for each in found.values())
    return [found[key(number)].text if key(number) in found else None for number in numbers]


async def test_kept_answers_are_found(store: LedgerStore, opened: Open) -> None:
    assert await store.get_many([key(1)]) == {}
    assert await store.complete_many([new(1), new(2)]) == set()
    for each in (store, opened()):
        found = await each.get_many([key(1), key(3), key(2)])
        assert found == {key(n): reply(str(n), reused=True) for n in (1, 2)}
        assert found[key(1)].usage.seconds == 0.25
    assert await store.get_many([]) == {}


async def test_the_first_answer_stays(store: LedgerStore, opened: Open) -> None:
    await store.complete_many([new(1, "first")])
    answers = [new(1, "second"), new(2), new(3)]
    assert await opened().complete_many(answers) == {key(1)}
    assert await store.complete_many(answers) == {key(1), key(2), key(3)}
    assert await texts(store, 1, 2, 3) == ["first", "2", "3"]


async def test_one_of_many_stores_gets_a_claim(opened: Open) -> None:
    stores = [opened() for _ in range(4)]
    keys = [key(number) for number in range(50)]
    got: list[set[bytes]] = []

    async def claim(store: LedgerStore) -> None:
        got.append(await store.claim_many(keys))

    async with anyio.create_task_group() as group:
        for each in stores:
            group.start_soon(claim, each)
    assert sum(map(len, got)) == 50
    assert set().union(*got) == set(keys)


async def test_a_claim_ends_with_its_answer_or_by_release(store: LedgerStore, opened: Open) -> None:
    other = opened()
    await store.claim_many([key(1), key(2)])
    await other.release([key(1), key(2)])  # not its own
    assert await other.claim_many([key(1), key(2)]) == set()
    await store.release([key(1)])
    assert await other.claim_many([key(1)]) == {key(1)}
    await store.complete_many([new(2)])
    assert await other.claim_many([key(2)]) == set()  # answered


async def test_writes_for_a_key_keep_their_order(store: LedgerStore, opened: Open) -> None:
    store.claim_many([key(1)])
    store.release([key(1)])
    again = store.claim_many([key(1)])
    store.complete_many([new(2)])
    answered = store.claim_many([key(2)])
    assert (await again, await answered) == ({key(1)}, set())
    assert await opened().claim_many([key(1)]) == set()


async def test_a_claim_ends_with_its_lease(store: LedgerStore, opened: Open, clock: Clock) -> None:
    other = opened()
    await store.claim_many([key(1), key(2)])
    clock.now += store.lease - 0.1
    assert await other.claim_many([key(1), key(2)]) == set()
    await store.renew([key(2)])
    clock.now += 0.2
    assert await other.claim_many([key(1), key(2)]) == {key(1)}
    await store.renew([key(1)])  # which is not its own any more
    clock.now += store.lease + 0.1
    assert await store.claim_many([key(1)]) == {key(1)}
    # The answer of a claim that was lost is kept if it comes first.
    assert await other.complete_many([new(1, "late")]) == set()
    assert await store.complete_many([new(1)]) == {key(1)}
    assert await texts(store, 1) == ["late"]


async def test_a_clock_that_is_set_back_leaves_no_claim_for_ever(
    store: LedgerStore, opened: Open, clock: Clock
) -> None:
    await store.claim_many([key(1)])
    clock.now -= 1.0
    assert await opened().claim_many([key(1)]) == set()
    clock.now -= 3600
    assert await opened().claim_many([key(1)]) == {key(1)}


def test_threads_and_event_loops_share_a_store(store: LedgerStore) -> None:
    async def write(start: int) -> None:
        async def keep(number: int) -> None:
            await store.complete_many([new(number)])

        async with anyio.create_task_group() as group:
            for number in range(start, start + 100):
                group.start_soon(keep, number)
        assert None not in await texts(store, *range(start, start + 100))

    threads = [threading.Thread(target=asyncio.run, args=(write(start),)) for start in (0, 50, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asyncio.run(store.verify()) == (200, [])


async def filled(store: LedgerStore, clock: Clock) -> None:
    await store.complete_many([new(0), new(1)])
    clock.now += 86_400 * 2
    await store.complete_many([new(2, stage="criteria"), new(3, model="local:qwen")])
    await store.mark_unusable(key(1))
    await store.mark_unusable(key(9))  # that there is not


async def test_stats(store: LedgerStore, clock: Clock) -> None:
    await filled(store, clock)
    local, criteria, score = await store.stats()
    assert (local.model, local.stage, local.answers, local.cost) == ("local:qwen", "score", 1, 0.0)
    assert (criteria.model, criteria.stage, criteria.unusable) == (MODEL, "criteria", 0)
    assert (score.answers, score.unusable) == (2, 1)
    assert score.usage == Usage(2, 1600, 1200, 18, 0.5)
    first = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)  # 1,700,000,000
    assert (score.oldest, criteria.newest) == (first, first + datetime.timedelta(days=2))


async def test_all_answers_in_their_order(store: LedgerStore, clock: Clock) -> None:
    await filled(store, clock)
    whole = NewAnswer(key(4), reply("\ud800", answers=typed(None, 1.5)), MODEL, "assess")
    await store.complete_many([whole])
    found = [each async for each in store.iterate()]
    assert [each.key for each in found] == [key(number) for number in range(5)]
    assert [each.unusable for each in found] == [False, True, False, False, False]
    kept = found[4].reply
    assert kept is not None
    assert (kept.text, kept.answers) == ("\ud800", whole.reply.answers)
    assert (found[4].model, found[4].stage) == (MODEL, "assess")
    assert found[4].created.isoformat() == "2023-11-16T22:13:20+00:00"


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(older_than=1), [2, 3]),
        (Selection(model="local:qwen"), [0, 1, 2]),
        (Selection(unusable=True), [0, 2, 3]),
        (Selection(stage="score", model=MODEL, older_than=1, unusable=True), [0, 2, 3]),
        (Selection(), []),
    ],
)
async def test_prune(
    store: LedgerStore, clock: Clock, selection: Selection, left: list[int]
) -> None:
    await filled(store, clock)
    assert await store.prune(selection, dry_run=True) == 4 - len(left)
    assert (await store.verify())[0] == 4
    assert await store.prune(selection) == 4 - len(left)
    assert [each.key async for each in store.iterate()] == [key(number) for number in left]
    assert await store.claim_many([key(1)]) == ({key(1)} if 1 not in left else set())
