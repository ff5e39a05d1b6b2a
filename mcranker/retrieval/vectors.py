"""Vectors of texts on disk, so that a text that was encoded once costs a look-up afterwards."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.runtime.forks import abandon, renew_in_child

MOST_VECTORS = 500_000
"""Vectors kept, some 450 MB; beyond it the oldest tenth goes."""

PATIENCE = 2.0  # seconds to wait for another process that writes
PLACES = 500  # keys in one look-up

_APPLICATION_ID = 0x4D435256  # "MCRV"
_VERSION = 1
_CREATE = """
CREATE TABLE IF NOT EXISTS vectors (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    tokens INTEGER NOT NULL,
    vector BLOB NOT NULL
)
"""
_UNIT = 0.01  # how far from 1 the length of a sound vector may be; rounding is a tenth of that

_log = safe_logger("mcranker.retrieval.vectors")


class Vector(NamedTuple):
    """Of one text.

    Attributes:
        values: of length 1, rounded to half precision, which is how they are kept.
        tokens: those of the text that were read.
    """

    values: NDArray[np.float16]
    tokens: int


def default_vectors_path() -> Path | None:
    """Return the path of vectors: MCRANKER_VECTORS, else ``vectors.sqlite`` in the user's cache.

    The variable is a path, or ``none`` or ``off`` for no file. The cache is MCRANKER_CACHE or the
    user's cache folder.
    """
    named = os.environ.get("MCRANKER_VECTORS", "").strip()
    if named.lower() in {"none", "off"}:
        return None
    return Path(named).expanduser() if named else cache_root() / "vectors.sqlite"


class VectorCache:
    """Vectors by their text, for one encoder; for any number of threads and processes.

    It is a cache: a file that cannot be used is reported once, in a warning, and left alone; a
    damaged vector counts as absent.

    Args:
        path: the file; it is made where there is none.
        encoder: what made the vectors; texts of different encoders have different keys.
        dimensions: of a vector.
        most: vectors kept.
    """

    def __init__(
        self, path: Path, *, encoder: str, dimensions: int, most: int = MOST_VECTORS
    ) -> None:
        self.path = path
        self._salt = blake2b(encoder.encode(), digest_size=16).digest()
        self._bytes = dimensions * 2
        self._most = most
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._failed = False
        renew_in_child(self)

    def after_fork(self) -> None:
        abandon(self._connection)
        self._lock = threading.Lock()
        self._connection = None

    def find(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Return text -> vector for stored texts. Blocks."""
        found: dict[str, Vector] = {}
        text_of = {self._key(text): text for text in texts}
        keys = list(text_of)

        def read(connection: sqlite3.Connection) -> None:
            for start in range(0, len(keys), PLACES):
                part = keys[start : start + PLACES]
                places = ", ".join("?" * len(part))
                query = f"SELECT key, tokens, vector FROM vectors WHERE key IN ({places})"  # noqa: S608
                for key, tokens, blob in connection.execute(query, part):
                    vector = self._vector(tokens, blob)
                    if vector is not None:
                        found[text_of[key]] = vector

        self._use(read)
        return found

    def keep(self, vectors: Iterable[tuple[str, Vector]]) -> None:
        """Keep vectors of texts. Blocks."""
        rows = [
            (self._key(text), vector.tokens, vector.values.tobytes()) for text, vector in vectors
        ]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO vectors (key, tokens, vector) VALUES (?, ?, ?)", rows
                )
                ((lowest, highest),) = connection.execute("SELECT min(id), max(id) FROM vectors")
                if lowest is not None and highest - lowest >= self._most:
                    oldest = highest - self._most + self._most // 10
                    connection.execute("DELETE FROM vectors WHERE id <= ?", (oldest,))

        self._use(write)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _key(self, text: str) -> bytes:
        read = text.encode("utf-8", "surrogatepass")
        return blake2b(read, digest_size=16, key=self._salt).digest()

    def _vector(self, tokens: object, blob: object) -> Vector | None:
        if not isinstance(blob, bytes) or len(blob) != self._bytes or not isinstance(tokens, int):
            return None
        values = np.frombuffer(blob, dtype=np.float16)
        length = float(np.linalg.norm(values.astype(np.float32)))
        return Vector(values, tokens) if abs(length - 1.0) <= _UNIT else None

    def _use(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Let `work` use the file, one thread at a time; not at all after a failure."""
        with self._lock:
            if self._failed:
                return
            try:
                if self._connection is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._connection = sqlite3.connect(
                        self.path, timeout=PATIENCE, check_same_thread=False
                    )
                    _prepare(self._connection)
                work(self._connection)
            except (sqlite3.Error, OSError) as error:
                self._failed = True
                connection, self._connection = self._connection, None
                if connection is not None:
                    connection.close()
                _log.warning(
                    "the vectors in %r cannot be used (%s), so texts are encoded again; delete the "
                    "file, or name another one by MCRANKER_VECTORS",
                    str(self.path),
                    error,
                )


def vectors_in(path: Path) -> int:
    """Return the number of vectors in a file.

    Raises:
        sqlite3.Error: it is none, or is damaged.
    """
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE)
    try:
        ((count,),) = connection.execute("SELECT count(*) FROM vectors")
    finally:
        connection.close()
    return int(count)


def _prepare(connection: sqlite3.Connection) -> None:
    ((kind,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if tables and (kind, version) != (_APPLICATION_ID, _VERSION):
        raise sqlite3.DatabaseError("it holds something else, or is of another version")
    if not tables:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        with connection:
            connection.execute(_CREATE)
    connection.execute("PRAGMA synchronous = NORMAL")
