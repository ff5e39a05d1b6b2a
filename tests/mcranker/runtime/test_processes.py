"""Processes: forked ones, ones that end in the middle of something, killed ones, unread ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.mcranker.cli.test_cli_process import environment
from tests.support.chaos import Chaos, chaos

ROOT = Path(__file__).parents[3]
STUCK = 60  # seconds after which a process counts as stuck
CONCURRENCY = 4
# Python warns of every fork of a process with threads, whatever becomes of the child.
WARNINGS = "default,ignore:This process:DeprecationWarning"

posix = pytest.mark.skipif(os.name != "posix", reason="signals, forks and descriptors")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        cwd=ROOT,
        env=environment(PYTHONWARNINGS=WARNINGS, MCRANKER_LEDGER="none"),
        text=True,
        timeout=STUCK,
    )


FORKS = """
import asyncio, gc, multiprocessing, os, sys
from mcranker import MCRanker, MCRankerError
from tests.support.ranking_process import queries, result

url = sys.argv[1]
(work,) = queries(1, passages=4)

def made():
    return MCRanker(team_size=2, model="openai:test", base_url=url, concurrency=8)

def rank(ranker):
    return result(ranker.rank(*work))

def in_pool(_):
    return rank(unused)

def forked(work):
    child = os.fork()
    if child == 0:
        work()
        sys.exit(0)  # as a program ends
    assert os.waitpid(child, 0)[1] == 0

def use():
    assert rank(unused) == rank(made()) == expected
    for refused in (lambda: rank(used), lambda: asyncio.run(used.arank(*work))):
        try:
            refused()
        except MCRankerError as error:
            assert "was used before" in str(error), error
        else:
            raise AssertionError

def forget():
    del globals()["used"]
    gc.collect()

used, unused = made(), made()
expected = rank(used)
for each in (use, lambda: None, forget, used.close):
    forked(each)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(in_pool, range(4)) == [expected] * 4
assert rank(used) == rank(unused) == expected
print("fine", flush=True)
"""


@posix
def test_a_ranker_works_in_a_child_unless_it_was_used_before_the_fork() -> None:
    with chaos({}, latency=(0.001, 0.01)) as server:
        done = run(sys.executable, "-c", FORKS, server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


BEGIN = """\
import asyncio, os, sys, threading, time
from mcranker import MCRanker
from tests.support.ranking_process import queries

delay = float(sys.argv[2])
ranker = MCRanker(team_size=2, model="openai:test", base_url=sys.argv[1], concurrency=8)
work = queries(3, passages=10)
query, docs = work[0]

def rank():
    ranker.rank(query, docs)
    os.write(1, b"ranked\\n")  # print writes the end of a line by itself, after another thread's
"""
# anyio 4.16 starts a coroutine from one of its own; if the loop ends in between, Python warns.
LEFT = """\
import warnings
warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
"""
ENDS = {
    "forgotten": ("rank()", ["ranked"]),
    "a daemon thread": (
        "threading.Thread(target=rank, daemon=True).start(); time.sleep(delay); sys.exit()",
        None,
    ),
    "rank_many half way": ("ranked = ranker.rank_many(work); next(ranked); time.sleep(delay)", []),
    "a stream half way": (
        f"{LEFT}async def main():\n"
        "    async for event in ranker.astream(query, docs):\n"
        "        await asyncio.sleep(delay)\n"
        "        sys.exit()\n"
        "asyncio.run(main())",
        [],
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_process_ends_quietly_whatever_is_under_way(end: str) -> None:
    script, printed = ENDS[end]
    luck = random.Random(end)
    with chaos({}, latency=(0.01, 0.05)) as server:
        delay = str(luck.uniform(0.0, 0.3))
        done = run(sys.executable, "-c", f"{BEGIN}\n{script}\n", server.url, delay)
        assert (done.returncode, done.stderr) == (0, ""), delay
        assert done.stdout.split() in ([[], ["ranked"]] if printed is None else [printed])


def begun(script: str, server: Chaos) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, server.url, "0"],
        cwd=ROOT,
        env=environment(PYTHONWARNINGS="default"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_ranker_that_is_closed_while_a_thread_ranks_says_so() -> None:
    script = f"""{BEGIN}
def told():
    try:
        rank()
    except Exception as error:
        print(repr(error))
thread = threading.Thread(target=told); thread.start()
sys.stdin.readline(); ranker.close(); thread.join({STUCK})
"""
    with chaos({}, latency=(0.2, 0.3)) as server, begun(script, server) as process:
        wait_for(server.alarm(1), process)
        stdout, stderr = process.communicate("\n", timeout=STUCK)
    assert (process.returncode, stderr) == (0, "")
    assert stdout.startswith("MCRankerError('the ranker was closed while it was at work")


@posix
def test_ctrl_c_in_a_running_loop_as_of_a_notebook() -> None:
    script = f"""{BEGIN}
async def cells():
    for _ in range(2):
        try:
            rank()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    rank()
loop = asyncio.new_event_loop()  # one that is deaf to Ctrl-C, so a cell gets it
loop.run_until_complete(cells())
loop.close()
"""
    # The recruiter is asked, and the NLP scientist for its rubric; both hang.
    with chaos({}, always={"": "timeout"}) as server, begun(script, server) as process:
        for asked in (2, 4):
            wait_for(server.alarm(asked), process)
            if asked == 4:
                server.always = {}
            process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=STUCK)
    assert (process.returncode, stderr) == (0, "")
    assert stdout.split() == ["interrupted", "interrupted", "ranked"]


def wait_for(reached: threading.Event, process: subprocess.Popen[str]) -> None:
    """Until the server has been asked so often, or the process has ended."""
    deadline = time.monotonic() + STUCK
    while not reached.wait(0.01) and process.poll() is None:
        assert time.monotonic() < deadline
