"""Vectors of texts on disk, by content: a text that was encoded once costs a look-up afterwards.

A store is a folder of shards. A shard is one ``.npy`` file, written beside its place, renamed and
never changed: the keys of its texts in order, the tokens read of each, and their vectors. It is
mapped into memory, so a look-up reads a few pages of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.runtime.locks import locked
from personas.io.atomic import replacing, sweep

MOST_VECTORS = 500_000
"""Vectors that the cache keeps of one model, some 400 MB of 384 numbers each."""

TOGETHER = 16  # shards of about the same size that are merged into one
LARGEST = 2**28  # bytes of a shard; numpy's limit for one is 2**31

KEYS = "S16"
"""The type of keys in arrays."""

# What numpy raises about a header besides ValueError.
_BROKEN = (EOFError, KeyError, OverflowError, RecursionError, SyntaxError, TokenError, TypeError)
_UNIT = 0.01  # how far from 1 the length of a sound vector may be; rounding is a tenth of that

_log = safe_logger("mcranker.encoders.vectors")


class Vector(NamedTuple):
    """Of one text."""

    values: NDArray[np.float16]
    tokens: int


class Matrix(NamedTuple):
    """Vectors of several texts."""

    values: NDArray[np.float16]
    tokens: NDArray[np.int32]
    found: NDArray[np.bool_]


def default_vectors_path() -> Path | None:
    """Return the folder of vectors: MCRANKER_VECTORS, else ``vectors`` in the user's cache."""
    named = os.environ.get("MCRANKER_VECTORS", "").strip()
    if named.lower() in {"none", "off"}:
        return None
    return Path(named).expanduser() if named else cache_root() / "vectors"


class VectorStore:
    """Vectors by their text, for any number of threads and processes."""

    def __init__(
        self, folder: Path, *, mark: str, dimensions: int = 0, most: int | None = None
    ) -> None:
        self.folder = folder / blake2b(mark.encode(), digest_size=8).hexdigest()
        self.dimensions = dimensions
        self._most = most
        self._shards: dict[str, _Shard] = {}  # by file name, the newest first
        self._skipped: set[str] = set()

    def __len__(self) -> int:
        """The number of vectors; one that two processes have kept may count twice."""
        return sum(len(shard.keys) for shard in self._open().values())

    def find(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Return text -> vector for stored texts. Blocks."""
        values, tokens, found = self.matrix(keys_of(texts))
        return {
            text: Vector(values[at], int(tokens[at])) for at, text in enumerate(texts) if found[at]
        }

    def matrix(self, keys: NDArray[np.bytes_]) -> Matrix:
        """Return the vectors of texts, by their keys, as one array. Blocks."""
        shards = self._open()
        values = np.zeros((len(keys), self.dimensions), np.float16)
        tokens, found = np.zeros(len(keys), np.int32), np.zeros(len(keys), bool)
        for shard in shards.values():
            wanted = np.flatnonzero(~found)
            if not wanted.size:
                break
            rows = np.searchsorted(shard.keys, keys[wanted])
            rows[rows == len(shard.keys)] = 0
            hits = shard.keys[rows] == keys[wanted]
            if not hits.any():
                continue
            wanted, rows = wanted[hits], rows[hits]
            vectors = shard.values[rows]
            sound = abs(np.linalg.norm(vectors.astype(np.float32), axis=1) - 1.0) <= _UNIT
            wanted, rows = wanted[sound], rows[sound]
            values[wanted], tokens[wanted], found[wanted] = vectors[sound], shard.tokens[rows], True
        return Matrix(values, tokens, found)

    def keep(self, vectors: Iterable[tuple[str, Vector]]) -> None:
        """Keep vectors of texts: once this returns, they are on the disk. Blocks."""
        rows = dict(vectors)
        if not rows:
            return
        keys, kept = keys_of(rows), rows.values()
        order = np.argsort(keys)
        whole = _Shard(
            keys[order],
            np.array([each.tokens for each in kept], "<i4")[order],
            np.array([each.values for each in kept], "<f2")[order],
        )
        self.dimensions = self.dimensions or whole.values.shape[1]
        self.folder.mkdir(parents=True, exist_ok=True)
        if whole.values.shape[1:] != (self.dimensions,):
            raise ValueError(f"the store holds vectors of {self.dimensions} numbers")
        for start in range(0, len(rows), self._largest):
            self._write(time.time_ns(), whole, slice(start, start + self._largest))
        shards = self._open()
        if _crowded(shards, self._largest) or self._beyond(shards):
            with locked(self.folder / ".lock"):
                self._tidy()

    def retain(self, keys: NDArray[np.bytes_]) -> None:
        """Drop the vectors of all other texts. Blocks."""
        with locked(self.folder / ".lock"):
            for name, shard in self._open().items():
                wanted = np.flatnonzero(np.isin(shard.keys, keys))
                if 0 < len(wanted) < len(shard.keys):
                    self._write(int(name.partition("-")[0]), shard, wanted)
                if len(wanted) < len(shard.keys):
                    self._drop([name])

    @property
    def _largest(self) -> int:
        """Rows of a shard, at most; a quarter of all, so that little goes with the oldest."""
        rows = max(LARGEST // (2 * self.dimensions + np.dtype(KEYS).itemsize + 4), 1)
        return rows if self._most is None else max(min(rows, self._most // 4), 1)

    def _beyond(self, shards: dict[str, _Shard]) -> list[str]:
        """The oldest shards, as many as are too many."""
        names, left = list(shards), sum(len(shard.keys) for shard in shards.values())
        gone: list[str] = []
        while self._most is not None and left > self._most and len(names) > 1:
            gone.append(names.pop())
            left -= len(shards[gone[-1]].keys)
        return gone

    def _tidy(self) -> None:
        """Merge small shards, and drop the oldest that are too many."""
        shards = self._open()
        if names := _crowded(shards, self._largest):
            parts = [shards[name] for name in names]
            whole = _Shard(*map(np.concatenate, zip(*parts, strict=True)))
            _, first = np.unique(whole.keys, return_index=True)
            self._write(int(names[0].partition("-")[0]), whole, first)
            self._drop(names)
        self._drop(self._beyond(self._open()))
        sweep(self.folder)

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(PermissionError):  # Windows keeps what is just being read
                (self.folder / name).unlink(missing_ok=True)

    def _write(self, stamp: int, rows: _Shard, part: slice | NDArray[np.int64]) -> None:
        columns = {name: column[part] for name, column in rows._asdict().items()}
        record = np.empty(1, [(name, each.dtype, each.shape) for name, each in columns.items()])
        for name, column in columns.items():
            record[name] = column
        with replacing(self.folder / f"{stamp:020}-{os.urandom(4).hex()}.npy") as file:
            npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(record))
            file.write(record.view(np.uint8).data)

    def _open(self) -> dict[str, _Shard]:
        """The shards that are there now, the newest first."""
        while True:
            try:
                names = sorted((path.name for path in self.folder.iterdir()), reverse=True)
            except FileNotFoundError:
                return {}
            shards: dict[str, _Shard] = {}
            try:
                for name in names:
                    if not name.endswith(".npy") or name in self._skipped:
                        continue
                    shard = self._shards.get(name) or self._checked(self.folder / name)
                    if shard is not None:
                        shards[name] = shard
            except FileNotFoundError:  # merged by another process meanwhile
                continue
            self._shards = shards
            return shards

    def _checked(self, path: Path) -> _Shard | None:
        try:
            shard = _shard(path)
            found = shard.values.shape[1]
            if found != (self.dimensions or found):
                raise ValueError(f"vectors of {found} numbers instead of {self.dimensions}")
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            if not self._skipped:
                _log.warning(
                    "%r is skipped, and its texts are encoded again (%s); delete it",
                    str(path),
                    error,
                )
            self._skipped.add(path.name)
            return None
        self.dimensions = found
        return shard


def vectors_in(folder: Path) -> int:
    """Return the number of vectors in a folder, of all models."""
    return sum(
        len(_shard(path).keys)
        for each in folder.iterdir()
        if each.is_dir()
        for path in each.glob("*.npy")
    )


class _Shard(NamedTuple):
    keys: NDArray[np.bytes_]  # in order
    tokens: NDArray[np.int32]
    values: NDArray[np.float16]


def _shard(path: Path) -> _Shard:
    """Map a shard's file."""
    try:
        record: Any
        if sys.platform == "win32":  # where a file that is mapped cannot be removed
            with path.open("rb") as file:
                record = npy.read_array(file, allow_pickle=False)
        else:
            record = npy.open_memmap(path, mode="r")
    except _BROKEN as error:
        raise ValueError(f"its header is broken: {error}") from error
    if record.shape != (1,) or record.dtype.names != _Shard._fields:
        raise ValueError("it holds something else")
    shard = _Shard(*(np.asarray(record[name][0]) for name in _Shard._fields))
    rows = len(shard.keys)
    kinds = tuple(each.dtype.str for each in shard)
    if kinds != (f"|{KEYS}", "<i4", "<f2") or not rows:
        raise ValueError(f"it holds {kinds}")
    if shard.tokens.shape != (rows,) or shard.values.ndim != 2 or len(shard.values) != rows:
        raise ValueError("it has not as many vectors as keys")
    return shard


def _crowded(shards: dict[str, _Shard], largest: int) -> list[str]:
    """Names of `TOGETHER` shards of about one size, the newest first, that fit into one."""
    sizes: dict[int, list[str]] = {}
    for name, shard in shards.items():
        if len(shard.keys) * TOGETHER <= largest:
            of_size = sizes.setdefault((len(shard.keys).bit_length() - 1) // 4, [])
            of_size.append(name)
            if len(of_size) == TOGETHER:
                return of_size
    return []


def keys_of(texts: Iterable[str]) -> NDArray[np.bytes_]:
    """Return the keys of texts: digests of their contents."""
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    size = np.dtype(KEYS).itemsize
    return np.array([blake2b(each, digest_size=size).digest() for each in encoded], KEYS)
