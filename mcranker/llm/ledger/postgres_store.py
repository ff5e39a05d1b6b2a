"""A ledger in a PostgreSQL database, for the processes of any number of machines.

Reads and writes of a process go through one thread and one connection each; what has gathered
is one transaction. Leases are in the server's time. All statements are in transactions and none
is prepared beyond one, so a pooler in transaction mode may be in between.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import time
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread

from mcranker.errors import ConfigError, LedgerError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.group_commit import GroupCommit, Write
from mcranker.llm.ledger.rows import COLUMNS, Damaged, Row, reply_of
from mcranker.llm.ledger.store import KeptAnswer, NewAnswer, Selection, Share
from mcranker.logs import safe_logger
from personas.ranking.usage import Usage

SCHEMES = ("postgresql://", "postgres://")
PATIENCE = 120.0
"""Seconds for which a database that was reached before is waited for."""

PRESENT = 5.0
"""Seconds after which a process that does not call any more has no share of a limit."""

_LEASE = 45.0  # longer than a short outage, in which no claim can be renewed
_TIMEOUT = 20.0  # seconds of a statement
_CONNECT_TIMEOUT = 10.0
_LOCK = 0x6D6352616E6B  # of changes of the schema
_PIECE = 10_000
_DAY = 86_400
_TYPES = (
    *("bytea", "text", "text", "bigint", "bigint", "bigint", "bigint", "bigint"),
    *("double precision", "text", "bigint"),
)
_NAMES = COLUMNS.split(", ")
_ARRAYS = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(_TYPES, 1))
_VERSIONS = (
    f"""
CREATE TABLE mcranker_replies (
    id bigserial NOT NULL,
    {", ".join(f"{name} {kind} NOT NULL" for name, kind in zip(_NAMES, _TYPES, strict=True))},
    unusable boolean NOT NULL DEFAULT false,
    wasted bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (key)
);
CREATE INDEX ON mcranker_replies (id);
CREATE UNLOGGED TABLE mcranker_claims (
    key bytea PRIMARY KEY, owner text NOT NULL, lease_until double precision NOT NULL,
    attempt bigint NOT NULL
);
CREATE UNLOGGED TABLE mcranker_limits (
    name text, owner text, seen double precision NOT NULL, paused_until double precision NOT NULL,
    PRIMARY KEY (name, owner)
);
""",
)
"""Statements of each version of the schema; a database has the first ones."""

_FIND = f"SELECT {COLUMNS} FROM mcranker_replies WHERE key = ANY($1)"  # noqa: S608 - constants
# Rows are locked in the order of their keys, so no two transactions wait for each other.
_KEEP = f"""
WITH given AS MATERIALIZED (
    SELECT nextval('mcranker_replies_id_seq') AS id, * FROM unnest({_ARRAYS}) AS _ ({COLUMNS})
)
INSERT INTO mcranker_replies (id, {COLUMNS}) SELECT * FROM given ORDER BY key
ON CONFLICT (key) DO NOTHING RETURNING key
"""  # noqa: S608 - constants
_WASTED = "UPDATE mcranker_replies SET wasted = wasted + 1 WHERE key = ANY($1)"
# A lease that ends later than it could is of a clock that has been set back since.
_CLAIM = """
INSERT INTO mcranker_claims AS held (key, owner, lease_until, attempt)
SELECT _.key, $2, $3::float8 + $4::float8, 1 FROM unnest($1::bytea[]) AS _ (key)
WHERE NOT EXISTS (SELECT 1 FROM mcranker_replies AS kept WHERE kept.key = _.key) ORDER BY _.key
ON CONFLICT (key) DO UPDATE
SET owner = excluded.owner, lease_until = excluded.lease_until, attempt = held.attempt + 1
WHERE held.owner = excluded.owner OR held.lease_until NOT BETWEEN $3 AND $3 + 2 * $4
RETURNING key
"""
# An answer that came between the look and the claim, whose claim was gone then.
_UNDO = """
DELETE FROM mcranker_claims USING mcranker_replies
WHERE mcranker_claims.key = ANY($1) AND mcranker_replies.key = mcranker_claims.key
RETURNING mcranker_claims.key
"""
_RENEW = "UPDATE mcranker_claims SET lease_until = $3 WHERE owner = $2 AND key = ANY($1)"
_RELEASE = "DELETE FROM mcranker_claims WHERE owner = $2 AND key = ANY($1)"
_BEAT = """
INSERT INTO mcranker_limits AS known VALUES ($1, $2, $3, $3::float8 + $4::float8)
ON CONFLICT (name, owner) DO UPDATE SET seen = excluded.seen,
    paused_until = greatest(known.paused_until, excluded.paused_until)
"""
_OTHERS = """
SELECT count(*), max(paused_until) - $2::float8 FROM mcranker_limits
WHERE name = $1 AND seen > $2::float8 - $3::float8
"""
_FORGET = "DELETE FROM mcranker_limits WHERE seen < $1"
_MARK = "UPDATE mcranker_replies SET unusable = true WHERE key = ANY($1)"
_DELETE = "DELETE FROM mcranker_replies WHERE key = ANY($1)"
_COUNTS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens")
_SHARES = f"""
SELECT model, stage, count(*), count(*) FILTER (WHERE unusable),
    {", ".join(f"sum({name})::bigint" for name in _COUNTS)},
    sum(seconds), min(created), max(created)
FROM mcranker_replies GROUP BY model, stage ORDER BY model COLLATE "C", stage COLLATE "C"
"""  # noqa: S608 - constants

logger = safe_logger("mcranker.llm")


def shown_url(url: str) -> str:
    """Return a database's URL without its password."""
    parts = urlsplit(url)
    name, at, place = parts.netloc.rpartition("@")
    user = name.partition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{user}{at}{place}"))


class PostgresStore:
    """A `LedgerStore` in a database, whose tables are made at the first use.

    What is confirmed is committed. A database that goes away is waited for, up to `PATIENCE`.

    Args:
        url: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``, as libpq takes it.

    Raises:
        ConfigError: asyncpg is not installed.
    """

    lease = _LEASE

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = shown_url(url)
        self._writer = _Connection(url, self.lease)
        self._reader = _Connection(url, self.lease)
        for each in (self._writer, self._reader):
            weakref.finalize(self, each.close)

    async def get_many(self, keys: Collection[bytes]) -> dict[bytes, ChatReply]:
        if not keys:
            return {}
        found = {}
        for row in await self._reader.put(Write("get", keys)):
            try:
                found[row[0]] = reply_of(row)
            except Damaged:
                self._writer.note_damaged(row[0])
        return found

    def claim_many(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        return self._writer.put(Write("claim", keys))

    def complete_many(self, answers: Sequence[NewAnswer]) -> Awaitable[set[bytes]]:
        return self._writer.put_answers(answers)

    def renew(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        return self._writer.put(Write("renew", keys))

    def release(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        return self._writer.put(Write("release", keys))

    def mark_unusable(self, key: bytes) -> Awaitable[set[bytes]]:
        return self._writer.put(Write("mark", [key]))

    def beat(self, name: str, paused: float) -> Awaitable[tuple[int, float]]:
        """Note that this process keeps to a limit, and that its calls pause for some seconds.

        Returns:
            The number of processes that have noted so in the last `PRESENT` seconds, this one
            included, and for how many seconds the longest pause of them still goes on.
        """
        key = hashlib.sha256(f"limit {name}".encode(errors="surrogatepass")).digest()
        return self._writer.put(Write("beat", [key], [(name, paused)]))

    async def aclose(self) -> None:
        for each in (self._writer, self._reader):
            await anyio.to_thread.run_sync(each.close)

    async def stats(self) -> list[Share]:
        async with self._connected() as connection:
            rows = await connection.fetch(_SHARES)
        return [
            Share(row[0], row[1], row[2], row[3], Usage(*row[4:9]), _date(row[9]), _date(row[10]))
            for row in rows
        ]

    async def size(self) -> int:
        async with self._connected() as connection:
            return int(
                await connection.fetchval(
                    "SELECT pg_total_relation_size('mcranker_replies') "
                    "+ pg_total_relation_size('mcranker_claims')"
                )
            )

    async def wasted(self) -> int:
        """Answers that were paid for and not kept, because there was one already."""
        async with self._connected() as connection:
            return int(await connection.fetchval("SELECT sum(wasted) FROM mcranker_replies") or 0)

    async def iterate(self) -> AsyncIterator[KeptAnswer]:
        last = -1
        async with self._connected() as connection:
            while rows := await connection.fetch(
                f"SELECT id, {COLUMNS}, unusable FROM mcranker_replies "  # noqa: S608 - constants
                f"WHERE id > $1 ORDER BY id LIMIT {_PIECE}",
                last,
            ):
                last = rows[-1][0]
                for row in rows:
                    yield _kept(row)

    async def prune(self, selection: Selection, *, dry_run: bool = False) -> int:
        conditions, values = ["true"], []
        for text, value in (
            (f"created < {_now()} - ${{}} * {_DAY}::float8", selection.older_than),
            ("model = ${}", selection.model),
            ("stage = ${}", selection.stage),
        ):
            if value is not None:
                values.append(value)
                conditions.append(text.format(len(values)))
        where = " AND ".join([*conditions, *["unusable"] * selection.unusable])
        async with self._connected() as connection:
            if dry_run:
                count = f"SELECT count(*) FROM mcranker_replies WHERE {where}"  # noqa: S608
                return int(await connection.fetchval(count, *values))
            done = await connection.execute(
                f"DELETE FROM mcranker_replies WHERE {where}",  # noqa: S608 - no value in it
                *values,
                timeout=None,
            )
            return int(done.split()[1])

    async def verify(self) -> tuple[int, list[str]]:
        read, faults = 0, []
        async for each in self.iterate():
            read += 1
            if each.reply is None:
                faults.append(f"the answer for the key {each.key.hex()} is damaged")
        if faults:
            faults.insert(0, f"{read - len(faults):,} answers are whole, {len(faults):,} are not")
        return read, faults

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """A connection of the caller's event loop, for maintenance."""
        try:
            connection = await _connect(self.url)
            try:
                yield connection
            finally:
                connection.terminate()
        except _failures() as error:
            raise _explained(self.name, error) from error


class _Connection(GroupCommit):
    """A thread with an event loop and a connection, which is made again when it is lost."""

    def __init__(self, url: str, lease: float) -> None:
        super().__init__(shown_url(url))
        _asyncpg()
        self._url = url
        self._lease = lease
        self._connection: Any = None
        self._reached = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """Write what waits, end the thread, and close the connection."""
        self._end()

    def _commit(self, batch: list[Write], keys: set[bytes]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._patiently(batch, keys))

    async def _patiently(self, batch: list[Write], keys: set[bytes]) -> None:
        """Do the work, again if the connection was lost: doing it twice changes nothing."""
        end, pause = time.monotonic() + PATIENCE, 0.05
        while True:
            try:
                if self._connection is None:
                    self._connection = await _connect(self._url)
                    self._reached = True
                work = self._read if batch[0].kind == "get" else self._write_all
                await work(batch, keys)
            except _lost() as error:
                self._leave()
                if not self._reached or time.monotonic() > end:
                    raise
                logger.info("the ledger %r is away and waited for: %s", self._name, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
            else:
                return

    async def _read(self, batch: list[Write], keys: set[bytes]) -> None:
        async with self._connection.transaction():
            rows = await self._connection.fetch(_FIND, [*keys])
        found = {row["key"]: _bytes_of(row) for row in rows}
        for write in batch:
            write.result = [found[key] for key in write.keys if key in found]

    async def _write_all(self, batch: list[Write], keys: set[bytes]) -> None:
        of = defaultdict[str, list[bytes]](list)
        for write in batch:
            of[write.kind] += write.keys
        rows = [row for write in batch if write.kind == "complete" for row in write.rows]
        do, owner = self._connection.execute, self._owner
        former: set[bytes] = set()
        claimed: set[bytes] = set()
        async with self._connection.transaction():
            if not rows:  # a crash of the server may take claims, which end by themselves
                await do("SET LOCAL synchronous_commit = off")
            if damaged := keys & self._damaged:
                await do(_DELETE, [*damaged])
            if rows:
                former = await self._keep(rows)
            if ended := of["complete"] + of["release"]:
                await do(_RELEASE, sorted(ended), owner)
            if claims := of["claim"]:
                claimed = await self._claim(claims, owner)
            if renewed := of["renew"]:
                now = await self._connection.fetchval(f"SELECT {_now()}")
                await do(_RENEW, sorted(renewed), owner, now + self._lease)
            if marked := of["mark"]:
                await do(_MARK, sorted(marked))
            for write in batch:
                if write.kind == "beat":
                    write.result = await self._beat(*write.rows[0])
        self._damaged -= damaged
        for write in batch:
            if write.kind == "claim":
                write.result = claimed.intersection(write.keys)
            elif write.kind == "complete":
                write.result = former.intersection(write.keys)

    async def _keep(self, rows: list[Row]) -> set[bytes]:
        """Add answers; return the keys that had one."""
        unique = {row[0]: row for row in reversed(rows)}  # the first of a key
        given = [row for row in rows if unique[row[0]] is row]
        kept = await self._connection.fetch(_KEEP, *map(list, zip(*given, strict=True)))
        former = unique.keys() - {row[0] for row in kept}
        if former:
            await self._connection.execute(_WASTED, sorted(former))
        return {*former}

    async def _claim(self, keys: list[bytes], owner: str) -> set[bytes]:
        now = await self._connection.fetchval(f"SELECT {_now()}")
        rows = await self._connection.fetch(_CLAIM, sorted(keys), owner, now, self._lease)
        claimed = {row[0] for row in rows}
        if claimed:
            gone = await self._connection.fetch(_UNDO, sorted(claimed))
            claimed -= {row[0] for row in gone}
        return claimed

    async def _beat(self, name: str, paused: float) -> tuple[int, float]:
        now = await self._connection.fetchval(f"SELECT {_now()}")
        await self._connection.execute(_BEAT, name, self._owner, now, max(0.0, paused))
        await self._connection.execute(_FORGET, now - _DAY)
        found = await self._connection.fetchrow(_OTHERS, name, now, PRESENT)
        return found[0], max(0.0, found[1])

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def _drop(self) -> None:
        self._leave()
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(asyncio.sleep(0))  # for the transport to close
            loop.close()

    def _explained(self, error: Exception) -> LedgerError:
        return _explained(self._name, error)


def _now() -> str:
    """SQL for the server's time in seconds since 1970."""
    return "extract(epoch FROM clock_timestamp())::float8"


async def _connect(url: str) -> Any:
    """Return a connection to a database that has the tables."""
    connection = await _asyncpg().connect(
        url,
        statement_cache_size=0,
        timeout=_CONNECT_TIMEOUT,
        command_timeout=_TIMEOUT,
    )
    try:
        async with connection.transaction():
            if await connection.fetchval("SELECT to_regclass('mcranker_ledger')") is None:
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                await connection.execute("CREATE TABLE IF NOT EXISTS mcranker_ledger (version int)")
            known = await connection.fetchval("SELECT max(version) FROM mcranker_ledger") or 0
            if known < len(_VERSIONS):
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                known = await connection.fetchval("SELECT max(version) FROM mcranker_ledger") or 0
                for number, statements in enumerate(_VERSIONS[known:], known + 1):
                    await connection.execute(statements)
                    await connection.execute("INSERT INTO mcranker_ledger VALUES ($1)", number)
            elif known > len(_VERSIONS):
                raise LedgerError(
                    f"the ledger {shown_url(url)!r} is of a later version of mcranker; update it"
                )
    except BaseException:
        connection.terminate()
        raise
    return connection


def _asyncpg() -> Any:
    try:
        import asyncpg
    except ImportError as missing:
        raise ConfigError(
            'a ledger in PostgreSQL needs asyncpg; run: pip install "mcranker[postgres]"'
        ) from missing
    return asyncpg


def _failures() -> tuple[type[Exception], ...]:
    found = _asyncpg()
    return (found.PostgresError, found.InterfaceError, OSError, TimeoutError, ValueError)


def _lost() -> tuple[type[Exception], ...]:
    """Errors after which the same may succeed over another connection."""
    found = _asyncpg().exceptions
    return (
        found.PostgresConnectionError,
        found.OperatorInterventionError,
        found.InterfaceError,
        found.DeadlockDetectedError,
        found.SerializationError,
        OSError,
        TimeoutError,
    )


def _explained(name: str, error: Exception) -> LedgerError:
    if isinstance(error, LedgerError):
        return error
    if isinstance(error, OSError | TimeoutError):
        text = f"the ledger {name!r} cannot be reached: {error or type(error).__name__}"
        problem = LedgerError(f"{text}; is the database running, and is its address right?")
    else:
        problem = LedgerError(f"the ledger {name!r} cannot be used: {error}")
    problem.__cause__ = error
    return problem


def _bytes_of(row: Any) -> Row:
    """A row as `reply_of` takes it, with texts as bytes."""
    return tuple(each.encode() if isinstance(each, str) else each for each in row)


def _kept(row: Any) -> KeptAnswer:
    _, *values, unusable = row
    reply: ChatReply | None = None
    created = _date(0)
    try:
        reply, created = reply_of(_bytes_of(values)), _date(values[3])
    except (Damaged, OverflowError, ValueError):
        reply = None
    return KeptAnswer(values[0], values[1], values[2], created, unusable, reply)


def _date(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
