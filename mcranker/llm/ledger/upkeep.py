"""Work on a whole ledger: sums, export, removal and checks. None of them creates a file.

All of it goes piece by piece, so that rankings that use the ledger meanwhile wait for a moment
at most. Export and check read what can be read of a damaged file.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcranker.errors import ConfigError, LedgerError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.connection import FAILURES, explained, is_damage, opened
from mcranker.llm.ledger.reading import Reading, faults
from mcranker.llm.ledger.recovery import recovered, unreadable
from mcranker.llm.ledger.rows import Damaged, Row, answer_form, reply_of
from mcranker.llm.prices import cost
from personas.ranking.usage import Usage

_PIECE = 10_000  # rows removed in one transaction
_FREED_PAGES = 1000  # given back in one transaction
_SHOWN_PROBLEMS = 20
_DAY = 86_400  # seconds
_COUNTS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens")
# total(), because sum() fails beyond 2**63, which counts of older versions may reach together.
_SHARES = f"""
SELECT model, stage, count(*), sum(unusable),
    {", ".join(f"CAST(total({name}) AS INTEGER)" for name in _COUNTS)},
    total(seconds), min(created), max(created)
FROM replies GROUP BY model, stage ORDER BY model, stage
"""  # noqa: S608 - constants


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
        """US dollars at today's prices, None where no price is known."""
        return cost(self.model, self.usage)


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter of answers: all fields that are set must match.

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
    """Return the size of the ledger on disk, including its write-ahead log."""
    path = path.resolve()
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


class Export:
    """Every answer as an object for JSON, in the order in which they came if the file is sound.

    Args:
        path: the ledger.

    Attributes:
        saved: answers given so far.
        lost: answers that are damaged or cannot be read, as far as is known at the end.
        perhaps_more: there may be others.

    Raises:
        LedgerError: there is no ledger, or nothing of it can be read or recovered.
        OSError: there is no room for the copy from which it is recovered.
    """

    def __init__(self, path: Path) -> None:
        self.saved = self.lost = 0
        self.perhaps_more = False
        self._path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        reading: Reading | None = None
        try:
            with _connected(self._path, tolerant=True) as connection:
                reading = Reading(connection, sound=_sound(connection))
                yield from self._whole(reading.rows())
        except LedgerError as error:
            if self.saved or not is_damage(error.__cause__):
                raise
            reading = None
        if reading is None or reading.nothing:
            self.lost = 0
            yield from self._whole(recovered(self._path))
            self.perhaps_more = True
        else:
            self.lost += reading.lost
            self.perhaps_more = reading.perhaps_more

    def _whole(self, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        for _, *row, unusable in rows:
            try:
                reply = reply_of(tuple(row))
            except Damaged:
                self.lost += 1
                continue
            self.saved += 1
            yield _exported(row, reply, unusable=bool(unusable))


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
        How many answers were read, and what is wrong, a line each; if anything is, the first line
        says how many answers are whole, and how many are not.

    Raises:
        LedgerError: there is no ledger, or nothing of it can be read.
    """
    damaged = []
    with _connected(path, tolerant=True) as connection:
        problems = faults(connection, f"integrity_check({_SHOWN_PROBLEMS})")
        reading = Reading(connection, sound=not problems or _sound(connection))
        for _, *row, _ in reading.rows():
            try:
                reply_of(tuple(row))
            except Damaged:
                damaged.append(f"the answer for the key {_shown(row[0])} is damaged")
    if reading.nothing:
        raise unreadable(path)
    if problems or damaged:
        whole, lost = reading.read - len(damaged), reading.lost + len(damaged)
        least = "at least " if reading.perhaps_more else ""
        problems.insert(0, f"{whole:,} answers can be read, {least}{lost:,} cannot")
    return reading.read, problems + damaged


@contextmanager
def _connected(path: Path, *, tolerant: bool = False) -> Iterator[sqlite3.Connection]:
    try:
        if not path.exists():
            raise LedgerError(f"there is no ledger {os.fspath(path)!r}; a ranking makes one")
        with closing(opened(path, tolerant=tolerant)) as connection:
            yield connection
    except (*FAILURES, OSError) as error:
        raise explained(path, error) from error
    except LedgerError as error:
        if tolerant and is_damage(error.__cause__):
            raise unreadable(path) from error.__cause__
        raise


def _sound(connection: sqlite3.Connection) -> bool:
    """True if the rows can be read, even if some cannot be found by key."""
    return not faults(connection, "quick_check(1)")


def _exported(row: Sequence[Any], reply: ChatReply, *, unusable: bool) -> dict[str, Any]:
    content = dataclasses.asdict(reply)
    if reply.answers is not None:
        content["answers"] = [answer_form(answer) for answer in reply.answers]
    usage = content.pop("usage")
    del usage["unreadable"]  # not known here: it depends on who reads the reply
    del content["reused"]
    return {
        "key": row[0].hex(),
        "model": _text(row[1]),
        "stage": _text(row[2]),
        "created": _date(row[3]).isoformat(),
        "unusable": unusable,
        "reply": content,
        "usage": usage,
    }


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
