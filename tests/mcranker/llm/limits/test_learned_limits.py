"""What the limits learn from providers of several kinds; time is virtual."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

import anyio
import pytest

from mcranker import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Message,
    ModelError,
    ModelTimeout,
    RateLimited,
    ServerFailed,
)
from mcranker.llm.chat import Tag
from mcranker.llm.limits.concurrency import FIRST, MOST_LEARNED, LearnedConcurrency
from mcranker.llm.limits.rate_limiter import RateLimiter, RateLimiterStatistics
from mcranker.llm.limits.retries import Retrying
from tests.support.virtual_time import now, simulate

LATENCY = 0.5  # seconds
REQUEST = ChatRequest((Message("user", "?"),), Tag("score"))


class Provider:
    """Takes `LATENCY` for an answer, and longer if it has only so many slots.

    Refuses what comes faster than `rate` a second, beyond a burst of one second's worth, or
    beyond `rate` times 60 in a minute by the clock.
    """

    name = "fake"
    capabilities = Capabilities()

    def __init__(
        self,
        *,
        slots: int | None = None,
        rate: float = math.inf,
        by_minute: bool = False,
        tells: bool = True,
        spread: float = 0.0,
        failing: Callable[[], ModelError | None] = lambda: None,
    ) -> None:
        self._slots = asyncio.Semaphore(slots) if slots else None
        self._rate = rate
        self._by_minute = by_minute
        self._tells = tells
        self._spread = spread
        self._failing = failing
        self._luck = random.Random(7)
        self._left = 0.0
        self._filled = -math.inf
        self.answers: list[float] = []
        self.refusals: list[float] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        wait = self._take()
        if wait:
            await anyio.sleep(0.05)
            self.refusals.append(now())
            raise RateLimited("429", retry_after=wait if self._tells else None)
        if failure := self._failing():
            await anyio.sleep(LATENCY)
            raise failure
        seconds = LATENCY * self._luck.lognormvariate(0.0, self._spread)
        if self._slots is None:
            await anyio.sleep(seconds)
        else:
            async with self._slots:
                await anyio.sleep(seconds)
        self.answers.append(now())
        return ChatReply("fine")

    async def aclose(self) -> None:
        """Nothing to release."""

    def _take(self) -> float:
        """Take one from what is allowed; seconds to wait if there is none."""
        if self._rate == math.inf:
            return 0.0
        if self._by_minute:
            minute = now() // 60.0 * 60.0
            if self._filled != minute:
                self._filled, self._left = minute, self._rate * 60.0
            wait = minute + 60.0 - now()
        else:
            most = max(1.0, self._rate)
            self._left = min(most, self._left + (now() - self._filled) * self._rate)
            self._filled = now()
            wait = (1.0 - self._left) / self._rate
        if self._left < 1.0:
            return wait
        self._left -= 1.0
        return 0.0


def run(
    make: Callable[[], Provider],
    *,
    seconds: float,
    workers: int = 300,
    concurrency: int | None = None,
) -> tuple[Provider, RateLimiterStatistics]:
    """So many workers ask the provider, one call after the other, for so long."""

    async def main() -> tuple[Provider, RateLimiterStatistics]:
        provider = make()
        limits = RateLimiter(concurrency=concurrency, clock=now)
        retrying = Retrying(provider, limits, attempts=1000, deadline=math.inf)
        end = now() + seconds

        async def work() -> None:
            while True:
                await retrying.complete(REQUEST)

        with anyio.move_on_at(end):
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(work)
        return provider, limits.statistics()

    return simulate(main())


def test_a_provider_without_bounds_is_soon_used_fully() -> None:
    # A window takes little more than one latency; there are eight up to 256.
    _, limits = run(Provider, seconds=12 * LATENCY)
    assert limits.limit == MOST_LEARNED
    _, limits = run(lambda: Provider(spread=0.5), seconds=40 * LATENCY)
    assert limits.limit == MOST_LEARNED


@pytest.mark.parametrize("slots", [1, 4, 40])
def test_a_server_with_so_many_slots_gets_about_as_many_calls_at_once(slots: int) -> None:
    provider, limits = run(lambda: Provider(slots=slots), seconds=480 * LATENCY)
    assert limits.limit <= 1.5 * slots + 1
    late = [answer for answer in provider.answers if answer > provider.answers[0] + 200 * LATENCY]
    throughput = len(late) / (late[-1] - late[0])
    assert throughput >= 0.9 * slots / LATENCY


def test_the_limit_does_not_grow_while_it_is_not_used() -> None:
    _, limits = run(Provider, seconds=60.0, workers=FIRST - 2)
    assert limits.limit == FIRST


@pytest.mark.parametrize(
    ("rate", "seconds", "by_minute", "tells"),
    [
        (1, 600.0, False, True),
        (10, 600.0, False, True),
        (10, 600.0, False, False),
        (100, 240.0, False, True),
        (100, 240.0, False, False),
        (10, 600.0, True, True),
        (10, 600.0, True, False),
    ],
)
def test_a_limited_provider_is_used_well(
    rate: float, seconds: float, by_minute: bool, tells: bool
) -> None:
    provider, limits = run(
        lambda: Provider(rate=rate, by_minute=by_minute, tells=tells), seconds=seconds
    )
    assert len(provider.answers) >= 0.8 * rate * seconds
    late = [at for at in provider.refusals if at > provider.answers[0] + 60.0]
    # At one a second, a try every ten seconds or so is what it takes to know.
    assert len(late) <= 0.05 * len(provider.answers) + (seconds / 10.0 if rate == 1 else 0.0)
    assert limits.in_flight == limits.waiting == 0


def test_calls_are_spread_over_the_minute_of_a_provider_that_counts_by_the_minute() -> None:
    provider, _ = run(lambda: Provider(rate=1, by_minute=True), seconds=1200.0)
    seconds_used = {int(at) for at in provider.answers if at > provider.answers[0] + 180.0}
    assert len(seconds_used) >= 0.5 * (1200.0 - 180.0)


def test_refusals_by_chance_do_not_lower_the_rate() -> None:
    luck = random.Random(3)

    def overloaded() -> ModelError | None:
        return RateLimited("529") if luck.random() < 0.01 else None

    provider, limits = run(
        lambda: Provider(failing=overloaded), seconds=300.0, workers=64, concurrency=32
    )
    # 64 a second without pauses; each of the pauses takes a second or two.
    assert len(provider.answers) >= 0.5 * 300.0 * 32 / LATENCY
    assert limits.rate is None or limits.rate > 64.0


def test_after_a_storm_the_rate_comes_back() -> None:
    def storm() -> ModelError | None:
        return RateLimited("529") if 1030.0 < now() < 1060.0 else None

    provider, _ = run(lambda: Provider(failing=storm), seconds=400.0, concurrency=32)
    last = [at for at in provider.answers if at > 1340.0]
    assert len(last) >= 0.8 * 60.0 * 32 / LATENCY


def test_failures_of_many_calls_lower_the_limit_and_of_few_do_not() -> None:
    learned = LearnedConcurrency()
    for number in range(24):
        learned.finished(1.0, 0.0, FIRST, failed=number % 12 == 0)
    assert learned.limit > FIRST

    learned = LearnedConcurrency()
    for number in range(24):
        learned.finished(1.0, 0.0, FIRST, failed=number % 4 == 0)
    assert learned.limit == int(0.7 * FIRST)
    # Those in flight meanwhile say nothing new.
    for _ in range(100):
        learned.finished(1.5, 0.9, FIRST, failed=True)
    assert learned.limit == int(0.7 * FIRST)


@pytest.mark.parametrize("error", [ModelTimeout("late"), ServerFailed("503")])
def test_an_overloaded_server_gets_fewer_calls_at_once(error: ModelError) -> None:
    running = 0

    async def main() -> int:
        limits = RateLimiter(concurrency=None, clock=now)

        class Server(Provider):
            async def complete(self, request: ChatRequest) -> ChatReply:
                nonlocal running
                running += 1
                try:
                    await anyio.sleep(LATENCY)
                    if running > 6:
                        raise error
                    return ChatReply("fine")
                finally:
                    running -= 1

        retrying = Retrying(Server(), limits, attempts=1000, deadline=math.inf)
        most = 0

        async def work() -> None:
            nonlocal most
            while True:
                await retrying.complete(REQUEST)
                if now() > 1060.0:
                    most = max(most, running)

        with anyio.move_on_after(120.0):
            async with anyio.create_task_group() as group:
                for _ in range(32):
                    group.start_soon(work)
        return most

    assert simulate(main()) <= 8
