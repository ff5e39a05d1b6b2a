"""A process that ranks, is forked, and ranks on, for `tests.attack.test_processes`.

    python -m tests.attack.forking URL MODE BACK_END

Ends with status 0 and prints "fine" if parent and children have all ranked as they should.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

import anyio

from mcranker import MCRanker, RankedQuery
from mcranker.llm.chat import ChatModel
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.openai_chat import OpenAIChat
from tests.support.ranking_process import queries, result

STUCK = 30  # seconds after which a child counts as stuck
WORK = queries(4, passages=8)

Result = dict[str, Any]


def made(url: str, back_end: str) -> MCRanker:
    """A ranker with a back-end of this kind."""
    model: str | ChatModel
    if back_end == "openai":
        model = OpenAIChat("test", base_url=url, api_key="none")
    elif back_end == "anthropic":
        model = AnthropicMessages("test", base_url=url.removesuffix("/v1"), api_key="none")
    else:
        model = "openai:test"
    options: dict[str, Any] = {"base_url": url} if isinstance(model, str) else {}
    return MCRanker(2, model=model, concurrency=8, **options)


ranker = made(sys.argv[1], sys.argv[3])


def rank(place: int) -> Result:
    return result(ranker.rank(*WORK[place]))


async def arank(place: int) -> Result:
    async with made(sys.argv[1], sys.argv[3]) as other:
        await other.arank(*WORK[0])
        return result(await ranker.arank(*WORK[place]))


def forked(work: Callable[[], object]) -> int:
    """Do `work` in a child that ends as a program does; its process id."""
    child = os.fork()
    if child == 0:
        signal.alarm(STUCK)
        work()
        sys.exit(0)
    return child


def assert_fine(*children: int) -> None:
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * len(children), codes


@contextmanager
def busy() -> Iterator[None]:
    """Rank in other threads, without end."""
    over = threading.Event()

    def work(place: int) -> None:
        while not over.is_set():
            assert rank(place) == expected[place]

    threads = [threading.Thread(target=work, args=(place,)) for place in (1, 2, 3)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


def child_work() -> None:
    assert rank(0) == expected[0]
    assert rank(1) == expected[1]


def after() -> None:
    """Parent and child rank at the same time, over connections that were open before."""
    child = forked(child_work)
    assert rank(2) == expected[2]
    assert_fine(child)


def during() -> None:
    """Children of a process in which other threads are in the middle of their rankings."""
    with busy():
        children = []
        for _ in range(6):
            time.sleep(0.02)
            children.append(forked(child_work))
        assert_fine(*children)


def in_a_loop() -> None:
    """The child ranks in a loop of its own."""

    async def main() -> int:
        assert result(await ranker.arank(*WORK[0])) == expected[0]
        return forked(lambda: None)

    assert_fine(anyio.run(main))

    def work() -> None:
        assert anyio.run(arank, 1) == expected[1]

    assert_fine(forked(work))


def nothing() -> None:
    """Children that do not rank, but end, forget the ranker, or close it."""

    def forget() -> None:
        del globals()["ranker"]
        gc.collect()

    children = [forked(work) for work in (lambda: None, forget, ranker.close)]
    assert_fine(*children)


def half_way() -> None:
    """A child that inherits a `rank_many` half way."""
    ranked: Iterator[RankedQuery] = ranker.rank_many(WORK)
    found = [result(next(ranked).result())]
    child = forked(child_work)
    found += [result(each.result()) for each in ranked]
    assert sorted(found, key=lambda each: str(each["query"])) == expected
    assert_fine(child)


def grandchild() -> None:
    def work() -> None:
        child_work()
        child = forked(child_work)
        child_work()
        assert_fine(child)

    assert_fine(forked(work))


def pools() -> None:
    """The pools of the standard library, by fork."""
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(rank, range(4)) == expected
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        assert list(executor.map(rank, range(4))) == expected


def main(mode: str) -> NoReturn:
    modes = (after, during, in_a_loop, nothing, half_way, grandchild, pools)
    next(each for each in modes if each.__name__ == mode)()
    # The connections of the parent are as good as before.
    assert [rank(place) for place in range(4)] == expected
    print("fine", flush=True)
    sys.exit(0)


if __name__ == "__main__":
    expected = [rank(place) for place in range(4)]
    main(sys.argv[2])
