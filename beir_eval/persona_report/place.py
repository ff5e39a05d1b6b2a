"""Folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beir_eval.errors import SettingError

__all__ = ["MARKER", "check_place", "replacing_folder"]

MARKER = "persona-report.json"
"""A folder with this file is a report, which another one may replace."""

_UNFINISHED = ".persona-report"
# A folder that nobody has finished for so long was left by a process that is gone.
_ABANDONED_SECONDS = 86_400


def check_place(out: Path) -> None:
    """Refuse a place where something else is than a report.

    Raises:
        SettingError: it is a file, or a folder with other content.
        OSError: the folder cannot be read.
    """
    if out.exists() and not out.is_dir():
        raise SettingError(f"{str(out)!r} is a file; name a folder for the report")
    if out.is_dir() and not (out / MARKER).is_file() and any(out.iterdir()):
        raise SettingError(
            f"{str(out)!r} holds something else than a report, and would be replaced as a whole; "
            "name a new folder, or an empty one"
        )


@contextmanager
def replacing_folder(out: Path) -> Iterator[Path]:
    """An empty folder to fill; at the end it takes the place of `out`, unless an error comes.

    Raises:
        SettingError: as `check_place`.
        OSError: it cannot be written; names `out`.
    """
    out = out.resolve()
    check_place(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    _sweep(out)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=_UNFINISHED, dir=out.parent))
    try:
        (part / "pages").mkdir()  # gets the usual permissions, as a temporary folder does not
        yield part / "pages"
        check_place(out)  # somebody may have been there meanwhile
        _swap(part, out)
    except OSError as failure:
        if failure.filename is None or not Path(failure.filename).is_relative_to(part):
            raise
        said = f"{failure.strerror}; no report was written, and what was there is untouched"
        raise OSError(failure.errno, said, str(out)) from failure
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _swap(part: Path, out: Path) -> None:
    """Put ``pages`` of `part` in the place of `out`, whose content moves into `part`."""
    old = part / "old"
    if out.exists():
        out.rename(old)
    try:
        (part / "pages").rename(out)
    finally:
        if old.exists() and not out.exists():
            old.rename(out)


def _sweep(out: Path) -> None:
    """Remove what processes left that ended before they were done."""
    long_ago = time.time() - _ABANDONED_SECONDS
    for part in out.parent.glob(f".{_literal(out.name)}.*{_UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):
            if part.stat().st_mtime < long_ago:
                shutil.rmtree(part, ignore_errors=True)


def _literal(name: str) -> str:
    """The name as a pattern that fits nothing else."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)
