"""Single lines of large files, found by id without holding the files.

Rankings are found by byte offset. Passages are many more than queries, so their index is a file
of its own, which processes share: for each passage the hash of its id and its line's offset, 16
bytes in all, in the order of the hashes.
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from beir_eval.errors import RunFolderError
from beir_eval.experiment.run_folder import query_id_of
from beir_eval.files import Line, read_lines

__all__ = [
    "Passages",
    "Ranked",
    "index_passages",
    "index_rankings",
    "judged_by_team",
    "place_of",
    "read_entry",
]

_WORD = 8
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a file of rankings holds.

    Attributes:
        offsets: query id -> where its line begins, in bytes; in the order of the file.
        torn: whether the last line was not written to its end; it is left out.
    """

    offsets: Mapping[str, int]
    torn: bool


def judged_by_team(path: Path) -> bool:
    """Whether the rankings of a file are a team's, as the first that has passages says.

    Raises:
        RunFolderError: the file cannot be read, or a line before that is no ranking.
    """
    for line in read_lines(path):
        if not line.content.endswith(b"\n"):
            break
        entry = line.entry()
        if entry.get("team") is not None or entry.get("hits"):
            return entry.get("team") is not None
    return False


def index_rankings(path: Path, *, finished: bool) -> Ranked:
    """Where each ranking of a file stands; of several of one query, the first.

    Args:
        path: of ``rankings.jsonl``.
        finished: whether the run is, so that every line must be whole; else the last one may
            have been cut off.

    Raises:
        RunFolderError: the file cannot be read, or a line is no ranking; names the line.
    """
    offsets: dict[str, int] = {}
    for line in read_lines(path):
        if not (finished or line.content.endswith(b"\n")):
            return Ranked(offsets, torn=True)
        offsets.setdefault(query_id_of(line.entry(), line.place), line.offset)
    return Ranked(offsets, torn=False)


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
            offset = self._words[self._count + row]
            entry = read_entry(self._path, self._lines, offset)
            if not _is_passage(entry):
                raise _changed(self._path, offset)
            if entry["_id"] == doc_id:
                return entry["title"], entry["text"]
            row += 1
        return None


def read_entry(path: Path, lines: BinaryIO, offset: int) -> dict[str, Any]:
    """The object in the line that begins at `offset` of `lines`, which is the open file `path`.

    Raises:
        RunFolderError: there is none; the file was changed meanwhile.
    """
    lines.seek(offset)
    try:
        return Line("", offset, lines.readline()).entry()
    except RunFolderError as failure:
        raise _changed(path, offset) from failure


def place_of(path: Path, offset: int) -> str:
    """``FILE:LINE`` of what begins at `offset`."""
    number, left = 1, offset
    with path.open("rb") as file:
        while left and (block := file.read(min(left, _BLOCK))):
            number += block.count(b"\n")
            left -= len(block)
    return f"{path}:{number}"


def _is_passage(entry: Mapping[str, Any]) -> bool:
    return all(isinstance(entry.get(name), str) for name in ("_id", "title", "text"))


def _changed(path: Path, offset: int) -> RunFolderError:
    return RunFolderError(
        f"{place_of(path, offset)}: was changed while the report was made; make it again"
    )


def _key(doc_id: str) -> int:
    digest = hashlib.blake2b(doc_id.encode(), digest_size=_WORD)
    return int.from_bytes(digest.digest(), "big")


def _words(index: Path) -> memoryview:
    with index.open("rb") as file:
        if not index.stat().st_size:  # nothing cannot be mapped
            return memoryview(b"").cast("Q")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("Q")
