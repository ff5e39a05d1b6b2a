"""Encoders: texts to vectors of length 1, each text once; and the vectors that are kept."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mcranker.errors import MCRankerError, ModelFileError, ServerFailed
from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.runtime.processes import abandon, renew_in_child
from personas.ranking.usage import Usage

MAX_TOKENS = 256  # that a model reads of a text, where nothing says how many
MAX_CHARACTERS = 20_000  # of a text that are tokenized for `MAX_TOKENS`; for more, as many more
MAX_THREADS = 8  # more than the physical cores of a usual machine only get in each other's way
MOST_REMEMBERED = 20_000  # vectors in memory, some 16 MB
MOST_VECTORS = 500_000  # kept of one model, some 400 MB of 384 numbers each

_PATIENCE = 60.0  # seconds to wait for another process that writes
_UNIT = 0.01  # how far from 1 the length of a sound vector may be; rounding is a tenth of that
_log = safe_logger("mcranker.encoders.encoder")


class Vector(NamedTuple):
    """Of one text."""

    values: NDArray[np.float16]
    tokens: int


def default_vectors_path() -> Path | None:
    """Return the folder of vectors: MCRANKER_VECTORS, else ``vectors`` in the user's cache."""
    named = os.environ.get("MCRANKER_VECTORS", "").strip()
    if named.lower() in {"none", "off"}:
        return None
    return Path(named).expanduser() if named else cache_root() / "vectors"


class VectorStore:
    """Vectors of one model by their text, in an SQLite file; for several threads and processes."""

    def __init__(
        self, folder: Path, *, mark: str, dimensions: int = 0, most: int = MOST_VECTORS
    ) -> None:
        self.path = folder / f"{text_key(mark).hex()[:16]}.sqlite"
        self.dimensions = dimensions
        self._most = most
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def after_fork(self) -> None:
        abandon(self._db)
        self._begin()

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def find(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Return text -> vector for stored texts. Blocks."""
        if not self.path.parent.is_dir():
            return {}
        find = "SELECT tokens, vector FROM vectors WHERE key = ?"
        with self._opened() as db:
            rows = {text: db.execute(find, (text_key(text),)).fetchone() for text in texts}
        return {text: vector for text, row in rows.items() if (vector := self._sound(row))}

    def _sound(self, row: tuple[int, bytes] | None) -> Vector | None:
        if row is None or len(row[1]) % 2:
            return None
        values = np.frombuffer(row[1], "<f2")
        if not abs(np.linalg.norm(values.astype(np.float32)) - 1) <= _UNIT:
            return None  # damaged; it is made again
        self.dimensions = self.dimensions or len(values)
        return Vector(values, row[0]) if len(values) == self.dimensions else None

    def keep(self, vectors: Iterable[tuple[str, Vector]]) -> None:
        """Keep vectors of texts: once this returns, they outlive the process. Blocks."""
        rows = [
            (text_key(text), each.tokens, np.asarray(each.values, "<f2").tobytes())
            for text, each in vectors
        ]
        if not rows:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            add = "INSERT OR REPLACE INTO vectors (key, tokens, vector) VALUES (?, ?, ?)"
            db.executemany(add, rows)
            drop = "DELETE FROM vectors WHERE number <= (SELECT max(number) FROM vectors) - ?"
            db.execute(drop, (self._most,))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The connection, in which a transaction that was begun ends with the block."""
        try:
            with self._lock:
                if self._db is None:
                    self._db = sqlite3.connect(
                        self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
                    )
                    with suppress(sqlite3.OperationalError):  # a store that may only be read
                        self._db.execute("PRAGMA journal_mode = WAL")
                    self._db.execute("PRAGMA synchronous = NORMAL")
                    self._db.execute(
                        "CREATE TABLE IF NOT EXISTS vectors "
                        "(number INTEGER PRIMARY KEY, key BLOB UNIQUE, tokens INTEGER, vector BLOB)"
                    )
                with self._db:
                    yield self._db
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise OSError(errno.EIO, str(error), str(self.path)) from error


def text_key(text: str) -> bytes:
    """The name of a text in stores of vectors."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Encoded(NamedTuple):
    """Texts as vectors."""

    vectors: NDArray[np.float32]
    tokens: tuple[int, ...]
    known: tuple[bool, ...]
    usage: Usage


class Tokens(NamedTuple):
    """A text, and the ids of its tokens if they are known here."""

    text: str
    ids: Sequence[int] = ()


class Engine(Protocol):
    """A loaded model. Batches are worked on by several threads at once."""

    def batches(self, texts: Sequence[str]) -> Iterable[Sequence[Tokens]]: ...

    def vectors(self, batch: Sequence[Tokens]) -> tuple[list[Vector], Usage]: ...


class Encoder:
    """Texts to vectors of length 1, of one model."""

    def __init__(
        self,
        load: Callable[[], Engine],
        *,
        name: str,
        mark: str,
        max_tokens: int = MAX_TOKENS,
        dimensions: int = 0,
        prefixes: tuple[str, str] = ("", ""),
        tokenizer: Path | None = None,
        threads: int | None = None,
        paid: bool = False,
        refusals: tuple[type[Exception], ...] = (),
    ) -> None:
        self.mark = f"{mark} {max_tokens}"
        if any(prefixes):
            self.mark += f" {json.dumps(prefixes)}"
        self.name = name
        self.max_tokens = max_tokens
        self.dimensions = dimensions
        self.prefixes = prefixes
        self.tokenizer = tokenizer
        self.users = 1
        self.shared_as: Hashable = None
        self._load = load
        self._threads = threads or usable_threads()
        self._paid = paid
        self._refusals = refusals
        path = default_vectors_path()
        self._store: VectorStore | None = None
        if path is not None:
            self._store = VectorStore(path, mark=self.mark, dimensions=dimensions)
        self._remembered: OrderedDict[str, Vector] = OrderedDict()
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Call]] = {}
        self._new: list[str] = []
        self._engine: Engine | None = None
        self._reader = ThreadPoolExecutor(1, "mcranker-encoder")
        self._workers = ThreadPoolExecutor(self._threads, "mcranker-encoder")

    def after_fork(self) -> None:
        abandon(self._reader, self._workers, self._engine, self._waiting)
        self._begin()

    async def encode(self, texts: Sequence[str], *, keep: bool = True) -> Encoded:
        """The vectors of texts. The event loop goes on meanwhile."""
        loop = asyncio.get_running_loop()
        call = _Call(loop, loop.create_future(), keep)
        with self._lock:
            for text in dict.fromkeys(texts):
                if text in self._remembered:
                    self._remembered.move_to_end(text)
                    call.found[text] = self._remembered[text], True
                    continue
                call.missing += 1
                if text not in self._waiting:
                    self._waiting[text] = []
                    self._new.append(text)
                self._waiting[text].append(call)
            new = bool(self._new)
        if new:
            self._reader.submit(self._read_new)
        try:
            if call.missing:
                await call.done
        finally:
            call.gone = True
        found = [call.found[text] for text in texts]
        values = np.array([vector.values for vector, _ in found], dtype=np.float32)
        return Encoded(
            values.reshape(len(texts), self.dimensions),
            tuple(vector.tokens for vector, _ in found),
            tuple(known for _, known in found),
            call.usage,
        )

    def release(self, *, wait: bool = False) -> None:
        """One user less; after the last one the threads end."""
        with _encoders.lock:
            self.users -= 1
            if self.users > 0:
                return
            if _encoders.open.get(self.shared_as) is self:
                del _encoders.open[self.shared_as]
        self._workers.shutdown(wait=wait, cancel_futures=True)
        try:
            self._reader.submit(self._end)
        except RuntimeError:  # the interpreter ends: its threads are gone, and none begins
            self._end()
        self._reader.shutdown(wait=wait)

    def _end(self) -> None:
        if self._store is not None:
            self._store.close()
        engine, self._engine = self._engine, None
        if (close := getattr(engine, "close", None)) is not None:
            close()

    def _read_new(self) -> None:
        """Take what is waiting: from the store, or else to the workers."""
        with self._lock:
            texts, self._new = self._new, []
        if not texts:
            return
        try:
            known = dict[str, Vector]()
            with self._without_store_if_damaged():
                if (store := self._store) is not None:
                    known = store.find(texts)
                    self.dimensions = self.dimensions or store.dimensions
            self._settle(known, known=True)
            unknown = [text for text in texts if text not in known]
            if not unknown:
                return
            if self._engine is None:
                self._engine = self._load()
            for batch in self._engine.batches(unknown):
                self._workers.submit(self._encode, self._engine, batch)
        except Exception as error:  # noqa: BLE001 - those who wait get it
            self._fail(texts, error)

    def _encode(self, engine: Engine, batch: Sequence[Tokens]) -> None:
        batch = self._wanted(batch)
        texts = [each.text for each in batch]
        if not texts:
            return
        try:
            vectors, usage = engine.vectors(batch)
            self._check(vectors)
        except Exception as error:  # noqa: BLE001 - as above
            if isinstance(error, self._refusals) and len(batch) > 1:
                half = len(batch) // 2
                self._encode(engine, batch[:half])
                self._encode(engine, batch[half:])
                return
            if not isinstance(error, MCRankerError):
                said = f"{self.name} cannot encode a text: {error}"
                error = ModelFileError(said, model=self.name)
            self._fail(texts, error)
            return
        encoded = dict(zip(texts, vectors, strict=True))
        with self._lock:
            waiting = {text: self._waiting.get(text, ()) for text in texts}
        kept = [each for each in texts if self._paid or any(x.keep for x in waiting[each])]
        with self._without_store_if_damaged():
            if (store := self._store) is not None:
                store.keep((text, encoded[text]) for text in kept)
        self._settle(encoded, known=False, usage=usage)

    def _wanted(self, batch: Sequence[Tokens]) -> Sequence[Tokens]:
        """Those of a batch that a caller waits for; the others are forgotten."""
        with self._lock:
            for each in batch:
                if all(call.gone for call in self._waiting.get(each.text, ())):
                    self._waiting.pop(each.text, None)
            return [each for each in batch if each.text in self._waiting]

    def _check(self, vectors: Sequence[Vector]) -> None:
        with self._lock:
            self.dimensions = self.dimensions or len(vectors[0].values)
        if (found := len(vectors[0].values)) != self.dimensions:
            raise ServerFailed(
                f"{self.name} gives vectors of {found} numbers, and gave {self.dimensions} before; "
                "check which model the server runs",
                model=self.name,
            )

    @contextmanager
    def _without_store_if_damaged(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            store, self._store = self._store, None
            if store is not None:
                _log.warning(
                    "the vectors in %r cannot be used (%s), so texts are encoded again; make "
                    "room, delete a damaged file, or name another folder by MCRANKER_VECTORS",
                    str(store.path.parent),
                    error,
                )

    def _settle(
        self, vectors: dict[str, Vector], *, known: bool, usage: Usage | None = None
    ) -> None:
        """Hand vectors out; the first that waits for one is charged its share of the seconds."""
        with self._lock:
            calls = usage.calls if usage else 0
            seconds = usage.seconds / len(vectors) if usage else 0.0
            for text, vector in vectors.items():
                self._remembered[text] = vector
                for place, call in enumerate(self._waiting.pop(text, ())):
                    if not place:
                        call.usage += Usage(calls=calls, seconds=seconds)
                        calls = 0
                    call.take(text, vector, known=known or place > 0)
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)

    def _fail(self, texts: Sequence[str], error: Exception) -> None:
        with self._lock:
            for text in texts:
                for call in self._waiting.pop(text, ()):
                    call.gone = True
                    call.wake(error)


def shared(key: Hashable, make: Callable[[], Encoder]) -> Encoder:
    """The encoder of a key, for one more user of those in this process who share it."""
    with _encoders.lock:
        found = _encoders.open.get(key)
        if found is not None:
            found.users += 1
            return found
        found = _encoders.open[key] = make()
        found.shared_as = key
        return found


def rounded(rows: NDArray[Any]) -> NDArray[np.float16]:
    """Rows scaled to length 1, in half precision."""
    with np.errstate(all="ignore"):
        units: NDArray[Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(units).all():
        place = int(np.flatnonzero(~np.isfinite(units).all(axis=1))[0])
        raise ArithmeticError(f"vector {place + 1} of {len(rows)} is zero or not finite")
    return np.asarray(units, dtype=np.float16)


@dataclass(eq=False, slots=True)
class _Call:
    """A waiter for the vectors of texts."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    keep: bool
    found: dict[str, tuple[Vector, bool]] = field(default_factory=dict)
    missing: int = 0
    usage: Usage = field(default_factory=Usage)
    gone: bool = False

    def take(self, text: str, vector: Vector, *, known: bool) -> None:
        self.found[text] = vector, known
        self.missing -= 1
        if not self.missing:
            self.wake(None)

    def wake(self, error: Exception | None) -> None:
        def settle() -> None:
            if not self.done.done():
                self.done.set_exception(error) if error else self.done.set_result(None)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(settle)


class _Encoders:
    """The encoders of this process that several may share, by what they are of."""

    def __init__(self) -> None:
        self.open: dict[Hashable, Encoder] = {}
        self.after_fork()
        renew_in_child(self)

    def after_fork(self) -> None:
        self.lock = threading.Lock()


_encoders = _Encoders()


def usable_threads() -> int:
    """Return the cores that this process may use, `MAX_THREADS` at most."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(usable or 1, MAX_THREADS))
