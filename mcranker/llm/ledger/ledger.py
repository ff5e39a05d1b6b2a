"""The ledger: every answer that was ever paid for.

A ledger holds replies, their usage, and the name of the model; of a request only the hash. Of equal
requests in flight one makes the call, and all get its answer. Within a process they find each other
in a table; between processes by claims in the store, which are renewed by the event loop that makes
the call. A process that is killed or stopped is waited for until its claims' lease ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import platformdirs

from mcranker.errors import ConfigError
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Wrapper
from mcranker.llm.ledger.postgres_schema import shown_url
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.ledger.rows import request_key
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.ledger.store import MOST_KEYS, LedgerStore, NewAnswer
from mcranker.llm.recording import not_recorded
from mcranker.logs import safe_logger

_RENEWALS = 3  # in a lease
_FIRST_LOOK, _SLOWER, _LAST_LOOK = 0.01, 1.5, 0.25  # seconds between looks, and factor

logger = safe_logger("mcranker.llm")

_HOST = r"(?:\[[^]@/?#]*\]|[^][:,@/?#]*)(?::\d*)?"
_DATABASE = re.compile(
    rf"(postgres(?:ql)?)(://(?:[^][@/?#]*@)?{_HOST}(?:,{_HOST})*(?:[/?][^@#]*)?)", re.IGNORECASE
)
# URLs, with one slash where a Path held them; SQLite's other addresses; libpq's list of values.
_ADDRESS = re.compile(
    r"[^/\\]{2}:/|\A\s*[a-z][\w+.-]+:.*@|:memory:|\A\s*file:|\bpassword\s*=", re.IGNORECASE
)


def default_ledger_path() -> Path | str | None:
    """Return the ledger's default path or URL: MCRANKER_LEDGER, else a path in the user's cache."""
    named = os.environ.get("MCRANKER_LEDGER", "").strip()
    if named not in ("", "default"):
        return place_of(named)
    root = os.environ.get("MCRANKER_CACHE")
    base = _expanded(root) if root else platformdirs.user_cache_path("mcranker")
    return base / "ledger.sqlite"


def place_of(given: object) -> Path | str | None:
    """Return the file that a text or path names, a database's URL, or None for ``none``."""
    if given == "default":
        return default_ledger_path()
    if given is None:
        return None
    name = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ConfigError(f"ledger={given!r} is no path of a file; name one, or use ledger=None")
    if name.strip().lower() in {"none", "off"}:
        return None
    with suppress(ValueError):
        if (database := _DATABASE.fullmatch(name.strip())) and urlsplit(name):  # as asyncpg does
            return database[1].lower() + database[2]
    if _ADDRESS.search(name):
        kind = re.match(r"\A[\w+.-]*+:(memory:)?", name)
        raise ConfigError(
            f"ledger='{kind[0] if kind else ''}…' is no file and no PostgreSQL database; give the "
            "path of a file, postgresql://USER:PASSWORD@HOST/DATABASE with @ : / ? # [ ] in a "
            "password written as %40 %3A %2F %3F %23 %5B %5D, or none"
        )
    return _expanded(name)


class Ledger:
    """Answers, by the key of their request; for any number of threads and event loops."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        place = _chosen(path)
        self.path = place if isinstance(place, Path) else None
        self.name, self.in_flight = shown_url(os.fspath(place)), _shared(place)
        self.store = self.in_flight.store

    async def find(self, key: bytes) -> ChatReply | None:
        """Return the answer kept for `key`, with `ChatReply.reused` set, or None."""
        return (await self.store.get_many((key,))).get(key)

    def keep(
        self, key: bytes, reply: ChatReply, *, model: str, stage: str
    ) -> Awaitable[set[bytes]]:
        """Keep `reply`, unless there is an answer for `key` already."""
        return self.store.complete_many([NewAnswer(key, reply, model, stage)])

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Acquire a lock by name, across processes."""
        return self.in_flight.alone(hashlib.sha256(name.encode()).digest())

    async def aclose(self) -> None:
        """Write what waits and close the file. A later use opens it again."""
        await self.store.aclose()


_files: weakref.WeakValueDictionary[tuple[int, str], RequestsInFlight]
_files = weakref.WeakValueDictionary()
_files_lock = threading.Lock()


def _shared(place: Path | str) -> RequestsInFlight:
    """Return what the ledgers of a file or of a database's URL share in this process."""
    real = os.getpid(), place if isinstance(place, str) else os.path.realpath(place)
    with _files_lock:
        shared = _files.get(real)
        if shared is None:
            shared = _files[real] = RequestsInFlight(store_of(place))
        return shared


def store_of(place: str | Path) -> LedgerStore:
    """Return a store of a ledger's path or URL, shared with no other."""
    chosen = _chosen(place)
    return PostgresStore(chosen) if isinstance(chosen, str) else SQLiteStore(chosen.absolute())


def _chosen(given: object) -> Path | str:
    if (place := place_of(given)) is None:
        raise ConfigError(f"ledger={given!r} keeps no answers; name a file or a database")
    return place


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # a user that does not exist
        raise ConfigError(f"ledger={name!r}: {error}; give the whole path") from error


class Ledgered(Wrapper):
    """A chat model whose answers are looked up in a ledger first, and kept there before use."""

    def __init__(
        self,
        model: ChatModel,
        ledger: Ledger,
        *,
        asked: ChatModel | None = None,
        among_processes: bool = True,
        offline: bool = False,
    ) -> None:
        super().__init__(model)
        self._offline = offline
        self._asked = asked or model
        self._ledger = ledger
        self._store = ledger.store
        self._in_flight = ledger.in_flight
        self._among_processes = among_processes
        self._new = False  # the last request asked for had no answer

    @property
    def endpoint(self) -> str:
        """Where the model answers, if it says so."""
        return getattr(self._asked, "endpoint", "")

    def around(self, model: ChatModel) -> Ledgered:
        """The same ledger before another model that asks the same one in the end."""
        return Ledgered(
            model,
            self._ledger,
            asked=self._asked,
            among_processes=self._among_processes,
            offline=self._offline,
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        key = request_key(self._asked, request)
        while True:
            flight, new = self._in_flight.join(key, self)
            if new:
                return await self._ask(flight, request)
            await self._in_flight.wait(flight)
            if flight.reply is not None:
                return replace(flight.reply, reused=True)
            if flight.error is not None and flight.asker is self:
                raise flight.error

    async def mark_unusable(self, request: ChatRequest) -> None:
        """Note that the answer to `request` could not be read."""
        if not self._offline:
            await self._store.mark_unusable(request_key(self._asked, request))

    async def _ask(self, flight: InFlight, request: ChatRequest) -> ChatReply:
        store, keys = self._store, (flight.key,)
        try:
            reply = None
            if self._offline or not (self._new and self._among_processes):  # a claim looks too
                reply = (await store.get_many(keys)).get(flight.key)
            if reply is None and self._offline:
                raise not_recorded(self.name)
            if reply is None and self._among_processes:
                reply = await self._in_flight.claim(flight)
            elif reply is None:
                await store.claim_many(())  # can an answer be kept?
            self._new = reply is None
            if reply is None:
                reply = await self._model.complete(request)
                answer = NewAnswer(flight.key, reply, self.name, request.tag.stage)
                # From here on it is written, even if this call is cancelled.
                if await store.complete_many([answer]):
                    # Another answer was kept first. All use it, but this one was paid for too.
                    kept = (await store.get_many(keys)).get(flight.key, reply)
                    reply = replace(kept, usage=reply.usage, reused=reply.reused)
        except BaseException as error:
            if flight.claimed:
                store.release(keys)
            # All callers share an error; after a cancellation another one asks.
            shared = error if isinstance(error, Exception) else None
            self._in_flight.complete(flight, error=shared)
            raise
        self._in_flight.complete(flight, reply)
        return reply


class InFlight:
    """A request in flight."""

    def __init__(self, key: bytes, asker: object, loop: asyncio.AbstractEventLoop) -> None:
        self.key = key
        self.asker = asker
        self.loop = loop
        self.claimed = False
        self.reply: ChatReply | None = None
        self.error: Exception | None = None
        self.done: Future[None] = Future()


class RequestsInFlight:
    """Requests in flight, shared by all users of a store in a process."""

    def __init__(self, store: LedgerStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._requests: dict[bytes, InFlight] = {}
        self._renewing: set[asyncio.AbstractEventLoop] = set()
        self._any_waits = False

    def join(self, key: bytes, asker: object) -> tuple[InFlight, bool]:
        """Return the request in flight for a key, and whether it is new."""
        loop = asyncio.get_running_loop()
        with self._lock:
            request = self._requests.get(key)
            if request is not None and not request.loop.is_closed():
                return request, False
            request = self._requests[key] = InFlight(key, asker, loop)
        return request, True

    async def wait(self, request: InFlight) -> None:
        """Wait until a request is completed, or its event loop is closed."""
        done = asyncio.wrap_future(request.done)
        while not (done.done() or request.loop.is_closed()):
            await asyncio.wait([done], timeout=self.store.lease / _RENEWALS)

    def complete(
        self, request: InFlight, reply: ChatReply | None = None, error: Exception | None = None
    ) -> None:
        """Give the outcome of a request to all that wait for it."""
        with self._lock:
            request.reply, request.error = reply, error
            if self._requests.get(request.key) is request:
                del self._requests[request.key]
        request.done.set_result(None)

    async def claim(self, request: InFlight) -> ChatReply | None:
        """Claim a request's key; return the answer instead if another process has got it."""
        store, pause, keys = self.store, _FIRST_LOOK, (request.key,)
        try:
            while not await store.claim_many(keys):
                if found := await store.get_many(keys):
                    return found[request.key]
                if not self._any_waits:
                    self._any_waits = True
                    logger.info("another process asks the same; its answers are waited for")
                await anyio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                pause = min(pause * _SLOWER, _LAST_LOOK)
        except BaseException:  # a claim may be on its way
            store.release(keys)
            raise
        self._hold(request)
        return None

    @asynccontextmanager
    async def taken(self, key: bytes) -> AsyncIterator[bool]:
        """Acquire a lock by key unless another has it; give whether it was acquired."""
        request, new = self.join(key, self)
        if not new:
            yield False
            return
        try:
            if not await self.store.claim_many((key,)):
                yield False
                return
            self._hold(request)
            yield True
        finally:
            self.store.release((key,))
            self.complete(request)

    def _hold(self, request: InFlight) -> None:
        """Renew a claim as long as its request is in flight."""
        request.claimed = True
        if request.loop not in self._renewing:
            self._renewing.add(request.loop)
            request.loop.call_later(self.store.lease / _RENEWALS, self._renew, request.loop)

    @asynccontextmanager
    async def alone(self, key: bytes) -> AsyncIterator[None]:
        """Acquire a lock by key, across processes."""
        request, new = self.join(key, self)
        while not new:
            await self.wait(request)
            request, new = self.join(key, self)
        try:
            await self.claim(request)
            yield
        finally:
            self.store.release((key,))
            self.complete(request)

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            keys = [
                each.key for each in self._requests.values() if each.claimed and each.loop is loop
            ]
        for start in range(0, len(keys), MOST_KEYS):
            self.store.renew(keys[start : start + MOST_KEYS])
        if keys:
            loop.call_later(self.store.lease / _RENEWALS, self._renew, loop)
        else:
            self._renewing.discard(loop)
