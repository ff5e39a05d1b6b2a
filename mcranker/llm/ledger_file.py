"""The file of a ledger: how it is known, how it is made, and what SQLite's errors mean for it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from mcranker.errors import LedgerError

__all__ = ["PATIENCE", "LedgerConnection", "explained", "is_busy"]

PATIENCE = 30.0
"""Seconds to wait for another program that holds the file."""

_APPLICATION_ID = 0x4D43524C  # "MCRL"
_VERSION = 1
_CREATE = """
CREATE TABLE replies (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    model TEXT NOT NULL,
    stage TEXT NOT NULL,
    created INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    reply TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    unusable INTEGER NOT NULL DEFAULT 0
)
"""
_OTHERWISE = "name another file with ledger=, or do without by ledger=None"
_MEANING = {
    sqlite3.SQLITE_NOTADB: f"is not a ledger: it is no SQLite file; {_OTHERWISE}",
    sqlite3.SQLITE_CORRUPT: "is damaged; 'mcranker ledger verify' says how much of it, and "
    "'mcranker ledger export' saves what can be read; then move the file away",
    sqlite3.SQLITE_BUSY: f"has been locked by another program for {PATIENCE:.0f} s; end that "
    "program, or name another file with ledger=",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; make room and run again, what was "
    "written is kept",
    sqlite3.SQLITE_IOERR: "could not be read or written; see to the disk and its room, then run "
    "again, what was written is kept",
    sqlite3.SQLITE_READONLY: f"may not be written; allow it, {_OTHERWISE}",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened or made; allow reading and writing the file and "
    f"its folder, {_OTHERWISE}",
}
_PAUSE = 0.01  # seconds between tries to switch a new file to WAL


def explained(path: Path, error: sqlite3.Error | OSError) -> LedgerError:
    """`error` in words: which file, what is wrong with it, and what to do."""
    if _is_folder(path):
        meaning = "is a folder; name a file in it with ledger="
    elif isinstance(error, FileExistsError | NotADirectoryError):
        meaning = f"cannot be made: what should be its folder is a file; {_OTHERWISE}"
    elif isinstance(error, OSError):
        meaning = f"cannot be opened or made: {error.strerror or error}; {_OTHERWISE}"
    else:
        said = f"cannot be used: {error}; {_OTHERWISE}"
        meaning = _MEANING.get(_code(error), said)
    return LedgerError(f"the ledger {os.fspath(path)!r} {meaning}")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds what this one needs."""
    return _code(error) == sqlite3.SQLITE_BUSY


class LedgerConnection:
    """A connection to a ledger that is opened at its first use, in each process.

    Replies that it has committed survive the end of the process, however it comes; a power cut
    may take the last ones (WAL, ``synchronous=NORMAL``). It may pass from thread to thread,
    but one at a time may use it.

    Args:
        path: the file.
        create: make it where there is none.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._create = create
        self._connection: sqlite3.Connection | None = None
        self._patience = 0.0
        self._process = 0

    def get(self, patience: float = PATIENCE) -> sqlite3.Connection:
        """The open connection; texts are read from it as bytes.

        Args:
            patience: seconds it waits for another one that writes.

        Raises:
            LedgerError: the file is no ledger, or cannot be opened or made.
        """
        if self._connection is None or self._process != os.getpid():
            if self._connection is not None:
                # SQLite forbids to use what a parent process has opened, and to close it.
                _inherited.append(self._connection)
            self._connection = _opened(self.path, self._create)
            self._patience, self._process = PATIENCE, os.getpid()
        if patience != self._patience:
            self._connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
            self._patience = patience
        return self._connection

    def drop(self) -> None:
        """Close the connection, if there is one; a transaction that is open is undone."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process == os.getpid():
            connection.close()
        else:
            _inherited.append(connection)


_inherited: list[sqlite3.Connection] = []


def _opened(path: Path, create: bool) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        if create:
            _make_way(path)
        elif not path.exists():
            raise LedgerError(f"there is no ledger {os.fspath(path)!r}; a ranking makes one")
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("BEGIN")  # one view of a file that another process may be making
        ready = _is_ledger(connection, path)
        connection.execute("COMMIT")
        if not ready:
            _fill(connection, path)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error | OSError):
            raise explained(path, error) from error
        raise
    connection.text_factory = bytes
    return connection


def _make_way(path: Path) -> None:
    """An empty file, for its owner only, and the folders it needs; what is there is kept."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # To open and close a file that is there would take SQLite's locks of this process from it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _is_ledger(connection: sqlite3.Connection, path: Path) -> bool:
    """True for a ledger that this version reads, False for an empty file.

    Raises:
        LedgerError: it is anything else.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == _APPLICATION_ID and version == _VERSION:
        return True
    if application == _APPLICATION_ID:
        raise LedgerError(
            f"the ledger {os.fspath(path)!r} has schema version {version}, and this MCRanker "
            f"reads version {_VERSION}; use the MCRanker that made it, or {_OTHERWISE}"
        )
    if application or version or tables:
        raise LedgerError(
            f"{os.fspath(path)!r} is not a ledger but another program's SQLite file; {_OTHERWISE}"
        )
    return False


def _fill(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    if not _is_ledger(connection, path):  # another process may have been first
        connection.execute(_CREATE)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def _use_wal(connection: sqlite3.Connection) -> None:
    # While another process makes the same switch, SQLite refuses without waiting.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # it may not even be looked at
        return False


def _code(error: sqlite3.Error) -> int:
    """The primary result code, 0 if SQLite gave none; extended ones say more than is needed."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
