"""A store of answers: the part that a ledger's file and database share, and what they give."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import queue
import secrets
import threading
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mcranker.errors import ConfigError, LedgerError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.rows import Damaged, Row, Unkeepable, reply_of, row_of
from mcranker.llm.prices import cost
from mcranker.logs import safe_logger
from mcranker.runtime.processes import abandon
from personas.ranking.usage import Usage

LEASE = 15.0
"""Seconds after which a claim that is not renewed counts as abandoned."""

MOST_KEYS = 1000
"""Largest number of keys or answers in one call of a store."""

_DAY = 86_400  # seconds

logger = safe_logger("mcranker.llm")


class NewAnswer(NamedTuple):
    """An answer to keep: the key of the request, the model as the user names it, and the stage."""

    key: bytes
    reply: ChatReply
    model: str
    stage: str
    created: int | None = None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer of a store; `reply` is None if it is damaged."""

    key: bytes
    model: str
    stage: str
    created: datetime.datetime
    unusable: bool
    reply: ChatReply | None


@dataclass(frozen=True, slots=True)
class Share:
    """The answers of one model in one stage."""

    model: str
    stage: str
    answers: int
    unusable: int
    usage: Usage
    oldest: datetime.datetime
    newest: datetime.datetime

    @property
    def cost(self) -> float | None:
        """US dollars at today's prices, None where no price is known."""
        return cost(self.model, self.usage)


def kept_of(row: Row) -> KeptAnswer:
    """Read a row with its number before and its mark after it."""
    _, *values, unusable = row
    key, model, stage, created = values[:4]
    reply: ChatReply | None
    try:
        reply, date = reply_of(tuple(values)), _date(created)
    except (Damaged, OverflowError, TypeError, ValueError):
        reply, date = None, _date(0)
    return KeptAnswer(key, text_of(model), text_of(stage), date, bool(unusable), reply)


def share_of(row: Row) -> Share:
    """Read a row of sums."""
    model, stage, answers, unusable, *counts, oldest, newest = row
    usage, dates = Usage(*counts), (_date(oldest), _date(newest))
    return Share(text_of(model), text_of(stage), answers, unusable, usage, *dates)


def text_of(value: object) -> str:
    """Return a text of a row."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _date(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter of answers: all fields that are set must match."""

    older_than: float | None = None
    model: str | None = None
    stage: str | None = None
    unusable: bool = False

    def __post_init__(self) -> None:
        if self.older_than is not None and not self.older_than >= 0:
            raise ConfigError(f"older_than={self.older_than!r}: give 0 days or more")

    def where(self, now: str, mark: str) -> tuple[str, list[Any]]:
        """Return an SQL condition with a mark for each value, and the values."""
        oldest = None if self.older_than is None else float(_DAY * self.older_than)
        fields = {f"created < {now} -": oldest, "model =": self.model, "stage =": self.stage}
        chosen = {text: value for text, value in fields.items() if value is not None}
        conditions = [f"{text} {mark}{place}" for place, text in enumerate(chosen, 1)]
        return " AND ".join(["true", *conditions, *["unusable"] * self.unusable]), [
            *chosen.values()
        ]


class Write:
    """Rows or keys to write, and the future of the caller."""

    def __init__(self, kind: str, keys: Collection[bytes], rows: Sequence[Any] = ()) -> None:
        self.kind, self.keys, self.rows = kind, keys, rows
        self.result: Any = set()
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class GroupCommit(ABC):
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
                name = "mcranker ledger"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            self._writes.put(write)
        return write.future

    def put_answers(self, answers: Sequence[NewAnswer]) -> asyncio.Future[set[bytes]]:
        """Keep those answers that a row can restore, soon; a warning is logged of the others."""
        rows = []
        said = "an answer of %s cannot be kept in the ledger %r, and is asked for again: %s"
        for key, reply, model, stage, created in answers:
            try:
                rows.append(row_of(key, reply, model=model, stage=stage, created=created))
            except Unkeepable as problem:
                level = logging.DEBUG if self._any_unkeepable else logging.WARNING
                logger.log(level, said, model, self._name, problem)
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

    @abstractmethod
    def _commit(self, batch: list[Write], keys: set[bytes]) -> None:
        """Do the writes of a batch, which are for `keys`, and set their results."""

    @abstractmethod
    def _drop(self) -> None:
        """Close what the thread has open; a transaction that is open is undone."""

    @abstractmethod
    def _explained(self, error: Exception) -> LedgerError: ...

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
            while not waiting or not self._writes.empty():
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


def sorted_by_kind(batch: list[Write]) -> tuple[dict[str, list[bytes]], list[Row]]:
    """Return the keys of each kind of write, and all rows."""
    of = defaultdict[str, list[bytes]](list)
    for write in batch:
        of[write.kind] += write.keys
    return of, [row for write in batch for row in write.rows]


def answer_all(batch: list[Write], claimed: set[bytes] | Exception, former: set[bytes]) -> None:
    """Give each write the keys that it has claimed, or that had an answer."""
    for write in batch:
        found = {"claim": claimed, "complete": former}.get(write.kind, set())
        write.result = found if isinstance(found, Exception) else found.intersection(write.keys)


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


class LedgerStore(ABC):
    """Answers by the key of their request, with claims on those that are being asked for."""

    lease = LEASE
    name: str
    _writer: GroupCommit

    @abstractmethod
    async def get_many(self, keys: Collection[bytes]) -> dict[bytes, ChatReply]:
        """Return the answers that are kept, with `ChatReply.reused` set. Damaged ones are not."""

    def claim_many(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        """Claim keys for `LEASE` seconds; without keys, check that the store can be written."""
        return self._writer.put(Write("claim", keys))

    def complete_many(self, answers: Sequence[NewAnswer]) -> Awaitable[set[bytes]]:
        """Keep answers and end the claims on them. They are durable when this is done."""
        return self._writer.put_answers(answers)

    def renew(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        """Extend this store's claims on `keys` by another `LEASE` seconds."""
        return self._writer.put(Write("renew", keys))

    def release(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        """End this store's claims on `keys`."""
        return self._writer.put(Write("release", keys))

    def mark_unusable(self, key: bytes) -> Awaitable[set[bytes]]:
        """Note that the answer for `key` could not be read. It stays until it is pruned."""
        return self._writer.put(Write("mark", [key]))

    @abstractmethod
    async def aclose(self) -> None:
        """Write what waits, and close. A later use opens the store again."""

    @abstractmethod
    async def stats(self) -> list[Share]:
        """Return sums by model and stage."""

    @abstractmethod
    async def size(self) -> int:
        """Return the bytes that it takes."""

    @abstractmethod
    def iterate(self) -> AsyncIterator[KeptAnswer]:
        """Return all answers in the order in which they came."""

    @abstractmethod
    async def prune(self, selection: Selection, *, dry_run: bool = False) -> int:
        """Remove answers and give their room back; return their number. `dry_run` only counts."""

    async def verify(self) -> tuple[int, list[str]]:
        """Return how many answers there are, and a line for each fault found."""
        read, damaged, faults = 0, list[str](), self._faults()
        try:
            async for answer in self.iterate():
                read += 1
                if answer.reply is None:
                    key = answer.key.hex() if isinstance(answer.key, bytes) else answer.key
                    damaged.append(f"the answer for the key {key} is damaged")
        except LedgerError as error:
            if not faults:
                raise
            faults.append(f"no more can be read after {read:,} answers: {error}")
        count = f"{read - len(damaged):,} answers are whole, {len(damaged):,} are not"
        return read, [count, *faults, *damaged] if faults or damaged else []

    def _faults(self) -> list[str]:
        """Return faults of the store itself."""
        return []

    def _restored(self, rows: Iterable[Row]) -> dict[bytes, ChatReply]:
        found = {}
        for row in rows:
            try:
                found[row[0]] = reply_of(row)
            except Damaged:
                self._writer.note_damaged(row[0])
        return found
