from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ContentRefused,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from mcranker.llm.batch.notes import BatchNote
from mcranker.llm.batch.services import (
    AnthropicBatches,
    BatchService,
    OpenAIBatches,
)
from mcranker.llm.chat import ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.openai_chat import OpenAIChat
from tests.support.batch_server import BatchServer, FakeTime, serve_batches
from tests.support.loopback import (
    Body,
    anthropic_message,
    clean_environment,
    openai_error,
)

KEYS = ("a" * 64, "b" * 64)


REQUEST = ChatRequest(
    messages=(Message("system", "Be brief."), Message("user", "Hé?\u2028")),
    tag=Tag("score"),
    schema=ReplySchema("score", {"type": "object", "additionalProperties": False}),
    max_tokens=5,
    seed=3,
)


pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


@asynccontextmanager
async def batches(model: str = "gpt-4.1-mini") -> AsyncIterator[tuple[BatchServer, OpenAIBatches]]:
    async with serve_batches("openai") as server:
        service = OpenAIBatches(OpenAIChat(model, api_key="k-secret", base_url=server.url))
        yield server, service
        await service.chat.aclose()


def anthropic(server: BatchServer) -> AnthropicBatches:
    model = "claude-haiku-4-5"
    return AnthropicBatches(AnthropicMessages(model, api_key="k-secret", base_url=server.url))


async def lines_at(service: BatchService, path: str) -> list[bytes]:
    return (await service.chat.fetch("get", path)).splitlines()


async def test_what_goes_over_the_wire_to_openai() -> None:
    async with batches() as (server, service):
        lines = [service.line(key, service.chat.writer()(REQUEST)) for key in KEYS]
        source = await service.upload(lines, "0" * 32)
        assert server.files == {"file-0": b"\n".join(lines)}
        assert await service.create(source, "0" * 32) == "batch_0"
        assert server.created == [
            {
                "input_file_id": "file-0",
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
                "metadata": {"mcranker_mark": "0" * 32},
            }
        ]
        status = await service.check("batch_0")
        assert (status.ended, status.results) == (False, ())
        assert status.progress == "in_progress, 0 of 2 answered, 0 failed"
        status = await service.check("batch_0")
        assert (status.ended, status.results) == (True, ("files/batch_0-output/content",))
        found = await lines_at(service, status.results[0])
        items = [service.item(json.loads(line)) for line in found]
        assert [item.key for item in items] == list(KEYS)
        reply = service.chat.read(items[0].body or {}, REQUEST)
        assert (reply.text, reply.usage.input_tokens) == ("re: Hé?\u2028", 11)
        assert {header["authorization"] for header in server.headers} == {"Bearer k-secret"}
        assert [path for _, path in server.seen] == [
            "/v1/files",
            "/v1/batches",
            "/v1/batches/batch_0",
            "/v1/batches/batch_0",
            "/v1/files/batch_0-output/content",
        ]


async def test_what_goes_over_the_wire_to_anthropic() -> None:
    async with serve_batches("anthropic") as server:
        service = anthropic(server)
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
        assert (reply.text, reply.usage.input_tokens) == ("re: Hé?\u2028", 11)
        keys = [(each.get("x-api-key"), each.get("authorization")) for each in server.headers]
        assert all("k-secret" in key or "Bearer k-secret" in key for key in keys)
        assert all(header["anthropic-version"] for header in server.headers)
        await service.chat.aclose()


def note(mark: str, created: float) -> BatchNote:
    requests = dict.fromkeys(KEYS, ("score", ()))
    return BatchNote(model="openai:m", endpoint="e", mark=mark, created=created, requests=requests)


async def test_a_batch_is_found_by_its_mark() -> None:
    time = FakeTime()
    async with serve_batches("openai", time=time) as server:
        service = OpenAIBatches(OpenAIChat("m", api_key="k", base_url=server.url))
        for number in range(9):
            server._new([], {"mcranker_mark": f"{number:032}"} if number % 2 else {})
            time.now += 600
        assert await service.find(note(f"{3:032}", time.start + 4 * 600)) == "batch_3"
        assert server.count("GET", "/batches") == 3  # pages of two
        # Not there: the search ends with what is too old to be it, an hour allowed for clocks.
        assert await service.find(note("f" * 32, time.start + 2 * 3600)) is None
        assert server.count("GET", "/batches") == 3 + 2
        await service.chat.aclose()


def errored(kind: str, message: str = "m") -> dict[str, Any]:
    error = {"type": kind, "message": message}
    return {"type": "errored", "error": {"type": "error", "error": error, "request_id": "r"}}


OPENAI_ITEMS: list[tuple[Body, str, type[ModelError] | None]] = [
    ({"response": {"status_code": 200, "body": {"a": 1}}, "error": None}, "answered", None),
    ({"response": {"status_code": 400, "body": openai_error("no")}}, "failed", RequestRejected),
    (
        {
            "response": {
                "status_code": 400,
                "body": openai_error("", code="context_length_exceeded"),
            }
        },
        "failed",
        ContextTooLong,
    ),
    ({"response": {"status_code": 403, "body": openai_error("flagged")}}, "failed", ContentRefused),
    ({"response": {"status_code": 429, "body": openai_error("wait")}}, "failed", RateLimited),
    ({"response": {"status_code": 503, "body": None}}, "failed", ServerFailed),
    ({"response": {"status_code": None, "body": "?"}}, "failed", ServerFailed),
    ({"response": {"status_code": 200, "body": "?"}}, "failed", ServerFailed),
    ({"response": None, "error": {"code": "batch_expired"}}, "expired", ModelTimeout),
    ({"response": None, "error": {"code": "batch_cancelled"}}, "cancelled", ModelError),
    ({"response": None, "error": {"code": "odd", "message": "m"}}, "failed", ServerFailed),
    ({}, "failed", ServerFailed),
]
ANTHROPIC_ITEMS: list[tuple[Any, str, type[ModelError] | None]] = [
    ({"type": "succeeded", "message": anthropic_message("7")}, "answered", None),
    (errored("invalid_request_error"), "failed", RequestRejected),
    (errored("invalid_request_error", "prompt is too long"), "failed", ContextTooLong),
    (errored("permission_error", "your input was flagged"), "failed", ContentRefused),
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
]


@pytest.mark.parametrize(
    ("provider", "line", "fate", "error"),
    [
        *(("openai", *each) for each in OPENAI_ITEMS),
        *(("anthropic", {"result": result}, *rest) for result, *rest in ANTHROPIC_ITEMS),
    ],
)
def test_items(provider: str, line: Body, fate: str, error: type[ModelError] | None) -> None:
    service: BatchService = OpenAIBatches(OpenAIChat("m", api_key="k"))
    if provider == "anthropic":
        service = AnthropicBatches(AnthropicMessages("m", api_key="k"))
    item = service.item({"custom_id": "k1"} | line)
    assert (item.key, item.fate) == ("k1", fate)
    assert (item.body is None) == (error is not None)
    if error is not None:
        assert type(item.error("batch_7", service.chat.service)) is error
