"""Outages in the middle of a run: a database that restarts, a cut network, a killed worker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.mcranker.rankers.test_resume import calls_of, go, start, told, undisturbed
from tests.support.chaos import chaos
from tests.support.loopback import Body, Loopback, completion, serve_in_thread
from tests.support.postgres import Relay, database_of, restart
from tests.support.serving import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

STUCK = 120  # seconds after which something counts as stuck
QUERIES, PASSAGES, AT_ONCE = 30, 4, 8
# The command with a shorter lease.
WORKER = """
import sys
from mcranker.llm.ledger.postgres_store import PostgresStore
PostgresStore.lease = float(sys.argv.pop(1))
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


@pytest.mark.anyio
async def test_a_network_that_is_cut_from_a_worker_loses_and_repeats_nothing(
    url: str, tmp_path: Path
) -> None:
    # As 30 s of the 45 s that a claim lasts: 2.5 s, and 1.6 s at most until the next try, of 6 s.
    alone = await anyio.to_thread.run_sync(ranked_alone, tmp_path)
    with provider() as model:
        async with Relay(url) as relay:
            workers = [
                worker(tmp_path, model, each, 6.0, "--worker", name=name)
                for name, each in (("a", relay.url), ("b", url))
            ]
            await anyio.to_thread.run_sync(model.reached, AT_ONCE + 1)
            relay.cut()
            await anyio.sleep(2.5)
            relay.mend()
            done = [await anyio.to_thread.run_sync(queries_done, each) for each in workers]
        assert min(done) > 0
        # A worker that ends lets go of its queries; the other finds their replies in the ledger.
        assert sum(done) >= QUERIES
        assert model.asked.total() == len(model.asked) == QUERIES * PASSAGES
        found = await anyio.to_thread.run_sync(ranked, tmp_path, model, url)
    assert found == alone
    assert model.asked.total() == QUERIES * PASSAGES


def test_a_worker_that_is_killed_loses_nothing(url: str, tmp_path: Path) -> None:
    alone = ranked_alone(tmp_path)
    with provider() as model:
        workers = [worker(tmp_path, model, url, 3.0, "--worker", name=each) for each in "ab"]
        model.reached(AT_ONCE + 1)
        workers[0].kill()
        workers[0].communicate(timeout=STUCK)
        done = queries_done(workers[1])
        assert 0 < done < QUERIES
        assert ranked(tmp_path, model, url) == alone
    assert len(model.asked) == QUERIES * PASSAGES
    # Of its own calls only the last may not have been kept: under way, or answered just now.
    again = {asked for asked, times in model.asked.items() if times > 1}
    assert again <= {*model.asked_by("a")[-3 * AT_ONCE :]}


@dataclass
class Provider:
    """A model whose scores depend on the request; it counts equal ones."""

    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    server: Loopback | None = None

    async def __call__(self, body: Body) -> Body:
        self.asked[asked := json.dumps(body["messages"])] += 1
        await asyncio.sleep(0.15)
        return completion(json.dumps({"Score": zlib.crc32(asked.encode()) % 11}))

    def asked_by(self, name: str) -> list[str]:
        """The calls of a worker, in order."""
        assert self.server is not None
        came = (e for e in self.server.requests if e.headers["authorization"] == f"Bearer {name}")
        return [json.dumps(each.body["messages"]) for each in came]

    def reached(self, calls: int) -> None:
        """Wait until so many calls have come from each of two workers."""
        until(lambda: all(len(self.asked_by(name)) >= calls for name in "ab"), STUCK)


@contextmanager
def provider() -> Iterator[Provider]:
    model = Provider()
    with serve_in_thread(model) as server:
        model.url, model.server = server.url, server
        yield model


def worker(
    folder: Path, model: Provider, ledger: str, lease: float, *more: str, name: str = "last"
) -> subprocess.Popen[str]:
    queries, run, corpus = (folder / name for name in ("queries.jsonl", "run.trec", "c.jsonl"))
    if not run.exists():
        texts = ({"_id": f"q{n}", "text": f"cat {n}?"} for n in range(QUERIES))
        queries.write_text("".join(json.dumps(each) + "\n" for each in texts))
        texts = ({"_id": f"d{n}", "text": f"Cat {n} purrs."} for n in range(PASSAGES))
        corpus.write_text("".join(json.dumps(each) + "\n" for each in texts))
        pairs = [(q, d) for q in range(QUERIES) for d in range(PASSAGES)]
        run.write_text("".join(f"q{q} Q0 d{d} {d + 1} {9 - d} bm25\n" for q, d in pairs))
    command = [sys.executable, "-c", WORKER, str(lease), "rank", "--queries", str(queries)]
    command += ["--run", str(run), "--corpus", str(corpus), "--ranker", "direct", "-q"]
    command += ["--model", "openai:m", "--base-url", model.url, "--ledger", ledger]
    command += ["-o", f"concurrency={AT_ONCE}", *more]
    env = os.environ | {"OPENAI_API_KEY": name}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def queries_done(process: subprocess.Popen[str]) -> int:
    said, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 0
    found = re.match(r"(\d+) of 30 queries done here", said)
    assert found, said
    return int(found[1])


def ranked(folder: Path, model: Provider, ledger: str) -> Any:
    """The run that the last command writes: query, rank, passage."""
    process = worker(folder, model, ledger, 3.0, "--output", "trec")
    said, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 0
    return [line.split() for line in said.splitlines()]


def ranked_alone(folder: Path) -> Any:
    with provider() as model:
        found = ranked(folder, model, str(folder / "alone.sqlite"))
    assert len(found) == QUERIES * PASSAGES
    return found
