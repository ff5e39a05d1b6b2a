"""A chat model asked through its provider's batch API: half the price, a reply within hours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import anyio

from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.batch.anthropic_batches import AnthropicBatches
from mcranker.llm.batch.collector import BatchCollector
from mcranker.llm.batch.notes import BatchNotes
from mcranker.llm.batch.openai_batches import OpenAIBatches
from mcranker.llm.batch.protocol import BATCH_SUFFIX, BatchService
from mcranker.llm.batch.request import AnswerStore, BatchContext, BatchTimings
from mcranker.llm.chat import Capabilities, ChatModel, ChatReply, ChatRequest
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.openai_chat import OpenAIChat


class Batched:
    """A chat model whose requests travel in batches.

    The requests that wait at the same moment become one batch, or several where it would be
    larger than the provider takes. A request that the provider fails or lets expire goes with
    another batch, three in all. Every answer is written to the ledger, also one that nobody
    waits for any more.

    A batch is noted on disk before it is created. Whoever asks for something that is in a noted
    batch waits for that batch, in this process or in a later one; so a run that was stopped is
    simply started again. Stopping a run does not cancel its batches: they are paid for.

    There are no decisions (`ChatRequest.questions`): no batch API has them.

    Args:
        service: the provider's batch API.
        notes: the folder for the notes.
        ledger: where answers are kept; None to hand them out only.
        timings: when things happen.
        sleep: waits so many seconds; tests replace it.
        clock: seconds since 1970; tests replace it.
    """

    def __init__(
        self,
        service: BatchService,
        notes: Path,
        *,
        ledger: AnswerStore | None = None,
        timings: BatchTimings | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._chat = service.chat
        self._context = BatchContext(
            service, BatchNotes(notes), ledger, timings or BatchTimings(), clock
        )
        self._sleep = sleep
        self._collectors: WeakKeyDictionary[asyncio.AbstractEventLoop, BatchCollector] = (
            WeakKeyDictionary()
        )

    @property
    def name(self) -> str:
        return f"{self._chat.name}{BATCH_SUFFIX}"

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        return self._chat.endpoint

    @property
    def capabilities(self) -> Capabilities:
        return replace(self._chat.capabilities, max_questions=0)

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.questions:
            raise UnsupportedCapability(
                f"{self.name}: batches have no decisions; use panel=False", model=self.name
            )
        key = request_key(self._chat, request).hex()
        return await self._collector().answer(key, request)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; batches under way go on."""
        await self._chat.aclose()

    def _collector(self) -> BatchCollector:
        loop = asyncio.get_running_loop()
        if loop not in self._collectors:
            self._collectors[loop] = BatchCollector(self._context, sleep=self._sleep)
        return self._collectors[loop]


def batched(model: ChatModel, folder: Path, ledger: AnswerStore | None) -> Batched:
    """The model, asked through its provider's batch API.

    Args:
        model: one of OpenAI or Anthropic.
        folder: for the notes of batches under way; next to the ledger.
        ledger: where answers are kept.

    Raises:
        ConfigError: there is no batch API for it.
    """
    if isinstance(model, OpenAIChat):
        return Batched(OpenAIBatches(model), folder, ledger=ledger)
    if isinstance(model, AnthropicMessages):
        return Batched(AnthropicBatches(model), folder, ledger=ledger)
    if isinstance(model, CompatibleChat):
        reason = "a server of one's own has no batch API"
    elif model.name.startswith("local:"):
        reason = "it runs in this process"
    else:
        reason = "it is not one of OpenAI's or Anthropic's own services"
    raise ConfigError(
        f"batch=True does not go with {model.name!r}: {reason}; leave batch out, or use "
        "'openai:NAME' or 'anthropic:NAME' without base_url="
    )
