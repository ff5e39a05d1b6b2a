"""Files of run folders: read with errors that name the place, written whole or not at all.

One program at a time writes to a folder; the others' error names it. The operating system holds the
lock and lets go of it when the program ends, killed or not, so that no lock is ever stale. Its file
says who holds it, or held it last.
"""

from __future__ import annotations

import os
import platform
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from beir_eval.errors import RunFolderError
from mcranker.config import explain
from mcranker.logs import safe_logger
from personas.errors import fault
from personas.io.atomic import write_whole
from personas.io.lines import LONGEST_RANKING, read_lines, read_whole

Form = TypeVar("Form", bound=BaseModel)
LOCK = ".lock"
"""Name of the lock's file in a folder."""

_FAR = 1 << 20  # the byte that is locked on Windows: others may read the bytes before it
_LONGEST_NOTE, _LONGEST_MESSAGE = 200, 1_000
_PAUSE = 0.05  # seconds
_log = safe_logger("mcranker.beir_eval.files")


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


def append_whole(path: Path, line: bytes) -> None:
    """Add a line to a file; what is killed meanwhile leaves a torn last line at most."""
    try:
        with path.open("ab") as file:
            file.write(line)
    except OSError as failure:  # a full disk names no file by itself
        raise OSError(failure.errno, failure.strerror, str(path)) from failure


def cut_torn_line(path: Path) -> bool:
    """Take off a last line that was not written to its end; return whether there was one."""
    if not path.exists():
        return False
    size = torn = 0
    for line in read_lines(path, RunFolderError, longest=LONGEST_RANKING):
        size += len(line.content)
        torn = 0 if line.content.endswith(b"\n") else len(line.content)
    if torn:
        os.truncate(path, size - torn)
    return bool(torn)


def write_form(path: Path, form: BaseModel) -> None:
    """Write a manifest or metrics."""
    try:
        text = form.model_dump_json(indent=1)
    except PydanticSerializationError as failure:
        raise RunFolderError(
            f"{path}: a name that it holds is not UTF-8; rename it ({failure})"
        ) from failure
    write_whole(path, f"{text}\n")


def read_toml(text: str, form: type[Form], place: str, error: type[Exception]) -> Form:
    """Read a TOML text that a person wrote."""
    try:
        return form.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as failure:
        raise error(f"{place}: not TOML: {str(failure)[-_LONGEST_MESSAGE:]}") from failure
    except ValidationError as failure:
        raise error(f"{place}: {explain(failure, form)[:_LONGEST_MESSAGE]}") from failure
    except RecursionError as failure:
        raise error(f"{place}: its lists or tables nest too deep") from failure
    except ValueError as failure:  # a number of thousands of digits
        raise error(f"{place}: TOML that cannot be used: {failure}") from failure


def beside(name: str, base: Path) -> str:
    """The whole path of a file that `base` holds, or that is somewhere else by its own path."""
    return os.path.abspath(base / Path(name).expanduser())  # noqa: PTH100 - links stay


def read_form(path: Path, form: type[Form]) -> Form:
    """Read a JSON file."""
    content = read_whole(path, RunFolderError)
    try:
        return form.model_validate_json(content)
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise RunFolderError(f"{path}: {fault(first, where)}") from failure


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
