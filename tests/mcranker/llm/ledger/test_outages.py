"""Outages in the middle of a run: a database that restarts, a cut network, a killed worker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from tests.mcranker.cli.test_cli_process import reply
from tests.mcranker.serve.test_command import asking, model_at, running
from tests.support.chaos import chaos
from tests.support.loopback import Body, Loopback, completion, serve_in_thread
from tests.support.postgres import Relay, database_of, restart
from tests.support.ranking_process import calls_of, go, start, told, undisturbed
from tests.support.serving import until, until_so

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

STUCK = 120  # seconds after which something counts as stuck
QUERIES, PASSAGES, AT_ONCE = 30, 4, 8
FREEZE = float(os.environ.get("MCRANKER_FREEZE", "0"))
"""Seconds for which a worker is frozen, by the product's own times; 0 for a short test."""
SCALE = 1.0 if FREEZE else 0.1
# The command with a shorter lease, and shorter times.
WORKER = """
import sys
from mcranker.llm.ledger import postgres_schema, postgres_store
from mcranker.runtime import processes as runtime
lease, scale = map(float, sys.argv.pop(1).split(","))
postgres_store.PostgresStore.lease = lease
for name in ("_BEGIN", "LOCK_TIMEOUT"):
    text = getattr(postgres_schema, name)
    for seconds in (4, 10):
        text = text.replace(f"'{seconds}s'", f"'{seconds * scale}s'")
    setattr(postgres_schema, name, text)
postgres_schema.connect.__kwdefaults__["seconds"] *= scale
postgres_schema._CONNECT_TIMEOUT *= scale
postgres_store.PATIENCE *= scale
runtime.LAST_WAITS *= scale
from mcranker.cli.group import cli
cli()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_of(tmp_path)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_database_that_restarts_loses_and_repeats_nothing(url: str, mode: str) -> None:
    count, passages = 4, 20
    expected = undisturbed(count, passages=passages)
    with chaos({}, latency=(0.05, 0.15)) as server:
        # Both rank all queries, from either end, and meet in the middle.
        processes = [start(server, url, count, passages, *order) for order in ((), ("backwards",))]
        middle = server.alarm(calls_of(count, passages=passages) // 3)
        go(*processes)
        assert middle.wait(STUCK)
        restart(mode)
        outcomes = [each.communicate(timeout=STUCK)[0] for each in processes]
        assert [each.returncode for each in processes] == [0, 0]
    first, second = (told(each.splitlines())[1] for each in outcomes)
    assert first == second[::-1] == expected
    assert server.distinct == calls_of(count, passages=passages)
    assert server.duplicates == 0


def test_a_worker_that_is_frozen_in_a_transaction_stops_no_other(url: str, tmp_path: Path) -> None:
    frozen_for = FREEZE or 4.0
    with provider(latency=max(0.3, min(1.0, frozen_for / 100))) as model:
        # As long as the three others have to do, and a third more.
        queries = int(3 * AT_ONCE / PASSAGES * frozen_for / model.latency * 4 / 3)
        workers = {
            name: worker(
                tmp_path,
                model,
                f"{url}&application_name={name}",
                45.0 * SCALE,
                *("--worker", "-o", "max_calls=100000"),
                name=name,
                queries=queries,
                scale=SCALE,
            )
            for name in "abcd"
        }
        try:
            until(lambda: all(len(model.asked_by(name)) >= AT_ONCE + 1 for name in "abcd"), STUCK)
            asyncio.run(freeze(workers["a"], url))
            under_way = {*model.asked_by("a")[-3 * AT_ONCE :]}
            time.sleep(frozen_for)
            workers["a"].send_signal(signal.SIGCONT)
            done = {
                name: each.communicate(timeout=STUCK + frozen_for)[0]
                for name, each in workers.items()
            }
        finally:
            for each in workers.values():
                each.kill()
        assert [each.returncode for each in workers.values()] == [0] * 4
        assert sum(int(said.split()[0].replace(",", "")) for said in done.values()) >= queries
        pauses = {name: model.longest_pause(name) for name in "abcd"}
        again = {asked for asked, times in model.asked.items() if times > 1}
    print(pauses, len(again), "asked twice of", model.asked.total())
    assert max(pauses[name] for name in "bcd") < (15 if FREEZE else 4)
    assert pauses["a"] > frozen_for * 0.9
    assert len(model.asked) == queries * PASSAGES
    assert again <= under_way


async def freeze(process: subprocess.Popen[str], url: str) -> None:
    """Stop a process while it holds the lock of its run's budget."""
    import asyncpg

    connection = await asyncpg.connect(url)
    holds = (
        "SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid) "
        "WHERE application_name = 'a' AND state LIKE 'idle in transaction%' "
        "AND locktype = 'advisory' AND granted"
    )
    for _ in range(20_000):
        if await connection.fetchval(holds):
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(0.2)  # what it has sent is done
            if await connection.fetchval(holds):
                break
            process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0)
    else:
        pytest.fail("it was never seen in a transaction")
    await connection.close()


@pytest.mark.anyio
@pytest.mark.parametrize("silent", [False, True])
async def test_a_service_without_its_database_ends_soon_after_a_signal(
    url: str, *, silent: bool
) -> None:
    released = threading.Event()

    async def slow(body: Body) -> Body:
        await until_so(released.is_set)
        return reply(body)

    command = sys.executable, "-c", WORKER, f"45,{SCALE}"
    with serve_in_thread(slow) as server:
        async with Relay(url) as relay:

            def serve() -> tuple[float, str, int | None]:
                given = model_at(server)
                with running(*given, command=command, MCRANKER_LEDGER=relay.url) as (service, at):
                    with asking(at):
                        until(lambda: bool(server.requests), STUCK)
                        (relay.silence if silent else relay.cut)()
                        released.set()
                        time.sleep(0.5)
                        began = time.monotonic()
                        service.send_signal(signal.SIGTERM)
                        _, err = service.communicate(timeout=STUCK)
                    return time.monotonic() - began, err, service.returncode

            took, err, code = await anyio.to_thread.run_sync(serve)
    print(f"{took:.1f} s", err)
    assert code == 0
    assert err.count("is waited for") == 1
    assert took < (30 if FREEZE else 10)


@dataclass
class Provider:
    """A model whose scores depend on the request; it counts equal ones."""

    url: str = ""
    latency: float = 0.15
    asked: Counter[str] = field(default_factory=Counter)
    server: Loopback | None = None

    async def __call__(self, body: Body) -> Body:
        self.asked[asked := json.dumps(body["messages"])] += 1
        await asyncio.sleep(self.latency)
        return completion(json.dumps({"Score": zlib.crc32(asked.encode()) % 11}))

    def asked_by(self, name: str) -> list[str]:
        """The calls of a worker, in order."""
        assert self.server is not None
        came = (e for e in self.server.requests if e.headers["authorization"] == f"Bearer {name}")
        return [json.dumps(each.body["messages"]) for each in came]

    def longest_pause(self, name: str) -> float:
        """Seconds in which a worker made no call, at most."""
        assert self.server is not None
        came = (e for e in self.server.requests if e.headers["authorization"] == f"Bearer {name}")
        return max(after - before for before, after in pairwise(each.time for each in came))

    def reached(self, calls: int) -> None:
        """Wait until so many calls have come from each of two workers."""
        until(lambda: all(len(self.asked_by(name)) >= calls for name in "ab"), STUCK)


@contextmanager
def provider(latency: float = 0.15) -> Iterator[Provider]:
    model = Provider(latency=latency)
    with serve_in_thread(model) as server:
        model.url, model.server = server.url, server
        yield model


def worker(
    folder: Path,
    model: Provider,
    ledger: str,
    lease: float,
    *more: str,
    name: str = "last",
    queries: int = QUERIES,
    scale: float = 1.0,
) -> subprocess.Popen[str]:
    asked, run, corpus = (folder / name for name in ("queries.jsonl", "run.trec", "c.jsonl"))
    if not run.exists():
        texts = ({"_id": f"q{n}", "text": f"cat {n}?"} for n in range(queries))
        asked.write_text("".join(json.dumps(each) + "\n" for each in texts))
        texts = ({"_id": f"d{n}", "text": f"Cat {n} purrs."} for n in range(PASSAGES))
        corpus.write_text("".join(json.dumps(each) + "\n" for each in texts))
        pairs = [(q, d) for q in range(queries) for d in range(PASSAGES)]
        run.write_text("".join(f"q{q} Q0 d{d} {d + 1} {9 - d} bm25\n" for q, d in pairs))
    command = [sys.executable, "-c", WORKER, f"{lease},{scale}", "rank-run"]
    command += [str(run), "--queries", str(asked), "--corpus", str(corpus)]
    command += ["--ranker", "direct", "-q"]
    command += ["--model", "openai:m", "--base-url", model.url, "--ledger", ledger]
    command += ["-o", f"concurrency={AT_ONCE}", *more]
    env = os.environ | {"OPENAI_API_KEY": name}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
