"""What tests of the limits share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcranker import ChatRequest, Message
from mcranker.llm.chat import Tag
from mcranker.llm.limits.rate_limiter import RateLimiter, Slot
from tests.support.virtual_time import now


def request(ranking: int = 0, *, text: str = "?", max_tokens: int = 1) -> ChatRequest:
    return ChatRequest(
        (Message("user", text),), Tag("score", ranking=ranking), max_tokens=max_tokens
    )


def limits_of(**options: Any) -> RateLimiter:
    options.setdefault("concurrency", 1000)
    return RateLimiter(**options, clock=now)


@asynccontextmanager
async def slot(limits: RateLimiter, request: ChatRequest) -> AsyncIterator[Slot]:
    """A slot for the block, released as the block ends."""
    held = await limits.acquire(request)
    try:
        yield held
    except BaseException as error:
        limits.release(held, error)
        raise
    limits.release(held)


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


def in_flight(limits: RateLimiter) -> tuple[int, int]:
    """Calls in flight, and those that wait."""
    queues = [*limits._queues.values()]
    return sum(each.in_flight for each in queues), sum(each.waiting for each in queues)


def paused(limits: RateLimiter) -> float:
    """Seconds for which a provider's pause goes on."""
    return max(0.0, limits._pace.paused_until - now())


def assert_at_rest(limits: RateLimiter) -> None:
    """No call is in flight or waits, and no timer runs."""
    assert in_flight(limits) == (0, 0)
    for queue in limits._queues.values():
        assert not queue.waiters
        assert queue.timer is None
