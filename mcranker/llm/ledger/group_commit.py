"""Writes of many callers, committed together by one thread: the part that all stores share."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import secrets
import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from mcranker.errors import LedgerError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.rows import Damaged, Row, Unkeepable, reply_of, row_of
from mcranker.llm.ledger.store import MOST_KEYS, NewAnswer
from mcranker.logs import safe_logger
from mcranker.runtime.processes import abandon

logger = safe_logger("mcranker.llm")


class Write:
    """Rows or keys to write, and the future of the caller."""

    __slots__ = ("future", "keys", "kind", "result", "rows")

    def __init__(self, kind: str, keys: Collection[bytes], rows: Sequence[Any] = ()) -> None:
        self.kind = kind
        self.keys = keys
        self.rows = rows
        self.result: Any = set()
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class GroupCommit:
    """A thread that commits writes which have gathered as one transaction."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process: int | None = None  # that has used the store
        self._owner = ""
        self._lock = threading.Lock()
        self._writes: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._damaged: set[bytes] = set()
        self._any_unkeepable = False

    @property
    def owner(self) -> str:
        """Name of the process in its claims."""
        self._check_process()
        return self._owner

    def put(self, write: Write) -> asyncio.Future[Any]:
        """Write soon; the caller may wait for the result or not."""
        self._check_process()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="mcranker ledger", daemon=True
                )
                self._thread.start()
            self._writes.put(write)
        return write.future

    def put_answers(self, answers: Sequence[NewAnswer]) -> asyncio.Future[set[bytes]]:
        """Keep those answers that a row can restore, soon; a warning is logged of the others."""
        rows = []
        for key, reply, model, stage, created in answers:
            try:
                rows.append(row_of(key, reply, model=model, stage=stage, created=created))
            except Unkeepable as problem:
                logger.log(
                    logging.DEBUG if self._any_unkeepable else logging.WARNING,
                    "an answer of %s cannot be kept in the ledger %r, and is asked for again when "
                    "it is needed again: %s",
                    model,
                    self._name,
                    problem,
                )
                self._any_unkeepable = True
        return self.put(Write("complete", [answer.key for answer in answers], rows))

    def note_damaged(self, key: bytes) -> None:
        """Note that the answer for a key is damaged. It is removed when it is asked for again."""
        if not self._damaged:
            logger.warning(
                "an answer in the ledger %r is damaged and is asked for again; "
                "'mcranker ledger --check' checks them all",
                self._name,
            )
        self._damaged.add(key)

    def _commit(self, batch: list[Write], keys: set[bytes]) -> None:
        """Do the writes of a batch, which are for `keys`, and set their results."""
        raise NotImplementedError

    def _drop(self) -> None:
        """Close what the thread has open; a transaction that is open is undone."""
        raise NotImplementedError

    def _explained(self, error: Exception) -> LedgerError:
        raise NotImplementedError

    def _end(self) -> bool:
        """Write what waits and end the thread; False if there was nothing to end."""
        if self._process is None:
            return False
        if self._process != os.getpid():
            abandon(self)  # to close a parent's connections would harm its store
            return False
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._writes.put(None)
                if thread is not threading.current_thread():  # where a finalizer may run
                    thread.join()
        return True

    def _check_process(self) -> None:
        process = os.getpid()
        if self._process is None:
            self._process, self._owner = process, secrets.token_hex(16)
        elif self._process != process:
            raise LedgerError(
                f"the ledger {self._name!r} was used before this process was forked; "
                "make the ranker in the child process, or use none before the fork"
            )

    def _run(self) -> None:
        waiting: deque[Write | None] = deque()
        while True:
            if not waiting:
                waiting.append(self._writes.get())
            while not self._writes.empty():
                waiting.append(self._writes.get())
            batch: list[Write] = []
            keys: set[bytes] = set()
            while waiting and (write := waiting[0]) and len(keys) < MOST_KEYS:
                if not keys.isdisjoint(write.keys):
                    break  # writes for one key keep their order
                batch.append(write)
                keys.update(write.keys)
                waiting.popleft()
            if not batch:  # the end
                break
            self._write(batch, keys)
        self._drop()

    def _write(self, batch: list[Write], keys: set[bytes]) -> None:
        """Commit a batch and wake its callers, each in its own event loop."""
        try:
            self._commit(batch, keys)
        except Exception as error:  # noqa: BLE001 - the callers get it
            self._drop()
            problem = self._explained(error)
            for write in batch:
                write.result = problem
        loops: dict[asyncio.AbstractEventLoop, list[Write]] = {}
        for write in batch:
            loops.setdefault(write.future.get_loop(), []).append(write)
        for loop, writes in loops.items():
            try:
                loop.call_soon_threadsafe(_settle, writes)
            except RuntimeError:  # the loop is closed, and no caller waits any more
                for write in writes:
                    if isinstance(write.result, Exception):
                        logger.warning("%s", write.result)


class WritingStore:
    """The writes of a `LedgerStore`."""

    _writer: GroupCommit

    def claim_many(self, keys: Collection[bytes]) -> asyncio.Future[set[bytes]]:
        return self._writer.put(Write("claim", keys))

    def complete_many(self, answers: Sequence[NewAnswer]) -> asyncio.Future[set[bytes]]:
        return self._writer.put_answers(answers)

    def renew(self, keys: Collection[bytes]) -> asyncio.Future[set[bytes]]:
        return self._writer.put(Write("renew", keys))

    def release(self, keys: Collection[bytes]) -> asyncio.Future[set[bytes]]:
        return self._writer.put(Write("release", keys))

    def mark_unusable(self, key: bytes) -> asyncio.Future[set[bytes]]:
        return self._writer.put(Write("mark", [key]))

    def _restored(self, rows: Iterable[Row]) -> dict[bytes, ChatReply]:
        found = {}
        for row in rows:
            try:
                found[row[0]] = reply_of(row)
            except Damaged:
                self._writer.note_damaged(row[0])
        return found


def _settle(writes: list[Write]) -> None:
    unheard: Exception | None = None
    for write in writes:
        future, result = write.future, write.result
        if not isinstance(result, Exception):
            if not future.done():
                future.set_result(result)
        elif future.done() or write.kind in {"renew", "release"}:  # whose callers do not wait
            unheard = result
            if not future.done():
                future.set_result(set())
        else:
            future.set_exception(result)
    if unheard is not None:  # one for all
        logger.warning("%s", unheard)
