"""The SQLite file of an index.

    about        embedder, mark and dimensions of its vectors, kind of chunks
    documents    id and digest
    chunks       text, title, and place in the document; `key` is the digest of what is embedded
    words        FTS5 over the chunks, which keeps no copy of them
    vectors      of each chunk, in half precision

Documents are written batch by batch, each batch whole or not at all. Any number of processes may
search and add at the same time, and a search sees what was added by then. No path is in the file,
and nothing beside it while nothing is added, so it can be copied.
"""

from __future__ import annotations

import errno
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mcranker.errors import ConfigError, InputError
from mcranker.inputs.tokens import STOP_WORDS, UNSPACED, words
from mcranker.retrieval.chunks import Chunk
from mcranker.runtime.processes import abandon, renew_in_child

Vectors: TypeAlias = NDArray[np.float32]
Scored: TypeAlias = list[tuple[str, float]]

PATIENCE = 60.0  # seconds to wait for another process that writes
VERSION = 3  # the form of an index, and of the chunks in it
MOST_WORDS = 1_000  # different words of a query that are searched for; the rest is left out
_APPLICATION_ID = 0x4D435249  # "MCRI"
_SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value)",
    "CREATE TABLE documents (number INTEGER PRIMARY KEY, id TEXT UNIQUE, digest BLOB)",
    "CREATE TABLE chunks (number INTEGER PRIMARY KEY, document INTEGER, place INTEGER, "
    "title TEXT, text TEXT, first INTEGER, last INTEGER, key BLOB)",
    "CREATE UNIQUE INDEX places ON chunks (document, place)",
    "CREATE INDEX keys ON chunks (key)",
    "CREATE TABLE vectors (chunk INTEGER PRIMARY KEY, vector BLOB)",
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', "
    "tokenize='porter unicode61 remove_diacritics 2')",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
_NAMES = (
    "SELECT chunks.number, documents.id || '#' || place FROM chunks "
    "JOIN documents ON documents.number = document "
    "WHERE chunks.number IN (SELECT value FROM json_each(?))"
)
_CHUNK = (
    "SELECT chunks.number, title, text, first, last FROM chunks "
    "JOIN documents ON documents.number = document WHERE documents.id = ? AND place = ?"
)
_FAILED = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}
_UNIT = 0.02  # how far from 1 the square of a vector's length may be
_SEPARATE = re.compile(f"([{UNSPACED}])")
_RUN = re.compile(f"[{UNSPACED}]+")
_POSSESSIVE = re.compile(r"['\u2019\uff07][sS]\Z")


class Added(NamedTuple):
    """Work of `mcranker.retrieval.index.Index.add` so far."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    skipped: int = 0
    chunks: int = 0


class IndexFile:
    """An index without its embedder, for several threads; `new` is what a new file says of it."""

    def __init__(self, path: Path, new: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._begin(new)
        renew_in_child(self)

    def _begin(self, new: Mapping[str, str] | None = None) -> None:
        self._lock = threading.RLock()
        self._matrix: tuple[int, list[int], Vectors] | None = None
        with self._explained():
            mode = "rw" if new is None else "rwc"
            self._db = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=PATIENCE,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            if new is not None and self._is_blank():
                with self._transaction("IMMEDIATE"):
                    if self._is_blank():  # not made by another process meanwhile
                        for statement in _SCHEMA:
                            self._db.execute(statement)
                        rows = [*new.items(), ("dimensions", 0)]
                        self._db.executemany("INSERT INTO about VALUES (?, ?)", rows)
            self._check_form()
            with self._explained():
                self.about: dict[str, Any] = dict(self._db.execute("SELECT * FROM about"))
        except BaseException:
            self._db.close()
            raise

    def _is_blank(self) -> bool:
        return not (self._value("application_id") or self._one("SELECT 1 FROM sqlite_master"))

    def _check_form(self) -> None:
        if self._value("application_id") != _APPLICATION_ID:
            raise self._foreign()
        if (version := self._value("user_version")) != VERSION:
            hint = "update mcranker, or " if version > VERSION else ""
            raise InputError(
                f"the index {str(self.path)!r} has the form {version}, and {VERSION} is read here; "
                f"{hint}index the documents again into another file"
            )
        if self.path.stat().st_size < self.size:
            raise self._damaged("its end is missing")
        self._one("PRAGMA cache_size = -64000")  # kB

    def after_fork(self) -> None:
        abandon(self._db)
        self._begin()

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._matrix = None

    # --- what is there ------------------------------------------------------------------

    @property
    def documents(self) -> int:
        return int(self._one("SELECT count(*) FROM documents")[0])

    @property
    def chunks(self) -> int:
        return int(self._one("SELECT count(*) FROM chunks")[0])

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._value("page_count") * self._value("page_size")

    @property
    def dimensions(self) -> int:
        """Numbers of a vector; 0 until there is one."""
        return int(self._one("SELECT value FROM about WHERE name = 'dimensions'")[0])

    def digest(self, document: str) -> bytes | None:
        found = self._one("SELECT digest FROM documents WHERE id = ?", document)
        return found[0] if found else None

    def chunk(self, name: str) -> Chunk:
        _, title, text, start, end = self._row(name)
        return Chunk(name, name.rpartition("#")[0], title, text, start, end)

    def vectors(self, names: Sequence[str]) -> Vectors:
        find = "SELECT vector FROM vectors WHERE chunk = ?"
        return self._stacked([self._one(find, self._row(each)[0])[0] for each in names])

    def known_vectors(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Key of a text -> its vector, of those that are there."""
        find = "SELECT vector FROM chunks JOIN vectors ON chunk = number WHERE key = ? LIMIT 1"
        found = ((key, self._one(find, key)) for key in keys)
        return {key: row[0] for key, row in found if row}

    def search_words(self, query: str, k: int) -> Scored:
        """Up to `k` chunks by BM25, equal ones in the order of the index."""
        if not (terms := _terms_of(query)):
            return []
        find = "SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? "
        find += "ORDER BY bm25(words), rowid LIMIT ?"
        with self._transaction("DEFERRED"):
            return self._named(self._db.execute(find, (terms, k)).fetchall())

    def search_vectors(self, vector: Vectors, k: int) -> Scored:
        """Up to `k` chunks by the cosine, likewise."""
        with self._transaction("DEFERRED"):
            numbers, matrix = self._dense()
            if matrix.shape[1:] != vector.shape:
                raise ConfigError(
                    f"the embedder gives vectors of {len(vector):,} numbers, and the index has "
                    f"{matrix.shape[1]:,}; open it with the embedder it was made with"
                )
            # In one thread: those of BLAS take several times as much of the processor.
            scores = np.einsum("ij,j->i", matrix, vector)
            rows = np.arange(len(scores))
            if len(scores) > k:
                rows = np.flatnonzero(scores >= np.partition(scores, -k)[-k])  # with equal ones
            rows = rows[np.argsort(-scores[rows], kind="stable")][:k]
            return self._named([(numbers[row], float(scores[row])) for row in rows.tolist()])

    def _dense(self) -> tuple[list[int], Vectors]:
        """The numbers of all chunks and their vectors, read when the file has changed."""
        version = self._value("data_version")
        if self._matrix is None or self._matrix[0] != version:
            self._matrix = None
            found = self._db.execute("SELECT chunk, vector FROM vectors ORDER BY chunk")
            numbers = list[int]()

            def read() -> Iterator[bytes]:
                for number, vector in found:
                    numbers.append(number)
                    yield vector

            self._matrix = version, numbers, self._stacked(read())
        return self._matrix[1:]

    def _stacked(self, vectors: Iterable[bytes]) -> Vectors:
        found = np.frombuffer(b"".join(vectors), "<f2")
        try:
            rows = found.reshape(-1, self.dimensions).astype(np.float32)
        except ValueError as error:
            raise self._damaged("vectors are cut") from error
        if not (abs(np.einsum("ij,ij->i", rows, rows) - 1) < _UNIT).all():
            raise self._damaged("vectors are not of length 1")
        return rows

    def _named(self, found: Sequence[tuple[int, float]]) -> Scored:
        names = dict(self._db.execute(_NAMES, (str([number for number, _ in found]),)))
        return [(names[number], score) for number, score in found]

    def _row(self, name: str) -> Any:
        document, _, place = name.rpartition("#")
        number = int(place) if place.isdecimal() and len(place) < 10 else 0
        if (found := self._one(_CHUNK, document, number)) is None:
            raise InputError(f"there is no chunk {name!r} in the index {str(self.path)!r}")
        return found

    # --- documents ----------------------------------------------------------------------

    def write(
        self, documents: Mapping[str, tuple[bytes, Sequence[Chunk]]], vectors: Mapping[bytes, bytes]
    ) -> Added:
        """Write documents: id -> digest and chunks, with the vectors of their texts by key."""
        added, replaced, rows = 0, 0, list[Any]()
        with self._transaction("IMMEDIATE"):
            (number,) = self._one("SELECT coalesce(max(number), 0) FROM chunks")
            for name, (digest, chunks) in documents.items():
                known = self.digest(name)
                if known == digest:  # added by another process meanwhile
                    continue
                added += known is None
                replaced += known is not None
                if known is not None:
                    self._remove(name)
                add = "INSERT INTO documents (id, digest) VALUES (?, ?)"
                document = self._db.execute(add, (name, digest)).lastrowid
                for place, each in enumerate(chunks, 1):
                    number += 1
                    text = embedded_text(each.title, each.text)
                    key, run = key_of(text), self._db.execute
                    parts = each.title, each.text, each.start, each.end, key
                    rows.append((number, document, place, *parts))
                    run("INSERT INTO vectors VALUES (?, ?)", (number, vectors[key]))
                    run("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, _separate(text)))
            self._db.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            if rows and not self.dimensions:
                learn = "UPDATE about SET value = ? WHERE name = 'dimensions'"
                self._db.execute(learn, (len(vectors[rows[0][-1]]) // 2,))
            self._matrix = None
        unchanged = len(documents) - added - replaced
        return Added(added, replaced, unchanged, chunks=len(rows))

    def _remove(self, document: str) -> None:
        (number,) = self._one("SELECT number FROM documents WHERE id = ?", document)
        find = "SELECT number, title, text FROM chunks WHERE document = ?"
        forget = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
        for chunk, title, text in self._db.execute(find, (number,)).fetchall():
            self._db.execute(forget, (chunk, _separate(embedded_text(title, text))))
            self._db.execute("DELETE FROM vectors WHERE chunk = ?", (chunk,))
        self._db.execute("DELETE FROM chunks WHERE document = ?", (number,))
        self._db.execute("DELETE FROM documents WHERE number = ?", (number,))

    # --- statements ---------------------------------------------------------------------

    def _one(self, statement: str, *values: Any) -> Any:
        """The first row of a statement; None if there is none."""
        with self._lock, self._explained():
            return self._db.execute(statement, values).fetchone()

    def _value(self, pragma: str) -> int:
        return int(self._one(f"PRAGMA {pragma}")[0])

    @contextmanager
    def _transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
        """Read from one state of the file, or with IMMEDIATE write everything or nothing."""
        with self._lock, self._explained():
            self._db.execute(f"BEGIN {kind}")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Let SQLite's errors say what has happened, and what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if number := _FAILED.get(code):
                said = f"{error}; what was added is kept, and the same command goes on"
                raise OSError(number, said, str(self.path)) from error
            if code == sqlite3.SQLITE_BUSY:
                raise ConfigError(
                    f"another process has been writing to the index {str(self.path)!r} for "
                    f"{PATIENCE:.0f} s; wait until it is done"
                ) from error
            is_foreign = code == sqlite3.SQLITE_NOTADB
            raise (self._foreign() if is_foreign else self._damaged(str(error))) from error

    def _foreign(self) -> InputError:
        return InputError(f"{str(self.path)!r} is no index, and stays as it is; name another file")

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"the index {str(self.path)!r} is damaged ({why}); delete it and make it again"
        )


def embedded_text(title: str, text: str) -> str:
    """Return the text that is embedded and searched: that of a chunk after its title."""
    return f"{title}\n{text}" if title else text


def key_of(text: str) -> bytes:
    """Return the digest of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _separate(text: str) -> str:
    """Put spaces around the characters of scripts that write none between words."""
    return text if text.isascii() else _SEPARATE.sub(r" \1 ", text)


def _terms_of(query: str) -> str:
    """The words of a query as FTS5 takes them; of scripts without spaces two characters each."""
    terms = list[str]()
    for run in _RUN.findall(query):
        letters = [each for each in run if each.isalnum()]
        terms += map(" ".join, pairwise(letters)) if len(letters) > 1 else letters
    plain = [_POSSESSIVE.sub("", each) for each in words(_RUN.sub(" ", query))]
    terms += [each for each in plain if each.lower() not in STOP_WORDS] or plain
    return " OR ".join(f'"{each}"' for each in [*dict.fromkeys(terms)][:MOST_WORDS])
