"""How much may be asked of a model at once."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

import anyio

from mcranker.llm.chat import Capabilities, ChatModel, ChatReply, ChatRequest

__all__ = ["MOST_LEARNED", "Limited"]

MOST_LEARNED = 256
"""Calls in flight at once, at most, where nobody has set a limit."""


class Limited:
    """A chat model that has at most `concurrency` requests in flight per event loop.

    Requests that come while all places are taken wait in the order in which they came.
    """

    def __init__(self, model: ChatModel, *, concurrency: int | None) -> None:
        self._model = model
        self._concurrency = concurrency or 16
        self._limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.CapacityLimiter]
        self._limiters = WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        async with self._limiter():
            return await self._model.complete(request)

    async def aclose(self) -> None:
        await self._model.aclose()

    def _limiter(self) -> anyio.CapacityLimiter:
        loop = asyncio.get_running_loop()
        if loop not in self._limiters:
            self._limiters[loop] = anyio.CapacityLimiter(self._concurrency)
        return self._limiters[loop]
