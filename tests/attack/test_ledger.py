"""The ledger under attack: processes that race, die or hang, and files that go or are spoilt."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import logging
import math
import os
import random
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import MCRanker
from mcranker.errors import ConfigError, LedgerError
from mcranker.llm.chat import Answer, ChatReply, ChatRequest
from mcranker.llm.ledger import flights as ledger_flights
from mcranker.llm.ledger import writer as ledger_writer
from mcranker.llm.ledger.access import LedgerAccess
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.ledgered import Ledgered
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.ledger.rows import COLUMNS, row_of
from mcranker.llm.ledger.upkeep import Export, stats, verify
from mcranker.llm.ledger.writer import LedgerWriter
from mcranker.llm.scripted import ScriptedChat
from personas.ranking.usage import Usage
from tests.attack.scale import scaled
from tests.mcranker.rankers.test_resume import calls_of, write_collection
from tests.support.cli_support import invoke
from tests.support.ledger_support import MODEL, keep, key, reply, request, sql, start
from tests.support.loopback import Body, completion, serve_in_thread
from tests.support.scripted import RECRUITS, RUBRIC

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="signals, and locks between processes"),
]

STUCK = 60  # seconds after which something counts as stuck
ANSWERS = 384  # of a ledger that is to be damaged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    ledger.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with `ANSWERS` answers, of which the last ones are in its log."""
    path = tmp_path_factory.mktemp("whole") / "ledger.sqlite"
    code = """
async def main(path, answers):
    for half in (range(answers // 2), range(answers // 2, answers)):
        ledger = Ledger(path)
        for number in half:
            await keep(ledger, number, f'{{"Score": {number}}}')
        if half[0] == 0:
            ledger.close()
    print("ready", flush=True)
    sys.stdin.readline()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""
    process = start(code, path, str(ANSWERS), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    return path


def copied(whole: Path, folder: Path, *, log: bool) -> Path:
    """A copy of its files in an empty folder; without a log, all is in the database."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole.parent, folder)
    path = folder / whole.name
    (folder / f"{whole.name}-shm").unlink()
    if not log:
        sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return path


class Asked:
    """A model that numbers its answers, and can be held up."""

    def __init__(self, ledger: Ledger, wait: Callable[[], Awaitable[object]] | None = None) -> None:
        self.calls = 0
        self.before: Callable[[], object] = lambda: None
        self._wait = wait
        self.chat = Ledgered(ScriptedChat(self._answer, name=MODEL), ledger)

    async def _answer(self, request: ChatRequest) -> str:
        self.calls += 1
        self.before()
        if self._wait is not None:
            await self._wait()
        return f"here {self.calls}"

    async def ask(self, text: str = "How good?") -> ChatReply:
        return await self.chat.complete(request(text))


# Processes that ask the same.


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


def test_four_processes_pay_once_and_print_the_same(tmp_path: Path) -> None:
    queries, passages, processes = 3, 30, 4
    files = {name: tmp_path / name for name in ("queries.jsonl", "run.trec", "corpus.jsonl")}
    write_collection(files, queries, passages)
    command = [sys.executable, "-m", "mcranker", "rank", "--model", "openai:test"]
    command += ["--queries", "queries.jsonl", "--run", "run.trec", "--corpus", "corpus.jsonl"]
    command += ["--output", "trec", "--ledger", "ledger", "-o", "concurrency=16"]
    root = str(Path(__file__).parents[2])
    fickle = Fickle(0.03)
    with serve_in_thread(fickle) as server:
        running = [
            subprocess.Popen(
                [*command, "--base-url", server.url, "--out", f"{number}.trec"],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": root},
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
    assert verify(tmp_path / "ledger") == (calls, [])


def test_eight_threads_with_rankers_of_their_own_pay_once(path: Path) -> None:
    fickle, threads = Fickle(0.02), 8
    docs = [f"passage {number}" for number in range(10)]
    runs: list[list[tuple[str, float]]] = []
    paid: list[int] = []

    async def rank(url: str) -> None:
        async with MCRanker(3, model="openai:test", base_url=url, ledger=path) as ranker:
            ranking = await ranker.arank("Which mask is best?", docs)
        runs.append([(hit.doc_id, hit.score or 0.0) for hit in ranking])
        paid.append(ranking.usage.calls)

    with serve_in_thread(fickle) as server:
        _together([lambda: asyncio.run(rank(server.url))] * threads)
    assert fickle.again == 0
    assert sum(paid) == len(fickle.asked) == calls_of(1, passages=len(docs))
    assert runs == runs[:1] * threads


def _together(work: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STUCK)
        assert not thread.is_alive()


# Who asks is killed, held up, slow, or fails, while this process waits for the answer.

HOLDER = """
from mcranker.errors import ServerFailed
from mcranker.llm.ledger import flights as ledger_flights
from mcranker.llm.ledger.writer import LedgerWriter
from mcranker.llm.ledger.ledgered import Ledgered
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.scripted import ScriptedChat

path, lease, seconds, what = sys.argv[1:]
ledger_flights.LEASE, ledger_flights.SIGN = float(lease), float(lease) / 5

async def answer(_):
    print("asked", flush=True)
    await asyncio.sleep(float(seconds))
    if what == "fails":
        raise ServerFailed("no")
    return "there"

async def main():
    chat = Ledgered(ScriptedChat(answer, name=MODEL), Ledger(path))
    try:
        async with asyncio.timeout(0.5 if what == "is cancelled" else None):
            print((await chat.complete(request())).text, flush=True)
    except (TimeoutError, ServerFailed):
        print("gone", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@contextlib.contextmanager
def holder(path: Path, *, lease: float, seconds: float, what: str = "answers") -> Iterator[Any]:
    """Another process that asks the same as `Asked`, and has begun to."""
    process = start(HOLDER, path, str(lease), str(seconds), what)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n", process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_a_killed_process_is_not_waited_for(path: Path, ledger: Ledger) -> None:
    asked = Asked(ledger)
    with holder(path, lease=60, seconds=60) as process, anyio.fail_after(STUCK):
        waiting = asyncio.create_task(asked.ask())
        await asyncio.sleep(0.3)
        assert not asked.calls
        process.kill()
        assert (await waiting).text == "here 1"


@pytest.mark.parametrize("what", ["fails", "is cancelled"])
async def test_a_call_that_comes_to_nothing_is_made_by_another(
    path: Path, ledger: Ledger, what: str
) -> None:
    asked = Asked(ledger)
    seconds = 0.5 if what == "fails" else 60
    with holder(path, lease=60, seconds=seconds, what=what), anyio.fail_after(STUCK):
        assert (await asked.ask()).text == "here 1"


async def test_a_long_call_is_waited_for(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = 1.0
    monkeypatch.setattr(ledger_flights, "LEASE", lease)
    asked = Asked(ledger)
    with holder(path, lease=lease, seconds=2.5 * lease), anyio.fail_after(STUCK):
        found = await asked.ask()
    assert (found.text, found.reused, asked.calls) == ("there", True, 0)


async def test_processes_find_each_other_after_their_locks_were_deleted(
    path: Path, ledger: Ledger
) -> None:
    asked = Asked(ledger)
    await asked.ask("another")
    delete(path.with_name(f"{path.name}-claims"))
    with holder(path, lease=60, seconds=0.3), anyio.fail_after(STUCK):
        assert (await asked.ask()).text == "there"


async def test_a_process_that_is_held_up_gets_the_answer_of_who_was_faster(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = 0.5
    monkeypatch.setattr(ledger_flights, "LEASE", lease)
    asked = Asked(ledger)
    with holder(path, lease=lease, seconds=1.0) as process, anyio.fail_after(STUCK):
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert (await asked.ask()).text == "here 1"
        assert time.monotonic() - began > lease
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "here 1\n"
    assert sql(path, "SELECT count(*) FROM replies") == [(1,)]


def test_a_thread_whose_loop_is_held_up_is_not_waited_for(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_flights, "LEASE", 0.3)
    monkeypatch.setattr(ledger_flights, "SIGN", 0.1)
    held, go_on = threading.Event(), threading.Event()
    found: list[str] = []

    async def hold() -> None:
        held.set()
        go_on.wait(STUCK)

    async def ask(wait: Callable[[], Awaitable[object]] | None) -> None:
        found.append((await Asked(ledger, wait).ask()).text)

    def second() -> None:
        held.wait(STUCK)
        asyncio.run(ask(None))
        go_on.set()

    _together([lambda: asyncio.run(ask(hold)), second])
    assert found == ["here 1"] * 2
    assert sql(ledger.path, "SELECT count(*) FROM replies") == [(1,)]


def test_what_a_closed_loop_has_left_is_not_asked_again(ledger: Ledger) -> None:
    asked = Asked(ledger)
    others = [Asked(ledger, asyncio.Event().wait) for _ in range(20)]

    async def interrupted() -> None:
        tasks = [asyncio.create_task(o.ask(f"{n}")) for n, o in enumerate(others)]
        tasks.append(asyncio.create_task(asked.ask()))
        # Its answer lingers, to be written with others.
        asked.before = asyncio.get_running_loop().stop
        await asyncio.sleep(STUCK)

    with pytest.raises(RuntimeError, match="stopped before"):
        asyncio.run(interrupted())
    assert asyncio.run(asked.ask()).text == "here 1"
    assert asked.calls == 1


async def test_where_there_are_no_locks_the_first_answer_is_everybodys(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    async def another_process() -> None:
        written = row_of(
            request_key(asked.chat, request()), ChatReply("there"), model=MODEL, stage="score"
        )
        places = ", ".join("?" * len(written))
        sql(ledger.path, f"INSERT INTO replies ({COLUMNS}) VALUES ({places})", *written)

    monkeypatch.setattr("fcntl.lockf", no_locks)
    asked = Asked(ledger, another_process)
    mine = await asked.ask()
    assert (mine.text, mine.reused, mine.usage.calls) == ("there", False, 1)  # paid for here too
    assert await asked.ask() == ChatReply("there", reused=True)
    assert asked.calls == 1


# Answers of a user's own model.

WHOLE: list[Any] = [2**63, 2**64, 10**400, -1, True, 2**53]
NUMBERS: list[Any] = [*WHOLE, 1.5, 12.0, math.nan, math.inf, None, "7", []]
TEXTS: list[Any] = [None, 5, b"bytes", ["a"], "\ud800", "\0", "", object()]


def hostile(luck: random.Random) -> ChatReply:
    """An answer of which a part may be anything."""
    numbers = (*NUMBERS, *range(10))
    usage = Usage(*(luck.choice(numbers) if luck.random() < 0.2 else 3 for _ in range(5)))
    fields: dict[str, Any] = {"usage": usage, "text": "7", "model": "m"}
    match luck.randrange(8):
        case 0:
            fields["text"] = luck.choice(TEXTS)
        case 1:
            fields["model"] = luck.choice(TEXTS)
        case 2:
            fields["finish_reason"] = luck.choice([*TEXTS, "tool_calls"])
        case 3:
            fields["label_logprobs"] = luck.choice(
                [{luck.choice(["a", 1, None]): luck.choice(NUMBERS)}, [], 5, "text", {}]
            )
        case 4:
            fields["answers"] = luck.choice(
                [
                    (luck.choice(NUMBERS),),
                    (Answer(luck.choice(NUMBERS)), Answer(None, problem=luck.choice(NUMBERS))),
                    (Answer(1), Answer(None, problem="no")),
                    (Answer(1, probabilities=(luck.choice(NUMBERS),)),),
                    "text",
                    5,
                    {},
                    iter([Answer(1.0)]),
                ]
            )
        case 5:
            fields["usage"] = luck.choice([None, 5, usage])
        case 6:
            fields["continuation_logprobs"] = luck.choice(
                [(luck.choice(NUMBERS), -1.0), (), 5, "text", {}, iter([-1.0])]
            )
    return ChatReply(**fields)


def numbers_of(answer: Answer) -> tuple[Any, ...]:
    value, listed = answer.value, answer.probabilities
    given = None if listed is None else list(map(float, listed))
    return None if value is None else float(value), answer.confidence, given, answer.problem


def parts(given: ChatReply) -> tuple[Any, ...]:
    """What is to come back; as texts where there may be a NaN, which equals nothing."""
    labels, answers = given.label_logprobs, given.answers
    tokens = given.continuation_logprobs
    return (
        given.text,
        given.model,
        given.finish_reason,
        given.usage,
        None if labels is None else str([(name, float(value)) for name, value in labels.items()]),
        None if answers is None else str(list(map(numbers_of, answers))),
        None if tokens is None else str(list(map(float, tokens))),
    )


async def test_no_answer_of_a_model_hangs_a_ranking_or_costs_another_its_place(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    luck, cases = random.Random(3), scaled(600)
    given: dict[str, ChatReply] = {}

    def answer(asked: ChatRequest) -> ChatReply:
        text = asked.messages[0].content
        given[text] = ChatReply(text) if int(text) % 2 else hostile(luck)
        return given[text]

    chat = Ledgered(ScriptedChat(answer, name=MODEL), ledger)
    used: dict[str, ChatReply] = {}

    async def ask(text: str) -> None:
        used[text] = await chat.complete(request(text))

    with anyio.fail_after(STUCK), caplog.at_level(logging.WARNING, "mcranker"):
        for first in range(0, cases, 64):
            async with anyio.create_task_group() as group:
                for number in range(first, min(first + 64, cases)):
                    group.start_soon(ask, str(number))
    assert len(used) == cases
    assert all(used[text] is given[text] for text in used)
    assert len(caplog.records) == 1
    assert "cannot be kept in the ledger" in caplog.text
    again = Ledgered(ScriptedChat(lambda _: ChatReply("anew"), name=MODEL), ledger)
    found = {text: await again.complete(request(text)) for text in used}
    for text, known in found.items():
        if known.reused:
            assert parts(known) == parts(given[text])
    assert all(known.reused for text, known in found.items() if int(text) % 2)
    assert cases / 8 < sum(known.reused for text, known in found.items() if not int(text) % 2)
    assert verify(ledger.path) == (cases, [])
    assert sum(share.answers for share in stats(ledger.path)) == cases


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, "\ud800", object(), None, "long" * 10_000],
    ids=["count", "negative", "surrogate", "object", "nothing", "length"],
)
async def test_a_write_that_cannot_succeed_fails_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    access = LedgerAccess(path)
    writer = LedgerWriter(access)
    insert = "INSERT INTO replies (key, model, stage, created, calls, input_tokens, "
    insert += "cached_input_tokens, output_tokens, seconds, reply, checksum) "
    insert += "VALUES (?, 'm', 's', 1, 1, 1, 1, 1, 1, ?, ?)"
    with access.turn:
        access.writer(0).setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 20_000)
    writes = [writer.written(insert, (key(number), "{}", 1)) for number in range(3)]
    writes.insert(1, writer.written(insert, (key(9), value, value)))
    with anyio.fail_after(STUCK):
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(each, Exception) for each in outcomes] == [False, True, False, False]
    assert not isinstance(outcomes[1], LedgerError)
    writer.close()
    assert sql(path, "SELECT count(*) FROM replies") == [(3,)]


# A file that goes while it is in use.


def another(path: Path) -> Path:
    """A ledger with an answer of its own."""
    other = path.with_name("another.sqlite")
    ledger = Ledger(other)
    asyncio.run(keep(ledger, 77))
    ledger.close()
    return other


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def delete_log(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("old.sqlite"))


def replace(path: Path) -> None:
    another(path).replace(path)


def replace_cleanly(path: Path) -> None:
    other = another(path)
    delete_all(path)
    other.replace(path)


GONE = [delete, delete_all, delete_folder, delete_log, rename, replace, replace_cleanly]


@pytest.mark.parametrize("go", GONE)
async def test_a_ledger_that_goes_while_it_is_in_use_is_made_again(
    path: Path, ledger: Ledger, go: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    (await asyncio.to_thread(another, path)).rename(path)  # an answer of another time
    asked = Asked(ledger)
    await asked.ask("before")
    await ledger.mark_unusable(request_key(asked.chat, request("before")))
    caplog.set_level(logging.WARNING, "mcranker")
    await asyncio.to_thread(go, path)
    assert not caplog.records

    def seen() -> None:  # by the model, when it is asked
        assert "while it was in use" in caplog.text
        assert verify(path)[1] == []

    asked.before = seen
    await asked.ask("after")
    assert len(caplog.records) == 1
    # What this process paid for is there, whatever file was put in the place of the former.
    assert (await asked.ask("before")).reused
    ledger.close()
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]
    found, unusable = sql(path, "SELECT count(*), sum(unusable) FROM replies")[0]
    assert found == 2 + (go in (delete_log, replace, replace_cleanly))
    assert unusable == 1
    if go is rename:  # the file that was renamed has all that it had, without its log
        assert sql(path.with_name("old.sqlite"), "SELECT count(*) FROM replies") == [(2,)]


async def test_an_answer_on_its_way_is_written_to_the_new_place(path: Path, ledger: Ledger) -> None:
    async def go() -> None:
        delete_all(path)

    asked = Asked(ledger, go)
    assert (await asked.ask()).text == "here 1"
    assert sql(path, "SELECT count(*) FROM replies") == [(1,)]


async def test_nothing_is_paid_while_something_else_is_in_the_place_of_a_ledger(
    path: Path, ledger: Ledger
) -> None:
    asked = Asked(ledger)
    await asked.ask("before")
    delete_all(path)
    await anyio.Path(path).write_text("a note\n" * 1000)
    for _ in range(2):
        with pytest.raises(LedgerError, match="is no SQLite file"):
            await asked.ask("after")
    assert asked.calls == 1
    delete(path)
    await asked.ask("after")
    assert (await asked.ask("before")).reused
    assert asked.calls == 2


def test_processes_that_share_a_ledger_that_goes(path: Path) -> None:
    code = """
import logging

def step(said):
    print(said, flush=True)
    sys.stdin.readline()

async def main(path, first):
    ledger = Ledger(path)
    for number in range(first, first + 200):
        if number == first + 100:
            step("begun")
        await keep(ledger, number)
    step("done")
    await keep(ledger, first + 200)
    ledger.close()

logging.disable()
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""
    spans = (0, 1000)
    processes = [start(code, path, str(first), stdin=subprocess.PIPE) for first in spans]

    def wait_for(process: subprocess.Popen[str], said: str) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{said}\n"

    for process in processes:
        wait_for(process, "begun")
    path.unlink()
    for process in processes:  # one has begun a new file while the other still has the former
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        wait_for(process, "done")
    for process in processes:
        _, errors = process.communicate("go on\n", timeout=STUCK)
        assert (process.returncode, errors) == (0, "")
    ledger = Ledger(path)
    assert all(ledger.find(key(first + n)) for first in spans for n in range(201))
    ledger.close()
    assert verify(path) == (402, [])


# A file that cannot be written.

UNWRITABLE = """
import os, resource, signal, sqlite3
from pathlib import Path
from mcranker.llm.ledger import writer as ledger_writer
from tests.attack.test_ledger import Asked

path, what = Path(sys.argv[1]), sys.argv[2]

def may_not_be_written(folder=0o777):
    path.chmod(0o444)
    path.parent.chmod(folder)
    os.seteuid(os.geteuid() or 65534)  # an administrator may write everywhere

def is_in_a_closed_folder():
    may_not_be_written(0o555)

def is_locked():
    ledger_writer.PATIENCE = 0.1
    globals()["other"] = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

def has_no_room():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # Enough for the index of the log, and less than the log has already.
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))

async def main():
    globals()[what]()
    asked = Asked(Ledger(path))
    for text in "ab":
        try:
            await asked.ask(text)
        except LedgerError as error:
            print(asked.calls, error)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("may_not_be_written", "may not be written"),
        ("is_in_a_closed_folder", "may not be written|allow reading and writing"),
        ("is_locked", "has been locked by another program for 30 s"),
        ("has_no_room", "make room and run again|see to the disk and its room"),
    ],
)
def test_a_ledger_that_cannot_be_written_is_found_out_before_a_call(
    whole: Path, what: str, says: str
) -> None:
    # Not in pytest's own folders, which are for their owner alone.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = copied(whole, Path(folder) / "folder", log=what == "has_no_room")
        path.parent.chmod(0o755)
        out, errors = start(UNWRITABLE, path, what).communicate(timeout=STUCK)
        path.parent.chmod(0o755)
    assert not errors
    lines = out.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert re.match(f"0 the ledger .* ({says})", line)


async def test_nothing_is_paid_through_a_second_name_of_a_ledger_in_use(
    path: Path, ledger: Ledger
) -> None:
    asked = Asked(ledger)
    await asked.ask("before")
    other = path.with_name("other.sqlite")
    other.hardlink_to(path)
    linked = Ledger(other)
    again = Asked(linked)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"has 2 names \(hard links\).* symbolic links"):
            await again.ask("before")
    assert not again.calls
    assert (await asked.ask("before")).reused  # who had it open goes on
    other.unlink()
    other.symlink_to(path)
    assert (await again.ask("before")).reused
    assert (asked.calls, again.calls) == (1, 0)
    linked.close()


async def test_nothing_is_paid_after_a_write_that_failed(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def spoil() -> None:  # while a call is on its way
        other.execute("BEGIN IMMEDIATE")

    monkeypatch.setattr(ledger_writer, "PATIENCE", 0.05)
    await keep(ledger, 1)
    other = sqlite3.connect(path, isolation_level=None)
    asked = Asked(ledger, spoil)
    for _ in range(3):
        with pytest.raises(LedgerError, match="locked"):
            await asked.ask()
    assert asked.calls == 1
    other.rollback()
    other.close()
    assert (await Asked(ledger).ask()).text == "here 1"


@pytest.mark.parametrize("value", [5, 2.5, True, b"bytes", "", "a\0b", ["a"], object(), Path("\0")])
def test_a_ledger_that_is_no_path(value: Any) -> None:
    with pytest.raises(ConfigError, match="ledger="):
        MCRanker(model=ScriptedChat(lambda _: "7"), ledger=value)


def test_a_home_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCRANKER_LEDGER", "~nobody-has-this-name/ledger.sqlite")
    with pytest.raises(ConfigError, match="give the whole path"):
        MCRanker(model=ScriptedChat(lambda _: "7"))


# Damage, and power cuts.


def damaged(content: bytes, luck: random.Random) -> tuple[str, bytes]:
    """The content with damage, and of what kind."""
    kind = luck.choice(["bytes", "pages", "zeros", "cut", "grown"])
    spoilt = bytearray(content)
    match kind:
        case "bytes":
            for _ in range(luck.choice([1, 10, 100])):
                spoilt[luck.randrange(len(spoilt))] = luck.randrange(256)
        case "pages" | "zeros":
            for _ in range(luck.randint(1, 4)):
                first = luck.randrange(len(spoilt) // 4096) * 4096
                page = luck.randbytes(4096) if kind == "pages" else bytes(4096)
                spoilt[first : first + 4096] = page
        case "cut":
            del spoilt[luck.randrange(len(spoilt)) :]
        case "grown":
            spoilt += luck.randbytes(luck.randrange(10_000))
    return kind, bytes(spoilt)


def test_what_can_be_read_of_a_damaged_file_is_saved(whole: Path, tmp_path: Path) -> None:
    luck = random.Random(8)
    saved: list[int] = []
    for _ in range(scaled(25)):
        path = copied(whole, tmp_path / "copy", log=False)
        kind, content = damaged(path.read_bytes(), luck)
        path.write_bytes(content)
        saved.append(_exported(path))
        assert saved[-1] == ANSWERS or kind != "grown"
    # Only damage to the first pages, which lead to all others, spoils everything.
    assert statistics.median(saved) > 0.8 * ANSWERS
    assert sum(count == 0 for count in saved) < 0.2 * len(saved)


def _exported(path: Path) -> int:
    """How many answers were saved, and that they are right and counted."""
    export = Export(path)
    try:
        numbers = [_number(answer) for answer in export]
    except LedgerError:
        numbers = []
    assert len(numbers) == len(set(numbers)) == export.saved
    try:
        read, problems = verify(path)
    except LedgerError:  # nothing can be read; to recover answers, a program is needed
        with pytest.raises(LedgerError, match=r"is damaged|not a ledger|has schema version"):
            verify(path)
        return export.saved
    assert export.saved <= read
    if export.lost or export.perhaps_more:
        assert problems
        least = "at least " if export.perhaps_more else ""
        assert f"{export.saved} answers can be read, {least}{export.lost} cannot" in problems[0]
        # An entry of the index of keys may be damaged so that it counts for an answer.
        assert export.saved + export.lost <= ANSWERS * 1.02
        if not export.perhaps_more:
            assert export.saved + export.lost >= ANSWERS * 0.98
    return export.saved


def _number(answer: dict[str, Any]) -> int:
    """Which of the answers it is, after a look at all of it."""
    number = int(json.loads(answer["reply"]["text"])["Score"])
    assert answer["key"] == key(number).hex()
    assert answer["usage"]["input_tokens"] == 800
    return number


def test_the_command_says_how_many_were_saved_and_lost(whole: Path, tmp_path: Path) -> None:
    path = copied(whole, tmp_path / "copy", log=False)
    content = bytearray(path.read_bytes())
    content[10 * 4096 : 11 * 4096] = bytes(4096)
    path.write_bytes(content)
    out = tmp_path / "saved.jsonl"
    result = invoke("ledger", "export", "--ledger", path, "--out", out)
    saved = len(out.read_text().splitlines())
    assert 0.8 * ANSWERS < saved < ANSWERS
    assert result.exit_code == 1
    assert f"is damaged: {saved} answers saved, {ANSWERS - saved} lost" in result.stderr
    result = invoke("ledger", "verify", "--ledger", path)
    assert result.exit_code == 1
    assert f"{saved} answers can be read, {ANSWERS - saved} cannot" in result.stderr


async def test_a_ranking_with_a_damaged_file_uses_it_right_or_says_so(
    whole: Path, tmp_path: Path
) -> None:
    luck = random.Random(4)
    outcomes: Counter[str] = Counter()
    for round_ in range(scaled(40)):
        path = copied(whole, tmp_path / f"copy {round_}", log=round_ % 2 == 0)
        spoilt = path.with_name(f"{path.name}-wal") if round_ % 4 == 0 else path
        spoilt.write_bytes(damaged(spoilt.read_bytes(), luck)[1])
        ledger = Ledger(path)
        asked = Asked(ledger)
        with anyio.fail_after(STUCK):
            try:
                for number in luck.sample(range(ANSWERS), 40):
                    found = ledger.find(key(number))
                    assert found is None or json.loads(found.text) == {"Score": number}
                    await asked.ask(str(number))
            except LedgerError:
                outcomes["says so"] += 1
                calls = asked.calls
                with pytest.raises(LedgerError):
                    await asked.ask("another")
                calls -= asked.calls
                assert not calls  # nothing is paid any more
            else:
                outcomes["goes on"] += 1
        ledger.close()
    assert min(outcomes.values()) > 0.1 * outcomes.total()


def test_a_power_cut_takes_the_last_answers_at_most(whole: Path, tmp_path: Path) -> None:
    luck = random.Random(2)
    kept: list[int] = []
    for _ in range(scaled(30)):
        path = copied(whole, tmp_path / "copy", log=True)
        log = path.with_name(f"{path.name}-wal")
        with log.open("r+b") as file:
            file.truncate(luck.randrange(log.stat().st_size))
        numbers = [_number(answer) for answer in Export(path)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= ANSWERS // 2  # what had been moved into the database
        assert verify(path) == (len(numbers), [])
        kept.append(len(numbers))
    assert max(kept) > min(kept)


# A process that forks.

FORKS = """
import os, threading, time, warnings
from pathlib import Path
from mcranker.llm.ledger.flights import LEASE
from tests.attack.test_ledger import Asked

warnings.simplefilter("ignore", DeprecationWarning)  # to fork with threads is what is tried here
path = sys.argv[1]
ledger = Ledger(path)
ended, begun = threading.Event(), threading.Event()

def opened():
    links = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [link for link in links if link.startswith(path) and not link.endswith("-claims")]

async def write(first):
    for number in range(first, first + 40):
        await keep(ledger, number)
        assert ledger.find(key(number)) == reply(str(number), reused=True)

async def never_rest(first):
    while not ended.is_set():
        await write(first)
        first += 40

async def slow():
    begun.set()
    while not ended.is_set():
        await asyncio.sleep(0.01)

asked = Asked(ledger, slow)
work = [lambda: asyncio.run(never_rest(10_000)), lambda: asyncio.run(asked.ask())]
threads = [threading.Thread(target=each) for each in work]
for thread in threads:
    thread.start()
begun.wait()
children = []
for first in range(0, 500, 100):
    child = os.fork()
    if not child:
        code = 1
        try:
            assert not opened()
            asyncio.run(write(first))
            began = time.monotonic()
            found = asyncio.run(asked.ask())  # which the parent has asked
            assert found.reused and asked.calls == 1, found
            assert time.monotonic() - began < LEASE
            ledger.close()
            code = 0
        finally:
            os._exit(code)
    children.append(child)
asyncio.run(write(5000))
ended.set()
for thread in threads:
    thread.join()
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
ledger.close()
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_ledger_works_on_both_sides_of_a_fork(path: Path) -> None:
    _, errors = start(FORKS, path).communicate(timeout=STUCK)
    assert not errors
    ledger = Ledger(path)
    numbers = [first + n for first in (*range(0, 500, 100), 5000) for n in range(40)]
    assert all(ledger.find(key(number)) == reply(str(number), reused=True) for number in numbers)
    ledger.close()
    assert verify(path)[1] == []
