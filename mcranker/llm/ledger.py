"""The ledger: every answer that was ever paid for, in one SQLite file.

An answer is found by its `mcranker.llm.request_key`. The file holds replies, what they used, and
the name of the model; nothing of a request but its hash. Several processes may share it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from pathlib import Path

import platformdirs

from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger_file import LedgerConnection, explained
from mcranker.llm.ledger_rows import COLUMNS, Damaged, reply_of, row_of
from mcranker.llm.ledger_writer import LedgerWriter
from mcranker.logs import safe_logger

__all__ = ["Ledger", "default_ledger_path"]

_FIND = f"SELECT {COLUMNS} FROM replies WHERE key = ?"  # noqa: S608 - constants
_PLACES = ", ".join("?" * len(COLUMNS.split(",")))
_KEEP = f"INSERT OR IGNORE INTO replies ({COLUMNS}) VALUES ({_PLACES})"  # noqa: S608
_REPLACE = f"INSERT OR REPLACE INTO replies ({COLUMNS}) VALUES ({_PLACES})"  # noqa: S608
_MARK = "UPDATE replies SET unusable = 1 WHERE key = ?"

logger = safe_logger("mcranker.llm")


def default_ledger_path() -> Path | None:
    """Where answers are kept unless told otherwise: MCRANKER_LEDGER, else in the user's cache.

    The variable is a path, or ``none`` or ``off`` for no ledger. The cache is MCRANKER_CACHE or
    the user's cache folder, and the file in it ``ledger.sqlite``.
    """
    named = os.environ.get("MCRANKER_LEDGER", "").strip()
    if named.lower() in {"none", "off"}:
        return None
    if named:
        return Path(named).expanduser()
    root = os.environ.get("MCRANKER_CACHE")
    base = Path(root).expanduser() if root else platformdirs.user_cache_path("mcranker")
    return base / "ledger.sqlite"


class Ledger:
    """Answers, by the key of their request; for any number of threads and event loops.

    The file is opened, and made where there is none, at the first use. What was confirmed as
    kept survives a crash or ``kill -9`` of the process; a power cut may take the last answers.

    Args:
        path: the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        self._reader = LedgerConnection(self.path)
        self._reading = threading.Lock()
        self._writer = LedgerWriter(self.path)
        self._damaged: set[bytes] = set()
        # When the ledger is forgotten, or at the end of the process, what waits is written.
        weakref.finalize(self, _close, self._reader, self._reading, self._writer)

    def find(self, key: bytes) -> ChatReply | None:
        """The answer kept for `key`, with `ChatReply.reused` set, or None.

        A damaged answer counts as none, and the next one kept for its key takes its place.

        Raises:
            LedgerError: the file cannot be read, or is no ledger.
        """
        with self._reading:
            try:
                row = self._reader.get().execute(_FIND, (key,)).fetchone()
            except sqlite3.Error as error:
                self._reader.drop()
                raise explained(self.path, error) from error
        if row is None:
            return None
        try:
            return reply_of(row)
        except Damaged:
            self._note_damaged(key)
            return None

    def keep(
        self, key: bytes, reply: ChatReply, *, model: str, stage: str, linger: bool = False
    ) -> asyncio.Future[None]:
        """Keep `reply`, unless there is an answer for `key` already.

        It is written even if nobody waits for it; whoever does knows that it is durable.

        Args:
            key: of the request.
            reply: the answer.
            model: who was asked, as the user names it.
            stage: what for.
            linger: wait some milliseconds for other answers, and be written with them.

        Returns:
            An awaitable for this event loop; it raises `LedgerError` if the file cannot be
            written.
        """
        statement = _REPLACE if key in self._damaged else _KEEP
        row = row_of(key, reply, model=model, stage=stage)
        return self._writer.put(statement, row, linger=linger)

    async def mark_unusable(self, key: bytes) -> None:
        """Note that nothing could be made of the answer kept for `key`; it stays.

        Raises:
            LedgerError: the file cannot be written.
        """
        await self._writer.put(_MARK, (key,))

    def close(self) -> None:
        """Write what waits and close the file. A later use opens it again."""
        _close(self._reader, self._reading, self._writer)

    def _note_damaged(self, key: bytes) -> None:
        if not self._damaged:
            logger.warning(
                "an answer in the ledger %r is damaged and is asked for again; "
                "'mcranker ledger verify' checks them all",
                os.fspath(self.path),
            )
        self._damaged.add(key)


def _close(reader: LedgerConnection, reading: threading.Lock, writer: LedgerWriter) -> None:
    with reading:
        reader.drop()
    writer.close()
