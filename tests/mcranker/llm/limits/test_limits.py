"""When a model may be called: paces, and pauses after refusals; time is virtual."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcranker import RateLimited, Usage
from mcranker.llm.limits.rate_limiter import RateLimiter
from tests.support.limits_support import assert_at_rest, limits_of, request, slot, starts_of
from tests.support.virtual_time import VirtualLoop, now, simulate

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


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


async def test_starts_are_evenly_spread() -> None:
    starts = await starts_of(limits_of(requests_per_minute=60), [request()] * 121, seconds=5.0)
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert min(gaps) >= 0.9
    assert max(gaps) <= 1.1
    assert starts[-1] == pytest.approx(120.0, abs=0.5)


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


async def test_a_request_larger_than_a_minute_goes_out_alone() -> None:
    limits = limits_of(tokens_per_minute=602.0)
    huge = request(text="x" * 12_000)  # 3,001 tokens: five minutes
    starts = await starts_of(limits, [request(), huge, request()])
    assert starts == pytest.approx([0.0, 0.2, 300.0], abs=0.5)


# Refusals


async def test_a_refusal_makes_everybody_wait_as_long_as_it_says() -> None:
    limits = limits_of(concurrency=4)
    await refuse(limits, retry_after=20.0)
    assert limits.statistics().paused == pytest.approx(20.0)
    starts = await starts_of(limits, [request(), request(1), request(2)])
    assert starts[0] == pytest.approx(20.0)
    assert starts[1] > starts[0]  # not all at once
    assert_at_rest(limits)


async def test_refusals_of_calls_in_flight_together_count_once() -> None:
    limits = limits_of()
    async with anyio.create_task_group() as group:
        for tenths in range(5):
            group.start_soon(partial(refuse, limits, seconds=tenths / 10))
        group.start_soon(partial(refuse, limits, seconds=0.5, retry_after=3.0))
    assert limits.statistics().pauses == 1
    # Without a time the first of them pauses for 1 s; the last one asks for 3 s.
    assert limits.statistics().paused == pytest.approx(3.0)


async def test_many_refusals_lower_the_learned_concurrency_once() -> None:
    limits = limits_of(concurrency=None)
    async with anyio.create_task_group() as group:
        for _ in range(16):
            group.start_soon(refuse, limits)
    assert limits.statistics().limit == 16
    await starts_of(limits, [request()] * 10)
    assert limits.statistics().limit == 11  # 0.7 · 16


async def test_pauses_double_until_something_is_answered() -> None:
    limits = limits_of()
    seen = []
    for _ in range(8):
        await refuse(limits)
        seen.append(limits.statistics().paused)
    assert seen == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0])
    await starts_of(limits, [request()])
    await refuse(limits)
    assert limits.statistics().paused == pytest.approx(1.0)


async def test_a_refusal_that_asks_for_no_wait_changes_nothing() -> None:
    limits = limits_of(concurrency=None)
    before = limits.statistics()
    for _ in range(100):
        await refuse(limits, retry_after=0.0)
    assert limits.statistics() == before
    await refuse(limits, retry_after=1.0)
    await starts_of(limits, [request()])
    told = limits.statistics()
    assert (told.limit, told.pauses) == (before.limit, 1)

    limits = limits_of(first_pause=0.0)
    await refuse(limits)
    assert limits.statistics().paused == 0.0


async def test_nobody_waits_for_hours() -> None:
    limits = limits_of(concurrency=1, patience=300.0)
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
    assert len(errors) == 3
    assert {(error.retry_after, error.model) for error in errors} == {(3600.0, "m")}
    assert str(errors[0]).startswith("refused (no calls for another 3600 s")
    assert_at_rest(limits)
    await anyio.sleep(3500.0)
    assert await starts_of(limits, [request()]) == pytest.approx([100.0])


async def test_time_without_calls_does_not_lower_the_rate() -> None:
    async def rate_after(idle: float) -> float | None:
        limits = limits_of(concurrency=10)
        await starts_of(limits, [request()] * 100, seconds=1.0)
        await anyio.sleep(idle)
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(partial(refuse, limits, seconds=0.1, retry_after=1.0))
        await starts_of(limits, [request()])
        return limits.statistics().rate

    # 100 calls, of which 10 are in flight for 1 s each; then 10 refusals and a pause: 11.1 s
    assert await rate_after(0.0) == pytest.approx(0.9 * 100 / 11.1, rel=0.01)
    assert await rate_after(3600.0) == pytest.approx(await rate_after(0.0))
