"""Lines of files from outside, none of which takes more memory than is said here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

LONGEST_LINE = 64_000_000
"""Bytes of a line that holds one passage, one query, or one entry of a run."""

LONGEST_RANKING = 1_000_000_000
"""Bytes of a line that holds a whole ranking, and of a JSON document on many lines."""

_PIECE = 1 << 20


class TooLong(Exception):
    """A line, or a file that is read as a whole, is longer than it may be.

    Attributes:
        number: of the line, from 1; 1 for a whole file.
    """

    def __init__(self, longest: int, number: int = 1) -> None:
        super().__init__(f"longer than {megabytes(longest)}")
        self.number = number


def bounded_lines(file: IO[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The lines of a file, one at a time.

    Args:
        file: open for reading.
        longest: bytes of a line, its end included.

    Raises:
        TooLong: a line is longer; not much more of it was read.
        OSError: the file cannot be read.
    """
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise TooLong(longest, number)
        yield line


def bounded_whole(file: IO[bytes], longest: int) -> bytes:
    """Everything in a file.

    Raises:
        TooLong: it holds more than `longest` bytes.
        OSError: it cannot be read.
    """
    content = bytearray()
    while piece := file.read(_PIECE):  # what may be read at most is not taken at once
        content += piece
        if len(content) > longest:
            raise TooLong(longest)
    return bytes(content)


def megabytes(size: int) -> str:
    """A limit in bytes as messages name it: ``64 MB``."""
    return f"{size / 1_000_000:,.4g} MB" if size >= 1_000_000 else f"{size:,} bytes"
