"""A lock by a file's name, across processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcranker.logs import safe_logger

_log = safe_logger("mcranker.runtime.locks")


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
