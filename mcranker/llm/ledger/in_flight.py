"""Requests in flight: of equal ones one makes the call, and all get its answer.

Within a process they find each other in a table; between processes by claims in the store, which
are renewed by the event loop that makes the call. A process that is killed or stopped is waited
for until its claims' lease ends.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.store import MOST_KEYS, LedgerStore
from mcranker.logs import safe_logger

_PROC = Path("/proc")


def new_owner() -> str:
    """Return a name for this process, unlike any other."""
    process = os.getpid()
    return f"{secrets.token_hex(8)} {process} {_start(process)} {_place()}"


def has_ended(owner: str) -> bool:
    """Return True if a process is certain to have ended."""
    match owner.split(" ", 3):
        case [_, process, start, place] if place and place == _place():
            try:
                os.kill(int(process), 0)  # which only asks
            except ProcessLookupError:
                return True
            except OSError:
                return False
            now = _start(int(process))
            return bool(start and now) and start != now
    return False


def _place() -> str:
    """Return where a number means the same process as here; empty if that is not known."""
    with suppress(OSError):
        if sys.platform == "darwin":  # which has no namespaces
            return socket.gethostname()
        if sys.platform == "linux" and (_PROC / "self").readlink().name == str(os.getpid()):
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
            return f"{socket.gethostname()} {boot} {(_PROC / 'self/ns/pid').readlink()}"
    return ""


def _start(process: int) -> str:
    """Return when a process began, in ticks since the boot; empty if that is not known."""
    with suppress(OSError, IndexError):
        stat = (_PROC / f"{process}/stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()[19]  # after a name that may hold anything
    return ""


_RENEWALS = 3  # in a lease
_FIRST_LOOK, _SLOWER, _LAST_LOOK = 0.01, 1.5, 0.25  # seconds between looks, and factor

logger = safe_logger("mcranker.llm")


class InFlight:
    """A request in flight."""

    __slots__ = ("asker", "claimed", "done", "error", "key", "loop", "reply", "waiting")

    def __init__(self, key: bytes, asker: object, loop: asyncio.AbstractEventLoop) -> None:
        self.key = key
        self.asker = asker
        self.loop = loop
        self.claimed = self.done = False
        self.reply: ChatReply | None = None
        self.error: Exception | None = None
        self.waiting: list[asyncio.Future[None]] = []


class RequestsInFlight:
    """Requests in flight, shared by all users of a store in a process."""

    def __init__(self, store: LedgerStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._requests: dict[bytes, InFlight] = {}
        self._renewing: set[asyncio.AbstractEventLoop] = set()
        self._any_waits = False

    def __len__(self) -> int:
        return len(self._requests)

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
        loop = asyncio.get_running_loop()
        with self._lock:
            if request.done:
                return
            future = loop.create_future()
            request.waiting.append(future)
        if loop is request.loop:
            await future
        while not (future.done() or request.loop.is_closed()):
            await asyncio.wait([future], timeout=self.store.lease / _RENEWALS)

    def complete(
        self, request: InFlight, reply: ChatReply | None = None, error: Exception | None = None
    ) -> None:
        """Give the outcome of a request to all that wait for it."""
        with self._lock:
            request.done, request.reply, request.error = True, reply, error
            if self._requests.get(request.key) is request:
                del self._requests[request.key]
        for future in request.waiting:
            loop = future.get_loop()
            if loop is request.loop:
                _settle(future)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(_settle, future)

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
            try:
                yield
            finally:
                self.store.release((key,))
        finally:
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


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
