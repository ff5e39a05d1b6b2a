"""A ledger in PostgreSQL behind PgBouncer in transaction mode."""

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

from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.ledger.store import NewAnswer, Selection
from mcranker.llm.limits.budget import Booking, Sums
from mcranker.llm.limits.leases import Want
from tests.mcranker.llm.ledger.test_postgres import frozen_transaction_ends
from tests.support.ledger_support import MODEL, key, reply
from tests.support.postgres import database_of, sql

pytestmark = pytest.mark.anyio


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


async def test_connections_of_the_pooler_that_end_are_made_again(
    pooler: str, tmp_path: Path
) -> None:
    store = PostgresStore(pooler)
    assert await store.claim_many([key(1)]) == {key(1)}
    await store.get_many([key(1)])
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    end = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {others}"
    assert await sql(database_of(tmp_path), end) >= 1
    assert await store.complete_many([NewAnswer(key(1), reply(), MODEL, "score")]) == set()
    assert [*await store.get_many([key(1)])] == [key(1)]
    await store.aclose()


@pytest.mark.parametrize("direct", [False, True])
async def test_locks_of_a_frozen_process_end(
    pooler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, direct: bool
) -> None:
    others = database_of(tmp_path) if direct else pooler
    await frozen_transaction_ends(pooler, others, monkeypatch)
