"""What tests of the limits share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

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


def assert_at_rest(limits: RateLimiter) -> None:
    """No call is in flight or waits, and no timer runs."""
    found = limits.statistics()
    assert (found.in_flight, found.waiting) == (0, 0)
    for queue in limits._queues.values():
        assert not queue.waiters
        assert queue.timer is None
