"""An index of documents in one SQLite file: searched by words or by meaning, and added to.

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
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from mcranker.encoders.encoder import text_key
from mcranker.errors import ConfigError, InputError
from mcranker.inputs.tokens import STOP_WORDS, UNSPACED, words
from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.retrieval.chunks import SENTENCE_TOKENS, Chunk, ChunkKind, chunks_of
from mcranker.retrieval.embedders import Embedder, TextEmbedder, connect_embedder
from mcranker.retrieval.readers import OnSkip, Skipped, Source, read_documents
from mcranker.runtime.bridge import Bridge
from mcranker.runtime.processes import abandon, renew_in_child

if TYPE_CHECKING:
    from personas.ranking.usage import UsageTable

By = Literal["bm25", "dense"]
Vectors: TypeAlias = NDArray[np.float32]
Scored: TypeAlias = list[tuple[str, float]]

BATCH = 512  # chunks that are embedded and written at a time; of a longer document, all
SECONDS = 0.5  # after which a batch ends, so that an interrupt is heard
DAYS, BYTES = 30, 5_000_000_000  # unused, and in all, of what is kept in the cache
VERSION = 3  # the form of an index, and of the chunks in it
PATIENCE = 60.0  # seconds to wait for another process that writes
MOST_WORDS = 1_000  # different words of a query that are searched for; the rest is left out
_SPECIAL_TOKENS = 2  # that an encoder adds to a text
_UNIT = 0.02  # how far from 1 the square of a vector's length may be
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
_BEST = "SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? ORDER BY 2 DESC, 1 LIMIT ?"
_ANY_TABLE = "SELECT 1 FROM sqlite_master"
_LAST_CHUNK = "SELECT coalesce(max(number), 0) FROM chunks"
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
_SEPARATE = re.compile(f"([{UNSPACED}])")
_RUN = re.compile(f"[{UNSPACED}]+")
_POSSESSIVE = re.compile(r"['\u2019\uff07][sS]\Z")


_log = safe_logger("mcranker.retrieval.index")


class Added(NamedTuple):
    """Work of `Index.add` so far."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    skipped: int = 0
    chunks: int = 0


class Index:
    """An index, for several threads; make it with `create` or `open`, use it in a ``with``."""

    def __init__(
        self,
        path: Path,
        embedder: Embedder | None,
        *,
        owned: bool,
        new: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._connect(new)
        renew_in_child(self)
        self._embedder = embedder
        self._owned = [embedder] if owned and embedder is not None else []
        self._bridge = Bridge(partial(_close_all, self._owned))
        if embedder is not None:
            self._check_mark(embedder)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | str | None = None,
        chunks: str = "sentences",
    ) -> Self:
        """Make an index in a new file, or open the same one that is there already."""
        place = Path(path).expanduser()
        if place.is_dir():
            raise ConfigError(f"{str(place)!r} is a folder; name a file, which becomes the index")
        if chunks not in get_args(ChunkKind):
            raise ConfigError(
                f"chunks={chunks!r} is unknown; give one of {', '.join(get_args(ChunkKind))}"
            )
        made = connect_embedder(embedder)
        place.parent.mkdir(parents=True, exist_ok=True)
        new = {"embedder": made.name, "mark": made.mark, "chunks": chunks, "dimensions": 0}
        index = cls(place, made, owned=made is not embedder, new=new)
        if (there := index._about["chunks"]) != chunks:
            index.close()
            said = f"the index {str(path)!r} has chunks={there!r}, not {chunks!r}"
            raise ConfigError(f"{said}; name another file")
        return index

    @classmethod
    def open(cls, path: str | os.PathLike[str], embedder: Embedder | str | None = None) -> Self:
        """Open the index in a file."""
        place = Path(path).expanduser()
        if not place.is_file():
            raise InputError(f"there is no index {str(place)!r}; make one with 'mcranker index'")
        made = None if embedder is None else connect_embedder(embedder)
        return cls(place, made, owned=made is not embedder)

    def _connect(self, new: Mapping[str, Any] | None = None) -> None:
        self._lock = threading.RLock()
        self._matrix: tuple[int, list[int], Vectors] | None = None
        with self._explained():
            self._db = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={'rw' if new is None else 'rwc'}",
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
                        self._db.executemany("INSERT INTO about VALUES (?, ?)", new.items())
            self._check_form()
            with self._explained():
                self._about: dict[str, Any] = dict(self._db.execute("SELECT * FROM about"))
        except BaseException:
            self._db.close()
            raise

    def _is_blank(self) -> bool:
        return not (self._number("PRAGMA application_id") or self._one(_ANY_TABLE))

    def _check_form(self) -> None:
        if self._number("PRAGMA application_id") != _APPLICATION_ID:
            raise self._foreign()
        if (version := self._number("PRAGMA user_version")) != VERSION:
            hint = "update mcranker, or " if version > VERSION else ""
            raise InputError(
                f"the index {str(self.path)!r} has the form {version}, and {VERSION} is read here; "
                f"{hint}index the documents again into another file"
            )
        if self.path.stat().st_size < self._bytes:
            raise self._damaged("its end is missing")
        self._one("PRAGMA cache_size = -64000")  # kB

    def after_fork(self) -> None:
        abandon(self._db)
        self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what the index holds. An embedder that was given is its maker's to close."""
        self._bridge.close()
        with self._lock:
            self._db.close()
            self._matrix = None

    # --- what is there ------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of chunks."""
        return self._number("SELECT count(*) FROM chunks")

    @property
    def _bytes(self) -> int:
        return self._number("PRAGMA page_count") * self._number("PRAGMA page_size")

    @property
    def _dimensions(self) -> int:
        """Numbers of a vector; 0 until there is one."""
        return self._number("SELECT value FROM about WHERE name = 'dimensions'")

    def describe(self) -> dict[str, Any]:
        """Path, embedder, kind of chunks, and the numbers of documents, chunks and bytes."""
        return {
            "path": str(self.path),
            **{key: self._about[key] for key in ("embedder", "mark", "chunks")},
            "dimensions": self._dimensions,
            "documents": self._number("SELECT count(*) FROM documents"),
            "passages": len(self),
            "bytes": self._bytes,
        }

    def chunk(self, id: str) -> Chunk:  # noqa: A002
        """Return a chunk by its id."""
        return Chunk(id, id.rpartition("#")[0], *self._row(id)[1:])

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """The vectors of chunks, of shape (ids, dimensions)."""
        find = "SELECT vector FROM vectors WHERE chunk = ?"
        return self._stacked([self._one(find, self._row(each)[0])[0] for each in ids])

    def _row(self, name: str) -> Any:
        document, _, place = name.rpartition("#")
        number = int(place) if place.isdecimal() and len(place) < 10 else 0
        if (found := self._one(_CHUNK, document, number)) is None:
            raise InputError(f"there is no chunk {name!r} in the index {str(self.path)!r}")
        return found

    def _digest(self, document: str) -> bytes | None:
        return (self._one("SELECT digest FROM documents WHERE id = ?", document) or (None,))[0]

    def _stacked(self, vectors: Iterable[bytes]) -> Vectors:
        found = np.frombuffer(b"".join(vectors), "<f2")
        try:
            rows = found.reshape(-1, self._dimensions).astype(np.float32)
        except ValueError as error:
            raise self._damaged("vectors are cut") from error
        if not _are_units(rows):
            raise self._damaged("vectors are not of length 1")
        return rows

    # --- search -------------------------------------------------------------------------

    async def search(
        self, queries: Sequence[str], k: int, by: By, usage: UsageTable | None = None
    ) -> list[Scored]:
        """Up to `k` chunks for each query, with their scores, best first; equal ones as added."""
        if k < 1:
            raise ConfigError(f"k={k!r} is out of range; give a whole number from 1")
        if by not in ("bm25", "dense"):
            raise ConfigError(f"by={by!r}: an index is searched by 'bm25' or 'dense'")
        if by == "bm25":
            return await to_thread.run_sync(lambda: [self._by_words(q, k) for q in queries])
        if not (queries and self._dimensions):
            return [[] for _ in queries]
        vectors = await self.connect().embed_queries(queries, usage)
        return await to_thread.run_sync(lambda: [self._by_meaning(v, k) for v in vectors])

    def _by_words(self, query: str, k: int) -> Scored:
        if not (terms := _terms_of(query)):
            return []
        with self._transaction("DEFERRED"):
            return self._named(self._db.execute(_BEST, (terms, k)).fetchall())

    def _by_meaning(self, vector: Vectors, k: int) -> Scored:
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
        version = self._number("PRAGMA data_version")
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

    def _named(self, found: Sequence[tuple[int, float]]) -> Scored:
        names = dict(self._db.execute(_NAMES, (str([number for number, _ in found]),)))
        return [(names[number], score) for number, score in found]

    def connect(self, **limits: Any) -> Embedder:
        """Connect the embedder that made the index, unless there is one; with limits of calls."""
        if self._embedder is None:
            name = self._about["embedder"]
            try:
                made = connect_embedder(name, **limits)
            except ConfigError as error:
                why = str(error)
                if name.startswith("embed:") and not limits.get("base_url"):
                    why = "give the address of that service with embedder_url=URL"
                raise ConfigError(
                    f"the index {str(self.path)!r} has vectors of {name!r}: {why}"
                ) from error
            self._check_mark(made)
            self._owned.append(made)
            self._embedder = made
        return self._embedder

    def _check_mark(self, embedder: Embedder) -> None:
        if embedder.mark != self._about["mark"]:
            raise ConfigError(
                f"the index {str(self.path)!r} has vectors of {self._about['embedder']!r} "
                f"(mark {self._about['mark']!r}), not of {embedder.name!r} (mark "
                f"{embedder.mark!r}); open it with that embedder, or index the documents again"
            )

    # --- documents ----------------------------------------------------------------------

    async def add(
        self,
        documents: Source,
        *,
        on_skip: OnSkip | None = None,
        progress: Callable[[Added], None] | None = None,
        usage: UsageTable | None = None,
    ) -> Added:
        """Add documents; a changed text replaces the one of its id."""
        done = Added()

        def skip(skipped: Skipped) -> None:
            nonlocal done
            done = done._replace(skipped=done.skipped + 1)
            if on_skip is None:
                _log.warning("%s is left out: %s", skipped.path, skipped.reason)
            else:
                on_skip(skipped)

        with closing(self._batches(documents, skip)) as batches:
            while batch := await to_thread.run_sync(next, batches, None):
                done = done._replace(unchanged=done.unchanged + batch.unchanged)
                if batch.documents:
                    vectors = await self._embedded(batch, usage)
                    new = await to_thread.run_sync(self._write, batch.documents, vectors)
                    done = Added(*map(sum, zip(done, new, strict=True)))
                if progress is not None:
                    progress(done)
        return done

    def _batches(self, documents: Source, skip: OnSkip) -> Generator[_Batch]:
        embedder = self.connect()
        kind = self._about["chunks"]
        tokenizer = embedder.tokenizer if isinstance(embedder, TextEmbedder) else None
        most = max(1, (embedder.max_tokens or SENTENCE_TOKENS) - _SPECIAL_TOKENS)
        batch, count = _Batch(), 0
        with closing(read_documents(documents, on_skip=skip)) as found:
            for document in found:
                if document.id in batch.documents:
                    yield batch
                    batch, count = _Batch(), 0
                digest = text_key(f"{len(document.title)} {document.title}{document.text}")
                if self._digest(document.id) == digest:
                    batch.unchanged += 1
                else:
                    chunks, until = list[Chunk](), batch.until
                    for chunk in chunks_of(document, kind, tokenizer=tokenizer, max_tokens=most):
                        chunks.append(chunk)
                        if time.monotonic() > until:  # of a long document
                            yield _Batch()
                            until = time.monotonic() + SECONDS
                    batch.documents[document.id] = digest, chunks
                    count += len(chunks)
                if count >= BATCH or time.monotonic() > batch.until:
                    yield batch
                    batch, count = _Batch(), 0
        yield batch

    async def _embedded(self, batch: _Batch, usage: UsageTable | None) -> dict[bytes, bytes]:
        """Key of a text -> its vector: that of the same text in the index, else a new one."""
        embedder = self.connect()
        embed = embedder.embed_passages
        if isinstance(embedder, TextEmbedder):  # no second copy in the user's cache
            embed = partial(embedder.embed_passages, keep=False)
        chunks = (chunk for _, chunks in batch.documents.values() for chunk in chunks)
        texts = (_embedded_text(each.title, each.text) for each in chunks)
        wanted = {text_key(text): text for text in texts}
        vectors = await to_thread.run_sync(self._known_vectors, wanted)
        new = [key for key in wanted if key not in vectors]
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            rows = await embed([wanted[key] for key in part], usage)
            shape = len(part), self._dimensions or rows.shape[-1]
            if rows.shape != shape or not _are_units(rows):
                raise ConfigError(
                    f"{embedder.name!r} gave vectors of shape {rows.shape} instead of {shape}, "
                    "or some that are not of length 1; use another embedder"
                )
            vectors.update(zip(part, map(bytes, rows.astype("<f2")), strict=True))
        return vectors

    def _known_vectors(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        find = "SELECT vector FROM chunks JOIN vectors ON chunk = number WHERE key = ? LIMIT 1"
        found = ((key, self._one(find, key)) for key in keys)
        return {key: row[0] for key, row in found if row}

    def _write(
        self, documents: Mapping[str, tuple[bytes, Sequence[Chunk]]], vectors: Mapping[bytes, bytes]
    ) -> Added:
        """Write documents: id -> digest and chunks, with the vectors of their texts by key."""
        added, replaced, rows = 0, 0, list[Any]()
        with self._transaction("IMMEDIATE"):
            run, number = self._db.execute, self._number(_LAST_CHUNK)
            for name, (digest, chunks) in documents.items():
                known = self._digest(name)
                if known == digest:  # added by another process meanwhile
                    continue
                added += known is None
                replaced += known is not None
                if known is not None:
                    self._remove(name)
                document = run(
                    "INSERT INTO documents VALUES (NULL, ?, ?)", (name, digest)
                ).lastrowid
                for place, each in enumerate(chunks, 1):
                    number += 1
                    text = _embedded_text(each.title, each.text)
                    key = text_key(text)
                    parts = each.title, each.text, each.start, each.end, key
                    rows.append((number, document, place, *parts))
                    run("INSERT INTO vectors VALUES (?, ?)", (number, vectors[key]))
                    run("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, _separate(text)))
            self._db.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            if rows and not self._dimensions:
                numbers = len(vectors[rows[0][-1]]) // 2
                run("UPDATE about SET value = ? WHERE name = 'dimensions'", (numbers,))
            self._matrix = None
        return Added(added, replaced, len(documents) - added - replaced, chunks=len(rows))

    def _remove(self, document: str) -> None:
        number = self._number("SELECT number FROM documents WHERE id = ?", document)
        find = "SELECT number, title, text FROM chunks WHERE document = ?"
        forget = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
        for chunk, title, text in self._db.execute(find, (number,)).fetchall():
            self._db.execute(forget, (chunk, _separate(_embedded_text(title, text))))
            self._db.execute("DELETE FROM vectors WHERE chunk = ?", (chunk,))
        self._db.execute("DELETE FROM chunks WHERE document = ?", (number,))
        self._db.execute("DELETE FROM documents WHERE number = ?", (number,))

    # --- statements ---------------------------------------------------------------------

    def _one(self, statement: str, *values: Any) -> Any:
        """The first row of a statement; None if there is none."""
        with self._lock, self._explained():
            return self._db.execute(statement, values).fetchone()

    def _number(self, statement: str, *values: Any) -> int:
        return int(self._one(statement, *values)[0])

    @contextmanager
    def _transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
        """Read from one state of the file, or with IMMEDIATE write everything or nothing."""
        with self._lock, self._explained(), self._db:
            self._db.execute(f"BEGIN {kind}")
            yield

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
            if code == sqlite3.SQLITE_NOTADB:
                raise self._foreign() from error
            raise self._damaged(str(error)) from error

    def _foreign(self) -> InputError:
        return InputError(f"{str(self.path)!r} is no index, and stays as it is; name another file")

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"the index {str(self.path)!r} is damaged ({why}); delete it and make it again"
        )


@dataclass(slots=True)
class _Batch:
    """Documents to be written: id -> digest and chunks."""

    documents: dict[str, tuple[bytes, list[Chunk]]] = field(default_factory=dict)
    unchanged: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)


def cached_index(key: str) -> Path:
    """Return the file of an index that depends on `key`, and remove those too old or too many."""
    place = cache_root() / "indexes" / f"{key[:32]}.sqlite"
    found = list[tuple[float, int, Path]]()
    with suppress(OSError):  # there is no such file yet
        os.utime(place)
    for path in place.parent.glob("*.sqlite"):
        with suppress(OSError):  # removed by another process just now
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    total = 0
    for used, size, path in sorted(found, reverse=True):
        total += size
        days = (time.time() - used) / 86_400
        if days > DAYS or (total > BYTES and days > 1):
            for each in (path, path.with_name(f"{path.name}-journal")):
                with suppress(OSError):  # another's folder, or a file in use
                    each.unlink()
    return place


async def _close_all(owned: Sequence[Embedder]) -> None:
    """Close what an index has connected; not the index's, which could not be dropped then."""
    for each in owned:
        await each.aclose()


def _embedded_text(title: str, text: str) -> str:
    return f"{title}\n{text}" if title else text


def _are_units(rows: Vectors) -> bool:
    return bool((abs(np.einsum("ij,ij->i", rows, rows) - 1) < _UNIT).all())


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
