"""A ledger in PostgreSQL: outages, several processes, copies, the command line."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcranker.cli.group import cli
from mcranker.errors import LedgerError
from mcranker.llm.ledger import postgres_schema, postgres_store
from mcranker.llm.ledger.ledger import Ledger, default_ledger_path
from mcranker.llm.ledger.postgres_schema import shown_url
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.ledger.store import NewAnswer
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


async def test_connections_that_the_server_ends_are_made_again(url: str) -> None:
    store = PostgresStore(url)
    await store.claim_many([key(1)])
    await store.get_many([key(1)])
    ended = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert await sql(url, ended) == 2
    assert await store.complete_many(answers(1)) == set()
    assert await store.get_many([key(1)]) == {key(1): reply("1", reused=True)}
    assert await store.claim_many([key(1)]) == set()
    await store.aclose()


async def test_an_answer_waits_for_a_network_that_is_cut(url: str) -> None:
    async with Relay(url) as relay:
        store = PostgresStore(relay.url)
        assert await store.claim_many([key(1)]) == {key(1)}
        relay.cut()
        kept = asyncio.ensure_future(asyncio.wait_for(store.complete_many(answers(1)), 20))
        await asyncio.sleep(0.5)
        assert not kept.done()
        relay.mend()
        assert await kept == set()
        await store.aclose()
    other = PostgresStore(url)
    assert [*await other.get_many([key(1)])] == [key(1)]
    await other.aclose()


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


@pytest.mark.parametrize("silent", [False, True])
async def test_a_first_connection_that_is_cut_is_made_again(
    url: str, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    monkeypatch.setattr(postgres_schema, "_CONNECT_TIMEOUT", 0.2)
    async with Relay(url) as relay:
        store = PostgresStore(relay.url)
        (relay.silence if silent else relay.cut)()
        claimed = asyncio.ensure_future(asyncio.wait_for(store.claim_many([key(1)]), 20))
        await asyncio.sleep(0.3)
        assert not claimed.done()
        monkeypatch.undo()
        relay.mend()
        assert await claimed == {key(1)}
        await store.aclose()


async def test_an_outage_and_its_end_are_logged_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Relay(url) as relay:
        store = PostgresStore(relay.url)
        await use_all(store)
        assert not caplog.records
        relay.cut()
        used = asyncio.ensure_future(use_all(store))
        await asyncio.sleep(0.5)
        relay.mend()
        await used
        await store.aclose()
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert ["is waited for" in each for each in said] == [True, False]
    assert "is back" in said[1]


async def use_all(store: PostgresStore) -> None:
    """Use each of the connections."""
    booking = Booking("p", 10, None, Sums(), Sums(), (0.0,))
    async with asyncio.TaskGroup() as group:
        group.create_task(store.get_many([key(1)]))
        for each in (store.claim_many([key(1)]), store.book("r", booking)):
            group.create_task(asyncio.wait_for(each, 20))


@pytest.mark.parametrize(
    "error", [TimeoutError(), OSError(), ConnectionResetError(), ConnectionError("reset by x")]
)
def test_a_message_names_its_cause(error: Exception) -> None:
    pytest.importorskip("asyncpg")
    said = str(postgres_schema.explained("l", error))
    assert postgres_schema.cause(error).strip()
    assert f"cannot be reached: {postgres_schema.cause(error)}; " in said


async def frozen_transaction_ends(frozen: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold all kinds of locks in a transaction over `frozen`, and use the ledger at `url`."""
    begin = postgres_schema._BEGIN.replace("'10s'", "'1s'").replace("'4s'", "'300ms'")
    monkeypatch.setattr(postgres_schema, "_BEGIN", begin)
    monkeypatch.setattr(postgres_schema, "LOCK_TIMEOUT", "lock_timeout = '300ms'")
    store = PostgresStore(url)
    want = Want(1e6, 1.0, 1.0)
    await use_all(store)
    await store.lease_limits("m", {"pause": Want(1, 0, 0), "requests": want, "tokens": want})
    connection = await postgres_schema.connect(frozen)
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
        lease = await store.lease_limits(
            "m", {"pause": Want(1, 0, 0), "requests": want, "tokens": want}
        )
        assert await store.claim_many([key(2), key(3)]) == {key(2), key(3)}
    assert lease["requests"].amount == 1
    assert 0.3 < time.monotonic() - began < 5
    connection.terminate()
    await store.aclose()


async def test_locks_of_a_frozen_process_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await frozen_transaction_ends(url, url, monkeypatch)


async def test_a_claim_that_another_changes_is_left_to_it(url: str) -> None:
    store = PostgresStore(url)
    await store.get_many([key(1)])
    await sql(url, "INSERT INTO mcranker_claims VALUES ($1, 'x', 0, 1) RETURNING 1", key(1))
    connection = await postgres_schema.connect(url)
    async with postgres_schema.transaction(connection):
        await connection.execute("SELECT 1 FROM mcranker_claims FOR UPDATE")
        async with asyncio.timeout(3):
            assert await store.claim_many([key(1), key(2)]) == {key(2)}
    assert await store.claim_many([key(1)]) == {key(1)}
    connection.terminate()
    await store.aclose()


async def test_one_that_was_never_reached_is_an_error_at_once() -> None:
    pytest.importorskip("asyncpg")
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/none")
    with pytest.raises(LedgerError, match="cannot be reached") as caught:
        await store.get_many([key(1)])
    assert "secret" not in str(caught.value)
    await store.aclose()


async def test_claims_that_a_crash_took_are_renewed_and_those_of_others_are_not(url: str) -> None:
    first, second = PostgresStore(url), PostgresStore(url)
    await first.claim_many([key(1), key(2)])
    await sql(url, "DELETE FROM mcranker_claims RETURNING 1")  # an unlogged table after a crash
    assert await second.claim_many([key(2)]) == {key(2)}
    await first.complete_many(answers(3))
    await first.renew([key(1), key(2), key(3)])
    assert await second.claim_many([key(1), key(2)]) == {key(2)}
    assert await sql(url, "SELECT count(*) FROM mcranker_claims") == 2  # none of an answered key
    for each in (first, second):
        await each.aclose()


async def test_answers_paid_for_twice_are_counted(url: str) -> None:
    first, second = PostgresStore(url), PostgresStore(url)
    await first.complete_many(answers(1, 2))
    assert await second.complete_many(answers(2, 3)) == {key(2)}
    assert await second.wasted() == 1
    for each in (first, second):
        await each.aclose()


async def test_an_answer_between_look_and_claim_ends_the_claim(url: str) -> None:
    store = PostgresStore(url)
    await store.complete_many(answers(1))
    # As another transaction would have it whose look came before the answer.
    add = "INSERT INTO mcranker_claims VALUES ($1, 'x', 0, 1) RETURNING 1"
    await sql(url, add, key(1))
    undo = postgres_store._UNDO
    assert await sql(url, undo, [key(1)]) == key(1)
    assert await sql(url, "SELECT count(*) FROM mcranker_claims") == 0
    await store.aclose()


async def test_a_later_schema_is_refused(url: str) -> None:
    store = PostgresStore(url)
    await store.get_many([key(1)])
    await store.aclose()
    await sql(url, "INSERT INTO mcranker_ledger VALUES (99)")
    with pytest.raises(LedgerError, match="later version"):
        await store.get_many([key(1)])
    await store.aclose()


async def test_many_processes_make_the_tables_once(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(8)]
    await asyncio.gather(*(each.claim_many([key(1)]) for each in stores))
    assert await sql(url, "SELECT count(*) FROM mcranker_ledger") == len(postgres_schema._VERSIONS)
    for each in stores:
        await each.aclose()


PROCESS = """
import asyncio, sys
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.ledger import Ledgered
from tests.support.ledger_support import request
from mcranker.llm.scripted import ScriptedChat

async def main():
    ledger = Ledger(sys.argv[1])
    asked = []
    async def answer(request):
        asked.append(request)
        await asyncio.sleep(0.05)
        return "7"
    chat = ScriptedChat(answer)
    model = Ledgered(chat, ledger)
    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(model.complete(request(f"How good is {number}?")))
    await ledger.aclose()
    print(len(asked))

asyncio.run(main())
"""


def test_processes_pay_for_an_answer_once(url: str) -> None:
    root = Path(__file__).parents[4]
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS, url], stdout=subprocess.PIPE, cwd=root)
        for _ in range(3)
    ]
    paid = [int(each.communicate(timeout=60)[0]) for each in running]
    assert sum(paid) == 40


def test_a_ledger_is_named_by_its_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Ledger(url).in_flight is Ledger(url).in_flight
    assert Ledger(url).path is None
    monkeypatch.setenv("MCRANKER_LEDGER", url)
    assert default_ledger_path() == url
    assert (
        shown_url("postgresql://me:p%40ss@host:5432/db?a=b") == "postgresql://me@host:5432/db?a=b"
    )


def run(*args: str) -> Any:
    found = CliRunner().invoke(cli, ["ledger", *args, "--output", "json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_a_ledger_is_copied_both_ways(url: str, tmp_path: Path) -> None:
    file, back = tmp_path / "a.sqlite", tmp_path / "b.sqlite"

    async def fill() -> None:
        ledger = Ledger(file)
        await ledger.store.complete_many(answers(*range(1200)))
        await ledger.store.mark_unusable(key(7))
        await ledger.aclose()

    asyncio.run(fill())
    assert run("--ledger", str(file), "--copy", url)["copied"] == 1200
    assert run("--ledger", str(file), "--copy", url)["there"] == 1200
    assert run("--ledger", url, "--copy", str(back))["copied"] == 1200
    dump = "SELECT key, model, stage, created, reply, checksum, unusable FROM replies ORDER BY id"
    rows = [sqlite3.connect(each).execute(dump).fetchall() for each in (file, back)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 1200
    shown = run("--ledger", url)["ledger"]
    assert (shown["answers"], shown["unusable"]) == (1200, 1)
    assert run("--check", "--ledger", url)["answers"] == 1200
    assert run("--remove", "--ledger", url, "--unusable")["removed"] == 1


def test_a_ranking_keeps_its_answers_there(url: str, tmp_path: Path) -> None:
    args = ["rank", "what do cats do?", "Cats purr.", "Dogs bark.", "--ledger", url, "-q"]
    args += ["--output", "json"]
    counts = []
    for _ in range(2):
        found = CliRunner().invoke(cli, args)
        assert found.exit_code == 0, found.output
        counts.append(run("--ledger", url)["ledger"]["answers"])
    assert counts[0] == counts[1] > 0
