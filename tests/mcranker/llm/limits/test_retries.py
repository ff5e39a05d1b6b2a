"""Calls that are tried again, how often, and after how long; time is virtual."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anyio
import pytest

from mcranker import (
    AuthenticationFailed,
    ChatReply,
    ChatRequest,
    ConnectionFailed,
    Message,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    RateLimited,
    ReplyError,
    RequestRejected,
    ScriptedChat,
    ServerFailed,
    Usage,
)
from mcranker.llm.chat import Tag
from mcranker.llm.limits.rate_limiter import RateLimiter
from mcranker.llm.limits.retries import Retrying
from tests.support.virtual_time import VirtualLoop, now

pytestmark = pytest.mark.anyio

REQUEST = ChatRequest((Message("user", "?"),), Tag("probe"))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


class Script:
    """Fails with each of the errors in turn, then answers; notes when it was asked."""

    def __init__(self, *errors: ModelError, seconds: float = 0.0) -> None:
        self.errors: Iterator[ModelError] = iter(errors)
        self._seconds = seconds
        self.asked: list[float] = []

    async def answer(self, request: ChatRequest) -> ChatReply:
        self.asked.append(now())
        await anyio.sleep(self._seconds)
        for error in self.errors:
            raise error
        return ChatReply("answer", usage=Usage(calls=1, input_tokens=7))

    @property
    def waits(self) -> list[float]:
        """Seconds from the end of each try to the next."""
        return [later - earlier - self._seconds for earlier, later in pairwise(self.asked)]

    def retrying(self, limits: RateLimiter | None = None, **options: Any) -> Retrying:
        return Retrying(ScriptedChat(self.answer), limits or plain_limits(), **options)


def plain_limits(**options: Any) -> RateLimiter:
    options.setdefault("concurrency", 8)
    return RateLimiter(**options, clock=now)


async def test_what_can_help_is_tried_again_with_growing_waits() -> None:
    script = Script(ServerFailed("500"), ModelTimeout("late"), ServerFailed("503"))
    assert (await script.retrying().complete(REQUEST)).text == "answer"
    # 0.5 · 2^0, 2^1, 2^2 seconds, times 0.5 to 1
    for wait, longest in zip(script.waits, [0.5, 1.0, 2.0], strict=True):
        assert longest / 2 - 1e-6 <= wait <= longest + 1e-6


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationFailed("401"),
        ModelNotFound("404"),
        RequestRejected("400"),
        ReplyError("what?", reply=""),
    ],
)
async def test_what_cannot_help_is_raised_at_once(error: ModelError) -> None:
    script = Script(error)
    with pytest.raises(type(error)) as caught:
        await script.retrying().complete(REQUEST)
    assert caught.value is error
    assert len(script.asked) == 1


def unread(shape: str) -> ServerFailed:
    error = ServerFailed("unreadable")
    error.shape = shape
    return error


async def test_a_reply_that_cannot_be_read_ends_the_call_once_it_comes_again() -> None:
    script = Script(*map(unread, "aba"))
    with pytest.raises(ServerFailed):
        await script.retrying().complete(REQUEST)
    assert len(script.asked) == 3
    script = Script(*map(unread, "abc"))
    assert (await script.retrying().complete(REQUEST)).text == "answer"


async def test_the_wait_that_a_provider_asks_for_is_waited_once() -> None:
    script = Script(RateLimited("429", retry_after=17.0))
    await script.retrying().complete(REQUEST)
    assert script.waits == pytest.approx([17.0])


async def test_a_provider_may_not_ask_for_more_time_than_there_is() -> None:
    script = Script(RateLimited("429", retry_after=30.0, model="m"))
    with pytest.raises(RateLimited, match=r"429 \(it asks to wait 30 s, and 29 s are") as caught:
        await script.retrying(deadline=29.0).complete(REQUEST)
    assert (caught.value.retry_after, caught.value.model) == (30.0, "m")
    assert len(script.asked) == 1
    script = Script(RateLimited("429", retry_after=28.0))
    await script.retrying(deadline=29.0).complete(REQUEST)
    assert len(script.asked) == 2


async def test_the_deadline_counts_tries_and_waits() -> None:
    # Two tries of 4 s and a wait of 0.5 to 1 s between them: the next wait, of 1 to 2 s, would
    # end after the deadline.
    script = Script(*(ServerFailed("no") for _ in range(9)), seconds=4.0)
    with pytest.raises(ServerFailed):
        await script.retrying(deadline=9.0, first_wait=1.0).complete(REQUEST)
    assert len(script.asked) == 2


async def test_a_connection_is_tried_again_only_where_there_was_one() -> None:
    script = Script(ConnectionFailed("nobody there"))
    retrying = script.retrying()
    with pytest.raises(ConnectionFailed):
        await retrying.complete(REQUEST)
    assert len(script.asked) == 1

    await retrying.complete(REQUEST)
    script.errors = iter([ConnectionFailed("lost")])
    await retrying.complete(REQUEST)
    assert len(script.asked) == 4


async def test_the_usage_tells_the_seconds_of_the_try_that_answered() -> None:
    script = Script(ServerFailed("500"), seconds=3.0)
    reply = await script.retrying().complete(REQUEST)
    assert reply.usage == Usage(calls=1, input_tokens=7)
    assert reply.usage.seconds == pytest.approx(3.0)
