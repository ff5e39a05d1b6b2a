"""Writes to a ledger, many in one transaction, without standing in the event loop's way.

Whatever comes in one turn of an event loop is committed at the end of that turn, in the loop's
own thread: a commit takes some 50 µs and waits for no disk. (A thread for every commit costs
more than the commit, and beside a busy loop it waits 5 ms for the interpreter.) Where many
answers are on their way, a few milliseconds' worth of them go together. A thread is started
for what would hold the loop up: while another process holds the file, and to move what has
gathered in the write-ahead log into the database, which does wait for the disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from mcranker.errors import LedgerError
from mcranker.llm.ledger_file import PATIENCE, LedgerConnection, explained, is_busy
from mcranker.logs import safe_logger

__all__ = ["LedgerWriter"]

LINGER = 0.005  # seconds
_LARGEST_BATCH = 512  # writes in one transaction, so that none holds the loop up for long
_CHECKPOINT_AFTER = 2000  # writes; some 20 MB of write-ahead log
_CHECKPOINT_PATIENCE = 1.0  # seconds that it may wait for readers, and writers for it

logger = safe_logger("mcranker.llm")


class _Write(NamedTuple):
    statement: str
    values: tuple[Any, ...]
    done: asyncio.Future[None]


class LedgerWriter:
    """The writing side of a ledger, for any number of threads and event loops."""

    def __init__(self, path: Path) -> None:
        self._connection = LedgerConnection(path)
        self._waiting: deque[_Write] = deque()
        self._lingering: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
        self._turn = threading.Lock()  # of the one who writes
        self._since_checkpoint = 0

    def put(
        self, statement: str, values: tuple[Any, ...], *, linger: bool = False
    ) -> asyncio.Future[None]:
        """Write soon, whoever waits for it or does not.

        Args:
            statement: in SQL.
            values: its parameters.
            linger: wait `LINGER` seconds for others to share the transaction.

        Returns:
            What is done when the write is committed, or has the `LedgerError` that prevents it.
        """
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(_Write(statement, values, done))
        if not linger:
            loop.call_soon(self._flush)
        elif loop not in self._lingering:
            self._lingering.add(loop)
            loop.call_later(LINGER, self._end_of_linger, loop)
        return done

    def close(self) -> None:
        """Write what waits and close the file; may wait `PATIENCE` for other programs, twice."""
        if not self._turn.acquire(timeout=PATIENCE):
            logger.warning("%d answers could not be kept: the ledger is locked", len(self._waiting))
            return
        try:
            while self._waiting:
                self._commit(PATIENCE)
            self._connection.drop()
        finally:
            self._turn.release()

    def _end_of_linger(self, loop: asyncio.AbstractEventLoop) -> None:
        self._lingering.discard(loop)
        self._flush()

    def _flush(self) -> None:
        """In a loop: write what waits, unless somebody does already."""
        while self._waiting and self._turn.acquire(blocking=False):
            try:
                written = self._since_checkpoint < _CHECKPOINT_AFTER and self._commit(0)
                if not written:
                    threading.Thread(
                        target=self._flush_apart, name="mcranker ledger", daemon=True
                    ).start()
            except BaseException:
                self._turn.release()
                raise
            if not written:
                return  # the thread has the turn now
            self._turn.release()

    def _flush_apart(self) -> None:
        """In a thread that has been given the turn: write what waits, however long it takes."""
        while True:
            try:
                while self._waiting:
                    self._commit(PATIENCE)
                if self._since_checkpoint >= _CHECKPOINT_AFTER:
                    self._checkpoint()
            finally:
                self._turn.release()
            # What came after the last look was left to whoever had the turn.
            if not (self._waiting and self._turn.acquire(blocking=False)):
                return

    def _commit(self, patience: float) -> bool:
        """Write one batch; False, and nothing done, if that takes more than `patience` seconds."""
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _LARGEST_BATCH))]
        problem: LedgerError | None = None
        try:
            connection = self._connection.get(patience)
            if len(batch) > 1:
                connection.execute("BEGIN IMMEDIATE")
            for write in batch:
                connection.execute(write.statement, write.values)
            if len(batch) > 1:
                connection.execute("COMMIT")
            self._since_checkpoint += len(batch)
        except sqlite3.Error as error:
            if is_busy(error) and patience == 0:
                connection.rollback()
                self._waiting.extendleft(reversed(batch))
                return False
            self._connection.drop()
            problem = explained(self._connection.path, error)
            problem.__cause__ = error
        except LedgerError as error:
            problem = error
        except BaseException:  # an interrupt: what it stopped is written when the ledger is closed
            self._connection.drop()
            self._waiting.extendleft(reversed(batch))
            raise
        _tell(batch, problem)
        return True

    def _checkpoint(self) -> None:
        self._since_checkpoint = 0
        try:
            # It waits for other processes, so that the log ends and begins anew.
            connection = self._connection.get(_CHECKPOINT_PATIENCE)
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        except sqlite3.Error as error:
            self._connection.drop()
            logger.info("%s; nothing is lost", explained(self._connection.path, error))


def _tell(writes: Iterable[_Write], problem: LedgerError | None) -> None:
    """Wake those who wait, each in its own loop."""
    waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for write in writes:
        waiting.setdefault(write.done.get_loop(), []).append(write.done)
    here = _running_loop()
    for loop, futures in waiting.items():
        if loop is here:
            _wake(futures, problem)
            continue
        try:
            loop.call_soon_threadsafe(_wake, futures, problem)
        except RuntimeError:  # the loop is closed, and nobody waits any more
            if problem is not None:
                logger.warning("%d answers could not be kept: %s", len(futures), problem)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _wake(futures: Iterable[asyncio.Future[None]], problem: LedgerError | None) -> None:
    for future in futures:
        if future.done():
            continue
        if problem is None:
            future.set_result(None)
        else:
            future.set_exception(problem)
