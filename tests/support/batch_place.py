"""A folder, a ledger and a server of batches, and runs that use them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker.errors import MCRankerError
from mcranker.llm.batch.batched import Batched, BatchTimings
from mcranker.llm.batch.notes import BatchNotes
from mcranker.llm.batch.services import AnthropicBatches, BatchService, OpenAIBatches
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Message, Tag
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.rows import request_key
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_chat import HostedChat
from mcranker.llm.providers.openai_chat import OpenAIChat
from tests.support.batch_server import BatchServer, FakeTime, serve_batches
from tests.support.loopback import Body

both = pytest.mark.parametrize("provider", ["openai", "anthropic"])
SECRET = "k-very-secret"
_SERVICES: dict[str, tuple[type[HostedChat], type[BatchService], str]] = {
    "openai": (OpenAIChat, OpenAIBatches, "gpt-4.1-mini"),
    "anthropic": (AnthropicMessages, AnthropicBatches, "claude-haiku-4-5"),
}


def ask(text: str, **fields: Any) -> ChatRequest:
    return ChatRequest(messages=(Message("user", text),), tag=Tag("score"), **fields)


def text_of(body: Body) -> str:
    return str(body["messages"][-1]["content"])


@dataclass
class Workplace:
    """A server, a folder and a ledger; runs start with `model`."""

    server: BatchServer
    folder: Path
    ledger: Ledger
    chats: list[ChatModel] = field(default_factory=list)

    @property
    def time(self) -> FakeTime:
        return self.server.time

    @property
    def notes(self) -> list[Body]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*"))]

    def service(self, name: str = "") -> BatchService:
        kind, service, model = _SERVICES[self.server.provider]
        chat = kind(name or model, api_key=SECRET, base_url=self.server.url)
        call = chat.call

        async def held(*args: Any, **options: Any) -> Body:
            with self.time.held():
                return await call(*args, **options)

        chat.call = held  # type: ignore[method-assign]  # a hook
        self.chats.append(chat)
        return service(chat)

    def model(
        self,
        service: BatchService | None = None,
        *,
        timings: BatchTimings | None = None,
    ) -> Batched:
        """A run of its own: it knows of others only what is on disk."""
        return Batched(
            service or self.service(),
            BatchNotes(self.folder),
            self.ledger,
            timings or BatchTimings(),
            sleep=self.time.sleep,
            clock=self.time.clock,
        )

    async def kept(self, request: ChatRequest) -> ChatReply | None:
        return await self.ledger.find(request_key(self.chats[0], request))


@asynccontextmanager
async def workplace(provider: str, tmp_path: Path) -> AsyncIterator[Workplace]:
    async with serve_batches(provider) as server:
        place = Workplace(server, tmp_path / "batches", Ledger(tmp_path / "ledger.sqlite"))
        try:
            yield place
        finally:
            for chat in place.chats:
                await chat.aclose()
            await place.ledger.aclose()


async def outcomes(
    model: ChatModel, requests: list[ChatRequest]
) -> list[ChatReply | MCRankerError]:
    """What becomes of requests that are made at once."""
    found: dict[int, ChatReply | MCRankerError] = {}

    async def one(place: int) -> None:
        try:
            found[place] = await model.complete(requests[place])
        except MCRankerError as error:
            found[place] = error

    async with anyio.create_task_group() as group:
        for place in range(len(requests)):
            group.start_soon(one, place)
    return [found[place] for place in range(len(requests))]


def texts(found: list[ChatReply | MCRankerError]) -> list[str]:
    return [each.text if isinstance(each, ChatReply) else type(each).__name__ for each in found]


async def stopped_run(
    place: Workplace, requests: list[ChatRequest], *, after: float, **options: Any
) -> None:
    """A run that is cancelled so many seconds after it began."""
    with anyio.CancelScope() as scope:
        place.time.at[place.time.now - place.time.start + after] = scope.cancel
        await outcomes(place.model(**options), requests)
    assert scope.cancelled_caught
