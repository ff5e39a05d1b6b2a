"""A ledger in one SQLite file, for the processes of one machine.

Reads are made in the caller's thread: they take some 15 µs and wait for no writer. All writes go
through one thread, which commits those that have gathered as one transaction.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread

from mcranker.errors import LedgerError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.rows import COLUMNS, Row
from mcranker.llm.ledger.sqlite_file import (
    CLAIMS,
    FAILURES,
    explained,
    file_bytes,
    identity,
    is_damage,
    lack_of_room,
    opened,
)
from mcranker.llm.ledger.store import (
    GroupCommit,
    KeptAnswer,
    LedgerStore,
    Selection,
    Share,
    Write,
    answer_all,
    kept_of,
    share_of,
    sorted_by_kind,
    text_of,
)

_ROOM = 2**24  # bytes, for the answers until the next check and those of the calls in flight
_CHECK_AFTER = 1000  # answers, of three pages each; another 340 fit in `_ROOM`
_PIECE = 10_000  # rows read or removed in one transaction
_FREED_PAGES = 1000  # given back in one transaction
_SHOWN_PROBLEMS = 20
_ROW = "({})".format(", ".join("?" * len(COLUMNS.split(","))))
_COUNTS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens")
# total(), because sum() fails beyond 2**63, which counts of older versions may reach together.
_SHARES = f"""
SELECT model, stage, count(*), sum(unusable),
    {", ".join(f"CAST(total({name}) AS INTEGER)" for name in _COUNTS)},
    total(seconds), min(created), max(created)
FROM replies GROUP BY model, stage ORDER BY model, stage
"""  # noqa: S608 - constants
_FIND = f"SELECT {COLUMNS} FROM replies WHERE key IN "  # noqa: S608 - constants
_KEEP = f"INSERT OR IGNORE INTO replies ({COLUMNS}) VALUES "  # noqa: S608 - constants
_FORMER = "SELECT group_concat(hex(key)) FROM replies WHERE id < ? AND key IN "
# A lease that ends later than it could is of a clock that has been set back since.
_CLAIM = """
INSERT INTO claims (key, owner, lease_until, attempt)
SELECT column1, ?, ?, 1 FROM (VALUES {})
WHERE NOT EXISTS (SELECT 1 FROM replies WHERE key = column1)
ON CONFLICT (key) DO UPDATE
SET owner = excluded.owner, lease_until = excluded.lease_until, attempt = attempt + 1
WHERE owner = excluded.owner OR lease_until NOT BETWEEN ? AND ?
"""
_CLAIMED = (
    "SELECT group_concat(hex(key)) FROM claims WHERE owner = ? AND lease_until = ? AND key IN "
)
_RENEW = "UPDATE claims SET lease_until = ? WHERE owner = ? AND key IN "
_RELEASE = "DELETE FROM claims WHERE owner = ? AND key IN "
_MARK = "UPDATE replies SET unusable = 1 WHERE key IN "


class SQLiteStore(LedgerStore):
    """A store in a file, which is opened, or made, at the first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = os.fspath(path)
        self._writer: _Writer = _Writer(path, self.lease)
        weakref.finalize(self, self._writer.close)

    async def get_many(self, keys: Collection[bytes]) -> dict[bytes, ChatReply]:
        return self._restored(self._writer.read(_FIND + _places(keys), (*keys,)))

    async def aclose(self) -> None:
        await anyio.to_thread.run_sync(self._writer.close)

    async def size(self) -> int:
        return file_bytes(self.path)

    async def stats(self) -> list[Share]:
        with self._connected() as connection:
            rows = connection.execute(_SHARES).fetchall()
        return list(map(share_of, rows))

    async def iterate(self) -> AsyncIterator[KeptAnswer]:
        with self._connected() as connection:
            for row in _rows(connection):
                yield kept_of(row)

    async def prune(self, selection: Selection, *, dry_run: bool = False) -> int:
        condition, values = selection.where(repr(time.time()), "?")
        chosen = f"FROM replies WHERE {condition}"
        with self._connected() as connection:
            (count,) = connection.execute(f"SELECT count(*) {chosen}", values).fetchone()
            if dry_run:
                return int(count)
            piece = f"SELECT id {chosen} LIMIT {_PIECE}"
            for _ in range(0, count, _PIECE):
                connection.execute(f"DELETE FROM replies WHERE id IN ({piece})", values)  # noqa: S608
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            for _ in range(0, free, _FREED_PAGES):
                # As a script, because `execute` stops after the first page.
                connection.executescript(f"PRAGMA incremental_vacuum({_FREED_PAGES})")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return int(count)

    def _faults(self) -> list[str]:
        check = f"PRAGMA integrity_check({_SHOWN_PROBLEMS})"
        with self._connected() as connection:
            return [text_of(line) for (line,) in connection.execute(check) if line != b"ok"]

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open the file for maintenance; none of it makes a ledger."""
        try:
            with closing(opened(self.path, make=False)) as connection:
                yield connection
        except FAILURES as error:
            raise explained(self.path, error) from error


class _Writer(GroupCommit):
    """The thread that writes, and the connections of this process."""

    def __init__(self, path: Path, lease: float) -> None:
        super().__init__(os.fspath(path))
        self._path = path
        self._lease = lease
        self._damage: LedgerError | None = None  # found in the file
        self._reading = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._files: dict[str, object] = {}
        self._answers_with_room = 0  # by the last check

    def read(self, statement: str, values: tuple[Any, ...]) -> list[Row]:
        self._check_process()
        try:
            with self._reading:
                if self._reader is None:
                    self._reader = opened(self._path)
                return self._reader.execute(statement, values).fetchall()
        except FAILURES as error:
            raise self._explained(error) from error

    def close(self) -> None:
        """Write what waits, end the thread, and close the file."""
        if not self._end():
            return
        self._close_reader()
        self._answers_with_room, self._damage = 0, None

    def _explained(self, error: Exception) -> LedgerError:
        """Convert an error to words; damage is remembered, so that nothing more is paid for."""
        if isinstance(error, LedgerError):
            return error
        if isinstance(error, FAILURES):
            problem = explained(self._path, error)
        else:
            problem = LedgerError(f"the ledger {os.fspath(self._path)!r} failed: {error!r}")
        problem.__cause__ = error
        if is_damage(error):
            self._damage = problem
        return problem

    def _commit(self, batch: list[Write], keys: set[bytes]) -> None:
        connection = self._open()
        of, rows = sorted_by_kind(batch)
        refusal: LedgerError | None = None
        if any(write.kind == "claim" for write in batch):
            refusal = self._damage
            if refusal is None and self._answers_with_room <= 0:
                refusal = lack_of_room(self._path, _ROOM)
                self._answers_with_room = 0 if refusal else _CHECK_AFTER
        # Few statements, because this thread may wait 5 ms for the interpreter after each.
        connection.execute("BEGIN IMMEDIATE")
        now = time.time()
        lease, owner = now + self._lease, self._owner
        former: set[bytes] = set()
        claimed: set[bytes] = set()
        if damaged := keys & self._damaged:
            connection.execute(f"DELETE FROM replies WHERE key IN {_places(damaged)}", (*damaged,))  # noqa: S608
        if rows:
            former = _add(connection, rows)
        if ended := of["complete"] + of["release"]:
            connection.execute(_RELEASE + _places(ended), (owner, *ended))
        if (claims := of["claim"]) and refusal is None:
            statement = _CLAIM.format(", ".join(["(?)"] * len(claims)))
            connection.execute(statement, (owner, lease, *claims, now, lease + self._lease))
            claimed = _keys(connection, _CLAIMED, [owner, lease], claims)
        if renewed := of["renew"]:
            connection.execute(_RENEW + _places(renewed), (lease, owner, *renewed))
        if marked := of["mark"]:
            connection.execute(_MARK + _places(marked), marked)
        connection.execute("COMMIT")
        self._damaged -= damaged
        self._answers_with_room -= len(rows)
        answer_all(batch, refusal or claimed, former)

    def _open(self) -> sqlite3.Connection:
        """Return the connection, once it is certain that its file is the one at the path."""
        if self._connection is None:
            self._connection = opened(self._path)
            self._connection.execute(CLAIMS)
            real = os.path.realpath(self._path)
            self._files = {name: identity(name) for name in (real, f"{real}-wal")}
        elif any(identity(name) != known for name, known in self._files.items()):
            self._close_reader()
            raise LedgerError(
                f"the ledger {os.fspath(self._path)!r} or its log was deleted or replaced while it "
                "was in use; run again with the file that is to be used, and leave it in place"
            )
        return self._connection

    def _drop(self) -> None:
        """Close the writing connection; a transaction that is open is undone."""
        connection, self._connection = self._connection, None
        self._answers_with_room = 0
        if connection is not None:
            connection.close()

    def _close_reader(self) -> None:
        with self._reading:
            reader, self._reader = self._reader, None
            if reader is not None:
                reader.close()


def _add(connection: sqlite3.Connection, rows: list[Row]) -> set[bytes]:
    """Add answers; return the keys that had one."""
    values = [value for row in rows for value in row]
    added = connection.execute(_KEEP + ", ".join([_ROW] * len(rows)), values).rowcount
    if added == len(rows):
        return set()
    # Those that were added have the last numbers.
    (last,) = connection.execute("SELECT max(id) FROM replies").fetchone()
    return _keys(connection, _FORMER, [last - added + 1], [row[0] for row in rows])


def _keys(
    connection: sqlite3.Connection, query: str, values: list[Any], keys: list[bytes]
) -> set[bytes]:
    """Return the keys that a query selects, listed in one value."""
    (listed,) = connection.execute(query + _places(keys), [*values, *keys]).fetchone()
    return set(map(bytes.fromhex, listed.decode().split(","))) if listed else set()


def _places(keys: Collection[bytes]) -> str:
    return "({})".format(", ".join("?" * len(keys)))


def _rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Yield all rows so that no transaction is open in between."""
    last = -1
    while piece := connection.execute(
        f"SELECT id, {COLUMNS}, unusable FROM replies WHERE id > ? ORDER BY id LIMIT ?",  # noqa: S608
        (last, _PIECE),
    ).fetchall():
        yield from piece
        last = piece[-1][0]
