"""The ledger when processes share it, are killed, end, fork, or find the disk full."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcranker.llm.ledger.ledger import Ledger
from tests.support.ledger_support import key, reply, sql, start

WRITE = """
async def main(path, first, last):
    ledger = Ledger(path)
    print("ready", flush=True)
    sys.stdin.readline()
    numbers = iter(range(first, last))
    async def worker():
        for number in numbers:
            await keep(ledger, number)
            assert ledger.find(key(number)) == reply(str(number), reused=True)
    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(worker())

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def finished(process: subprocess.Popen[str], said: str | None = None) -> str:
    out, errors = process.communicate(said, timeout=60)
    assert process.returncode == 0, errors
    assert not errors
    return out


def test_two_processes_write_one_ledger_at_once(path: Path) -> None:
    spans = ((0, 2000), (1000, 3000))
    processes = [start(WRITE, path, *map(str, span), stdin=subprocess.PIPE) for span in spans]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # the file does not exist yet: both make it
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        finished(process)
    ledger = Ledger(path)
    assert all(ledger.find(key(n)) == reply(str(n), reused=True) for n in range(3000))
    ledger.close()
    assert sql(path, "SELECT count(*) FROM replies") == [(3000,)]
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


def test_what_was_confirmed_survives_a_kill(path: Path) -> None:
    code = """
async def main(path):
    ledger = Ledger(path)
    async def worker(first):
        for number in range(first, 10**6, 8):
            await keep(ledger, number)
            print(number, flush=True)
    async with asyncio.TaskGroup() as group:
        for first in range(8):
            group.create_task(worker(first))

asyncio.run(main(sys.argv[1]))
"""
    process = start(code, path)
    assert process.stdout is not None
    confirmed = [int(process.stdout.readline()) for _ in range(500)]
    process.send_signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
    confirmed += [int(line) for line in process.communicate(timeout=60)[0].splitlines()]
    ledger = Ledger(path)
    assert all(ledger.find(key(n)) == reply(str(n), reused=True) for n in confirmed)
    ledger.close()
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


def test_what_waits_is_written_at_the_end_of_the_process(path: Path) -> None:
    code = """
ledger = Ledger(sys.argv[1])
async def main():
    ledger.keep(key(1), reply(), model=MODEL, stage="score")

main_coroutine = main()
loop = asyncio.new_event_loop()
loop.call_soon(loop.stop)
task = loop.create_task(main_coroutine)
loop.run_forever()
loop.close()
print(ledger.find(key(1)))
"""
    assert finished(start(code, path)) == "None\n"  # the loop has stopped before it was written
    assert sql(path, "SELECT count(*) FROM replies") == [(1,)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_full_disk_loses_nothing_that_was_written(path: Path) -> None:
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
    ledger = Ledger(path)
    confirmed = [int(number) for number in (*numbers, last)]
    assert len(confirmed) > 10
    assert all(ledger.find(key(n)) == reply(str(n), reused=True) for n in confirmed)
    ledger.close()
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


SMALL = """
import resource
from mcranker import MCRanker
from mcranker.llm.scripted import ScriptedChat
from tests.support.scripted import RECRUITS, RUBRIC

paid = 0

async def answer(request):
    global paid
    paid += 1
    await asyncio.sleep(0.01)
    known = {"recruit": RECRUITS, "criteria": RUBRIC}
    return known.get(request.tag.stage, '{"Score": 7}')

async def main(path, room):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), resource.RLIM_INFINITY))
    async with MCRanker(3, model=ScriptedChat(answer), ledger=path, concurrency=80) as ranker:
        try:
            await ranker.arank("Which mask is best?", [f"passage {n}" for n in range(60)])
        except LedgerError as error:
            print(paid, error)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_no_start_pays_for_answers_that_have_no_room(path: Path) -> None:
    for _ in range(2):  # room for a few answers, and not for those of 80 calls on their way
        said = finished(start(SMALL, path, "60000"))
        assert said.startswith(f"0 the ledger {str(path)!r} needs more room: 16 MiB cannot be")
        assert "make room and run again" in said


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_disk_that_becomes_full_is_noticed_while_answers_can_still_be_kept(path: Path) -> None:
    code = """
import resource
from tests.attack.test_ledger import Asked

async def main(path):
    asked = Asked(Ledger(path))
    await asked.ask()
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, resource.RLIM_INFINITY))
    try:
        for number in range(1100):
            await asked.ask(str(number))
    except LedgerError:
        print(asked.calls)

asyncio.run(main(sys.argv[1]))
"""
    paid = int(finished(start(code, path)))
    assert sql(path, "SELECT count(*) FROM replies") == [(paid,)]
