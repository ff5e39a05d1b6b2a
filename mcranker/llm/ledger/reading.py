"""All rows of a ledger, one after the other, and what can be read of them where it is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from mcranker.llm.ledger.connection import FAILURES, is_damage, is_failed_access
from mcranker.llm.ledger.rows import Row

_PIECE = 10_000  # rows looked at in one transaction
_ROW = "SELECT * FROM replies"  # without names, which may be damaged like all else
_NUMBER = "SELECT rowid FROM replies"  # with a condition on the key, by the index of keys alone
_PARTS = 4096  # of the keys: a page of the index that is damaged spoils few of them
_REST = b"\xff" * 30  # of the last key in a part
_LEAST_BYTES = 64  # of a row in the file


class Reading:
    """Reads all rows, as far as they can be read.

    A sound file is read by the number of the rows. In a damaged one, to go from one row to the
    next may lead past others, or nowhere: it is read forwards and backwards as far as that goes,
    and then each row that is still missing by itself.

    Args:
        connection: to the file, a tolerant one.
        sound: SQLite finds no fault in its structure.

    Attributes:
        read: rows so far.
        lost: rows that there are by the index of keys, and that cannot be read; known at the end.
        perhaps_more: the index cannot be read as a whole either.
    """

    def __init__(self, connection: sqlite3.Connection, *, sound: bool) -> None:
        self._connection = connection
        self._sound = sound
        self._failures = 0
        self.read = self.lost = 0
        self.perhaps_more = False

    @property
    def nothing(self) -> bool:
        """True if there may be rows and none could be read; known at the end."""
        return not self.read and (self.lost > 0 or self.perhaps_more)

    def rows(self) -> Iterator[Row]:
        """``id``, `COLUMNS` and ``unusable``, in the order in which they came if all is sound."""
        for row in self._in_pieces() if self._sound else self._one_by_one():
            self.read += 1
            yield row

    def _in_pieces(self) -> Iterator[Row]:
        """Read so that no transaction is open in between."""
        last = -1
        while page := self._connection.execute(
            f"{_ROW} WHERE rowid > ? ORDER BY rowid LIMIT ?", (last, _PIECE)
        ).fetchall():
            yield from page
            last = page[-1][0]

    def _one_by_one(self) -> Iterator[Row]:
        seen: set[int] = set()
        for order in ("ASC", "DESC"):
            for row in self._readable(f"{_ROW} ORDER BY rowid {order}"):
                if row[0] not in seen:
                    seen.add(row[0])
                    yield row
        listed = self._listed()
        for number in sorted(listed.union(range(self._most_rows())) - seen):
            for row in self._readable(f"{_ROW} WHERE rowid = ?", number):
                seen.add(number)
                yield row
        self.lost = len(listed - seen)

    def _listed(self) -> set[int]:
        """The numbers of all rows, by the index of keys."""
        failures = self._failures
        listed = {number for (number,) in self._readable(f"{_NUMBER} ORDER BY key")}
        in_a_row = len(listed)
        for part in range(_PARTS):
            first, last = part << 4, part << 4 | 15
            bounds = first.to_bytes(2, "big"), last.to_bytes(2, "big") + _REST
            listed.update(
                number
                for (number,) in self._readable(f"{_NUMBER} WHERE key BETWEEN ? AND ?", *bounds)
            )
        self.perhaps_more = self._failures > failures or len(listed) > in_a_row
        return listed

    def _readable(self, statement: str, *values: object) -> Iterator[Row]:
        """Yield the rows of a query up to the first damaged one."""
        try:
            yield from self._connection.execute(statement, values)
        except FAILURES as error:
            _pass_over(error)
            self._failures += 1

    def _most_rows(self) -> int:
        """More rows than there are in the file."""
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (size,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages * size // _LEAST_BYTES)


def faults(connection: sqlite3.Connection, check: str) -> list[str]:
    """Return the faults that one of SQLite's checks finds in a file's structure."""
    try:
        found = connection.execute(f"PRAGMA {check}").fetchall()
    except FAILURES as error:
        _pass_over(error)
        return [str(error)]
    return [text for (line,) in found if (text := line.decode(errors="replace")) != "ok"]


def _pass_over(error: Exception) -> None:
    """Raise it, unless it is what damage to a file causes."""
    if not (is_damage(error) or is_failed_access(error)):
        raise error
