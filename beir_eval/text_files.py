"""Text files of data sets, plain or packed by gzip, line by line.

No file takes more memory than a line may have (`mcranker.bounded_lines.LONGEST_LINE`). A packed
file may unpack to a hundred times its size: text packs to a third, and what packs to less than a
hundredth was made to fill a disk or a memory.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from beir_eval.errors import DatasetError
from mcranker.bounded_lines import LONGEST_LINE, TooLong, bounded_lines, megabytes

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

MOST_UNPACKED = 100
"""Bytes that come out of one packed byte, at most; not looked at up to `LONGEST_LINE` in all."""


def read_lines(file: Traversable, *, hint: str = "") -> Iterator[tuple[str, int, str]]:
    """(``FILE:LINE``, line number from 1, text) of every line that is not blank.

    Args:
        file: packed by gzip if its name says so.
        hint: follows the words that there is no such file.

    Raises:
        DatasetError: the file is not there, cannot be read, is damaged or unpacks to far more
            than its size; a line is too long, or not UTF-8.
    """
    try:
        with _opened(file) as lines:
            for number, raw in enumerate(lines, start=1):
                place = f"{file}:{number}"
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as failure:
                    raise DatasetError(
                        f"{place}: byte {failure.start + 1} of the line is not UTF-8; "
                        "convert the file first"
                    ) from failure
                if line.strip():
                    yield place, number, line
    except FileNotFoundError as failure:
        raise DatasetError(f"{file}: no such file{hint}") from failure
    except TooLong as failure:
        raise DatasetError(
            f"{file}:{failure.number}: the line is {failure}, which no record may be; see whether "
            "it is the right file, with an end to each line"
        ) from failure
    except (EOFError, zlib.error, gzip.BadGzipFile) as failure:
        raise DatasetError(f"{file}: damaged or incomplete ({failure}); get it again") from failure
    except OSError as failure:
        raise DatasetError(f"{file}: cannot be read: {failure.strerror}") from failure


def check_zip(path: Path) -> None:
    """See that an archive says of itself to unpack to no more than it may; no byte is unpacked.

    What it says holds: more than that is never taken out of it. Parts that share bytes count
    each by itself.

    Raises:
        DatasetError: it unpacks to far more than its size.
        OSError, zipfile.BadZipFile: it cannot be read.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(part.file_size for part in archive.infolist())
    packed = path.stat().st_size
    if _too_far(packed, size):
        raise DatasetError(
            f"{path}: {megabytes(size)} would come out of {megabytes(packed)}, over "
            f"{MOST_UNPACKED} times as much; delete it, and load the data set again"
        )


def _too_far(packed: int, unpacked: int) -> bool:
    return unpacked > max(LONGEST_LINE, MOST_UNPACKED * packed)


@contextmanager
def _opened(file: Traversable) -> Iterator[Iterator[bytes]]:
    with file.open("rb") as raw:
        if not file.name.endswith(".gz"):
            yield bounded_lines(raw)
            return
        with gzip.open(raw) as unpacked:
            yield _unpacked(str(file), raw, cast("IO[bytes]", unpacked))


def _unpacked(name: str, packed: IO[bytes], unpacked: IO[bytes]) -> Iterator[bytes]:
    size = 0
    for line in bounded_lines(unpacked):
        size += len(line)
        # What was read so far is no more than the file has, and tells of a bomb at its beginning.
        if _too_far(packed.tell(), size):
            raise DatasetError(
                f"{name}: more than {megabytes(size)} come out of {megabytes(packed.tell())}, over "
                f"{MOST_UNPACKED} times as much; if it is right, unpack it with gunzip"
            )
        yield line
