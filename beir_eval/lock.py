"""One program at a time writes to a folder; the others' error names it.

The operating system holds the lock and lets go of it when the program ends, killed or not, so
that no lock is ever stale. The file is there while the lock is held, and says by whom.
"""

from __future__ import annotations

import contextlib
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
_LOOKS = 20
_log = safe_logger("mcranker.beir_eval.lock")


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Be the only one that writes to `folder` in the block. The folder is made if need be.

    On a file system without locks the block is run all the same.

    Args:
        folder: what is written to.
        wait: wait for another program, which will not take long.

    Raises:
        RunFolderError: another program is writing there; says which.
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    file = _held(path, wait=wait)
    try:
        file.truncate(0)
        file.write(_note().encode(errors="backslashreplace"))
        file.flush()
        yield
    finally:
        if sys.platform == "win32":  # an open file cannot be removed there
            file.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        file.close()


def _held(path: Path, *, wait: bool) -> BinaryIO:
    while True:
        file = path.open("a+b")
        try:
            while not _take(file):
                if not wait:
                    raise RunFolderError(
                        f"{path.parent} is being written to by {_holder(file)}; wait until it "
                        "ends, or choose another --out"
                    )
                time.sleep(_PAUSE)
            # Who held it may have removed the file since it was opened here.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


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


def _holder(file: BinaryIO) -> str:
    for _ in range(_LOOKS):  # it may have taken the lock just now
        file.seek(0)
        if note := file.read(_LONGEST_NOTE):
            return note.decode(errors="replace")
        time.sleep(_PAUSE)
    return "another program"


def _note() -> str:
    began = datetime.now().astimezone().isoformat(" ", "seconds")
    return f"process {os.getpid()} on {platform.node() or 'this machine'} since {began}"
