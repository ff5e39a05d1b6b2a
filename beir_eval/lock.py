"""One program at a time writes to a folder; the others' error names it.

The operating system holds the lock and lets go of it when the program ends, killed or not, so
that no lock is ever stale. The file says who holds the lock, or held it last.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from beir_eval.errors import RunFolderError
from mcranker.logs import safe_logger

LOCK = ".lock"
"""Name of the file in the folder."""

_FAR = 1 << 20  # the byte that is locked on Windows: others may read the bytes before it
_LONGEST_NOTE = 200
_PAUSE = 0.05  # seconds
_log = safe_logger("mcranker.beir_eval.lock")


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Be the only one that writes to `folder` in the block. The folder is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+b") as file:
        while not _take(file):
            if not wait:
                file.seek(0)
                holder = file.read(_LONGEST_NOTE).decode(errors="replace") or "another program"
                raise RunFolderError(
                    f"{folder} is being written to by {holder}; wait until it ends, or choose "
                    "another --out"
                )
            time.sleep(_PAUSE)
        began = datetime.now().astimezone().isoformat(" ", "seconds")
        node = platform.node() or "this machine"
        file.truncate(0)
        file.write(f"process {os.getpid()} on {node} since {began}".encode(errors="replace"))
        file.flush()
        yield


def _take(file: BinaryIO) -> bool:
    """Lock the file, if it is free."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        _log.debug("this file system has no locks: %s", error)
    return True
