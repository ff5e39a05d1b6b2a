"""Batched ledger writes that do not block the event loop.

Whatever comes in one turn of an event loop is committed at the end of that turn, in the loop's
own thread: a commit takes some 50 µs and waits for no disk. (A thread for every commit costs
more than the commit, and beside a busy loop it waits 5 ms for the interpreter.) Where many
answers are on their way, a few milliseconds' worth of them go together. A thread is started
for what would hold the loop up: while another process holds the file, to find out whether the
disk has room, and to move what has gathered in the write-ahead log into the database, which does
wait for the disk.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakSet

from mcranker.errors import LedgerError
from mcranker.llm.ledger.access import LedgerAccess
from mcranker.llm.ledger.connection import (
    FAILURES,
    PATIENCE,
    explained,
    is_busy,
    lack_of_room,
)
from mcranker.logs import safe_logger

LINGER = 0.005  # seconds
_LARGEST_BATCH = 512  # writes in one transaction, so that none holds the loop up for long
_CHECKPOINT_AFTER = 2000  # writes; some 20 MB of write-ahead log
_CHECKPOINT_PATIENCE = 1.0  # seconds that it may wait for readers, and writers for it
_PROBE = "PRAGMA user_version = 1"  # writes a page that stays as it is
_ROOM = 2**24  # bytes, for the answers until the next probe and those of the calls on their way
_PROBE_AFTER = 1000  # writes, of three pages each; another 340 fit in `_ROOM`
# What SQLite, and Python before it, say of one write; what else they say is about the file.
_ABOUT_ONE_WRITE = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)

Told = Callable[[Exception | None, bool], None]
"""Receives a write's error, None for success, and whether the write changed anything.

It is called in whatever thread has written. `LedgerError` is about the file, every other error
about this one write.
"""

logger = safe_logger("mcranker.llm")


class _Write(NamedTuple):
    statement: str
    values: tuple[Any, ...]
    told: Told


class LedgerWriter:
    """The writing side of a ledger, for any number of threads and event loops."""

    def __init__(self, access: LedgerAccess) -> None:
        self._access = access
        self._waiting: deque[_Write] = deque()
        self._lingering: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
        self._since_checkpoint = 0
        self._safe_writes = 0  # as many have room, by the last probe

    def put(
        self, statement: str, values: tuple[Any, ...], told: Told, *, linger: bool = False
    ) -> None:
        """Write soon, from a running event loop.

        Args:
            statement: in SQL.
            values: its parameters.
            told: called once, when it is committed or cannot be.
            linger: wait `LINGER` seconds for others to share the transaction.
        """
        loop = asyncio.get_running_loop()
        self._waiting.append(_Write(statement, values, told))
        if not linger:
            loop.call_soon(self.flush)
        elif loop not in self._lingering:
            self._lingering.add(loop)
            loop.call_later(LINGER, self._end_of_linger, loop)

    def written(self, statement: str, values: tuple[Any, ...]) -> asyncio.Future[None]:
        """`put`, awaitable: done when it is committed, or has the error."""
        future = asyncio.get_running_loop().create_future()
        self.put(statement, values, lambda problem, _: wake(future, problem))
        return future

    async def ready(self) -> None:
        """Make sure that the next write is going to succeed, as far as can be known.

        At first, after a write that failed, and after every `_PROBE_AFTER` writes, that takes a
        write that changes nothing, and one of `_ROOM` bytes to the folder.

        Raises:
            LedgerError: one of the two fails, or damage was found in the file.
        """
        if self._access.damage is not None:
            raise self._access.damage
        if self._safe_writes <= 0:
            await self.written(_PROBE, ())

    def flush(self) -> None:
        """In an event loop: write what waits, unless another task does already."""
        turn = self._access.turn
        while self._waiting and turn.acquire(blocking=False):
            try:
                written = self._since_checkpoint < _CHECKPOINT_AFTER and self._commit(0)
            except BaseException:
                turn.release()
                raise
            if not written:
                self._hand_over()
                return
            turn.release()

    def close(self) -> None:
        """Write what waits and close the file; may wait `PATIENCE` for other programs, twice."""
        turn = self._access.turn
        if not turn.acquire(timeout=PATIENCE):
            logger.warning("%d answers could not be kept: the ledger is locked", len(self._waiting))
            return
        try:
            while self._waiting:
                self._commit(PATIENCE)
            self._access.close()
            self._safe_writes = 0
        finally:
            turn.release()

    def forget(self) -> None:
        """Leave waiting writes to the parent, in a child process."""
        self._waiting = deque()
        self._lingering = WeakSet()
        self._safe_writes = 0

    def _end_of_linger(self, loop: asyncio.AbstractEventLoop) -> None:
        self._lingering.discard(loop)
        self.flush()

    def _hand_over(self) -> None:
        """Give the turn to a thread."""
        thread = threading.Thread(target=self._flush_apart, name="mcranker ledger", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there can be no more threads: to hold the loop up loses nothing
            self._flush_apart()

    def _flush_apart(self) -> None:
        """With the turn, which it gives back: write what waits, however long it takes."""
        turn = self._access.turn
        while True:
            try:
                while self._waiting:
                    self._commit(PATIENCE)
                if self._since_checkpoint >= _CHECKPOINT_AFTER:
                    self._checkpoint()
            finally:
                turn.release()
            # What came after the last look was left to the holder of the turn.
            if not (self._waiting and turn.acquire(blocking=False)):
                return

    def _commit(self, patience: float) -> bool:
        """Write one batch; False, and nothing done, if that takes more than `patience` seconds."""
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _LARGEST_BATCH))]
        probing = any(write.statement is _PROBE for write in batch)
        if probing and patience == 0:
            self._waiting.extendleft(reversed(batch))
            return False
        outcomes: list[tuple[Exception | None, bool]] = []
        problem: LedgerError | None = None
        lack: LedgerError | None = None
        try:
            connection = self._access.writer(patience)
            if len(batch) > 1:
                connection.execute("BEGIN IMMEDIATE")
            outcomes = [_executed(connection, write) for write in batch]
            if len(batch) > 1:
                connection.execute("COMMIT")
            self._since_checkpoint += len(batch)
            if probing:
                lack = lack_of_room(self._access.path, _ROOM)
        except FAILURES as error:
            if is_busy(error) and patience == 0:
                connection.rollback()
                self._waiting.extendleft(reversed(batch))
                return False
            self._access.drop_writer()
            problem = self._access.failure(error)
            problem.__cause__ = error
        except LedgerError as error:
            problem = error
        except Exception as error:  # noqa: BLE001 - those who wait are told
            self._access.drop_writer()
            problem = LedgerError(f"the ledger {os.fspath(self._access.path)!r} failed: {error!r}")
            problem.__cause__ = error
        except BaseException:  # an interrupt: what it stopped is written when the ledger is closed
            self._access.drop_writer()
            self._waiting.extendleft(reversed(batch))
            raise
        if problem is not None or lack is not None:
            self._safe_writes = 0
        else:
            self._safe_writes = _PROBE_AFTER if probing else self._safe_writes - len(batch)
        if problem is not None:
            outcomes = [(problem, False)] * len(batch)
        for write, outcome in zip(batch, outcomes, strict=True):
            lacking = lack is not None and write.statement is _PROBE
            write.told(*((lack, False) if lacking else outcome))
        return True

    def _checkpoint(self) -> None:
        self._since_checkpoint = 0
        try:
            # It waits for other processes, so that the log ends and begins again.
            connection = self._access.writer(_CHECKPOINT_PATIENCE)
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        except sqlite3.Error as error:
            self._access.drop_writer()
            logger.info("%s; nothing is lost", explained(self._access.path, error))
        except LedgerError as error:
            logger.info("%s", error)


def wake(future: asyncio.Future[None], problem: Exception | None = None) -> None:
    """Wake the waiter of `future`, from any thread, with the result or the error."""
    loop = future.get_loop()
    if loop is _running_loop():
        _settle(future, problem)
        return
    try:
        loop.call_soon_threadsafe(_settle, future, problem)
    except RuntimeError:  # the loop is closed, and no caller waits any more
        if problem is not None:
            logger.warning("%s", problem)


def _executed(connection: sqlite3.Connection, write: _Write) -> tuple[Exception | None, bool]:
    """Return the error of this write alone, if any, and True if it changed anything."""
    try:
        return None, connection.execute(write.statement, write.values).rowcount > 0
    except FAILURES as error:
        if not isinstance(error, _ABOUT_ONE_WRITE):
            raise
        return error, False
    except MemoryError:  # SQLite has undone all of the transaction
        raise
    except Exception as error:  # noqa: BLE001 - Python cannot hand the values to SQLite
        return error, False


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _settle(future: asyncio.Future[None], problem: Exception | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(None)
    else:
        future.set_exception(problem)
