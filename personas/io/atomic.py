"""Files and folders that appear whole or not at all, with the permissions that people expect.

A link stays one, and what it leads to is replaced. A file that is replaced keeps its permissions;
a new file or folder gets the usual ones (umask). Errors name what was to be written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_UNFINISHED = ".unfinished"
# Writing tells no file's name.
_WRITING_FAILED = frozenset(
    {errno.ENOSPC, errno.EFBIG, errno.EIO} | {getattr(errno, "EDQUOT", errno.ENOSPC)}
)


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file, text as UTF-8."""
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to; at the end it takes the place of `path`, unless an error comes."""
    target, number = Path(os.path.realpath(path)), _descriptor(path)
    if number is not None or (target.exists() and not target.is_file()):
        place = target if number is None else os.dup(number)
        with _naming(target, path), open(place, "wb") as file:  # noqa: PTH123 - also of a number
            yield file
        return
    part = _beside(target)
    try:
        with _naming(part, path):
            with part.open("xb") as file:
                if target.exists():
                    shutil.copymode(target, part)
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
    finally:
        with contextlib.suppress(OSError):  # it took its place, or was never there
            part.unlink()


def check_place(path: str | os.PathLike[str]) -> None:
    """See that `replacing` could write a file, without touching it."""
    name, target, number = os.fspath(path), Path(os.path.realpath(path)), _descriptor(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", name)
    if not target.parent.exists():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist; create it", name)
    if not target.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{target.parent} is no folder", name)
    try:
        if number is not None:
            os.write(number, b"")  # fails where it is open for reading alone
        elif target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        elif target.is_file() or not target.exists():
            part = _beside(target)
            part.open("xb").close()
            part.unlink()
    except OSError as error:
        advice = f"nothing can be written there ({error.strerror}); name another file"
        raise OSError(error.errno, advice, name) from error


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty folder to fill; at the end it takes the place of `path`, unless an error comes."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    part = _beside(target)
    new, old = part / "new", part / "old"
    try:
        with _naming(part, path, "; what was there is untouched"):
            new.mkdir(parents=True)
            yield new
            if target.exists():
                target.rename(old)
            try:
                new.rename(target)
            finally:
                if old.exists() and not target.exists():
                    old.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """The number of the open file that a name such as ``/dev/stdout`` means; None of others."""
    folder, last = os.path.split(os.path.abspath(path))  # noqa: PTH100 - keeps links
    if folder in ("/dev/fd", "/proc/self/fd") and last.isdecimal() and len(last) < 10:
        return int(last)
    return {"stdin": 0, "stdout": 1, "stderr": 2}.get(last) if folder == "/dev" else None


def _beside(target: Path) -> Path:
    # Cut, because a name has at most 255 bytes, of which a character may take four.
    return target.with_name(f".{target.name[:40]}.{os.urandom(6).hex()}{_UNFINISHED}")


@contextmanager
def _naming(part: Path, path: str | os.PathLike[str], note: str = "") -> Iterator[None]:
    """Let errors name `path` where they would name no file, or the unfinished `part`."""
    try:
        yield
    except OSError as error:
        named = error.filename
        ours = isinstance(named, str) and Path(named).is_relative_to(part)
        if not ours and (named is not None or error.errno not in _WRITING_FAILED):
            raise
        raise OSError(error.errno, f"{error.strerror}{note}", os.fspath(path)) from error
