"""The ledger when processes share it, are killed, stopped or forked, or find the disk full."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from mcranker.llm.ledger.ledger import Ledger, Ledgered
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.scripted import ScriptedChat
from tests.support.ledger_support import MODEL, keep, key, reply, request, sql, start, verified
from tests.support.loopback import Body, completion, serve_in_thread
from tests.support.ranking_process import calls_of, queries
from tests.support.scripted import RECRUITS, RUBRIC

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals, forks and limits")

STUCK = 60  # seconds after which something counts as stuck


def write_collection(files: dict[str, Path], count: int, passages: int) -> None:
    lines: dict[str, list[str]] = {name: [] for name in files}
    for query, docs in queries(count, passages=passages):
        lines["queries.jsonl"].append(json.dumps({"id": query.id, "text": query.text}))
        for rank, (doc_id, text) in enumerate(docs.items(), start=1):
            lines["corpus.jsonl"].append(json.dumps({"id": doc_id, "text": text}))
            lines["run.trec"].append(f"{query.id} Q0 {doc_id} {rank} {1 / rank} bm25")
    for name, path in files.items():
        path.write_text("\n".join([*lines[name], ""]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def finished(process: subprocess.Popen[str], said: str | None = None) -> str:
    out, errors = process.communicate(said, timeout=STUCK)
    assert process.returncode == 0, errors
    assert not errors
    return out


def found(path: Path, *numbers: int) -> bool:
    async def look() -> bool:
        ledger = Ledger(path)
        answers = [await ledger.find(key(number)) for number in numbers]
        await ledger.aclose()
        return answers == [reply(str(number), reused=True) for number in numbers]

    return asyncio.run(look()) and sql(path, "PRAGMA integrity_check") == [("ok",)]


class Fickle:
    """A provider that never gives the same answer twice, and counts by prompt."""

    def __init__(self, latency: float) -> None:
        self.asked: Counter[bytes] = Counter()
        self._latency = latency
        self._luck = random.Random(5)

    async def __call__(self, body: Body) -> Body:
        self.asked[hashlib.sha256(json.dumps(body["messages"]).encode()).digest()] += 1
        await asyncio.sleep(self._luck.uniform(0.5, 1.5) * self._latency)
        form = next(iter(body["response_format"]["json_schema"]["schema"]["properties"]))
        known = {"Identities": RECRUITS, "Criteria": RUBRIC}
        return completion(known.get(form) or json.dumps({"Score": self._luck.randrange(11)}))

    @property
    def again(self) -> int:
        """Calls beyond the first with the same prompt."""
        return self.asked.total() - len(self.asked)


def test_two_processes_pay_once_and_print_the_same(tmp_path: Path) -> None:
    queries, passages, processes = 2, 20, 2
    files = {name: tmp_path / name for name in ("queries.jsonl", "run.trec", "corpus.jsonl")}
    write_collection(files, queries, passages)
    command = [sys.executable, "-m", "mcranker", "rank-run", "--model", "openai:test"]
    command += ["run.trec", "--queries", "queries.jsonl", "--corpus", "corpus.jsonl"]
    command += ["--output", "trec", "--ledger", "ledger", "-o", "concurrency=16"]
    fickle = Fickle(0.03)
    with serve_in_thread(fickle) as server:
        running = [
            subprocess.Popen(
                [*command, "--base-url", server.url, "--out", f"{number}.trec"],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])},
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(processes)
        ]
        said = [process.communicate(timeout=STUCK)[1] for process in running]
    assert [process.returncode for process in running] == [0] * processes, said
    calls = calls_of(queries, passages=passages)
    assert len(fickle.asked) == calls
    assert fickle.again <= calls / 100
    runs = {(tmp_path / f"{number}.trec").read_bytes() for number in range(processes)}
    assert len(runs) == 1
    assert verified(tmp_path / "ledger") == (calls, [])


LEASE = 0.6
HOLDER = """
from mcranker.llm.ledger.ledger import Ledgered
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.scripted import ScriptedChat

path, lease, seconds = sys.argv[1:]
SQLiteStore.lease = float(lease)

async def answer(_):
    print("asked", flush=True)
    await asyncio.sleep(float(seconds))
    return "there"

async def main():
    chat = Ledgered(ScriptedChat(answer, name=MODEL), Ledger(path))
    print((await chat.complete(request())).text, flush=True)

asyncio.run(main())
"""


@contextmanager
def holder(path: Path, seconds: float) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Another process, which is asking for the answer to `request()`."""
    process = start(HOLDER, path, str(LEASE), str(seconds))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n", process.communicate()
        yield process, process.stdout
    finally:
        process.kill()
        process.communicate()


def asked_here(path: Path) -> str:
    """The answer to `request()` in this process."""
    ledger = Ledger(path)
    chat = Ledgered(ScriptedChat(lambda _: "here", name=MODEL), ledger)
    text = asyncio.run(asyncio.wait_for(chat.complete(request()), STUCK)).text
    asyncio.run(ledger.aclose())
    return text


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SQLiteStore, "lease", LEASE)


@pytest.mark.usefixtures("short_lease")
def test_a_killed_process_is_waited_for_until_its_lease_ends(path: Path) -> None:
    ledger = Ledger(path)
    asyncio.run(keep(ledger, 1))  # from now on, claims are not looked through
    with holder(path, STUCK) as (process, _):
        process.kill()
        assert asked_here(path) == "here"


WRITE = """
async def main(path, first, last):
    ledger = Ledger(path)
    print("ready", flush=True)
    sys.stdin.readline()
    numbers = iter(range(first, last))
    async def worker():
        for number in numbers:
            await keep(ledger, number)
            print(number, flush=True)
    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(worker())

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""


def test_confirmed_answers_survive_a_kill(path: Path) -> None:
    process = start(WRITE, path, "0", "1000000", stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    confirmed = [int(process.stdout.readline()) for _ in range(500)]
    process.kill()
    confirmed += [int(line) for line in process.communicate(timeout=STUCK)[0].splitlines()]
    assert found(path, *confirmed)


def test_a_full_disk_loses_no_confirmed_answer(path: Path) -> None:
    code = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
ledger = Ledger(sys.argv[1])

async def fill():
    for number in range(10_000):
        await keep(ledger, number)
        print(number)

async def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        await fill()
    except LedgerError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await keep(ledger, 20_000)
    print(20_000)

asyncio.run(main())
"""
    *numbers, problem, last = finished(start(code, path)).splitlines()
    assert "what was written is kept" in problem
    confirmed = [int(number) for number in (*numbers, last)]
    assert len(confirmed) > 10
    assert found(path, *confirmed)


ROOM = """
import resource
from mcranker.llm.ledger.ledger import Ledgered
from mcranker.llm.scripted import ScriptedChat

calls = 0
def answer(request):
    global calls
    calls += 1
    return "yes"

async def main(path, before, room):
    chat = Ledgered(ScriptedChat(answer, name=MODEL), Ledger(path))
    for number in range(int(before)):
        await chat.complete(request(f"before {number}"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), resource.RLIM_INFINITY))
    try:
        for number in range(1100):
            await chat.complete(request(str(number)))
    except LedgerError as error:
        print(calls, error)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(("before", "room"), [(0, 60_000), (1, 10_000_000)])
def test_a_full_disk_is_noticed_while_answers_can_still_be_kept(
    path: Path, before: int, room: int
) -> None:
    paid, problem = finished(start(ROOM, path, str(before), str(room))).split(" ", 1)
    assert (int(paid) == 0) is (before == 0)
    assert problem.startswith(f"the ledger {str(path)!r} needs more room: 16 MiB cannot be")
    assert sql(path, "SELECT count(*) FROM replies") == [(int(paid),)]


FORKS = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # to fork with threads is what is tried here

def forked(work):
    child = os.fork()
    if not child:
        try:
            work()
        except LedgerError as error:
            print(error, flush=True)
            sys.exit(3)
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

path = sys.argv[1]
ledger = Ledger(path)
def work(first):
    asyncio.run(keep(ledger, first))
    assert asyncio.run(ledger.find(key(first))) == reply(str(first), reused=True)
    asyncio.run(keep(Ledger(path), first + 1))

assert forked(lambda: work(0)) == 0  # made before the fork
work(10)
assert forked(lambda: work(20)) == 3  # used before it
assert forked(lambda: asyncio.run(ledger.find(key(10)))) == 3
assert forked(lambda: None) == 0
assert forked(lambda: asyncio.run(ledger.aclose())) == 0
del ledger
def another():
    global ledger
    ledger = Ledger(path)
    work(30)
assert forked(another) == 0
ledger = Ledger(path)
work(40)
"""


def test_a_ledger_that_was_used_before_a_fork_is_an_error_in_the_child(path: Path) -> None:
    problems = finished(start(FORKS, path)).splitlines()
    assert len(problems) == 2
    for problem in problems:
        assert f"the ledger {str(path)!r} was used before this process was forked" in problem
    assert found(path, 0, 1, 10, 11, 30, 31, 40, 41)
    assert sql(path, "SELECT count(*) FROM replies") == [(8,)]
