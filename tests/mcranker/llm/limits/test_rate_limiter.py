"""When a model may be called: paces, pauses, calls at once, and how well providers are used.

Time is virtual.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcranker import RateLimited, ServerFailed, Usage
from mcranker.llm.limits.rate_limiter import RateLimiter
from tests.support.limits_support import assert_at_rest, limits_of, paused, request, slot, starts_of
from tests.support.simulated_provider import (
    AtOnce,
    Chance,
    Minute,
    Rate,
    Reason,
    SimulatedProvider,
    run,
)
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


# Requests and tokens a minute


@given(
    per_minute=st.sampled_from([1.0, 7.0, 60.0, 600.0, 30_000.0]),
    arrivals=st.lists(st.floats(0, 100), min_size=1, max_size=60),
    seconds=st.sampled_from([0.0, 0.3, 20.0]),
)
@settings(max_examples=30, deadline=None)
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


# Refusals


async def test_a_refusal_makes_everybody_wait_as_long_as_it_says() -> None:
    limits = limits_of(concurrency=4)
    await refuse(limits, retry_after=20.0)
    assert limits._pace.limit == 2
    assert paused(limits) == pytest.approx(20.0)
    starts = await starts_of(limits, [request(), request(1), request(2)], seconds=1.0)
    assert starts == pytest.approx([20.0, 20.0, 21.0])
    assert_at_rest(limits)


async def test_few_refusals_without_a_time_are_by_chance_and_many_are_not() -> None:
    limits = limits_of(concurrency=64)
    held = [await limits.acquire(request()) for _ in range(64)]
    for number, each in enumerate(held):
        # Of 64 calls, 4 + 0.25 * 64 = 20 may be refused.
        limits.release(each, RateLimited("429") if number % 4 == 0 else None)
    assert limits._pace.limit == 64
    held = [await limits.acquire(request()) for _ in range(64)]
    for number, each in enumerate(held):
        limits.release(each, RateLimited("429") if number % 2 == 0 else None)
    assert (limits._pace.limit, paused(limits)) == (32, 0)


async def test_pauses_double_until_something_is_answered() -> None:
    limits = limits_of(concurrency=16)
    while not paused(limits):
        await refuse(limits)
    seen = [paused(limits)]
    for _ in range(6):
        await refuse(limits)
        seen.append(paused(limits))
    assert seen == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0])
    # One call goes at first; the limit was halved once.
    assert await starts_of(limits, [request()] * 3, seconds=1.0) == [20.0, 21.0, 21.0]
    assert limits._pace.limit == 8


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


SCENARIOS = {
    "6,000 a minute": Scenario(
        lambda: [Rate(100, 100)],
        asked={"seconds": 90.0},
        answered=((0.0, 90.0, 80.0), (60.0, 90.0, 80.0)),
        refused=(60.0, 0.05),
    ),
    "by the minute": Scenario(
        lambda: [Minute(1200)],
        asked={"seconds": 120.0},
        answered=((0.0, 120.0, 16.0),),
        refused=(60.0, 0.1),
    ),
    "a storm of 30 s": Scenario(
        lambda: [Chance(1.0, begin=30.0, end=60.0)],
        spread=0.0,
        asked={"seconds": 120.0, "workers": 64, "concurrency": 16},
        answered=((90.0, 120.0, 0.99 * 16 / 0.5),),
    ),
    "6 at once, then failures": Scenario(
        lambda: [AtOnce(6, error=lambda: ServerFailed("503"))],
        asked={"seconds": 120.0, "workers": 32},
        answered=((60.0, 120.0, 0.5 * 6 / 0.5),),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_provider_is_used_well_and_nothing_is_lost(name: str) -> None:
    scenario = SCENARIOS[name]
    outcome = run(
        lambda: SimulatedProvider(scenario.reasons(), scenario.latency, scenario.spread),
        **{"workers": 300, "attempts": 20 if "failures" in name else 6, **scenario.asked},
    )
    assert outcome.lost == 0
    for since, until, least in scenario.answered:
        assert outcome.answered(since, until) >= least
    since, most = scenario.refused
    assert outcome.refused(since) <= most


@pytest.mark.parametrize(
    ("chance", "concurrency"),
    [(Chance(0.1), 64), (Chance(0.1, error=lambda: ServerFailed("503")), None)],
    ids=["refusals", "failures"],
)
def test_chance_does_not_starve_a_run(chance: Chance, concurrency: int | None) -> None:
    outcome = run(
        lambda: SimulatedProvider([chance]), calls=3000, concurrency=concurrency, workers=64
    )
    assert (len(outcome.answers), outcome.lost) == (3000, 0)
    # 3,000 calls of 0.1 s, 64 at once, take 4.7 s.
    assert outcome.seconds <= 4.0 * 4.7


def test_a_server_that_lets_calls_wait_gets_no_more_of_them() -> None:
    slots = 4
    outcome = run(lambda: SimulatedProvider((), 0.5, slots=slots), seconds=100.0, workers=300)
    # Answers in up to three times 0.5 s count; those of twice as many are on their way by then.
    assert outcome.limit <= max(20, 6 * slots + 20)
    assert outcome.answered(10.0, 100.0) >= 0.9 * slots / 0.5
