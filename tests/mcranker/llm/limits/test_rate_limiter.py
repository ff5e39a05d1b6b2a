"""When a model may be called: paces, pauses, calls at once, and how well providers are used.

Time is virtual.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcranker import (
    ChatReply,
    ChatRequest,
    ModelError,
    RateLimited,
    ScriptedChat,
    ServerFailed,
    Usage,
)
from mcranker.llm.limits.rate_limiter import RateLimiter
from mcranker.llm.limits.retries import Retrying
from tests.support.limits_support import assert_at_rest, limits_of, request, slot
from tests.support.virtual_time import VirtualLoop, now, simulate

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture(autouse=True)
def _pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcranker.llm.limits.rate_limiter.FIRST_PAUSE", 1.0)


async def refuse(
    limits: RateLimiter, *, seconds: float = 0.0, retry_after: float | None = None
) -> None:
    with suppress(RateLimited):
        async with slot(limits, request()):
            await anyio.sleep(seconds)
            raise RateLimited("refused", model="m", retry_after=retry_after)


async def starts_of(
    limits: RateLimiter, requests: Iterable[ChatRequest], *, seconds: float = 0.0
) -> list[float]:
    """When each call starts, in seconds from now, if all ask for a place now."""
    begin = now()
    starts: list[float] = []

    async def call(request: ChatRequest) -> None:
        async with slot(limits, request):
            starts.append(now() - begin)
            await anyio.sleep(seconds)

    async with anyio.create_task_group() as group:
        for each in requests:
            group.start_soon(call, each)
    return starts


# Requests and tokens a minute


@given(
    per_minute=st.sampled_from([1.0, 7.0, 60.0, 600.0, 30_000.0]),
    arrivals=st.lists(st.floats(0, 100), min_size=1, max_size=60),
    seconds=st.sampled_from([0.0, 0.3, 20.0]),
)
@settings(max_examples=100, deadline=None)
def test_no_minute_has_more_starts_than_allowed(
    per_minute: float, arrivals: list[float], seconds: float
) -> None:
    async def main() -> list[float]:
        limits = limits_of(requests_per_minute=per_minute)
        starts: list[float] = []

        async def call(arrival: float) -> None:
            await anyio.sleep(arrival)
            async with slot(limits, request()):
                starts.append(now())
                await anyio.sleep(seconds)

        async with anyio.create_task_group() as group:
            for arrival in arrivals:
                group.start_soon(call, arrival)
        assert_at_rest(limits)
        return starts

    starts = simulate(main())
    assert len(starts) == len(arrivals)
    for start in starts:
        assert sum(start <= other < start + 60.0 for other in starts) <= per_minute


async def test_tokens_are_booked_and_then_corrected() -> None:
    limits = limits_of(tokens_per_minute=602.0)  # one in 0.1 s
    # 400 bytes are 100 tokens, and the reply of 20 makes 120: 12 s.
    asked = request(text="x" * 400, max_tokens=20)
    assert await starts_of(limits, [asked] * 3) == pytest.approx([0.0, 12.0, 24.0], abs=0.2)
    await anyio.sleep(12.0)
    begin = now()
    held = await limits.acquire(asked)
    limits.release(held, usage=Usage(calls=1, input_tokens=150, output_tokens=50))
    # 200 tokens were used: 20 s.
    assert await starts_of(limits, [asked]) == pytest.approx([20.0], abs=0.2)
    assert now() - begin == pytest.approx(20.0, abs=0.2)


async def test_limits_that_a_service_names_are_kept_and_may_be_used_at_once() -> None:
    limits = limits_of(concurrency=256)
    limits.release(await limits.acquire(request()), told={"requests": (60.0, 57.0)})
    # A reset in 57 s says that 3 of 60 are left; then there is one a second.
    starts = await starts_of(limits, [request()] * 6)
    assert starts == pytest.approx([0.0, 0.0, 0.0, 0.0, 1.0, 2.0], abs=0.01)
    # A raised limit holds at once.
    limits.release(await limits.acquire(request()), told={"requests": (600.0, 0.0)})
    assert (await starts_of(limits, [request()] * 11))[-1] == pytest.approx(2.0, abs=1.1)


# Refusals


async def test_a_refusal_makes_everybody_wait_as_long_as_it_says() -> None:
    limits = limits_of(concurrency=4)
    await refuse(limits, retry_after=20.0)
    told = limits.statistics()
    assert (told.limit, told.pauses) == (2, 1)
    assert told.paused == pytest.approx(20.0)
    starts = await starts_of(limits, [request(), request(1), request(2)], seconds=1.0)
    assert starts == pytest.approx([20.0, 20.0, 21.0])
    assert_at_rest(limits)


async def test_few_refusals_without_a_time_are_by_chance_and_many_are_not() -> None:
    limits = limits_of(concurrency=64)
    held = [await limits.acquire(request()) for _ in range(64)]
    for number, each in enumerate(held):
        # Of 64 calls, 4 + 0.25 * 64 = 20 may be refused.
        limits.release(each, RateLimited("429") if number % 4 == 0 else None)
    assert limits.statistics().limit == 64
    held = [await limits.acquire(request()) for _ in range(64)]
    for number, each in enumerate(held):
        limits.release(each, RateLimited("429") if number % 2 == 0 else None)
    assert (limits.statistics().limit, limits.statistics().pauses) == (32, 0)


async def test_pauses_double_until_something_is_answered() -> None:
    limits = limits_of(concurrency=16)
    while not limits.statistics().pauses:
        await refuse(limits)
    seen = [limits.statistics().paused]
    for _ in range(6):
        await refuse(limits)
        seen.append(limits.statistics().paused)
    assert seen == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0])
    # One call goes at first; the limit was halved once.
    assert await starts_of(limits, [request()] * 3, seconds=1.0) == [20.0, 21.0, 21.0]
    assert limits.statistics().limit == 8


async def test_nobody_waits_for_hours() -> None:
    limits = limits_of(concurrency=1)
    errors: list[RateLimited] = []

    async def wait() -> None:
        with pytest.raises(RateLimited) as caught:
            await limits.acquire(request())
        errors.append(caught.value)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(refuse, limits, seconds=1.0, retry_after=3600.0))
        await anyio.sleep(0.5)
        group.start_soon(wait)
        group.start_soon(wait)
    await wait()
    assert {(error.retry_after, error.model) for error in errors} == {(3600.0, "m")}
    assert len(errors) == 3
    assert_at_rest(limits)
    await anyio.sleep(3500.0)
    assert await starts_of(limits, [request()]) == pytest.approx([100.0])

    limits = limits_of(concurrency=1)
    for _ in range(17):
        await refuse(limits, retry_after=20.0)
    with pytest.raises(RateLimited, match="every call has been refused for 320 s"):
        await limits.acquire(request())


# Providers


Reason = Callable[[int, float], ModelError | None]
"""The refusal of a call, or None, by the calls in flight and the seconds since the run began."""


def chance(
    share: float,
    *,
    begin: float = 0.0,
    end: float = math.inf,
    error: Callable[[], ModelError] = lambda: RateLimited("529"),
) -> Reason:
    luck = random.Random(0)

    def refuses(_: int, at: float) -> ModelError | None:
        refused = luck.random() < share
        return error() if refused and begin <= at < end else None

    return refuses


def rate(
    a_second: float, *, later: tuple[float, float] = (math.inf, 0.0), tells: bool = False
) -> Reason:
    """Takes so many calls a second and a burst of as many; `later`: (seconds, new rate)."""
    filled, left = 0.0, a_second

    def refuses(_: int, at: float) -> ModelError | None:
        nonlocal filled, left
        current = a_second if at < later[0] else later[1]
        left = min(a_second, left + (at - filled) * current)
        filled = at
        if left < 1.0:
            return RateLimited("429", retry_after=(1.0 - left) / current if tells else None)
        left -= 1.0
        return None

    return refuses


def by_the_minute(most: int) -> Reason:
    taken: Counter[float] = Counter()

    def refuses(_: int, at: float) -> ModelError | None:
        taken[now() // 60.0] += 1
        return RateLimited("429") if taken[now() // 60.0] > most else None

    return refuses


def at_once(most: int, error: Callable[[], ModelError] = lambda: RateLimited("429")) -> Reason:
    return lambda in_flight, _: error() if in_flight >= most else None


@dataclass
class Outcome:
    """A run; times in seconds since it began."""

    answers: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    lost: int = 0
    seconds: float = 0.0
    limit: int = 0

    def refused(self, since: float) -> float:
        """The share of the calls from then on that were refused."""
        refusals = sum(at >= since for at in self.refusals)
        return refusals / max(1, refusals + sum(at >= since for at in self.answers))

    def answered(self, since: float, until: float) -> float:
        """Answers a second in that time."""
        return sum(since <= at < until for at in self.answers) / (until - since)


def run(
    reasons: Sequence[Reason],
    latency: float = 0.1,
    spread: float = 0.0,
    *,
    slots: int = 10**9,
    calls: int = 10**9,
    seconds: float = math.inf,
    workers: int = 64,
    concurrency: int | None = None,
    attempts: int = 100,
) -> Outcome:
    """Ask a provider that refuses for reasons, `workers` at once."""
    outcome, luck = Outcome(), random.Random(0)

    async def main() -> None:
        begin, free, in_flight, left = now(), asyncio.Semaphore(slots), 0, calls

        async def answer(_: ChatRequest) -> ChatReply:
            nonlocal in_flight
            for refuses in reasons:
                if error := refuses(in_flight, now() - begin):
                    await anyio.sleep(0.02)
                    outcome.refusals.append(now() - begin)
                    raise error
            in_flight += 1
            try:
                async with free:
                    await anyio.sleep(latency * luck.lognormvariate(0.0, spread))
            finally:
                in_flight -= 1
            outcome.answers.append(now() - begin)
            return ChatReply("fine")

        limits = RateLimiter(concurrency=concurrency, clock=now)
        model = Retrying(
            ScriptedChat(answer), limits, attempts=attempts, deadline=math.inf, clock=now
        )

        async def work() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                try:
                    await model.complete(request())
                except (RateLimited, ServerFailed):
                    outcome.lost += 1

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                for _ in range(min(workers, calls)):
                    group.start_soon(work)
        outcome.seconds, outcome.limit = now() - begin, limits.statistics().limit

    random.seed(0)  # of the waits before another try
    simulate(main())
    return outcome


@dataclass(frozen=True)
class Scenario:
    """A provider, how it is asked, and what is expected; times in seconds from the beginning."""

    reasons: Callable[[], list[Reason]]
    latency: float = 0.5
    spread: float = 0.3
    asked: dict[str, Any] = field(default_factory=dict)
    answered: tuple[tuple[float, float, float], ...] = ()
    """Since, until, and the least answers a second between."""
    refused: tuple[float, float] = (0.0, 1.0)
    """Since, and the largest share of calls refused from then on."""


# 64 at once make 64 / 0.5 s / 1.05 = 122 calls a second; the mean of exp(0.3 z) is 1.05.
SCENARIOS = {
    "chance from 30 s on": Scenario(
        lambda: [chance(0.1, begin=30.0)],
        asked={"seconds": 80.0, "concurrency": 64},
        answered=((10.0, 30.0, 110.0), (30.0, 80.0, 90.0)),
        refused=(30.0, 0.12),
    ),
    "6,000 a minute": Scenario(
        lambda: [rate(100)],
        asked={"seconds": 90.0},
        answered=((0.0, 90.0, 80.0), (60.0, 90.0, 80.0)),
        refused=(60.0, 0.05),
    ),
    "6,000 a minute, soon answered": Scenario(
        lambda: [rate(100)],
        latency=0.1,
        asked={"seconds": 60.0},
        answered=((0.0, 60.0, 95.0),),
        refused=(20.0, 0.15),
    ),
    "6,000 a minute, with times": Scenario(
        lambda: [rate(100, tells=True)],
        asked={"seconds": 90.0},
        answered=((0.0, 90.0, 80.0),),
        refused=(10.0, 0.01),
    ),
    "a rate that halves": Scenario(
        lambda: [rate(20, later=(120.0, 10.0))],
        asked={"seconds": 240.0},
        answered=((60.0, 120.0, 16.0), (120.0, 240.0, 8.0)),
        refused=(150.0, 0.3),
    ),
    "by the minute": Scenario(
        lambda: [by_the_minute(1200)],
        asked={"seconds": 240.0},
        answered=((0.0, 240.0, 16.0),),
        refused=(60.0, 0.1),
    ),
    "a storm of 30 s": Scenario(
        lambda: [chance(1.0, begin=30.0, end=60.0)],
        spread=0.0,
        asked={"seconds": 120.0, "workers": 64, "concurrency": 16},
        answered=((90.0, 120.0, 0.99 * 16 / 0.5),),
    ),
    "a storm of 30 s, learned": Scenario(
        lambda: [chance(1.0, begin=30.0, end=60.0)],
        asked={"seconds": 120.0, "workers": 600},
        answered=((10.0, 30.0, 300.0), (90.0, 120.0, 300.0)),
    ),
    "a storm of failures": Scenario(
        lambda: [chance(0.75, begin=60.0, end=90.0, error=lambda: ServerFailed("500"))],
        latency=1.0,
        spread=0.0,
        asked={"seconds": 180.0, "workers": 256},
        answered=((30.0, 60.0, 250.0), (140.0, 180.0, 0.95 * 256)),
    ),
    "40 at once, learned": Scenario(
        lambda: [at_once(40)],
        asked={"seconds": 100.0},
        answered=((50.0, 100.0, 0.55 * 40 / 0.5),),
        refused=(50.0, 0.08),
    ),
    "6 at once, then failures": Scenario(
        lambda: [at_once(6, error=lambda: ServerFailed("503"))],
        asked={"seconds": 120.0, "workers": 32},
        answered=((60.0, 120.0, 0.5 * 6 / 0.5),),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_provider_is_used_well_and_nothing_is_lost(name: str) -> None:
    scenario = SCENARIOS[name]
    outcome = run(
        scenario.reasons(),
        scenario.latency,
        scenario.spread,
        **{"workers": 300, "attempts": 20 if "failures" in name else 6, **scenario.asked},
    )
    assert outcome.lost == 0
    for since, until, least in scenario.answered:
        assert outcome.answered(since, until) >= least
    since, most = scenario.refused
    assert outcome.refused(since) <= most


@pytest.mark.parametrize("concurrency", [64, None])
@pytest.mark.parametrize(
    ("reason", "times"),
    [
        (chance(0.01), 1.5),
        (chance(0.1), 3.0),
        (chance(0.2), 6.0),
        (chance(0.1, error=lambda: ServerFailed("503")), 3.0),
    ],
    ids=["1%", "10%", "20%", "10% failures"],
)
def test_chance_does_not_starve_a_run(
    reason: Reason, times: float, concurrency: int | None
) -> None:
    outcome = run([reason], calls=6000, concurrency=concurrency, workers=64)
    assert (len(outcome.answers), outcome.lost) == (6000, 0)
    # 6,000 calls of 0.1 s, 64 at once, take 9.4 s.
    assert outcome.seconds <= times * 9.4


@pytest.mark.parametrize("slots", [1, 4, 20])
def test_a_server_that_lets_calls_wait_gets_no_more_of_them(slots: int) -> None:
    outcome = run((), 0.5, slots=slots, seconds=100.0, workers=300)
    # Answers in up to three times 0.5 s count; those of twice as many are on their way by then.
    assert outcome.limit <= max(20, 6 * slots + 20)
    assert outcome.answered(10.0, 100.0) >= 0.9 * slots / 0.5
