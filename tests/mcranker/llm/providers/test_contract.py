"""What every back-end that talks HTTP does, whichever protocol it speaks.

What only one of them does is tested beside this file: the bodies that it sends, the errors of
its library, the parameters that it can do without.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContentRefused,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.chat import ChatModel, ChatRequest, Message, Question, State, Tag
from mcranker.llm.connect import connect
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.openai_chat import OpenAIChat
from tests.support.loopback import (
    Answer,
    Body,
    Drop,
    Hang,
    Loopback,
    Reply,
    Trickle,
    anthropic_error,
    anthropic_message,
    clean_environment,
    completion,
    deaf_port,
    decision,
    openai_error,
    serve,
    serve_in_thread,
)
from tests.support.systemone_server import answered, response

KEY = "k-secret"
REQUEST = ChatRequest(messages=(Message("user", "Hé?"),), tag=Tag("score"), max_tokens=5)

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class BackEnd:
    """One of them, and how a provider answers it.

    Attributes:
        make: the class.
        model: the name to connect by.
        name: what the model calls itself.
        path: what is asked for, of the server.
        root: whether the base URL has no path.
        request: one that it can serve.
        good: the provider's answer.
        usage: input tokens, those of them that were cached, and output tokens of that answer.
        error: the body of an error.
        too_long: of a prompt that is too long.
        foreign: an answer of another protocol.
        refused: a reply in which the model refuses; None if there is no such thing.
        key_advice: part of what the error says when the key is refused.
        connection_advice: likewise when nobody is there.
        labels: whether it can give the probabilities of labels.
    """

    make: Callable[..., Any]
    model: str
    name: str
    path: str
    root: bool = False
    request: ChatRequest = REQUEST
    good: Body
    usage: tuple[int, int, int]
    error: Callable[[str], Body] = openai_error
    too_long: Body = field(default_factory=lambda: openai_error("", code="context_length_exceeded"))
    foreign: Body
    refused: Body | None = None
    key_advice: str
    connection_advice: str = "check the network"
    labels: bool = False

    def connect(self, server: Loopback, **options: Any) -> Any:
        return self.at(server.root if self.root else server.url, **options)

    def at(self, url: str, **options: Any) -> Any:
        return self.make(self.model, base_url=url, api_key=KEY, **options)


QUESTION = replace(REQUEST, questions=(Question("q1", "Is it?", 2),))
OPENAI = BackEnd(
    make=OpenAIChat,
    model="gpt-4.1-mini",
    name="openai:gpt-4.1-mini",
    path="/v1/chat/completions",
    good=completion("7"),
    usage=(11, 4, 3),
    foreign=anthropic_message("7"),
    refused=completion(None, refusal="No."),
    key_advice="set OPENAI_API_KEY or pass api_key=",
    labels=True,
)
SYSTEM_ONE = BackEnd(
    make=lambda model, **options: connect(f"systemone:{model}", **options),
    model="m",
    name="systemone:m",
    path="/v1/systemone",
    request=QUESTION,
    good=response("served-model", {"q1": answered({"type": "score", "criteria": "012"}, 0.5)}),
    usage=(120, 0, 1),
    foreign=completion("7"),
    key_advice="set TYPESAFE_API_KEY or pass api_key=",
    connection_advice="check that the server runs",
)
BACK_ENDS = {
    "openai": OPENAI,
    "decisions": BackEnd(
        make=OpenAIChat,
        model="gpt-6-luna",
        name="openai:gpt-6-luna",
        path="/v1/decisions",
        request=QUESTION,
        good=decision("q1"),
        usage=(21, 8, 4),
        foreign=completion("7"),
        key_advice="set OPENAI_API_KEY or pass api_key=",
    ),
    "compatible": replace(
        OPENAI,
        make=CompatibleChat,
        model="m",
        name="openai:m",
        key_advice="api_key=",
        connection_advice="check that the server runs",
    ),
    "systemone": SYSTEM_ONE,
    "rerank": replace(
        SYSTEM_ONE,
        make=lambda model, **options: connect(f"rerank:{model}", **options),
        name="rerank:m",
        path="/v1/rerank",
        request=replace(
            REQUEST,
            messages=(),
            questions=(Question("q1", "", passage="p1"),),
            state=State("Hé?", {"p1": "text"}),
        ),
        good={
            "model": "served-model",
            "results": [{"index": 0, "relevance_score": 0.5}],
            "usage": {"prompt_tokens": 7},
        },
        usage=(7, 0, 0),
        key_advice="set RERANK_API_KEY or pass api_key=",
    ),
    "anthropic": BackEnd(
        make=AnthropicMessages,
        model="claude-haiku-5-5",
        name="anthropic:claude-haiku-5-5",
        path="/v1/messages",
        root=True,
        good=anthropic_message("7"),
        usage=(11, 4, 3),
        error=anthropic_error,
        too_long=anthropic_error("prompt is too long: 9 tokens > 5"),
        foreign=completion("7"),
        refused=anthropic_message("", stop_reason="refusal"),
        key_advice="set ANTHROPIC_API_KEY or pass api_key=",
    ),
}
every = pytest.mark.parametrize("back_end", BACK_ENDS.values(), ids=BACK_ENDS)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


async def failure(back_end: BackEnd, reply: Reply) -> ModelError:
    """The error of a call, for which the provider was asked once."""
    async with serve(lambda _: reply) as server:
        model = back_end.connect(server)
        with anyio.fail_after(60), pytest.raises(ModelError) as caught:
            await model.complete(back_end.request)
        await model.aclose()
    assert len(server.requests) == 1
    assert caught.value.model == back_end.name
    assert str(caught.value).isprintable()
    return caught.value


@every
async def test_a_call_and_its_reply(back_end: BackEnd) -> None:
    async with serve(lambda _: back_end.good) as server:
        model = back_end.connect(server)
        reply = await model.complete(back_end.request)
        await model.aclose()
    assert isinstance(model, ChatModel)
    assert model.name == back_end.name
    (sent,) = server.requests
    assert sent.path == back_end.path
    assert KEY in f"{sent.headers.get('x-api-key')} {sent.headers.get('authorization')}"
    assert sent.headers["content-type"] == "application/json"
    assert sent.body["model"] == back_end.model
    assert "Hé?" in str(sent.body)
    assert reply.model == "served-model"
    assert (reply.text == "7") is not bool(reply.answers)
    usage = reply.usage
    assert usage.calls == 1
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == back_end.usage


STATUSES = {
    307: RequestRejected,  # nothing is sent elsewhere
    400: RequestRejected,
    401: AuthenticationFailed,
    402: AuthenticationFailed,
    403: AuthenticationFailed,
    404: ModelNotFound,
    408: ModelTimeout,
    409: RequestRejected,
    413: RequestRejected,
    422: RequestRejected,
    429: RateLimited,
    500: ServerFailed,
    503: ServerFailed,
    504: ModelTimeout,
    529: RateLimited,
}


@every
@pytest.mark.parametrize(("status", "kind"), STATUSES.items(), ids=map(str, STATUSES))
async def test_a_status_is_one_error_and_nothing_is_tried_twice(
    back_end: BackEnd, status: int, kind: type[ModelError], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcranker")
    body = back_end.error(f"It is because of {KEY}.")
    error = await failure(back_end, Answer(status, body, {"Location": "/elsewhere"}))
    assert type(error) is kind
    assert "It is because of" in str(error)
    assert KEY not in str(error) + caplog.text


ANSWERS: dict[str, tuple[Callable[[BackEnd], Reply], type[ModelError]]] = {
    "a page": (lambda _: Answer(500, b"<html>oops</html>"), ServerFailed),
    "nothing": (lambda _: Answer(503, b""), ServerFailed),
    "a page as an answer": (lambda _: Answer(200, b"<html>hello</html>"), ServerFailed),
    "a list": (lambda _: Answer(200, []), ServerFailed),
    "another object": (lambda _: Answer(200, {"object": "list"}), ServerFailed),
    "another protocol": (lambda back_end: back_end.foreign, ServerFailed),
    "half of it": (lambda _: Answer(200, b'{"model": "m", "cho'), ServerFailed),
    "hung up": (lambda _: Drop(), ConnectionFailed),
    "hung up half way": (lambda _: Drop(after=b'{"model": '), ConnectionFailed),
    "too long": (lambda back_end: Answer(400, back_end.too_long), ContextTooLong),
}


@every
@pytest.mark.parametrize("what", ANSWERS)
async def test_an_answer_that_is_none_is_one_error(back_end: BackEnd, what: str) -> None:
    answer, kind = ANSWERS[what]
    assert type(await failure(back_end, answer(back_end))) is kind


@every
async def test_a_refusal_of_the_model_is_an_error(back_end: BackEnd) -> None:
    if back_end.refused is None:
        filtered = Answer(400, openai_error("", code="content_filter"))
        assert type(await failure(back_end, filtered)) is ContentRefused
    else:
        assert type(await failure(back_end, back_end.refused)) is ContentRefused


@every
async def test_errors_say_what_to_do(back_end: BackEnd) -> None:
    said = str(await failure(back_end, Answer(401, back_end.error("wrong"))))
    assert back_end.key_advice in said
    with deaf_port() as port:
        model = back_end.at(f"http://127.0.0.1:{port}/v1")
        with pytest.raises(ConnectionFailed, match=back_end.connection_advice):
            await model.complete(back_end.request)
        await model.aclose()


@every
@pytest.mark.parametrize("status", [429, 529])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"Retry-After": "12"}, 12.0), ({"retry-after-ms": "250"}, 0.25), ({}, None)],
)
async def test_the_wait_that_a_provider_asks_for(
    back_end: BackEnd, status: int, headers: dict[str, str], seconds: float | None
) -> None:
    error = await failure(back_end, Answer(status, back_end.error("slow"), headers))
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


async def time_out(back_end: BackEnd, server: Loopback) -> None:
    """Time out on a server that has been asked: the first call also loads a library."""
    timeout = 0.1
    while not server.requests:
        model = back_end.connect(server, timeout=timeout)
        with anyio.fail_after(60), pytest.raises(ModelTimeout, match=f"within {timeout:g} s"):
            await model.complete(back_end.request)
        await model.aclose()
        timeout *= 4


@every
async def test_a_slow_answer_times_out_and_hangs_up(back_end: BackEnd) -> None:
    hang = Hang()
    async with serve(lambda _: hang) as server:
        await time_out(back_end, server)
        with anyio.fail_after(60):
            await hang.gone.wait()


@every
async def test_the_deadline_is_for_the_whole_answer(back_end: BackEnd) -> None:
    async with serve(lambda _: Trickle()) as server:
        await time_out(back_end, server)


@every
async def test_cancelling_a_call_hangs_up(back_end: BackEnd) -> None:
    hang, asked = Hang(), asyncio.Event()

    def answer(_: Body) -> Hang:
        asked.set()
        return hang

    async with serve(answer) as server:
        model = back_end.connect(server)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(model.complete, back_end.request)
                await asked.wait()
                group.cancel_scope.cancel()
            await hang.gone.wait()
        await model.aclose()


@every
async def test_connections_are_reused_and_limited(back_end: BackEnd) -> None:
    async with serve(lambda _: back_end.good) as server:
        model = back_end.connect(server, concurrency=3)
        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(model.complete, back_end.request)
        await model.complete(back_end.request)
        await model.aclose()
    assert len(server.requests) == 13
    assert len(server.peers) <= 3


@every
def test_one_model_in_many_loops_and_threads(back_end: BackEnd) -> None:
    """Nobody calls aclose(), and nothing is left open (warnings are errors)."""
    replies = []
    with serve_in_thread(lambda _: back_end.good) as server:
        model = back_end.connect(server)

        def once() -> None:
            replies.append(asyncio.run(model.complete(back_end.request)))

        once()
        once()
        threads = [threading.Thread(target=once) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert [each.model for each in replies] == ["served-model"] * 5


@pytest.mark.parametrize("name", ["openai", "compatible", "anthropic"])
async def test_labels_without_their_probabilities_are_told(name: str) -> None:
    back_end = BACK_ENDS[name]
    request = replace(REQUEST, labels=("Yes", "No"))
    async with serve(lambda _: back_end.good) as server:
        model = back_end.connect(server)
        assert model.capabilities.label_logprobs is back_end.labels
        with pytest.raises(UnsupportedCapability, match='scoring="integer"'):
            await model.complete(request)
        await model.aclose()
    # What can never work is refused without a call.
    assert len(server.requests) == back_end.labels


@every
@pytest.mark.parametrize("key", ["two words", "line\nbreak", "k\u00e9y"])
def test_a_key_that_cannot_be_one_is_not_shown(back_end: BackEnd, key: str) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        back_end.make(back_end.model, base_url="http://h", api_key=key)
    assert key not in str(caught.value)
