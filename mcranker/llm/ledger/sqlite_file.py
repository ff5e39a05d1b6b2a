"""The file of a SQLite ledger: its creation, and the meaning of SQLite's errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from pathlib import Path

from mcranker.errors import LedgerError

PATIENCE = 30.0
"""Seconds to wait for another program that holds the file."""

FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""SQLite's errors. The second occurs where its message quotes damaged text."""

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
CLAIMS = """
CREATE TABLE IF NOT EXISTS claims (
    key BLOB PRIMARY KEY,
    owner TEXT NOT NULL,
    lease_until REAL NOT NULL,
    attempt INTEGER NOT NULL
) WITHOUT ROWID
"""
"""The table of claims, for a connection that writes."""

_LOG_PAGES = 2000  # 8 MB of write-ahead log, before it is moved into the database
_PAUSE = 0.01  # seconds between tries to switch a new file to WAL
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OTHERWISE = "name another file with ledger=, or use ledger=None"
_DAMAGED = (
    "is damaged; save what can be read with 'mcranker ledger --copy FILE' or SQLite's .recover, "
    "then move the file away"
)
_MEANING = {
    sqlite3.SQLITE_NOTADB: "is not a ledger: it is no SQLite file, or its first page is damaged, "
    f"for which SQLite has .recover; {_OTHERWISE}",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # no statement is wrong for a whole ledger
    sqlite3.SQLITE_BUSY: f"has been locked by another program for {PATIENCE:.0f} s; end that "
    "program, or name another file with ledger=",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; make room and run again, what was "
    "written is kept",
    sqlite3.SQLITE_IOERR: "could not be read or written; check the disk and its room, then run "
    "again, what was written is kept",
    sqlite3.SQLITE_READONLY: f"may not be written; allow it, {_OTHERWISE}",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened or made; allow reading and writing the file and "
    f"its folder, {_OTHERWISE}",
}


def explained(path: Path, error: Exception) -> LedgerError:
    """Describe `error`: the file, the fault, and what to do."""
    if os.path.isdir(path):  # noqa: PTH112 - False where it may not be looked at
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
    """Return the error if the folder has no room for `room` bytes, which are written to check."""
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


def is_damage(error: Exception) -> bool:
    """Return True if the file's content is damaged, or a table is missing or different."""
    damage = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
    return _code(error) in damage


def identity(path: str) -> tuple[int, int] | None:
    """Return the device and number of the file at a path, None if there is none (about 1 µs)."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path would take twice as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def file_bytes(path: Path) -> int:
    """Return the size of the ledger on disk, including its write-ahead log."""
    path = path.resolve()
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def opened(path: Path, *, make: bool = True) -> sqlite3.Connection:
    """Open a ledger, and make it where there is none; texts are read from it as bytes."""
    if not make and not path.exists():
        raise LedgerError(f"there is no ledger {os.fspath(path)!r}; a ranking makes one")
    connection: sqlite3.Connection | None = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        if (names := path.stat().st_nlink) > 1:
            raise LedgerError(
                f"the ledger {os.fspath(path)!r} has {names} names (hard links), and a log for "
                "each; keep the name with a '-wal' file beside it, if there is one, and delete "
                "the others or make symbolic links of them"
            )
        connection.execute("BEGIN")  # one view of a file that another process may be making
        ready = _is_ledger(connection, path)
        connection.execute("COMMIT")
        if not ready:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("BEGIN IMMEDIATE")
            if not _is_ledger(connection, path):  # another process may have been first
                connection.execute(_CREATE)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        connection.execute("SELECT 1 FROM replies LIMIT 0").fetchone()  # opens the log
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, (*FAILURES, OSError)):
            raise explained(path, error) from error
        raise
    connection.text_factory = bytes
    return connection


def _make(path: Path) -> None:
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:  # to open and close it would release this process's locks on it
        return
    os.close(file)
    for suffix in ("-wal", "-shm"):  # of a file that was deleted; they are not this one's
        Path(os.path.realpath(path) + suffix).unlink(missing_ok=True)


def _is_ledger(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True for a ledger of this version, False for an empty file; else raise an error."""
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


def _use_wal(connection: sqlite3.Connection) -> None:
    # While another process makes the same switch, SQLite refuses without waiting.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _code(error: BaseException) -> int:
    """Return the primary result code, 0 if SQLite gave none; extended ones are too detailed."""
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
