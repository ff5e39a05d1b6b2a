"""A ledger's file as a process has it open: once to read, and once to write.

Both are given up together: SQLite keeps what it knows of a file once a process, and two
connections of which one has a newer log than the other would spoil the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mcranker.errors import LedgerError
from mcranker.llm.ledger.connection import (
    FAILURES,
    PATIENCE,
    LedgerConnection,
    Moved,
    explained,
    is_damage,
)
from mcranker.llm.ledger.rows import COLUMNS, Row
from mcranker.logs import safe_logger

_TRIES = 3  # to get hold of a file that others replace meanwhile
_SINCE = f"SELECT {COLUMNS}, unusable FROM replies WHERE id >= ? ORDER BY id"  # noqa: S608 - constants
_PLACES = ", ".join("?" * (len(COLUMNS.split(",")) + 1))
_COPY = f"INSERT OR IGNORE INTO replies ({COLUMNS}, unusable) VALUES ({_PLACES})"  # noqa: S608

logger = safe_logger("mcranker.llm")


class LedgerAccess:
    """The two connections of a process to a ledger, for any number of threads.

    If the file is deleted or replaced while it is open, the next use notices: what this process
    has written to the former file is written to the one that is at the path then, which is made
    if there is none.

    Attributes:
        turn: held by the writer; what is said to need the turn needs it.
        damage: what was found of it in the file that is open; None if nothing was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.turn = threading.Lock()
        self.damage: LedgerError | None = None
        self._reading = threading.Lock()  # those who need both take the turn first
        self._reader = LedgerConnection(path)
        self._writer = LedgerConnection(path)
        self._has_turn = False  # while the process forks

    def fetch(self, statement: str, values: tuple[Any, ...]) -> Row | None:
        """Return the first row of a query; not for holders of the turn.

        Raises:
            LedgerError: the file cannot be read, or is no ledger.
        """
        for _ in range(_TRIES):
            with self._reading:
                try:
                    row: Row | None = self._reader.get().execute(statement, values).fetchone()
                except Moved:
                    pass
                except FAILURES as error:
                    self._reader.drop()
                    raise self.failure(error) from error
                else:
                    return row
            with self.turn:
                self._renew()
        raise self._restless()

    def writer(self, patience: float) -> sqlite3.Connection:
        """The connection to write with; needs the turn.

        Args:
            patience: seconds that it waits for other programs.

        Raises:
            LedgerError: the file is no ledger, or cannot be opened or made.
        """
        for _ in range(_TRIES):
            try:
                return self._writer.get(patience)
            except Moved:
                self._renew()
        raise self._restless()

    def failure(self, error: Exception) -> LedgerError:
        """Convert SQLite's error to words; damage is remembered."""
        problem = explained(self.path, error)
        if is_damage(error):
            self.damage = problem
        return problem

    def drop_writer(self) -> None:
        """Undo what is not committed, and reopen the file for the next write; needs the turn."""
        self._writer.drop()

    def close(self) -> None:
        """Close the file until its next use; needs the turn."""
        with self._reading:
            self._reader.drop()
        self._writer.drop()
        self.damage = None

    def before_fork(self) -> None:
        """Close what a child process would inherit, and acquire the locks it needs."""
        # After that long, the child has to leave the connection alone that is being used.
        self._has_turn = self.turn.acquire(timeout=PATIENCE)
        self._reading.acquire()
        self._reader.drop()
        if self._has_turn:
            self._writer.drop()

    def after_fork(self, *, child: bool) -> None:
        """Release the locks; a child has no other threads."""
        self._reading.release()
        if self._has_turn:
            self.turn.release()
        elif child:
            self.turn = threading.Lock()

    def _renew(self) -> None:
        """Replace the open file with the one at the path; needs the turn.

        Raises:
            LedgerError: what is there cannot be used; what was written is tried again to be
                written to it at the next use.
        """
        with self._reading:
            what = self._writer.moved() or self._reader.moved()
            if what is None:  # another thread was first
                return
            former, outcome = self._writer.current, ""
            if former is not None:
                # So that a file that was only renamed is whole without its log.
                with contextlib.suppress(sqlite3.Error):
                    former.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._remove({*self._writer.leftovers(), *self._reader.leftovers()})
            self._reader.drop()
            if former is not None and self._writer.gone():
                successor = LedgerConnection(self.path)
                outcome = self._copied(former, self._writer.first, successor.get())
                former.close()
                self._writer = successor
            else:
                self._writer.drop()
            self.damage = None
        logger.warning(
            "the ledger %r %s while it was in use; what is there now is used from here on%s",
            os.fspath(self.path),
            what,
            outcome,
        )

    def _remove(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            raise explained(self.path, error) from error

    def _copied(self, former: sqlite3.Connection, first: int, new: sqlite3.Connection) -> str:
        """Copy rows written since `first` to a new file, and log it."""
        former.text_factory = lambda text: text.decode(errors="replace")
        problems: list[Exception] = []
        try:
            new.execute("BEGIN IMMEDIATE")
            copied = new.executemany(_COPY, _rows(former, first, problems)).rowcount
            new.execute("COMMIT")
        except FAILURES as error:
            new.close()
            raise explained(self.path, error) from error
        lost = f"; others cannot be read any more: {problems[0]}" if problems else ""
        return f", with {max(copied, 0)} answers that this process had kept before{lost}"

    def _restless(self) -> LedgerError:
        return LedgerError(
            f"the ledger {os.fspath(self.path)!r} is replaced again and again; let one program at "
            "a time put a file there"
        )


def _rows(former: sqlite3.Connection, first: int, problems: list[Exception]) -> Iterator[Row]:
    try:
        yield from former.execute(_SINCE, (first,))
    except FAILURES as error:
        problems.append(error)
