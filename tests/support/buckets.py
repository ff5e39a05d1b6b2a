"""Buckets of all processes without a database, for simulations in virtual time."""

from __future__ import annotations

import asyncio
from functools import partial

from mcranker.llm.limits.leases import Ask, Bucket, Grant, Lease, Want
from mcranker.llm.limits.rate_limiter import Lessor
from tests.support.virtual_time import now


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
        paused = max(self._paused.get(name, now()), now() + ask.pause)
        self._paused[name] = paused
        requests = self._one((name, "requests"), ask.requests)
        tokens = self._one((name, "tokens"), ask.tokens)
        await asyncio.sleep(self.latency)
        return Lease(max(0.0, paused - now()), requests, tokens)

    def _one(self, key: tuple[str, str], want: Want | None) -> Grant | None:
        bucket = self._buckets.setdefault(key, Bucket(now(), now()))
        return None if want is None else bucket.lease(want, now())
