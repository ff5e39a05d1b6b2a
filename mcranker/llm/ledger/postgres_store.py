"""A ledger in a PostgreSQL database, for the processes of any number of machines.

Reads, writes, and the limits of a process go through one thread and one connection each. Leases are
in the server's time. A statement is a transaction of its own, so a process that is frozen or cut
off holds no lock. Where that cannot be, the server ends a transaction that is idle for 10 s: of a
budget, and behind a pooler, where nothing is prepared beyond one. It may be in transaction mode.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import anyio.to_thread

from mcranker.errors import LedgerError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger import postgres_schema as schema
from mcranker.llm.ledger.postgres_schema import shown_url
from mcranker.llm.ledger.rows import COLUMNS, Row
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
)
from mcranker.llm.limits.budget import Booked, Booking, Sums
from mcranker.llm.limits.leases import AHEAD, CATCH_UP, QUEUE, SHARES, Ask, Grant, Lease
from mcranker.logs import safe_logger
from mcranker.runtime.processes import stopping

PATIENCE = 120.0
"""Seconds for which a database that is away is waited for."""

_LEASE = 45.0  # longer than a short outage, in which no claim can be renewed
_LAST_TRY = 1.0  # seconds for what is left when the waits of a process that stops have ended
_PIECE = 10_000
_ARRAYS = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(schema.TYPES, 1))
_FIND = f"SELECT {COLUMNS} FROM mcranker_replies WHERE key = ANY($1)"  # noqa: S608 - constants
# Rows are locked in the order of their keys, so no two transactions wait for each other.
_KEEP = f"""
WITH given AS MATERIALIZED (
    SELECT nextval('mcranker_replies_id_seq') AS id, * FROM unnest({_ARRAYS}) AS _ ({COLUMNS})
), ended AS (DELETE FROM mcranker_claims WHERE owner = $12 AND key = ANY($1))
INSERT INTO mcranker_replies (id, {COLUMNS}) SELECT * FROM given ORDER BY key
ON CONFLICT (key) DO NOTHING RETURNING key
"""  # noqa: S608 - constants
# A lease that ends later than it could is of a clock that has been set back since. A claim that is
# being changed is left to its transaction.
_CLAIM = """
WITH new AS (
    INSERT INTO mcranker_claims (key, owner, lease_until, attempt)
    SELECT _.key, $2, {now} + $3::float8, 1 FROM unnest($1::bytea[]) AS _ (key)
    WHERE NOT EXISTS (SELECT 1 FROM mcranker_replies AS kept WHERE kept.key = _.key)
        AND NOT EXISTS (SELECT 1 FROM mcranker_claims AS held WHERE held.key = _.key)
    ORDER BY _.key ON CONFLICT (key) DO NOTHING RETURNING key
), free AS MATERIALIZED (
    SELECT key FROM mcranker_claims AS held WHERE key = ANY($1)
        AND (owner = $2 OR lease_until NOT BETWEEN {now} AND {now} + 2 * $3)
        AND NOT EXISTS (SELECT 1 FROM mcranker_replies AS kept WHERE kept.key = held.key)
    ORDER BY key FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE mcranker_claims AS held
    SET owner = $2, lease_until = {now} + $3, attempt = held.attempt + 1
    FROM free WHERE held.key = free.key RETURNING held.key
)
SELECT key FROM new UNION ALL SELECT key FROM taken
"""
# An answer that came between the look and the claim, whose claim was gone then.
_UNDO = """
DELETE FROM mcranker_claims USING mcranker_replies
WHERE mcranker_claims.key = ANY($1) AND mcranker_replies.key = mcranker_claims.key
RETURNING mcranker_claims.key
"""
# Claims that a crash of the server took are made again.
_RENEW = """
INSERT INTO mcranker_claims AS held (key, owner, lease_until, attempt)
SELECT _.key, $2, {now} + $3, 1 FROM unnest($1::bytea[]) AS _ (key)
WHERE NOT EXISTS (SELECT 1 FROM mcranker_replies AS kept WHERE kept.key = _.key) ORDER BY _.key
ON CONFLICT (key) DO UPDATE SET lease_until = excluded.lease_until
WHERE held.owner = excluded.owner
"""
_RELEASE = "DELETE FROM mcranker_claims WHERE owner = $2 AND key = ANY($1)"
_NEXT = f"""
SELECT id, {COLUMNS}, unusable FROM mcranker_replies WHERE id > $1 ORDER BY id LIMIT {_PIECE}
"""  # noqa: S608 - constants
_MARK = "UPDATE mcranker_replies SET unusable = true WHERE key = ANY($1)"
_DELETE = "DELETE FROM mcranker_replies WHERE key = ANY($1)"
_COUNTS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens")
_SHARES = f"""
SELECT model, stage, count(*), count(*) FILTER (WHERE unusable),
    {", ".join(f"sum({name})::bigint" for name in _COUNTS)},
    sum(seconds), min(created), max(created)
FROM mcranker_replies GROUP BY model, stage ORDER BY model COLLATE "C", stage COLLATE "C"
"""  # noqa: S608 - constants

_KINDS = ("pause", "requests", "tokens")
_NEW = """
INSERT INTO mcranker_buckets (name, kind, due, at)
SELECT $1, kind, {now}, {now} FROM unnest($2::text[]) AS _ (kind) ORDER BY kind
ON CONFLICT (name, kind) DO NOTHING
"""
# As `Bucket` of the tests; of pauses the one that ends last is kept.
_LEASE_LIMITS = f"""
WITH clock AS MATERIALIZED (SELECT {{now}} AS now), held AS MATERIALIZED (
    SELECT kind, due - greatest(0, at - now) AS due, now FROM mcranker_buckets, clock
    WHERE name = $1 ORDER BY kind FOR UPDATE OF mcranker_buckets
), asked AS (
    SELECT held.kind, now, rate, amount, least, greatest(due, now - {CATCH_UP}) AS start
    FROM held JOIN unnest($2::text[], $3::float8[], $4::float8[], $5::float8[])
        AS _ (kind, rate, amount, least) ON held.kind = _.kind
), leased AS (
    SELECT kind, now, rate, start, CASE
        WHEN kind = 'pause' THEN greatest(amount - (start - now), 0)
        WHEN amount <= 0 THEN amount
        WHEN start - now > {QUEUE} THEN 0
        ELSE greatest(least, least(amount, ({AHEAD} - (start - now)) / {SHARES} * rate))
        END AS granted FROM asked
)
UPDATE mcranker_buckets AS kept SET due = start + granted / rate, at = now
FROM leased WHERE kept.name = $1 AND kept.kind = leased.kind
RETURNING kept.kind, granted, start - now
"""  # noqa: S608 - constants
_OTHERS = """
SELECT coalesce(sum(spent_calls + open_calls), 0)::bigint,
    coalesce(sum(spent_cost + open_cost), 0),
    coalesce(sum(open_calls) FILTER (WHERE EXISTS (
        SELECT 1 FROM mcranker_claims AS held
        WHERE held.owner = payers.owner AND held.lease_until > {now}
    )), 0)::bigint
FROM mcranker_budgets AS payers WHERE run = $1 AND payer <> $2
"""
_BOOK = """
INSERT INTO mcranker_budgets VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (run, payer) DO UPDATE SET spent_calls = excluded.spent_calls,
    spent_cost = excluded.spent_cost, open_calls = excluded.open_calls,
    open_cost = excluded.open_cost
"""

logger = safe_logger("mcranker.llm")


class PostgresStore(LedgerStore):
    """A store in a database, whose tables are made at the first use."""

    lease = _LEASE

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = shown_url(url)
        outages = _Outages(self.name)
        self._connections = tuple(_Connection(url, self.lease, outages) for _ in range(3))
        self._booker, self._writer, self._reader = self._connections
        for each in self._connections:
            weakref.finalize(self, each.close)

    async def get_many(self, keys: Collection[bytes]) -> dict[bytes, ChatReply]:
        if not keys:
            return {}
        return self._restored(await self._reader.put(Write("get", keys)))

    def lease_limits(self, name: str, ask: Ask) -> Awaitable[Lease]:
        """Lease from the limits of a name, which all processes share."""
        return self._booker.put(Write("lease", [_hash(f"limit {name}")], [(name, ask)]))

    def book(self, run: str, booking: Booking) -> Awaitable[Booked]:
        """Keep to a budget that all processes of a run share, see `Budget.share`."""
        key = _hash(f"run {run}")
        return self._booker.put(Write("book", [key], [(key, self._writer.owner, booking)]))

    async def aclose(self) -> None:
        for each in self._connections:
            await anyio.to_thread.run_sync(each.close)

    async def stats(self) -> list[Share]:
        async with self._connected() as connection:
            return list(map(share_of, await connection.fetch(_SHARES)))

    async def size(self) -> int:
        async with self._connected() as connection:
            return int(
                await connection.fetchval(
                    "SELECT pg_total_relation_size('mcranker_replies') "
                    "+ pg_total_relation_size('mcranker_claims')"
                )
            )

    async def iterate(self) -> AsyncIterator[KeptAnswer]:
        last = -1
        rows: list[Any] = [None]
        while rows:
            async with self._connected() as connection:
                rows = await connection.fetch(_NEXT, last)
            for row in rows:
                last = row[0]
                yield kept_of(_bytes_of(row))

    async def prune(self, selection: Selection, *, dry_run: bool = False) -> int:
        condition, values = selection.where(schema.server_time(), "$")
        chosen = f"FROM mcranker_replies WHERE {condition}"
        async with self._connected() as connection:
            if dry_run:
                return int(await connection.fetchval(f"SELECT count(*) {chosen}", *values))
            return int((await connection.execute(f"DELETE {chosen}", *values)).split()[1])

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """A transaction of the caller's event loop, for maintenance."""
        try:
            connection = await schema.connect(self.url, seconds=None)
            try:
                async with schema.transaction(connection):
                    yield connection
            finally:
                connection.terminate()
        except schema.failures() as error:
            raise schema.explained(self.name, error) from error


class _Outages:
    """The log of outages, which the connections of a store share."""

    def __init__(self, name: str) -> None:
        self.reached = False  # before
        self._name = name
        self._away = dict[object, float]()  # lost connections, and since when

    def begin(self, connection: object, error: Exception) -> None:
        if not self._away:
            said = "the ledger %r cannot be used now and is waited for: %s"
            logger.warning(said, self._name, schema.cause(error))
        self._away.setdefault(connection, time.monotonic())

    def end(self, connection: object) -> None:
        self.reached = True
        if connection in self._away:
            seconds = time.monotonic() - min(self._away.values())
            self._away.clear()
            logger.warning("the ledger %r is back after %.1f seconds", self._name, seconds)


class _Connection(GroupCommit):
    """A thread with an event loop and a connection, which is made again when it is lost."""

    def __init__(self, url: str, lease: float, outages: _Outages) -> None:
        super().__init__(shown_url(url))
        schema.failures()  # the package is installed
        self._url = url
        self._lease = lease
        self._outages = outages
        self._connection: Any = None
        self._prepared: dict[str, Any] | None = None  # statements; None behind a pooler
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
        end, pause = math.inf, 0.05
        work = {"get": self._read, "lease": self._book, "book": self._book}
        do = work.get(batch[0].kind, self._write_all)
        while True:
            try:
                async with asyncio.timeout(stopping.left(_LAST_TRY)):
                    if self._connection is None:
                        await self._connect()
                    await do(batch, keys)
            except schema.lost() as error:
                self._leave()
                if not self._outages.reached and schema.misdirected(error):
                    raise
                if end < math.inf or isinstance(error, TimeoutError):
                    self._outages.begin(self, error)
                now = time.monotonic()
                end = min(end, now + PATIENCE)  # a process may have been frozen until now
                if now > min(end, stopping.until):
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
            else:
                self._outages.end(self)
                return

    async def _connect(self) -> None:
        self._connection = await schema.connect(self._url)
        pid = await self._connection.fetchval("SELECT pg_backend_pid()")
        self._prepared = None
        # A pooler, which may change servers between transactions, has ids of its own.
        if pid == self._connection.get_server_pid():
            self._prepared = {}
            await self._connection.execute(f"SET {schema.LOCK_TIMEOUT}")

    def _together(self, *, durable: bool = True) -> AbstractAsyncContextManager[None]:
        """Open a transaction behind a pooler, where a statement by itself has no place."""
        if self._prepared is not None:
            return nullcontext()
        return schema.transaction(self._connection, durable=durable)

    async def _read(self, batch: list[Write], keys: set[bytes]) -> None:
        async with self._together():
            rows = await self._do(_FIND, [*keys])
        found = {row["key"]: _bytes_of(row) for row in rows}
        for write in batch:
            write.result = [found[key] for key in write.keys if key in found]

    async def _book(self, batch: list[Write], _: set[bytes]) -> None:
        for write in batch:
            if write.kind == "lease":
                async with self._together():
                    write.result = await self._lease_from(*write.rows[0])
            else:
                async with schema.transaction(self._connection, durable=False):
                    write.result = await self._book_for(*write.rows[0])

    async def _lease_from(self, name: str, ask: Ask) -> Lease:
        """Lease from the buckets of a name, by one statement if they are there."""
        columns = [*ask], *map(list, zip(*ask.values(), strict=True))
        rows = await self._do(_timed(_LEASE_LIMITS), name, *columns)
        if len(rows) < len(ask):
            await self._do(_timed(_NEW), name, _KINDS)
            rows = await self._do(_timed(_LEASE_LIMITS), name, *columns)
        return {kind: Grant(granted, wait) for kind, granted, wait in rows}

    async def _book_for(self, run: bytes, owner: str, booking: Booking) -> Booked:
        """Note what a payer has spent and set aside, and set aside what there is room for."""
        if booking.claims:
            lock = int.from_bytes(run[:8], signed=True)
            await self._do("SELECT pg_advisory_xact_lock($1)", lock)
        ((calls, cost, open_calls),) = await self._do(_timed(_OTHERS), run, booking.payer)
        booked = Booked(booking.room(Sums(calls, cost)), Sums(calls, cost), open_calls)
        mine = booking.open.plus(*booking.claims[: booked.granted])
        await self._do(_BOOK, run, booking.payer, owner, *booking.spent, *mine)
        return booked

    async def _write_all(self, batch: list[Write], keys: set[bytes]) -> None:
        of, rows = sorted_by_kind(batch)
        do, owner = self._do, self._owner
        former: set[bytes] = set()
        claimed: set[bytes] = set()
        # A crash of the server may take claims, which end by themselves.
        async with self._together(durable=bool(rows)):
            if not keys:  # only to know that it is there
                await do("SELECT 1")
            if damaged := keys & self._damaged:
                await do(_DELETE, [*damaged])
            if released := {*of["release"], *of["complete"]} - {row[0] for row in rows}:
                await do(_RELEASE, sorted(released), owner)
            if claims := of["claim"]:
                claimed = await self._claim(claims, owner)
            if renewed := of["renew"]:
                await do(_timed(_RENEW), sorted(renewed), owner, self._lease)
            if marked := of["mark"]:
                await do(_MARK, sorted(marked))
            if rows:
                former = await self._keep(rows, owner)
        self._damaged -= damaged
        answer_all(batch, claimed, former)

    async def _do(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a statement, which is prepared once where that is possible."""
        if self._prepared is None:
            return list(await self._connection.fetch(statement, *values))
        if statement not in self._prepared:
            self._prepared[statement] = await self._connection.prepare(statement)
        return list(await self._prepared[statement].fetch(*values))

    async def _keep(self, rows: list[Row], owner: str) -> set[bytes]:
        """Add answers and end the claims on them; return the keys that had one."""
        unique = {row[0]: row for row in reversed(rows)}  # the first of a key
        given = [row for row in rows if unique[row[0]] is row]
        kept = await self._do(_KEEP, *map(list, zip(*given, strict=True)), owner)
        return unique.keys() - {row[0] for row in kept}

    async def _claim(self, keys: list[bytes], owner: str) -> set[bytes]:
        rows = await self._do(_timed(_CLAIM), sorted(keys), owner, self._lease)
        claimed = {row[0] for row in rows}
        if claimed:
            gone = await self._do(_UNDO, sorted(claimed))
            claimed -= {row[0] for row in gone}
        return claimed

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
        return schema.explained(self._name, error)


def _timed(statement: str) -> str:
    return statement.format(now=schema.server_time())


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode(errors="surrogatepass")).digest()


def _bytes_of(row: Any) -> Row:
    """A row as the file has it, with texts as bytes."""
    return tuple(each.encode() if isinstance(each, str) else each for each in row)
