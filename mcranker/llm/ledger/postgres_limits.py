"""Limits and budgets of all processes over a ledger in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from mcranker.llm.ledger import postgres_schema as schema
from mcranker.llm.limits.budget import Booked, Booking, Sums
from mcranker.llm.limits.leases import AHEAD, CATCH_UP, QUEUE, SHARES, Ask, Grant, Lease

Do: TypeAlias = Callable[..., Awaitable[list[Any]]]
"""Return the rows of a statement with these values."""

_KINDS = ("pause", "requests", "tokens")
_NEW = """
INSERT INTO mcranker_buckets (name, kind, due, at)
SELECT $1, kind, {now}, {now} FROM unnest($2::text[]) AS _ (kind) ORDER BY kind
ON CONFLICT (name, kind) DO NOTHING
"""
# As `Bucket` of the tests; of pauses the one that ends last is kept.
_LEASE = f"""
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


async def lease(do: Do, name: str, ask: Ask) -> Lease:
    """Lease from the buckets of a name, by one statement if they are there."""
    columns = [*ask], *map(list, zip(*ask.values(), strict=True))
    statement = _LEASE.format(now=schema.server_time())
    rows = await do(statement, name, *columns)
    if len(rows) < len(ask):
        await do(_NEW.format(now=schema.server_time()), name, _KINDS)
        rows = await do(statement, name, *columns)
    return {kind: Grant(granted, wait) for kind, granted, wait in rows}


async def book(do: Do, run: bytes, owner: str, booking: Booking) -> Booked:
    """Note what a payer has spent and set aside, and set aside what there is room for."""
    if booking.claims:
        lock = int.from_bytes(run[:8], signed=True)
        await do("SELECT pg_advisory_xact_lock($1)", lock)
    statement = _OTHERS.format(now=schema.server_time())
    ((calls, cost, open_calls),) = await do(statement, run, booking.payer)
    booked = Booked(booking.room(Sums(calls, cost)), Sums(calls, cost), open_calls)
    mine = booking.open.plus(*booking.claims[: booked.granted])
    await do(_BOOK, run, booking.payer, owner, *booking.spent, *mine)
    return booked
