"""How many rankings are made at once, and how many requests may wait for that."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio

from mcranker.serve.problems import Problem

_OF_NEW = 0.2  # share of the latest ranking in the mean of their seconds


class PlacesStatistics(NamedTuple):
    """How busy the places are."""

    taken: int
    """Rankings that are being made."""
    waiting: int
    """Requests that wait for a place."""


class Places:
    """A bounded number of rankings at once, before which a bounded number of requests wait.

    Args:
        places: rankings at once.
        waiting: requests that may wait.
        seconds: how long each may wait.
    """

    def __init__(self, places: int, waiting: int, seconds: float) -> None:
        self._places = anyio.Semaphore(places, max_value=places)
        self._all = places
        self._most_waiting = waiting
        self._seconds = seconds
        self._waiting = 0
        self._mean = 1.0

    def statistics(self) -> PlacesStatistics:
        """How busy the places are."""
        return PlacesStatistics(self._all - self._places.value, self._waiting)

    @asynccontextmanager
    async def one(self, *, within: float) -> AsyncIterator[None]:
        """Hold a place in the ``async with`` block.

        Args:
            within: seconds to wait for it, if that is less than others wait.

        Raises:
            Problem: all are taken, and too many wait already (429), or it took too long (503).
        """
        await self._take(min(within, self._seconds))
        began = time.monotonic()
        try:
            yield
        finally:
            self._places.release()
            self._mean += _OF_NEW * (time.monotonic() - began - self._mean)

    async def _take(self, seconds: float) -> None:
        try:
            self._places.acquire_nowait()
        except anyio.WouldBlock:
            pass
        else:
            return
        if self._waiting >= self._most_waiting:
            raise Problem(
                "overloaded",
                f"{self._all} rankings are being made and {self._waiting} requests wait, which is "
                "as many as may; try again later",
                retry_after=self._expected(),
            )
        self._waiting += 1
        try:
            with anyio.fail_after(seconds):
                await self._places.acquire()
        except TimeoutError:
            raise Problem(
                "unavailable",
                f"no ranking ended within {seconds:g} seconds; try again later",
                retry_after=self._expected(),
            ) from None
        finally:
            self._waiting -= 1

    def _expected(self) -> float:
        """Seconds until those that wait now have had their turn, about."""
        return min(self._mean * (1 + self._waiting / self._all), 600.0)
