"""The file of a ledger: its identification, its creation, and the meaning of SQLite's errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from mcranker.errors import LedgerError

PATIENCE = 30.0
"""Seconds to wait for another program that holds the file."""

FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""SQLite's errors. The second occurs where its message quotes damaged text."""

FileId = tuple[int, int]
"""Device and number."""

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
_DAMAGED = (
    "is damaged; 'mcranker ledger verify' says how much of it, and 'mcranker ledger export' saves "
    "what can be read; then move the file away"
)
_MEANING = {
    sqlite3.SQLITE_NOTADB: "is not a ledger: it is no SQLite file, or its first page is damaged, "
    f"which 'mcranker ledger verify' has a remedy for; {_OTHERWISE}",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # what is asked of a whole ledger is never wrong
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
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PAUSE = 0.01  # seconds between tries to switch a new file to WAL


def explained(path: Path, error: Exception) -> LedgerError:
    """Describe `error`: the file, the fault, and what to do."""
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


def lack_of_room(path: Path, room: int) -> LedgerError | None:
    """Return the error if the folder has no room for `room` bytes, which are written to find out.

    To write there may not be allowed at all, which SQLite reports where it matters.
    """
    try:
        with tempfile.TemporaryFile(dir=path.resolve().parent) as file:
            file.write(bytes(room))
    except OSError as error:
        if error.errno in _NO_ROOM:
            return LedgerError(
                f"the ledger {os.fspath(path)!r} needs more room: {room >> 20} MiB cannot be "
                f"written to its folder ({error.strerror}); make room and run again, what was "
                "written is kept, or name another file with ledger="
            )
    return None


def is_busy(error: Exception) -> bool:
    """True if another connection holds the lock."""
    return _code(error) == sqlite3.SQLITE_BUSY


def is_damage(error: BaseException | None) -> bool:
    """True if the file's content is damaged, or a table is missing or different."""
    damage = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
    return _code(error) in damage


def is_failed_access(error: Exception) -> bool:
    """True if reading or writing failed, as it does beyond the end of a truncated file."""
    return _code(error) == sqlite3.SQLITE_IOERR


def file_id(name: str) -> FileId | None:
    """Return the identity of the file at a path, None if there is none (about 1 µs)."""
    try:
        found = os.stat(name)  # noqa: PTH116 - a Path would take twice as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Moved(Exception):
    """The open file is no longer the one at the path; the message gives the reason."""


class LedgerConnection:
    """A connection to a ledger that is opened at its first use, in each process.

    Replies that it has committed survive the end of the process, however it comes; a power cut
    may take the last ones (WAL, ``synchronous=NORMAL``). It may pass from thread to thread,
    but one at a time may use it.

    Args:
        path: the file; it is made where there is none.

    Attributes:
        first: the id of the first answer that came after this process had opened the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first = 0
        self._names: tuple[str, ...] = ()
        self._files: tuple[FileId | None, ...] = ()
        self._connection: sqlite3.Connection | None = None
        self._patience = 0.0
        self._process = 0

    def get(self, patience: float = PATIENCE) -> sqlite3.Connection:
        """The open connection; texts are read from it as bytes.

        Args:
            patience: seconds it waits for another one that writes.

        Raises:
            LedgerError: the file is no ledger, or cannot be opened or made.
            Moved: another file is at the path, or none; drop this one, and call again.
        """
        if self._connection is None or self._process != os.getpid():
            self.drop()
            self._connection = self._open()
            self._patience, self._process = PATIENCE, os.getpid()
        elif moved := self.moved():
            raise Moved(moved)
        if patience != self._patience:
            self._connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
            self._patience = patience
        return self._connection

    def moved(self) -> str | None:
        """Return the fate of the open file, or None if it is still in place (about 3 µs)."""
        if self._connection is None or (now := _files(self._names)) == self._files:
            return None
        if now[0] is None:
            return "was deleted"
        if now[0] != self._files[0]:
            return "was replaced by another file"
        return "has lost its write-ahead log or the index of it"

    def leftovers(self) -> list[str]:
        """Return a deleted database's log and index that were left behind.

        SQLite would take them for those of the database that is at the path now.
        """
        if not self.gone():
            return []
        files = zip(self._names[1:], self._files[1:], strict=True)
        return [name for name, known in files if known is not None and file_id(name) == known]

    def gone(self) -> bool:
        """True if the database itself, not only its log, is no longer at its path."""
        return _files(self._names[:1]) != self._files[:1]

    @property
    def current(self) -> sqlite3.Connection | None:
        """The open connection, wherever its file is now."""
        return self._connection

    def drop(self) -> None:
        """Close the connection, if there is one; a transaction that is open is undone."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process == os.getpid():
            connection.close()
        else:  # SQLite forbids to use what a parent process has opened, and to close it
            _inherited.append(connection)

    def _open(self) -> sqlite3.Connection:
        known = self._files[:1]
        try:
            make_way(self.path)
        except OSError as error:
            raise explained(self.path, error) from error
        # The log is beside the file that a link leads to.
        real = os.path.realpath(self.path)
        names = (os.fspath(self.path), f"{real}-wal", f"{real}-shm")
        # Before it is opened, so that one that takes its place meanwhile is noticed later.
        database = file_id(names[0])
        connection = opened(self.path)
        try:
            # To read is also to open the log and its index.
            (last,) = connection.execute("SELECT max(id) FROM replies").fetchone()
        except FAILURES as error:
            connection.close()
            raise explained(self.path, error) from error
        self._names, self._files = names, (database, *_files(names[1:]))
        if known != (database,):
            self.first = (last or 0) + 1
        return connection


_inherited: list[sqlite3.Connection] = []


def opened(path: Path, *, tolerant: bool = False) -> sqlite3.Connection:
    """A new connection to a file that is there; an empty one becomes a ledger.

    Args:
        path: the file.
        tolerant: read what can be read of a file that is damaged.

    Raises:
        LedgerError: the file is no ledger, has hard links, or cannot be opened.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        if (names := path.stat().st_nlink) > 1:
            raise LedgerError(
                f"the ledger {os.fspath(path)!r} has {names} names (hard links), and a log and "
                "locks for each, so that answers would be paid for twice; keep the name with a "
                "'-wal' file beside it, if there is one, and delete the others or make symbolic "
                "links of them"
            )
        if tolerant:  # else a file that is too short is refused as a whole
            connection.execute("PRAGMA writable_schema = ON")
        connection.execute("BEGIN")  # one view of a file that another process may be making
        ready = _is_ledger(connection, path)
        connection.execute("COMMIT")
        if not ready:
            _fill(connection, path)
        if tolerant:  # else there would seem to be no answers
            connection.execute("SELECT 1 FROM replies LIMIT 0")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, (*FAILURES, OSError)):
            raise explained(path, error) from error
        raise
    connection.text_factory = bytes
    return connection


def make_way(path: Path) -> bool:
    """Make an empty file, for its owner only, and the folders it needs; what is there stays.

    Returns:
        Whether it was made.

    Raises:
        OSError: it is not there, and cannot be made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        # To open and close it would take the locks of this process from it.
        return False
    os.close(file)
    return True


def _is_ledger(connection: sqlite3.Connection, path: Path) -> bool:
    """True for a ledger of this version, False for an empty file; else raise a `LedgerError`."""
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


def _code(error: BaseException | None) -> int:
    """Return the primary result code, 0 if SQLite gave none; extended ones are too detailed."""
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _files(names: Iterable[str]) -> tuple[FileId | None, ...]:
    return tuple(map(file_id, names))
