"""Buckets of all processes without a database, for simulations in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from mcranker.llm.limits.leases import AHEAD, CATCH_UP, QUEUE, SHARES, Ask, Grant, Lease, Want
from mcranker.llm.limits.rate_limiter import Lessor
from tests.support.virtual_time import now


@dataclass(slots=True)
class Bucket:
    """A limit that is leased; `mcranker.llm.ledger.postgres_store` has the same in SQL."""

    due: float
    at: float

    def lease(self, want: Want, now: float) -> Grant:
        """Lease what is wanted, or give it back."""
        start = max(self.due - max(0.0, self.at - now), now - CATCH_UP)
        wait, amount = start - now, want.amount
        if amount > 0:
            share = max(want.least, min(amount, (AHEAD - wait) / SHARES * want.rate))
            amount = share if wait <= QUEUE else 0.0
        self.due, self.at = start + amount / want.rate, now
        return Grant(amount, wait)


class Buckets:
    """Answer questions as `PostgresStore.lease_limits`.

    Args:
        latency: seconds on the way there, and back.
    """

    def __init__(self, latency: float = 0.001) -> None:
        self.latency = latency
        self.asked = 0
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._paused: dict[str, float] = {}

    def of(self, name: str) -> Lessor:
        """Return what `RateLimiter.share` takes."""
        return partial(self.lease, name)

    async def lease(self, name: str, ask: Ask) -> Lease:
        await asyncio.sleep(self.latency)
        self.asked += 1
        paused = max(self._paused.get(name, now()), now() + ask["pause"].amount)
        self._paused[name] = paused
        lease = {
            kind: self._buckets.setdefault((name, kind), Bucket(now(), now())).lease(want, now())
            for kind, want in ask.items()
            if kind != "pause"
        }
        await asyncio.sleep(self.latency)
        return {"pause": Grant(0.0, max(0.0, paused - now())), **lease}
