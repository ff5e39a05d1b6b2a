"""Limits that processes share: leases from buckets, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from mcranker import RateLimited
from mcranker.llm.limits.rate_limiter import RateLimiter
from personas.ranking.usage import Usage
from tests.support.buckets import Buckets
from tests.support.limits_support import limits_of, request, slot
from tests.support.virtual_time import now, simulate


def shared(buckets: Buckets, **limits: object) -> RateLimiter:
    made = limits_of(**limits)
    made.share(buckets.of("m"))
    return made


async def work(
    limiters: list[RateLimiter],
    seconds: float,
    *,
    at_once: Callable[[int], int] = lambda _: 20,
    takes: float = 0.5,
    tokens: float | None = None,
) -> list[list[float]]:
    """When calls of each limiter start, in seconds from now, if each makes all it can."""
    begin = now()
    starts: list[list[float]] = [[] for _ in limiters]

    async def call(place: int) -> None:
        while now() < begin + seconds:
            held = await limiters[place].acquire(request(text="x" * 400, max_tokens=100))
            starts[place].append(now() - begin)
            await anyio.sleep(takes)
            used = None if tokens is None else Usage(1, int(tokens), 0, 0)
            limiters[place].release(held, None, used)

    async with anyio.create_task_group() as group:
        for place in range(len(limiters)):
            for _ in range(at_once(place)):
                group.start_soon(call, place)
    return [[each for each in mine if each < seconds] for mine in starts]


def most_in(starts: list[list[float]], seconds: float = 60.0) -> int:
    """The most starts in any such time."""
    all_starts = sorted(each for mine in starts for each in mine)
    first = most = 0
    for last, start in enumerate(all_starts):
        while all_starts[first] <= start - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def test_one_that_works_beside_idle_ones_has_the_whole_limit() -> None:
    async def main() -> None:
        buckets = Buckets()
        limiters = [shared(buckets, requests_per_minute=1200) for _ in range(5)]
        await work(limiters, 5, at_once=lambda _: 1)
        starts = await work(limiters, 60, at_once=lambda place: 40 * (place == 0))
        # 1200 a minute, and 0.3% less for what is made up for.
        assert 1200 * 0.98 <= len(starts[0]) <= 1200 + 20

    simulate(main())


def test_busy_ones_share_evenly_and_keep_to_the_limit() -> None:
    per_minute, processes = 600, 4

    async def main() -> None:
        buckets = Buckets()
        limiters = [shared(buckets, requests_per_minute=per_minute) for _ in range(processes)]
        # Some want more than others; all want more than there is for each.
        starts = await work(limiters, 120, at_once=lambda place: 20 if place % 2 else 60)
        counts = [len(mine) for mine in starts]
        fair = 2 * per_minute / processes
        assert 0.98 * 2 * per_minute <= sum(counts) <= 2 * per_minute
        assert 0.9 * fair <= min(counts) <= max(counts) <= 1.1 * fair
        assert most_in(starts) <= per_minute * 60.5 / 60
        assert buckets.asked <= 120 * processes * 4

    simulate(main())


def test_a_pause_of_one_is_a_pause_of_all() -> None:
    async def main() -> None:
        buckets = Buckets()
        first, second = (shared(buckets, requests_per_minute=6000) for _ in range(2))
        for each in (first, second):
            async with slot(each, request()):
                pass
        with pytest.raises(RateLimited):
            async with slot(first, request()):
                raise RateLimited("slow down", retry_after=30)
        told, starts = now(), []

        async def work_on() -> None:
            while now() < told + 60:
                async with slot(second, request()):
                    starts.append(now() - told)
                    await anyio.sleep(0.05)

        await work_on()
        assert [each for each in starts if 1.1 < each < 30] == []
        assert starts[-1] > 59

    simulate(main())


def test_while_the_database_is_away_calls_use_what_is_leased() -> None:
    async def main() -> None:
        buckets = Buckets()
        limiter = shared(buckets, requests_per_minute=1200)
        await work([limiter], 10)
        buckets.latency = 10.0  # an answer takes 20 s
        starts = (await work([limiter], 30))[0]
        # 20 a second for a second at most; then calls wait for the answer, and go on.
        assert 0 < len([each for each in starts if each < 19]) <= 20
        assert len([each for each in starts if each >= 19]) > 0

    simulate(main())
