from __future__ import annotations

import json
from typing import Any

import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.batch.services import AnthropicBatches, lines_of
from mcranker.llm.chat import ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from tests.support.batch_server import serve_batches
from tests.support.loopback import anthropic_message, clean_environment, serve

KEYS = ("a" * 64, "b" * 64)
REQUEST = ChatRequest(
    messages=(Message("system", "Be brief."), Message("user", "Hé?")),
    tag=Tag("score"),
    schema=ReplySchema("score", {"type": "object", "additionalProperties": False}),
    max_tokens=5,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


async def lines_at(service: AnthropicBatches, path: str) -> list[bytes]:
    chat = service.chat
    return [line async for line in lines_of(chat.stream(path), chat.service)]


def batches(url: str, model: str = "claude-haiku-4-5") -> AnthropicBatches:
    return AnthropicBatches(AnthropicMessages(model, api_key="k-secret", base_url=url))


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-haiku-5-5"])
async def test_a_line_asks_what_a_call_asks(model: str) -> None:
    async with serve(lambda _: anthropic_message("7")) as live:
        service = batches(live.root, model)
        await service.chat.complete(REQUEST)
        line = service.line(KEYS[0], service.chat.writer()(REQUEST))
        await service.chat.aclose()
    assert json.loads(line) == {"custom_id": KEYS[0], "params": live.bodies[0]}


async def test_what_goes_over_the_wire() -> None:
    async with serve_batches("anthropic") as server:
        service = batches(server.url)
        lines = [service.line(key, service.chat.writer()(REQUEST)) for key in KEYS]
        source = await service.upload(lines, "0" * 32)
        assert server.seen == []
        assert await service.create(source, "0" * 32) == "batch_0"
        assert server.created == [{"requests": [json.loads(line) for line in lines]}]
        status = await service.check("batch_0")
        assert (status.ended, status.results) == (False, ())
        assert status.progress == "in_progress, 2 processing"
        status = await service.check("batch_0")
        # The server names another host; the key must not go there.
        assert status.results == ("v1/messages/batches/batch_0/results",)
        assert (status.ended, status.progress) == (True, "ended, 2 succeeded")
        found = await lines_at(service, status.results[0])
        items = [service.item(json.loads(line)) for line in found]
        assert [item.key for item in items] == list(KEYS[::-1])
        reply = service.chat.read(items[0].body or {}, REQUEST)
        assert (reply.text, reply.usage.input_tokens) == ("re: Hé?", 11)
        keys = [(each.get("x-api-key"), each.get("authorization")) for each in server.headers]
        assert all("k-secret" in key or "Bearer k-secret" in key for key in keys)
        assert all(header["anthropic-version"] for header in server.headers)
        await service.chat.aclose()


def test_a_request_for_probabilities_cannot_be_written() -> None:
    chat = AnthropicMessages("claude-haiku-4-5", api_key="k")
    with pytest.raises(UnsupportedCapability):
        chat.writer()(ChatRequest(messages=REQUEST.messages, tag=Tag("score"), labels=("a", "b")))


def errored(kind: str, message: str = "m") -> dict[str, Any]:
    error = {"type": kind, "message": message}
    return {"type": "errored", "error": {"type": "error", "error": error, "request_id": "r"}}


@pytest.mark.parametrize(
    ("result", "fate", "error"),
    [
        ({"type": "succeeded", "message": anthropic_message("7")}, "answered", None),
        (errored("invalid_request_error"), "failed", RequestRejected),
        (errored("invalid_request_error", "prompt is too long"), "failed", ContextTooLong),
        (errored("authentication_error"), "failed", AuthenticationFailed),
        (errored("billing_error"), "failed", AuthenticationFailed),
        (errored("rate_limit_error"), "failed", RateLimited),
        (errored("overloaded_error"), "failed", RateLimited),
        (errored("timeout_error"), "failed", ModelTimeout),
        (errored("api_error"), "failed", ServerFailed),
        (errored("a_new_error"), "failed", ServerFailed),
        ({"type": "errored", "error": None}, "failed", ServerFailed),
        ({"type": "succeeded", "message": None}, "failed", ServerFailed),
        ({"type": "expired"}, "expired", ModelTimeout),
        ({"type": "canceled"}, "cancelled", ModelError),
        ({}, "failed", ServerFailed),
        (None, "failed", ServerFailed),
    ],
)
def test_items(result: Any, fate: str, error: type[ModelError] | None) -> None:
    service = batches("http://127.0.0.1:9")
    item = service.item({"custom_id": "k1", "result": result})
    assert (item.key, item.fate) == ("k1", fate)
    assert (item.body is None) == (error is not None)
    if error is not None:
        assert type(item.error("batch_7", service.chat.service)) is error


async def test_results_that_are_not_kept_any_more() -> None:
    async with serve_batches("anthropic") as server:
        service = batches(server.url)
        server._new([], {})
        server.polls = 0
        play = server._anthropic_batch
        server._anthropic_batch = lambda job: play(job) | {"results_url": None}  # type: ignore[method-assign]
        status = await service.check("batch_0")
        await service.chat.aclose()
    assert (status.ended, status.results, status.unanswered) == (True, (), "failed")
