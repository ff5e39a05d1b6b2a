"""A chat model that never asks the same question twice."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from weakref import WeakKeyDictionary

from mcranker.forks import renew_in_child
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest
from mcranker.llm.ledger import Ledger
from mcranker.llm.request_key import request_key
from mcranker.llm.wrapper import Wrapper

__all__ = ["Ledgered"]

FEW = 8
"""Requests on their way; with more, an answer waits for others to be written with."""


class Ledgered(Wrapper):
    """A chat model whose answers are looked up in a ledger first, and kept there before use.

    Equal requests that are on their way at once, in one event loop, share one call: the first
    makes it, and the others get its answer, marked as reused, or its error. If the first is
    cancelled before the answer is there, another one asks.

    Args:
        model: who answers what the ledger does not have.
        ledger: may serve several models; it is not closed with this one.
        asked: who answers in the end, behind the layers of `model`; its name and endpoint tell
            its answers from those of others. None for `model` itself.
    """

    def __init__(self, model: ChatModel, ledger: Ledger, *, asked: ChatModel | None = None) -> None:
        super().__init__(model)
        self._asked = asked or model
        self._ledger = ledger
        self._flights: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bytes, _Flight]]
        self._flights = WeakKeyDictionary()
        self._lock = threading.Lock()
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._flights = WeakKeyDictionary()

    @property
    def endpoint(self) -> str:
        """Where the model answers, if it says so."""
        return getattr(self._asked, "endpoint", "")

    async def complete(self, request: ChatRequest) -> ChatReply:
        key = request_key(self._asked, request)
        flights = self._flights_here()
        while True:
            flight = flights.get(key)
            if flight is None:
                return self._ledger.find(key) or await self._ask(key, request, flights)
            await flight.landed.wait()
            if flight.error is not None:
                raise flight.error
            if flight.reply is not None:
                return replace(flight.reply, reused=True)

    async def mark_unusable(self, request: ChatRequest) -> None:
        """Note that nothing could be made of the answer to `request`.

        It is reused all the same, until ``mcranker ledger prune --unusable``.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        await self._ledger.mark_unusable(request_key(self._asked, request))

    async def _ask(
        self, key: bytes, request: ChatRequest, flights: dict[bytes, _Flight]
    ) -> ChatReply:
        flight = flights[key] = _Flight()

        def land(error: BaseException | None) -> None:
            del flights[key]
            flight.error = error
            flight.landed.set()

        try:
            reply = await self._model.complete(request)
            flight.reply = reply
            written = self._ledger.keep(
                key,
                reply,
                model=self.name,
                stage=request.tag.stage,
                linger=len(flights) > FEW,
            )
        except BaseException as error:
            # An error is everybody's; after a cancellation somebody else asks.
            land(error if isinstance(error, Exception) else None)
            raise
        # From here on the answer is written and shared, even if this call is cancelled.
        written.add_done_callback(lambda done: land(done.exception()))
        await flight.landed.wait()
        if flight.error is not None:
            raise flight.error
        return reply

    def _flights_here(self) -> dict[bytes, _Flight]:
        with self._lock:
            return self._flights.setdefault(asyncio.get_running_loop(), {})


class _Flight:
    """A request on its way. It lands when its answer is durable, or there will be none."""

    __slots__ = ("error", "landed", "reply")

    def __init__(self) -> None:
        self.landed = asyncio.Event()
        self.reply: ChatReply | None = None
        self.error: BaseException | None = None
