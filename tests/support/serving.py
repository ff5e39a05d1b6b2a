"""The service with scripted models: in this process, or on a port of the loopback device."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import anyio
import httpx

from mcranker import ChatRequest, ScriptedChat
from mcranker.llm.chat import ChatReply
from mcranker.serve import Limits, RankerSettings, Settings, create_app
from mcranker.serve.server import Server, address_of, listen
from personas.ranking.usage import Usage
from tests.support.scripted import RECRUITS, RUBRIC

KEY = "mcr_a-key-of-tests-only-0123456789"
Score = Callable[[ChatRequest], str | Awaitable[str]]
Loop = Literal["asyncio", "uvloop"]


def by_place(request: ChatRequest) -> str:
    """The later a passage was given, the better it is: 1 for the first, 2 for the second, ..."""
    return json.dumps({"Score": min(10, int(request.tag.doc_id) + 1)})


def with_reasons(request: ChatRequest) -> str:
    """As `by_place`, with a reason for the first passage of a call."""
    if request.tag.stage != "explain":
        return by_place(request)
    return json.dumps({"Passages": {"1": {"Quote": "surgical", "Reason": "It names one."}}})


def model(score: Score = by_place) -> ScriptedChat:
    """Recruits and writes rubrics by rote, and scores as told."""

    async def answer(request: ChatRequest) -> ChatReply:
        match request.tag.stage:
            case "recruit":
                text = RECRUITS
            case "criteria":
                text = RUBRIC
            case _:
                said = score(request)
                text = said if isinstance(said, str) else await said
        return ChatReply(text, usage=Usage(calls=1, input_tokens=100, output_tokens=5))

    return ScriptedChat(answer, name="scripted:tests")


def settings(
    score: Score = by_place,
    *,
    limits: Mapping[str, Any] | None = None,
    per_request: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
    **others: Any,
) -> Settings:
    """A service with one ranker, of three personas, that takes every model name."""
    chosen = {"model": model(score), "ledger": None, **(options or {})}
    ranker = RankerSettings(name="team", options=chosen, names=("*",), per_request=per_request)
    return Settings(rankers=(ranker,), limits=Limits(**(limits or {})), **others)


@asynccontextmanager
async def client(service: Settings | None = None, **given: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service in this process."""
    app = create_app(service or settings(**given))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as found,
    ):
        yield found


@contextmanager
def serving(
    service: Settings | None = None, *, loop: Loop = "asyncio", **given: Any
) -> Iterator[str]:
    """The service on a port of its own, in a thread; its address."""
    service = service or settings(port=0, **given)
    ready = threading.Event()
    with listen(service) as bound:
        server = Server(create_app(service), service.limits, ready.set)
        server.config.loop = loop
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        assert ready.wait(20)
        try:
            yield address_of(bound)
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something is true; for what another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.01)


async def until_so(true: Callable[[], bool | Awaitable[bool]]) -> None:
    """`until`, for coroutines."""
    with anyio.fail_after(10):
        while True:
            found = true()
            if found if isinstance(found, bool) else await found:
                return
            await anyio.sleep(0.005)
