"""Limits on simultaneous rankings and on waiting requests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from mcranker.serve.problems import Problem

_OF_NEW = 0.2  # share of the latest ranking in the mean of their seconds


class Places:
    """A bounded number of simultaneous rankings, and of waiting requests.

    Args:
        places: rankings at once.
        waiting: requests that may wait.
        seconds: how long each may wait.
    """

    def __init__(self, places: int, waiting: int, seconds: float) -> None:
        self._limiter = anyio.CapacityLimiter(places)
        self._all = places
        self._most_waiting = waiting
        self._seconds = seconds
        self._mean = 1.0

    @property
    def taken(self) -> int:
        """Rankings that are being made."""
        return self._limiter.statistics().borrowed_tokens

    @property
    def waiting(self) -> int:
        """Requests that wait for a place."""
        return self._limiter.statistics().tasks_waiting

    @asynccontextmanager
    async def one(self, *, within: float) -> AsyncIterator[None]:
        """Hold a place in the ``async with`` block.

        Args:
            within: seconds to wait for it, if that is less than others wait.

        Raises:
            Problem: all are taken, and too many wait already (429), or it took too long (503).
        """
        holder = object()
        await self._take(holder, min(within, self._seconds))
        began = time.monotonic()
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(holder)
            self._mean += _OF_NEW * (time.monotonic() - began - self._mean)

    async def _take(self, holder: object, seconds: float) -> None:
        try:
            return self._limiter.acquire_on_behalf_of_nowait(holder)
        except anyio.WouldBlock:
            waiting = self.waiting
        # Until those that wait have had their turn, about.
        expected = min(self._mean * (1 + (waiting + 1) / self._all), 600.0)
        if waiting >= self._most_waiting:
            raise Problem(
                "overloaded",
                f"{self._all} rankings are being made and {waiting} requests wait, which is "
                "as many as may; try again later",
                retry_after=expected,
            )
        try:
            with anyio.fail_after(seconds):
                await self._limiter.acquire_on_behalf_of(holder)
        except TimeoutError:
            raise Problem(
                "unavailable",
                f"no ranking ended within {seconds:g} seconds; try again later",
                retry_after=expected,
            ) from None
