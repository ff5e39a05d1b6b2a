"""Processes: what a fork must not take over, locks between them, and the end of their waits.

Of a process with threads, `os.fork` copies the thread that calls it alone. The others' locks stay
locked in the child, and their event loops stop. What belongs to them must not even be closed
there: a connection is shared with the parent, who goes on using it.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from mcranker.logs import safe_logger

LAST_WAITS = 15.0  # seconds of all waits together, from the signal to stop on

_log = safe_logger("mcranker.runtime")


class Forkable(Protocol):
    """An object with locks, or tied to an event loop."""

    def after_fork(self) -> None:
        """Reset in a child process. Other threads may have been in the middle of a call."""
        ...


def renew_in_child(owner: Forkable) -> None:
    """Call `after_fork` of `owner` in every process forked from this one."""
    _owners.add(owner)


def abandon(*things: object) -> None:
    """Keep a parent process's objects for ever, so that nothing is closed or finalised."""
    import ctypes  # for this alone

    # No list would do: the interpreter empties them all before it ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(things))


_owners: WeakSet[Forkable] = WeakSet()


def _in_child() -> None:
    for owner in list(_owners):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file, which is made; it is free once the block or the process ends."""
    with path.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
                    break
                except OSError as error:
                    if not wait:
                        raise BlockingIOError(*error.args) from error
        else:
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    raise
                _log.info("another process holds %s; waiting for it", path)
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                _log.debug("this file system has no locks: %s", error)
        yield


class _Stopping:
    """The end of a process that was asked to stop: of its waits for something that is away."""

    def __init__(self) -> None:
        self.until = math.inf
        """When waits end, on the clock of `time.monotonic`."""

    def begin(self) -> None:
        """Let the waits end; safe in a signal's handler."""
        self.until = min(self.until, time.monotonic() + LAST_WAITS)

    def left(self, least: float) -> float | None:
        """Return the seconds of a wait that is now begun, None for any number."""
        left = max(self.until - time.monotonic(), least)
        return left if left < math.inf else None


stopping = _Stopping()
