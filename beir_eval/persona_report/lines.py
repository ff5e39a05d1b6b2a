"""Texts of passages, found by id without holding their file.

The index is a file of its own, which processes share: for each passage the hash of its id and its
line's offset, 16 bytes in all, in the order of the hashes.
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beir_eval.errors import RunFolderError
from beir_eval.files import Line, read_lines

__all__ = ["Passages", "index_passages"]

_WORD = 8


def index_passages(path: Path, index: Path) -> None:
    """Write the index by which `Passages` finds the lines of a file.

    Raises:
        RunFolderError: the file cannot be read, or a line is no passage; names the line.
        OSError: the index cannot be written.
    """
    import numpy as np

    keys, offsets = array("Q"), array("Q")
    for line in read_lines(path):
        entry = line.entry()
        if not _is_passage(entry):
            raise RunFolderError(f"{line.place}: no passage: it needs _id, title and text")
        keys.append(_key(entry["_id"]))
        offsets.append(line.offset)
    order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable") if keys else ()
    with index.open("wb") as file:
        for column in (keys, offsets):
            if column:
                file.write(np.frombuffer(column, np.uint64)[order].tobytes())


class Passages:
    """Titles and texts of the passages of a file, read when they are asked for."""

    def __init__(self, path: Path, index: Path) -> None:
        self._path = path
        self._lines = path.open("rb")
        self._words = _words(index)
        self._count = len(self._words) // 2

    def __enter__(self) -> Passages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        self._lines.close()
        self._words.release()

    def texts(self, doc_id: str) -> tuple[str, str] | None:
        """Title and text of a passage; None if the file does not have it."""
        key = _key(doc_id)
        row = bisect_left(self._words, key, 0, self._count)
        # Ids that share a hash stand side by side.
        while row < self._count and self._words[row] == key:
            entry = self._entry_at(self._words[self._count + row])
            if entry["_id"] == doc_id:
                return entry["title"], entry["text"]
            row += 1
        return None

    def _entry_at(self, offset: int) -> dict[str, Any]:
        self._lines.seek(offset)
        place = f"{self._path}, changed while the report was made"
        entry = Line(place, offset, self._lines.readline()).entry()
        if not _is_passage(entry):
            raise RunFolderError(f"{place}: no passage at byte {offset:,}; make the report again")
        return entry


def _is_passage(entry: Mapping[str, Any]) -> bool:
    return all(isinstance(entry.get(name), str) for name in ("_id", "title", "text"))


def _key(doc_id: str) -> int:
    digest = hashlib.blake2b(doc_id.encode(), digest_size=_WORD)
    return int.from_bytes(digest.digest(), "big")


def _words(index: Path) -> memoryview:
    with index.open("rb") as file:
        if not index.stat().st_size:  # nothing cannot be mapped
            return memoryview(b"").cast("Q")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("Q")
