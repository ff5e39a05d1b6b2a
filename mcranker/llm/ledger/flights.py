"""Requests in flight: of equal ones one makes the call and all get its answer.

Within a process they find each other in a table. Between processes, who asks holds a lock of
the operating system: on one byte of an empty file beside the ledger, at a place that the key
gives. The system takes the lock back when the process ends, however it ends.

A process that is held up (Ctrl-Z, a debugger) keeps its locks. So who asks gives a sign of life
every `SIGN` seconds, by taking or giving back the lock on another byte, and a process that sees
none for `LEASE` seconds asks as well. No clocks are compared.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.connection import FileId, file_id, make_way
from mcranker.llm.ledger.writer import LedgerWriter, wake
from mcranker.logs import safe_logger

if sys.platform != "win32":
    import fcntl

LEASE = 15.0
"""Seconds without a sign of life after which a request counts as abandoned."""

SIGN = 3.0
"""Seconds between two signs of life."""

_FIRST_LOOK, _SLOWER, _LAST_LOOK = 0.01, 1.25, 0.05  # seconds between looks at a lock, and factor
_SIGNS, _SPAN = 2, 4  # bytes from the lock of a key to that of its signs, and in all

logger = safe_logger("mcranker.llm")


class Flight:
    """One request in flight.

    Attributes:
        key: of the request.
        asker: with whom an error is shared.
        loop: where the call is made.
        reply: the answer, once it is safe in the ledger; None if there is none.
        error: why there is none, as far as it concerns others.
    """

    __slots__ = (
        "asker",
        "claimed",
        "error",
        "key",
        "landed",
        "loop",
        "reply",
        "sign",
        "signed",
        "waiting",
    )

    def __init__(self, key: bytes, asker: object, loop: asyncio.AbstractEventLoop) -> None:
        self.key = key
        self.asker = asker
        self.loop = loop
        self.reply: ChatReply | None = None
        self.error: Exception | None = None
        self.landed = False
        self.claimed = False  # the lock of its key is held
        self.sign = False  # the lock of its signs of life is held
        self.signed = time.monotonic()
        self.waiting: list[asyncio.Future[None]] = []

    @property
    def abandoned(self) -> bool:
        """True if it may never land."""
        return self.loop.is_closed() or time.monotonic() - self.signed > LEASE


class Flights:
    """Requests in flight, shared by all users of a ledger.

    Args:
        path: the ledger.
        writer: of the ledger.
    """

    def __init__(self, path: Path, writer: LedgerWriter) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._flights: dict[bytes, Flight] = {}
        self._signing: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self._locks = _Locks(path)
        self._told = False

    def __len__(self) -> int:
        return len(self._flights)

    def board(self, key: bytes, asker: object) -> tuple[Flight, bool]:
        """The flight that carries a request, and whether it is new.

        The caller that gets a new one has to land it, whatever happens.

        Args:
            key: of the request.
            asker: with whom an error is shared.
        """
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None and not flight.abandoned:
                return flight, False
            left = flight is not None and flight.loop.is_closed()
            loop = asyncio.get_running_loop()
            flight = self._flights[key] = Flight(key, asker, loop)
            if loop not in self._signing:
                self._signing.add(loop)
                loop.call_later(SIGN, self._give_signs, loop)
        if left:  # its answer may have come before its loop was closed
            self._writer.flush()
        return flight, True

    async def claim(self, flight: Flight) -> None:
        """Wait while another process asks the same."""
        if self._locks.closed:
            with self._lock:
                self._locks.open()
        wait, since = _FIRST_LOOK, 0.0
        sign: bool | None = None
        while not self._locks.take(flight.key):
            if not self._told:
                self._told = True
                logger.info("another process asks the same; its answers are waited for")
            now = time.monotonic()
            seen = self._locks.has_sign(flight.key)
            if seen is not sign:
                sign, since = seen, now
            elif now - since > LEASE:
                logger.info("another process is silent for %.0f s and is not waited for", LEASE)
                return
            await asyncio.sleep(wait)
            wait = min(wait * _SLOWER, _LAST_LOOK)
        flight.claimed = True

    async def wait(self, flight: Flight) -> None:
        """Wait until a flight has landed or is abandoned."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if flight.landed:
                return
            future = loop.create_future()
            flight.waiting.append(future)
        if loop is flight.loop:
            await future
            return
        while not (future.done() or flight.abandoned):
            await asyncio.wait([future], timeout=SIGN)

    def land(
        self, flight: Flight, reply: ChatReply | None = None, error: Exception | None = None
    ) -> None:
        """Wake the waiters of a flight, from any thread. Only the first call counts."""
        with self._lock:
            if flight.landed:
                return
            flight.landed, flight.reply, flight.error = True, reply, error
            if self._flights.get(flight.key) is flight:
                del self._flights[flight.key]
                # Else it was abandoned, and the caller that asks in its place needs the lock.
                if flight.claimed:
                    self._locks.release(flight.key)
        for future in flight.waiting:
            wake(future)

    @asynccontextmanager
    async def alone(self, key: bytes) -> AsyncIterator[None]:
        """Acquire a lock by key, across processes."""
        flight, first = self.board(key, self)
        while not first:
            await self.wait(flight)
            flight, first = self.board(key, self)
        try:
            await self.claim(flight)
            yield
        finally:
            self.land(flight)

    def before_fork(self) -> None:
        """Wait until no other thread holds a lock."""
        self._lock.acquire()

    def after_fork(self, *, child: bool) -> None:
        """Release the locks; a child has no other threads and no requests in flight."""
        if child:  # the locks stay with the parent
            self._flights.clear()
            self._signing = weakref.WeakSet()
        self._lock.release()

    def _give_signs(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            flights = [flight for flight in self._flights.values() if flight.loop is loop]
            for flight in flights:
                flight.signed = time.monotonic()
                if flight.claimed:
                    flight.sign = not flight.sign
                    self._locks.give_sign(flight.key, flight.sign)
            if flights:
                loop.call_later(SIGN, self._give_signs, loop)
            else:
                self._signing.discard(loop)


class _Locks:
    """Locks between processes on places of a file, which stays empty.

    They belong to a process as a whole, not to one of its threads, and it would lose all of
    them by closing another descriptor of the file. Where the operating system or the file system
    has no such locks, everything can be taken.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._path = f"{os.path.realpath(ledger)}-claims"
        self._file = -1
        self._opened: FileId | None = None
        self._useless = sys.platform == "win32"

    @property
    def closed(self) -> bool:
        """True if the file has still to be opened."""
        return not self._useless and (self._file < 0 or file_id(self._path) != self._opened)

    def open(self) -> None:
        """Open the file, creating it if needed; one thread at a time."""
        if not self.closed:
            return
        path = Path(self._path)
        try:
            if make_way(path) and self._ledger.exists():  # for those who share the ledger
                path.chmod(stat.S_IMODE(self._ledger.stat().st_mode))
            file = os.open(path, os.O_RDWR)
        except OSError as error:  # the ledger cannot be written there either, and will say so
            logger.debug("%s", error)
            return
        self._opened = file_id(self._path)
        if self._file < 0:
            self._file = file
            weakref.finalize(self, os.close, file)
        else:  # the former one was deleted; another thread may be about to use the descriptor
            os.dup2(file, self._file, inheritable=False)
            os.close(file)

    def take(self, key: bytes) -> bool:
        """Lock a key; False if another process has it."""
        return self._lock(_place(key), shared=False)

    def release(self, key: bytes) -> None:
        """Unlock a key and its signs."""
        self._unlock(_place(key), _SPAN)

    def give_sign(self, key: bytes, up: bool) -> None:
        """Lock or unlock the byte of a key's signs."""
        if up:
            self._lock(_place(key) + _SIGNS, shared=False)
        else:
            self._unlock(_place(key) + _SIGNS, 1)

    def has_sign(self, key: bytes) -> bool:
        """True if another process has locked the byte of a key."""
        place = _place(key) + _SIGNS
        # Shared, so that two who look do not take each other for a sign.
        if not self._lock(place, shared=True):
            return True
        self._unlock(place, 1)
        return False

    def _lock(self, place: int, *, shared: bool) -> bool:
        if sys.platform == "win32" or self._file < 0:
            return True
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.lockf(self._file, kind | fcntl.LOCK_NB, 1, place)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            self._give_up(error)
        return True

    def _unlock(self, place: int, length: int) -> None:
        if sys.platform == "win32" or self._file < 0:
            return
        try:
            fcntl.lockf(self._file, fcntl.LOCK_UN, length, place)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._file, self._useless = -1, True
        logger.info("processes do not wait for each other's answers here: %s", error)


def _place(key: bytes) -> int:
    """Return the position of a key's locks: one of 2**60, far enough apart."""
    return int.from_bytes(key[:8], "big") >> 4 << 2
