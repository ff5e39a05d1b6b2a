"""What tests of the limits share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio

from mcranker import ChatRequest, Message
from mcranker.llm.chat import Tag
from mcranker.llm.limits.limits import Limits
from tests.support.virtual_time import now


def request(ranking: int = 0, *, text: str = "?", max_tokens: int = 1) -> ChatRequest:
    return ChatRequest(
        (Message("user", text),), Tag("score", ranking=ranking), max_tokens=max_tokens
    )


def limits_of(**options: Any) -> Limits:
    options.setdefault("concurrency", 1000)
    return Limits(**options, clock=now)


async def starts_of(
    limits: Limits, requests: Iterable[ChatRequest], *, seconds: float = 0.0
) -> list[float]:
    """When each call starts, in seconds from now, if all ask for a place now."""
    begin = now()
    starts: list[float] = []

    async def call(request: ChatRequest) -> None:
        with await limits.place(request):
            starts.append(now() - begin)
            await anyio.sleep(seconds)

    async with anyio.create_task_group() as group:
        for each in requests:
            group.start_soon(call, each)
    return starts


def assert_at_rest(limits: Limits) -> None:
    """Nobody is in, nobody waits, and whoever came would be let in."""
    told = limits.statistics()
    assert (told.in_flight, told.waiting) == (0, 0)
    for gate in limits._gates.values():
        assert not gate.queues
        assert gate._timer is None
