"""The chunks of an index, in files that only grow.

    chunks.jsonl       a line a chunk
    rows.bin           of each chunk the end of its line, and the key of its text among the vectors
    documents.jsonl    of each document its id, digest and number of chunks

What counts of them are the sizes that the index names: bytes beyond are of a writer that was
interrupted, and are written over. A document that comes again takes the place of the one before,
which stays in the files.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from mcranker.encoders.vectors import KEYS, keys_of
from mcranker.errors import InputError
from mcranker.retrieval.chunks import Chunk

_LINES, _ROWS, _DOCUMENTS = FILES = "chunks.jsonl", "rows.bin", "documents.jsonl"
_ROW = np.dtype([("end", "<i8"), ("key", KEYS)])


class Divided(NamedTuple):
    """A document's id, the digest of its text, and its chunks."""

    id: str
    digest: str
    chunks: Sequence[Chunk]


class ChunkLog:
    """Files of chunks, open as far as `sizes` in bytes, also after the folder was removed."""

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self.folder = folder
        self.sizes = dict.fromkeys(FILES, 0)
        self.documents: dict[str, int] = {}  # places of those that count
        self.alive = np.empty(0, bool)  # of each chunk, whether its document did not come again
        self.dead = 0
        self._digests: list[str] = []
        self._ids: list[str] = []
        self._starts = array("q", [0])
        self._lines: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._rows: NDArray[Any] = np.empty(0, _ROW)
        if sizes:
            self.grow(sizes)

    def __len__(self) -> int:
        """The number of chunks, with those of documents that came again."""
        return len(self._rows)

    @property
    def keys(self) -> NDArray[np.bytes_]:
        """Of each chunk, the key of its text."""
        keys: NDArray[np.bytes_] = self._rows["key"]
        return keys

    def digest(self, document: str) -> str | None:
        at = self.documents.get(document)
        return None if at is None else self._digests[at]

    def row(self, chunk: str) -> int | None:
        """The place of a chunk by its id."""
        document, _, number = chunk.rpartition("#")
        if (at := self.documents.get(document)) is None or not number.isdecimal():
            return None
        row = self._starts[at] + int(number) - 1
        return row if self._starts[at] <= row < self._starts[at + 1] else None

    def id_of(self, row: int) -> str:
        at = bisect_right(self._starts, row) - 1
        return f"{self._ids[at]}#{row - self._starts[at] + 1}"

    def chunk(self, row: int) -> Chunk:
        start = self._rows["end"][row - 1] if row else 0
        return Chunk(*orjson.loads(self._lines[start : self._rows["end"][row]].tobytes()))

    def divided(self) -> Iterator[Divided]:
        """The documents that count, in their order."""
        for document, at in sorted(self.documents.items(), key=lambda pair: pair[1]):
            rows = range(self._starts[at], self._starts[at + 1])
            yield Divided(document, self._digests[at], [*map(self.chunk, rows)])

    def write(self, documents: Sequence[Divided]) -> dict[str, int]:
        """Write documents behind those that count, to the disk, and return the sizes with them."""
        chunks = [chunk for each in documents for chunk in each.chunks]
        lines = [_line((c.id, c.document, c.title, c.text, c.start, c.end)) for c in chunks]
        rows = np.empty(len(chunks), _ROW)
        rows["end"] = self.sizes[_LINES] + np.cumsum([len(line) for line in lines], dtype=np.int64)
        rows["key"] = keys_of([embedded_text(chunk) for chunk in chunks])
        table = [_line((each.id, each.digest, len(each.chunks))) for each in documents]
        self.folder.mkdir(exist_ok=True)
        sizes = {}
        contents = lines, [rows.tobytes()], table
        for (name, size), parts in zip(self.sizes.items(), contents, strict=True):
            with (self.folder / name).open("r+b" if size else "wb") as file:
                file.truncate(size)
                file.seek(size)
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
                sizes[name] = file.tell()
        return sizes

    def grow(self, sizes: Mapping[str, int]) -> None:
        """Open what was written since."""
        try:
            lines, rows, table = (_mapped(self.folder / name, sizes[name]) for name in FILES)
            new = table[self.sizes[_DOCUMENTS] :].tobytes().rstrip(b"\n").replace(b"\n", b",")
            documents: list[tuple[str, str, int]] = orjson.loads(b"[%b]" % new)
            whole = rows.view(_ROW)
            counted = self._starts[-1] + sum(count for _, _, count in documents)
            if counted != len(whole) or (counted and whole["end"][-1] != len(lines)):
                raise ValueError("its files do not belong together")
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{str(self.folder)!r} is damaged ({error}); delete the index and make it again"
            ) from error
        self.alive = np.concatenate([self.alive, np.ones(len(whole) - len(self), bool)])
        for name, digest, count in documents:
            if (before := self.documents.get(name)) is not None:
                first, end = self._starts[before], self._starts[before + 1]
                self.alive[first:end] = False
                self.dead += end - first
            self.documents[name] = len(self._ids)
            self._ids.append(name)
            self._digests.append(digest)
            self._starts.append(self._starts[-1] + count)
        self._lines, self._rows, self.sizes = lines, whole, dict(sizes)


def embedded_text(chunk: Chunk) -> str:
    """Return the text that is embedded and searched: that of the chunk after its title."""
    return f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text


def _line(parts: tuple[str | int, ...]) -> bytes:
    return orjson.dumps(parts, option=orjson.OPT_APPEND_NEWLINE)


def _mapped(path: Path, size: int) -> NDArray[np.uint8]:
    """The first bytes of a file."""
    if (there := path.stat().st_size) < size:
        raise ValueError(f"{path.name} has {there:,} bytes instead of {size:,}")
    return np.memmap(path, np.uint8, "r", shape=(size,)) if size else np.empty(0, np.uint8)
