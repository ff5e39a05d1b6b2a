"""A ledger in PostgreSQL: outages, locks, PgBouncer in transaction mode."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcranker.errors import LedgerError
from mcranker.llm.ledger import postgres_schema, postgres_store
from mcranker.llm.ledger.ledger import Ledger, default_ledger_path
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.ledger.store import NewAnswer, Selection
from mcranker.llm.limits.budget import Booking, Sums
from mcranker.llm.limits.leases import Want
from tests.support.ledger_support import MODEL, key, reply
from tests.support.postgres import Relay, database_of, sql

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_of(tmp_path)


def answers(*numbers: int) -> list[NewAnswer]:
    return [NewAnswer(key(number), reply(str(number)), MODEL, "score") for number in numbers]


async def test_a_database_that_stays_away_is_an_error(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "PATIENCE", 0.3)
    async with Relay(url) as relay:
        store = PostgresStore(relay.url)
        await store.claim_many([key(1)])
        relay.cut()
        with pytest.raises(LedgerError, match="cannot be reached"):
            await store.complete_many(answers(1))
        relay.mend()
        assert await store.complete_many(answers(1)) == set()
        await store.aclose()


async def test_a_first_connection_that_is_cut_is_made_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_schema, "_CONNECT_TIMEOUT", 0.2)
    async with Relay(url) as relay:
        store = PostgresStore(relay.url)
        relay.silence()
        claimed = asyncio.ensure_future(asyncio.wait_for(store.claim_many([key(1)]), 20))
        await asyncio.sleep(0.3)
        assert not claimed.done()
        monkeypatch.undo()
        relay.mend()
        assert await claimed == {key(1)}
        await store.aclose()


async def use_all(store: PostgresStore) -> None:
    """Use each of the connections."""
    booking = Booking("p", 10, None, Sums(), Sums(), (0.0,))
    async with asyncio.TaskGroup() as group:
        group.create_task(store.get_many([key(1)]))
        for each in (store.claim_many([key(1)]), store.book("r", booking)):
            group.create_task(asyncio.wait_for(each, 20))


async def test_one_that_was_never_reached_is_an_error_at_once() -> None:
    pytest.importorskip("asyncpg")
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/none")
    with pytest.raises(LedgerError, match="cannot be reached") as caught:
        await store.get_many([key(1)])
    assert "secret" not in str(caught.value)
    await store.aclose()


async def test_a_later_schema_is_refused(url: str) -> None:
    store = PostgresStore(url)
    await store.get_many([key(1)])
    await store.aclose()
    await sql(url, "INSERT INTO mcranker_ledger VALUES (99)")
    with pytest.raises(LedgerError, match="tables of version 99"):
        await store.get_many([key(1)])
    await store.aclose()


def test_a_ledger_is_named_by_its_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Ledger(url).in_flight is Ledger(url).in_flight
    assert Ledger(url).path is None
    monkeypatch.setenv("MCRANKER_LEDGER", url)
    assert default_ledger_path() == url


@pytest.fixture
def pooler(tmp_path: Path) -> Iterator[str]:
    """The URL of a database behind a pooler."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    parts = urlsplit(database_of(tmp_path))
    name, server = parts.path.strip("/"), Path(parts.query.partition("=")[2])
    folder = Path(tempfile.mkdtemp(prefix="pooler"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "users").write_text('"postgres" ""\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n{name} = host={server} user=postgres\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"auth_file = {folder}/users\npool_mode = transaction\n"
    )
    command = [program, str(config)]
    if os.geteuid() == 0:  # which pgbouncer refuses to be
        command[1:1] = ["-u", "nobody"]
        for each in (folder, server):
            each.chmod(0o755)
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"postgresql://postgres@127.0.0.1:{port}/{name}"
    finally:
        running.terminate()
        running.wait(10)
        shutil.rmtree(folder)


async def test_everything_works_behind_a_pooler(pooler: str) -> None:
    stores = [PostgresStore(pooler) for _ in range(6)]

    async def use(place: int) -> int:
        store, claimed = stores[place], 0
        for number in range(40):
            if await store.claim_many([key(number)]):
                claimed += 1
                answer = NewAnswer(key(number), reply(str(number)), MODEL, "score")
                assert await store.complete_many([answer]) == set()
            await store.get_many([key(number)])
            want = Want(1e6, 1.0, 1.0)
            lease = await store.lease_limits("m", {"pause": Want(1, 0, 0), "requests": want})
            assert lease["requests"].amount == 1
            booking = Booking(str(place), 10**6, None, Sums(), Sums(number, 0.0), (0.0,))
            assert (await store.book("r", booking)).granted == 1
        return claimed

    async def maintain() -> int:
        for _ in range(20):
            await stores[0].stats()
            await stores[0].verify()
        return 0

    assert sum(await asyncio.gather(maintain(), *map(use, range(6)))) == 40
    store = stores[0]
    assert [each.answers for each in await store.stats()] == [40]
    assert len([each async for each in store.iterate()]) == 40
    assert await store.verify() == (40, [])
    assert await store.mark_unusable(key(1)) == set()
    assert await store.prune(Selection(unusable=True)) == 1
    for each in stores:
        await each.aclose()


@pytest.mark.parametrize(("through", "others"), [("url", "url"), ("pooler", "pooler")])
async def test_locks_of_a_frozen_process_end(
    through: str, others: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kinds of locks are held in a transaction."""
    begin = postgres_schema._BEGIN.replace("'10s'", "'1s'").replace("'4s'", "'300ms'")
    monkeypatch.setattr(postgres_schema, "_BEGIN", begin)
    monkeypatch.setattr(postgres_schema, "LOCK_TIMEOUT", "lock_timeout = '300ms'")
    store = PostgresStore(request.getfixturevalue(others))
    want = Want(1e6, 1.0, 1.0)
    wants = {"pause": Want(1, 0, 0), "requests": want, "tokens": want}
    await use_all(store)
    await store.lease_limits("m", wants)
    connection = await postgres_schema.connect(request.getfixturevalue(through))
    held = postgres_schema.transaction(connection)
    await held.__aenter__()
    add = "INSERT INTO mcranker_claims VALUES ($1, 'x', 1e10, 1)"
    await connection.execute(add, key(2))
    await connection.execute("UPDATE mcranker_buckets SET at = at")
    lock = int.from_bytes(postgres_store._hash("run r")[:8], signed=True)
    await connection.execute("SELECT pg_advisory_xact_lock($1)", lock)
    began = time.monotonic()
    async with asyncio.timeout(10):
        await use_all(store)
        lease = await store.lease_limits("m", wants)
        assert await store.claim_many([key(2), key(3)]) == {key(2), key(3)}
    assert lease["requests"].amount == 1
    assert 0.3 < time.monotonic() - began < 5
    connection.terminate()
    await store.aclose()
