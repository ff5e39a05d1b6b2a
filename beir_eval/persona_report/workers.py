"""Work in several processes: results in the order of the jobs, few of them waiting at a time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from beir_eval.errors import BeirEvalError

Job = TypeVar("Job")
Result = TypeVar("Result")

_OBJECTS_BETWEEN = 50_000
"""Objects made between two searches for cycles."""
_JOBS_AHEAD = 2


def usable_processors() -> int:
    """How many processors this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[Job], Result], jobs: Iterator[Job], processes: int
) -> Generator[Result, None, None]:
    """What `work` makes of each job, in the order of the jobs.

    At most three jobs a process have been taken and not been given back. Close the iterator to
    end the processes; it waits for the jobs that have been begun. They end with this process as
    well, however that ends.

    Args:
        work: a function of a module, its arguments and results such that pickle can take them.
        jobs: taken one by one, in this process.
        processes: how many; with 1, this process does the work.

    Raises:
        BeirEvalError: a process ended before its work was done.
    """
    if processes == 1:
        yield from map(work, jobs)
        return
    # Started afresh, and not forked, because a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            with _interrupts_kept_back():
                waiting.append(pool.submit(work, job))
            if len(waiting) > (1 + _JOBS_AHEAD) * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as failure:
        raise BeirEvalError(
            f"one of {processes} worker processes ended before its work was done, perhaps for "
            "want of memory, or because a script starts this without an "
            "if __name__ == '__main__' around it; try it with 1 process"
        ) from failure
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_kept_back() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal; what is started here must not see it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a worker: the process that started it decides when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A query's hundreds of passages are made at once and gone at once: looking for cycles among
    # them after every 700 objects takes a tenth of the time.
    gc.set_threshold(_OBJECTS_BETWEEN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this runs in a worker"
    parent.join()
    os._exit(1)
