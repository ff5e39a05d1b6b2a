"""What is tried again, how often, and after how long; nothing here waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcranker import (
    AuthenticationFailed,
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
)
from mcranker.llm.chat import Tag
from mcranker.llm.retries import Retrying

pytestmark = pytest.mark.anyio

REQUEST = ChatRequest((Message("user", "?"),), Tag("probe"))


class Script:
    """Fails with each of the errors in turn, then answers; notes the waits in between."""

    def __init__(self, *errors: ModelError) -> None:
        self._errors: Iterator[ModelError] = iter(errors)
        self.calls = 0
        self.waits: list[float] = []
        self.model = ScriptedChat(self._answer)

    def _answer(self, request: ChatRequest) -> str:
        self.calls += 1
        for error in self._errors:
            raise error
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


async def test_what_can_help_is_tried_again_with_growing_waits() -> None:
    script = Script(ServerFailed("500"), ModelTimeout("late"), RateLimited("429"))
    retrying = Retrying(script.model, sleep=script.sleep)
    assert (await retrying.complete(REQUEST)).text == "answer"
    assert script.calls == 4
    # 0.5 · 2^0, 2^1, 2^2 seconds, times 0.5 to 1
    for wait, longest in zip(script.waits, [0.5, 1.0, 2.0], strict=True):
        assert longest / 2 <= wait <= longest


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
    with pytest.raises(type(error)):
        await Retrying(script.model, sleep=script.sleep).complete(REQUEST)
    assert (script.calls, script.waits) == (1, [])


async def test_the_provider_says_how_long_to_wait() -> None:
    script = Script(RateLimited("429", retry_after=17.0))
    await Retrying(script.model, sleep=script.sleep).complete(REQUEST)
    assert script.waits == [17.0]


async def test_the_last_error_is_raised_after_so_many_tries() -> None:
    script = Script(*(ServerFailed(f"no {number}") for number in range(9)))
    with pytest.raises(ServerFailed, match="no 2"):
        await Retrying(script.model, attempts=3, sleep=script.sleep).complete(REQUEST)
    assert script.calls == 3


async def test_no_wait_goes_beyond_the_deadline() -> None:
    script = Script(RateLimited("429", retry_after=30.0))
    with pytest.raises(RateLimited):
        await Retrying(script.model, deadline=29.0, sleep=script.sleep).complete(REQUEST)
    assert (script.calls, script.waits) == (1, [])


async def test_waits_stop_growing() -> None:
    script = Script(*(ServerFailed("no") for _ in range(5)))
    retrying = Retrying(script.model, first_wait=1.0, longest_wait=2.0, sleep=script.sleep)
    await retrying.complete(REQUEST)
    assert max(script.waits) <= 2.0


async def test_a_connection_is_tried_again_only_where_there_was_one() -> None:
    script = Script(ConnectionFailed("nobody there"))
    retrying = Retrying(script.model, sleep=script.sleep)
    with pytest.raises(ConnectionFailed):
        await retrying.complete(REQUEST)
    await retrying.complete(REQUEST)
    assert script.waits == []

    lost = Script()
    retrying = Retrying(lost.model, sleep=lost.sleep)
    await retrying.complete(REQUEST)
    lost._errors = iter([ConnectionFailed("lost")])
    await retrying.complete(REQUEST)
    assert lost.calls == 3
    assert len(lost.waits) == 1
