"""The ledger: every answer that was ever paid for, in one SQLite file.

An answer is found by its `mcranker.llm.ledger.request_key`. The file holds replies, what they
used, and the name of the model; nothing of a request but its hash. Several processes may share it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
import weakref
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import platformdirs

from mcranker.errors import ConfigError, LedgerError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.access import LedgerAccess
from mcranker.llm.ledger.flights import Flights
from mcranker.llm.ledger.rows import COLUMNS, Damaged, Unkeepable, reply_of, row_of
from mcranker.llm.ledger.writer import LedgerWriter, wake
from mcranker.logs import safe_logger

_FIND = f"SELECT {COLUMNS} FROM replies WHERE key = ?"  # noqa: S608 - constants
_PLACES = ", ".join("?" * len(COLUMNS.split(",")))
_KEEP = f"INSERT OR IGNORE INTO replies ({COLUMNS}) VALUES ({_PLACES})"  # noqa: S608
_REPLACE = f"INSERT OR REPLACE INTO replies ({COLUMNS}) VALUES ({_PLACES})"  # noqa: S608
_MARK = "UPDATE replies SET unusable = 1 WHERE key = ?"

logger = safe_logger("mcranker.llm")


class Kept(Protocol):
    """Receives the outcome of a write, in the thread that made it."""

    def __call__(self, problem: LedgerError | None, *, kept: bool) -> None:
        """Take it.

        Args:
            problem: the file could not be written.
            kept: False if there was an answer already.
        """
        ...


def default_ledger_path() -> Path | None:
    """Return the ledger's default path: MCRANKER_LEDGER, else in the user's cache.

    The variable is a path, or ``none`` or ``off`` for no ledger. The cache is MCRANKER_CACHE or
    the user's cache folder, and the file in it ``ledger.sqlite``.

    Raises:
        ConfigError: a path begins with the home of a user that there is not.
    """
    named = os.environ.get("MCRANKER_LEDGER", "").strip()
    if named.lower() in {"none", "off"}:
        return None
    if named:
        return _expanded(named)
    root = os.environ.get("MCRANKER_CACHE")
    base = _expanded(root) if root else platformdirs.user_cache_path("mcranker")
    return base / "ledger.sqlite"


class Ledger:
    """Answers, by the key of their request; for any number of threads and event loops.

    The file is opened, and made where there is none, at the first use. What was confirmed as
    kept survives a crash or ``kill -9`` of the process; a power cut may take the last answers.
    Ledgers of the same file share what they have open.

    Args:
        path: the file.

    Attributes:
        path: the file.
        flights: the requests to what the ledger is for that are on their way.

    Raises:
        ConfigError: the path is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _as_path(path)
        self._shared = _shared(self.path)
        self.flights = self._shared.flights

    def find(self, key: bytes) -> ChatReply | None:
        """The answer kept for `key`, with `ChatReply.reused` set, or None.

        A damaged answer counts as none, and the next one kept for its key takes its place.

        Raises:
            LedgerError: the file cannot be read, or is no ledger.
        """
        row = self._shared.access.fetch(_FIND, (key,))
        if row is None:
            return None
        try:
            return reply_of(row)
        except Damaged:
            self._shared.notes.add_damaged(key)
            return None

    async def ready(self) -> None:
        """Find out whether an answer could be kept, before it is paid for.

        It costs a write at the first call, and after a write that failed.

        Raises:
            LedgerError: the file cannot be written.
        """
        await self._shared.writer.ready()

    def put(
        self,
        key: bytes,
        reply: ChatReply,
        told: Kept,
        *,
        model: str,
        stage: str,
        linger: bool = False,
    ) -> None:
        """Keep `reply`, unless there is an answer for `key` already.

        One that cannot be kept, whatever the file is like, counts as kept: a warning is logged.

        Args:
            key: of the request.
            reply: the answer.
            told: called once it is durable, or cannot be.
            model: who was asked, as the user names it.
            stage: what for.
            linger: wait some milliseconds for other answers, and be written with them.
        """
        writer, notes = self._shared.writer, self._shared.notes  # not self, which may be forgotten

        def written(problem: Exception | None, changed: bool) -> None:
            if problem is None or isinstance(problem, LedgerError):
                told(problem, kept=changed)
            else:
                notes.add_unkeepable(model, problem)
                told(None, kept=True)

        try:
            row = row_of(key, reply, model=model, stage=stage)
        except Unkeepable as problem:
            written(problem, changed=False)
            return
        statement = _REPLACE if key in notes.damaged else _KEEP
        notes.damaged.discard(key)
        writer.put(statement, row, written, linger=linger)

    def keep(self, key: bytes, reply: ChatReply, *, model: str, stage: str) -> asyncio.Future[None]:
        """`put`, awaitable.

        It is written even if no caller waits; after waiting it is durable.

        Returns:
            An awaitable for this event loop; it raises `LedgerError` if the file cannot be
            written.
        """
        future = asyncio.get_running_loop().create_future()
        self.put(
            key, reply, lambda problem, *, kept: wake(future, problem), model=model, stage=stage
        )
        return future

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Acquire a lock by name, across processes."""
        return self.flights.alone(hashlib.sha256(name.encode()).digest())

    async def mark_unusable(self, key: bytes) -> None:
        """Note that the answer kept for `key` is unusable; it stays.

        Raises:
            LedgerError: the file cannot be written.
        """
        await self._shared.writer.written(_MARK, (key,))

    def close(self) -> None:
        """Write what waits and close the file. A later use opens it again."""
        self._shared.writer.close()


class _Notes:
    """Findings about single answers, each logged once."""

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self._refused = False
        self.damaged: set[bytes] = set()

    def add_damaged(self, key: bytes) -> None:
        """Note that the answer for a key is damaged."""
        if not self.damaged:
            logger.warning(
                "an answer in the ledger %r is damaged and is asked for again; "
                "'mcranker ledger verify' checks them all",
                self._path,
            )
        self.damaged.add(key)

    def add_unkeepable(self, model: str, problem: Exception) -> None:
        """Note that a model's answer cannot be kept."""
        logger.log(
            logging.DEBUG if self._refused else logging.WARNING,
            "an answer of %s cannot be kept in the ledger %r, and is asked for again when it is "
            "needed again: %s",
            model,
            self._path,
            problem,
        )
        self._refused = True


class _Shared:
    """State shared by the ledgers of one file in a process."""

    def __init__(self, path: Path) -> None:
        self.access = LedgerAccess(path)
        self.writer = LedgerWriter(self.access)
        self.flights = Flights(path, self.writer)
        self.notes = _Notes(path)
        # When the file has no user any more, or at the end of the process, what waits is written.
        weakref.finalize(self, self.writer.close)


_files: weakref.WeakValueDictionary[str, _Shared] = weakref.WeakValueDictionary()
_files_lock = threading.Lock()


def _shared(path: Path) -> _Shared:
    """Shared, because locks between processes do not keep threads of one apart."""
    real = os.path.realpath(path)
    with _files_lock:
        shared = _files.get(real)
        if shared is None:
            shared = _files[real] = _Shared(path.absolute())
        return shared


def _as_path(path: object) -> Path:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ConfigError(f"ledger={path!r} is no path of a file; name one, or do without by None")
    return _expanded(name)


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # a user that there is not
        raise ConfigError(f"ledger={name!r}: {error}; give the whole path") from error


def _before_fork() -> None:
    """Close everything, since SQLite must not be carried into a child process."""
    _files_lock.acquire()
    _forking.extend(_files.values())
    for shared in _forking:
        shared.access.before_fork()
        shared.flights.before_fork()


def _after_fork(*, child: bool) -> None:
    for shared in _forking:
        shared.flights.after_fork(child=child)
        shared.access.after_fork(child=child)
        if child:
            shared.writer.forget()
    _forking.clear()
    _files_lock.release()


_forking: list[_Shared] = []  # while that is done

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )
