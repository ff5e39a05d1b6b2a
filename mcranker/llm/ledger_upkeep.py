"""What can be done with a whole ledger: sums, export, removal, and a check. None makes a file.

All of it goes piece by piece, so that rankings that use the ledger meanwhile wait for a moment
at most.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcranker.errors import ConfigError
from mcranker.llm.chat import Usage
from mcranker.llm.ledger_file import LedgerConnection, explained
from mcranker.llm.ledger_rows import COLUMNS, Damaged, Row, reply_of
from mcranker.llm.prices import cost
from mcranker.logs import safe_logger

__all__ = ["Selection", "Share", "export", "file_bytes", "prune", "stats", "verify"]

_PIECE = 10_000  # rows looked at in one transaction
_FREED_PAGES = 1000  # given back in one transaction
_SHOWN_PROBLEMS = 20
_DAY = 86_400  # seconds
_SHARES = """
SELECT model, stage, count(*), sum(unusable), sum(calls), sum(input_tokens),
    sum(cached_input_tokens), sum(output_tokens), sum(seconds), min(created), max(created)
FROM replies GROUP BY model, stage ORDER BY model, stage
"""
_PAGE = f"SELECT id, unusable, {COLUMNS} FROM replies WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - constants

logger = safe_logger("mcranker.llm")


@dataclass(frozen=True, slots=True)
class Share:
    """The answers of one model in one stage.

    Attributes:
        model: as the user names it.
        stage: what the answers are for.
        answers: how many.
        unusable: how many of them nothing could be made of.
        usage: what they took when they were given.
        oldest: when the first one came.
        newest: when the last one came.
    """

    model: str
    stage: str
    answers: int
    unusable: int
    usage: Usage
    oldest: datetime.datetime
    newest: datetime.datetime

    @property
    def cost(self) -> float | None:
        """US dollars that they have cost at today's prices, None where no price is known."""
        return cost(self.model, self.usage)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which answers: those of which all that is set is true; all of them if nothing is.

    Attributes:
        older_than: days since they came, more than this.
        model: they are by it.
        stage: they are for it.
        unusable: nothing could be made of them.
    """

    older_than: float | None = None
    model: str | None = None
    stage: str | None = None
    unusable: bool = False

    def __post_init__(self) -> None:
        if self.older_than is not None and not self.older_than >= 0:
            raise ConfigError(f"older_than={self.older_than!r}: give 0 days or more")


def stats(path: Path) -> list[Share]:
    """Sums by model and stage.

    Raises:
        LedgerError: there is no ledger, or it cannot be read.
    """
    with _connected(path) as connection:
        rows = connection.execute(_SHARES).fetchall()
    return [
        Share(
            _text(row[0]), _text(row[1]), row[2], row[3], Usage(*row[4:9]), *map(_date, row[9:11])
        )
        for row in rows
    ]


def file_bytes(path: Path) -> int:
    """What the ledger takes on the disk, its write-ahead log included."""
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def export(path: Path) -> Iterator[dict[str, Any]]:
    """Every answer as an object for JSON, in the order in which they came.

    Damaged ones are left out, and a warning is logged.

    Raises:
        LedgerError: there is no ledger, or it cannot be read.
    """
    left_out = 0
    with _connected(path) as connection:
        for _, unusable, *row in _rows(connection):
            try:
                reply = reply_of(tuple(row))
            except Damaged:
                left_out += 1
                continue
            content = dataclasses.asdict(reply)
            usage = content.pop("usage")
            del usage["unreadable"]  # not known here: it depends on who reads the reply
            del content["reused"]
            yield {
                "key": row[0].hex(),
                "model": _text(row[1]),
                "stage": _text(row[2]),
                "created": _date(row[3]).isoformat(),
                "unusable": bool(unusable),
                "reply": content,
                "usage": usage,
            }
    if left_out:
        logger.warning("%d damaged answers of %r are left out", left_out, os.fspath(path))


def prune(path: Path, selection: Selection, *, dry_run: bool = False) -> int:
    """Remove answers and give their room on the disk back.

    Returns:
        How many were removed, or with `dry_run` would be.

    Raises:
        LedgerError: there is no ledger, or it cannot be written.
    """
    condition, values = _condition(selection)
    with _connected(path) as connection:
        if dry_run:
            (count,) = connection.execute(
                f"SELECT count(*) FROM replies WHERE {condition}",  # noqa: S608 - see _condition
                values,
            ).fetchone()
            return int(count)
        connection.execute("PRAGMA wal_autocheckpoint = 1000")
        removed = 0
        (last,) = connection.execute("SELECT max(id) FROM replies").fetchone()
        for start in range(0, last or 0, _PIECE):
            removed += connection.execute(
                f"DELETE FROM replies WHERE id > ? AND id <= ? AND {condition}",  # noqa: S608
                (start, start + _PIECE, *values),
            ).rowcount
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        for _ in range(0, free, _FREED_PAGES):
            # As a script, because `execute` stops after the first page.
            connection.executescript(f"PRAGMA incremental_vacuum({_FREED_PAGES})")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return removed


def verify(path: Path) -> tuple[int, list[str]]:
    """Check SQLite's structures and every answer's checksum.

    Returns:
        How many answers were read, and what is wrong, a line each.

    Raises:
        LedgerError: there is no ledger, or so much is wrong that it cannot be read.
    """
    read = 0
    with _connected(path) as connection:
        found = connection.execute(f"PRAGMA integrity_check({_SHOWN_PROBLEMS})").fetchall()
        problems = [text for (line,) in found if (text := _text(line)) != "ok"]
        for _, _, *row in _rows(connection):
            read += 1
            try:
                reply_of(tuple(row))
            except Damaged:
                problems.append(f"the answer for the key {_shown(row[0])} is damaged")
    return read, problems


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    opened = LedgerConnection(path, create=False)
    try:
        yield opened.get()
    except sqlite3.Error as error:
        raise explained(path, error) from error
    finally:
        opened.drop()


def _rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """All rows, read in pieces: no transaction is open in between."""
    last = -1
    while page := connection.execute(_PAGE, (last, _PIECE)).fetchall():
        yield from page
        last = page[-1][0]


def _condition(selection: Selection) -> tuple[str, list[Any]]:
    """An SQL condition without any value in it, and the values."""
    conditions = ["1"]
    values: list[Any] = []
    if selection.older_than is not None:
        conditions.append("created < ?")
        values.append(time.time() - selection.older_than * _DAY)
    if selection.model is not None:
        conditions.append("model = ?")
        values.append(selection.model)
    if selection.stage is not None:
        conditions.append("stage = ?")
        values.append(selection.stage)
    if selection.unusable:
        conditions.append("unusable")
    return " AND ".join(conditions), values


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _date(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
