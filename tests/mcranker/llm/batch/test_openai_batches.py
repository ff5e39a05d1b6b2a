from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcranker.errors import (
    ConnectionFailed,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from mcranker.llm.batch.services import BatchItem, OpenAIBatches, lines_of
from mcranker.llm.chat import ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_chat import OpenAIChat
from tests.support.batch_server import BatchServer, FakeTime, serve_batches
from tests.support.loopback import Answer, Drop, clean_environment, completion, openai_error, serve

KEYS = ("a" * 64, "b" * 64)
REQUEST = ChatRequest(
    messages=(Message("system", "Be brief."), Message("user", "Hé?\u2028")),
    tag=Tag("score"),
    schema=ReplySchema("score", {"type": "object", "additionalProperties": False}),
    max_tokens=5,
    seed=3,
)

SERVICE = Service("openai:m", "OpenAI", "", "", "", 1.0)

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


async def lines_at(service: OpenAIBatches, path: str) -> list[bytes]:
    chat = service.chat
    return [line async for line in lines_of(chat.stream(path), chat.service)]


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "gpt-6-luna"])
async def test_a_line_asks_what_a_call_asks(model: str) -> None:
    async with serve(lambda _: completion("7")) as live:
        chat = OpenAIChat(model, api_key="k", base_url=live.url)
        await chat.complete(REQUEST)
        line = OpenAIBatches(chat).line(KEYS[0], chat.writer()(REQUEST))
        await chat.aclose()
    assert b"\n" not in line
    assert json.loads(line) == {
        "custom_id": KEYS[0],
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": live.bodies[0],
    }


async def test_what_goes_over_the_wire() -> None:
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


async def test_a_batch_is_found_by_its_mark() -> None:
    time = FakeTime()
    async with serve_batches("openai", time=time) as server:
        service = OpenAIBatches(OpenAIChat("m", api_key="k", base_url=server.url))
        for number in range(9):
            server._new([], {"mcranker_mark": f"{number:032}"} if number % 2 else {})
            time.now += 600
        assert await service.find(f"{3:032}", time.start + 4 * 600) == "batch_3"
        assert server.count("GET", "/batches") == 3  # pages of two
        # Not there: the search ends with what is too old to be it, an hour allowed for clocks.
        assert await service.find("f" * 32, time.start + 2 * 3600) is None
        assert server.count("GET", "/batches") == 3 + 2
        await service.chat.aclose()


@pytest.mark.parametrize(
    ("line", "fate", "error"),
    [
        ({"response": {"status_code": 200, "body": {"a": 1}}, "error": None}, "answered", None),
        (
            {"response": {"status_code": 400, "body": openai_error("bad value")}},
            "failed",
            RequestRejected,
        ),
        (
            {
                "response": {
                    "status_code": 400,
                    "body": openai_error("x", code="context_length_exceeded"),
                }
            },
            "failed",
            ContextTooLong,
        ),
        ({"response": {"status_code": 429, "body": openai_error("wait")}}, "failed", RateLimited),
        ({"response": {"status_code": 503, "body": None}}, "failed", ServerFailed),
        ({"response": {"status_code": None, "body": "?"}}, "failed", ServerFailed),
        ({"response": {"status_code": 200, "body": "?"}}, "failed", ServerFailed),
        ({"response": None, "error": {"code": "batch_expired"}}, "expired", ModelTimeout),
        ({"response": None, "error": {"code": "batch_cancelled"}}, "cancelled", ModelError),
        ({"response": None, "error": {"code": "odd", "message": "m"}}, "failed", ServerFailed),
        ({}, "failed", ServerFailed),
    ],
)
def test_items(line: dict[str, Any], fate: str, error: type[ModelError] | None) -> None:
    chat = OpenAIChat("m", api_key="k")
    item = OpenAIBatches(chat).item({"custom_id": "k1"} | line)
    assert (item.key, item.fate) == ("k1", fate)
    assert (item.body is None) == (error is not None)
    if error is not None:
        assert type(item.error("batch_7", chat.service)) is error


def test_an_item_that_never_came() -> None:
    service = OpenAIChat("m", api_key="k").service
    error = BatchItem("k", "failed").error("batch_7", service)
    assert isinstance(error, ServerFailed)
    assert "without a result" in str(error)


@pytest.mark.parametrize(
    ("status", "ended", "unanswered"),
    [
        ("validating", False, "failed"),
        ("finalizing", False, "failed"),
        ("cancelling", False, "failed"),
        ("completed", True, "failed"),
        ("expired", True, "expired"),
        ("cancelled", True, "cancelled"),
    ],
)
async def test_states(status: str, ended: bool, unanswered: str) -> None:
    async with batches() as (server, service):
        server._new([], {})
        server.polls, server.status = 1, status
        found = await service.check("batch_0")
    assert (found.ended, found.unanswered, found.refusal) == (ended, unanswered, "")


async def test_a_stream_that_breaks_off_or_fails() -> None:
    async with batches() as (server, service):
        server.files["f"] = b"1\n2\n"
        server.fail("GET", "/content", Drop(b"1\n"))
        with pytest.raises(ConnectionFailed):
            await lines_at(service, "files/f/content")
        server.fail("GET", "/content", Answer(500, openai_error("oops k-secret")))
        with pytest.raises(ServerFailed, match=r"oops \[key\]"):
            await lines_at(service, "files/f/content")
        lines = await lines_at(service, "files/f/content")
    assert lines == [b"1", b"2"]


async def test_lines_of() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"z\n", b"a", b"b\r\n\n", b"", b"c\xe2\x80", b"\xa8d\ne", b"f"):
            yield piece

    lines = [line async for line in lines_of(pieces(), SERVICE)]
    assert lines == [b"z", b"ab", "c\u2028d".encode(), b"ef"]


async def test_an_answer_without_an_id() -> None:
    async with batches() as (server, service):
        server.fail("POST", "/batches", Answer(200, {"status": "validating"}))
        with pytest.raises(ServerFailed, match=r"unreadable answer.*id: Field required"):
            await service.create(b"file-0", "0" * 32)
        server.fail("POST", "files", Answer(200, {"object": "file"}))
        with pytest.raises(ServerFailed, match="unreadable answer"):
            await service.upload([b"{}"], "0" * 32)
