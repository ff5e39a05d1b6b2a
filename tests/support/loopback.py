"""A small HTTP server on the loopback device that plays a model provider.

It speaks ``/v1/chat/completions`` and ``/v1/messages``, keeps every request, and answers
with what a function makes of the request's body: a dict (status 200), an `Answer`, a `Drop`,
a `Hang` or a `Trickle`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from anyio.from_thread import start_blocking_portal

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A status, a body (JSON unless it is bytes) and headers."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """Close the connection: before answering, or after these bytes of a longer body."""

    after: bytes | None = None


@dataclass(frozen=True)
class Hang:
    """Keep the client waiting; `gone` is set once it has hung up."""

    gone: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Trickle:
    """Send a space every few milliseconds, for as long as the client listens."""

    every: float = 0.01


Reply = Body | Answer | Drop | Hang | Trickle
Script = Callable[[Body], Reply | Awaitable[Reply]]


@dataclass
class Recorded:
    path: str
    headers: dict[str, str]
    body: Body
    time: float = field(default_factory=time.monotonic)


class Loopback:
    """The running server: its address, and what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Recorded] = []
        self.port = 0
        self.peers: set[Any] = set()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The base URL for clients of OpenAI's protocol."""
        return f"{self.root}/v1"

    @property
    def bodies(self) -> list[Body]:
        return [request.body for request in self.requests]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(Recorded(request.path, headers, body))
        if request.transport is not None:
            self.peers.add(request.transport.get_extra_info("peername"))
        reply = self.script(body)
        if inspect.isawaitable(reply):
            reply = await reply
        return await respond(request, reply)


async def respond(request: web.Request, reply: Reply) -> web.StreamResponse:
    """Answer a request, or break off as the reply says."""
    response = web.StreamResponse()
    if isinstance(reply, Hang):
        try:
            await asyncio.Event().wait()
        finally:
            reply.gone.set()
    if isinstance(reply, Drop):
        assert request.transport is not None
        if reply.after is not None:
            response.content_length = len(reply.after) + 100
            await response.prepare(request)
            await response.write(reply.after)
        request.transport.close()
        return response
    if isinstance(reply, Trickle):
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(reply.every)
    answer = reply if isinstance(reply, Answer) else Answer(body=reply)
    raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    headers = {"Content-Type": "application/json"} | answer.headers
    return web.Response(status=answer.status, body=raw, headers=headers)


@asynccontextmanager
async def listening(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[int]:
    """Let `handle` answer every request in this event loop; the port."""
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve(script: Script) -> AsyncIterator[Loopback]:
    """Run the server in this event loop."""
    loopback = Loopback(script)
    async with listening(loopback.handle) as loopback.port:
        yield loopback


@contextmanager
def serve_in_thread(script: Script) -> Iterator[Loopback]:
    """Run the server in a thread and an event loop of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serve(script)) as it:
        yield it


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that refuses connections, and that nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def completion(text: str | None = "ok", **choice: Any) -> Body:
    """A chat completion as OpenAI sends it."""
    message = {"role": "assistant", "content": text, "refusal": choice.pop("refusal", None)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "served-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"} | choice],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 3,
            "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


def anthropic_message(text: str = "ok", **fields: Any) -> Body:
    """A message as Anthropic sends it."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served-model",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": 2,
            "output_tokens": 3,
        },
    } | fields


def openai_error(message: str, *, code: str | None = None, param: str | None = None) -> Body:
    """An error body as OpenAI sends it."""
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}


def anthropic_error(message: str, kind: str = "invalid_request_error") -> Body:
    """An error body as Anthropic sends it."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def decision(name: str) -> Body:
    """A decision about one question, on a scale of 0 to 2, as OpenAI sends it."""
    levels = [{"value": place, "label": str(place), "probability": place / 3} for place in range(3)]
    score = {"score": 0.0, "confidence": 0.5, "probabilities": levels}
    return {
        "model": "served-model",
        "answers": [{"type": "score", "name": name} | score],
        "usage": {
            "input_tokens": 21,
            "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 25,
        },
    }


def position(sampled: str, **probabilities: float) -> Body:
    """One entry of a choice's ``logprobs``; underscores in names stand for spaces."""
    listed = {name.replace("_", " "): math.log(p) for name, p in probabilities.items()}
    return {
        "token": sampled,
        "logprob": listed.get(sampled, -30.0),
        "top_logprobs": [{"token": t, "logprob": p} for t, p in listed.items()],
    }


def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide keys, addresses and proxies of the machine that runs the tests."""
    hidden = ("OPENAI_", "ANTHROPIC_", "RERANK_", "MCRANKER_")
    for name in list(os.environ):
        if name == "MCRANKER_LEDGER":
            continue
        if name.startswith(hidden) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
