"""Shards of an index: folders of chunks and their vectors, written whole and never changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from mcranker.errors import InputError
from mcranker.retrieval.chunks import Chunk
from personas.io.atomic import replacing_folder

SECONDS = 0.5
"""After which a batch ends, so that an interrupt is heard."""

Vectors: TypeAlias = NDArray[np.float32]


@dataclass(slots=True)
class Batch:
    """Documents to be written, by id, with their digests and numbers of chunks; and the chunks."""

    documents: dict[str, tuple[str, int]] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    replaced: int = 0
    unchanged: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)


class Shard:
    """A shard that is there. Its files stay open, so that a writer may remove them.

    Args:
        folder: of the files.
        rows: of each document its id, digest and number of chunks.
        offsets: of the chunks' lines, and the end of the last.
        vectors: of the chunks.

    Attributes:
        starts: the first chunk of each document, and the end of the last.
        alive: of each chunk, whether its document was not replaced since.
    """

    def __init__(
        self,
        folder: Path,
        rows: Sequence[tuple[str, str, int]],
        offsets: NDArray[np.int64],
        vectors: NDArray[np.float16],
    ) -> None:
        self.folder = folder
        self.documents = [row[0] for row in rows]
        self.digests = np.array([row[1] for row in rows], "S32")
        self.starts = np.cumsum([0, *(row[2] for row in rows)])
        self.offsets = offsets
        self.vectors = vectors
        self.alive = np.ones(len(vectors), bool)
        if not len(vectors) == len(offsets) - 1 == self.starts[-1]:
            raise ValueError("its files do not belong together")
        self._lines = np.memmap(folder / "chunks.jsonl", np.uint8, "r")
        if len(self._lines) != offsets[-1]:
            raise ValueError("chunks.jsonl is cut short")
        self._matrix: Vectors | None = None

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a shard.

        Raises:
            FileNotFoundError: there is none.
            InputError: it is damaged.
        """
        try:
            return cls(
                folder,
                orjson.loads((folder / "documents.json").read_bytes()),
                np.load(folder / "offsets.npy", allow_pickle=False),
                np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False),
            )
        except (ValueError, TypeError, IndexError, EOFError) as error:
            raise InputError(
                f"{str(folder)!r} is damaged ({error}); delete the index and make it again"
            ) from error

    def __len__(self) -> int:
        return len(self.alive)

    def line(self, row: int) -> bytes:
        return bytes(self._lines[self.offsets[row] : self.offsets[row + 1]])

    def chunk(self, row: int) -> Chunk:
        return Chunk(*orjson.loads(self.line(row)))

    def id_of(self, row: int) -> str:
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.documents[at]}#{row - int(self.starts[at]) + 1}"

    def chunks(self) -> Iterator[Chunk]:
        """The chunks that are alive."""
        return map(self.chunk, np.flatnonzero(self.alive).tolist())

    def show(self, at: int, *, alive: bool) -> None:
        """Leave the document in that place out, since another one has its id; or bring it back."""
        self.alive[self.starts[at] : self.starts[at + 1]] = alive

    def matrix(self, *, keep: bool) -> Vectors:
        """The vectors in single precision, with which numpy multiplies quickly."""
        if self._matrix is not None:
            return self._matrix
        matrix = self.vectors.astype(np.float32)
        if keep:
            self._matrix = matrix
        return matrix


def write_shard(
    folder: Path, old: Sequence[Shard], batch: Batch, vectors: NDArray[np.float16]
) -> None:
    """Write a shard of what is alive in `old`, and of a batch with its vectors.

    Raises:
        OSError: it cannot be written.
    """
    rows: list[tuple[str, str, int]] = []
    offsets = [0]
    arrays = [*(shard.vectors[shard.alive] for shard in old), vectors]
    with replacing_folder(folder) as new:
        with (new / "chunks.jsonl").open("wb") as file:
            for line in _lines(old, rows, batch):
                offsets.append(offsets[-1] + file.write(line))
        rows += [(document, *about) for document, about in batch.documents.items()]
        (new / "documents.json").write_bytes(orjson.dumps(rows))
        for name, content in (("vectors", np.concatenate(arrays)), ("offsets", offsets)):
            array = BytesIO()  # numpy's own writing to files names no error of the disk
            np.save(array, np.asarray(content), allow_pickle=False)
            (new / f"{name}.npy").write_bytes(array.getbuffer())
        for path in new.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def embedded_text(chunk: Chunk) -> str:
    """Return the text that is embedded and searched: that of the chunk after its title."""
    return f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text


def _lines(old: Sequence[Shard], rows: list[tuple[str, str, int]], batch: Batch) -> Iterator[bytes]:
    """The lines of a new shard; `rows` takes the documents of the old ones."""
    for shard in old:
        for at, document in enumerate(shard.documents):
            first, end = int(shard.starts[at]), int(shard.starts[at + 1])
            if shard.alive[first]:
                rows.append((document, shard.digests[at].decode(), end - first))
                yield from (shard.line(row) for row in range(first, end))
    for chunk in batch.chunks:
        parts = chunk.id, chunk.document, chunk.title, chunk.text, chunk.start, chunk.end
        yield orjson.dumps(parts, option=orjson.OPT_APPEND_NEWLINE)
