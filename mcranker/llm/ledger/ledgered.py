"""A chat model that never asks the same question twice."""

from __future__ import annotations

from dataclasses import replace

from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest
from mcranker.llm.ledger.flights import Flight
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.wrapper import Wrapper

FEW = 8
"""Requests on their way; with more, an answer waits for others to be written with."""


class Ledgered(Wrapper):
    """A chat model whose answers are looked up in a ledger first, and kept there before use.

    Equal requests that are on their way at once, in any thread of any process that uses the same
    ledger, share one call: the first makes it, and the others get its answer, marked as reused.
    If the first is cancelled or killed, or fails, another one asks; of those who ask the same
    object, all get the error instead. Where two calls are made after all, the answer that is
    kept first is everybody's.

    An answer that cannot be kept, because it is not what a `ChatReply` is to be, is used once,
    and a warning says so.

    Args:
        model: who answers what the ledger does not have.
        ledger: may serve several models; it is not closed with this one.
        asked: who answers in the end, behind the layers of `model`; its name and endpoint tell
            its answers from those of others. None for `model` itself.
        among_processes: other processes that ask the same are waited for. That is for thousands
            of requests on their way, not for the tens of thousands of a batch.
    """

    def __init__(
        self,
        model: ChatModel,
        ledger: Ledger,
        *,
        asked: ChatModel | None = None,
        among_processes: bool = True,
    ) -> None:
        super().__init__(model)
        self._asked = asked or model
        self._ledger = ledger
        self._flights = ledger.flights
        self._among_processes = among_processes

    @property
    def endpoint(self) -> str:
        """Where the model answers, if it says so."""
        return getattr(self._asked, "endpoint", "")

    def around(self, model: ChatModel) -> Ledgered:
        """The same ledger before another model that asks the same one in the end."""
        return Ledgered(
            model, self._ledger, asked=self._asked, among_processes=self._among_processes
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        key = request_key(self._asked, request)
        while True:
            flight, first = self._flights.board(key, self)
            if first:
                return await self._ask(flight, request)
            await self._flights.wait(flight)
            if flight.reply is not None:
                return replace(flight.reply, reused=True)
            if flight.error is not None and flight.asker is self:
                raise flight.error

    async def mark_unusable(self, request: ChatRequest) -> None:
        """Note that nothing could be made of the answer to `request`.

        It is reused all the same, until ``mcranker ledger prune --unusable``.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        await self._ledger.mark_unusable(request_key(self._asked, request))

    async def _ask(self, flight: Flight, request: ChatRequest) -> ChatReply:
        flights, ledger = self._flights, self._ledger
        try:
            if self._among_processes:
                await flights.claim(flight)
            known = ledger.find(flight.key)
            if known is not None:
                flights.land(flight, known)
                return known
            await ledger.ready()
            reply = await self._model.complete(request)
            # From here on the answer is written and shared, even if this call is cancelled.
            ledger.put(
                flight.key,
                reply,
                lambda problem, *, kept: flights.land(flight, reply if kept else None, problem),
                model=self.name,
                stage=request.tag.stage,
                linger=len(flights) > FEW,
            )
        except BaseException as error:
            # All callers share an error; after a cancellation another one asks.
            flights.land(flight, error=error if isinstance(error, Exception) else None)
            raise
        await flights.wait(flight)
        if flight.error is not None:
            raise flight.error
        if flight.reply is not None:
            return reply
        # Another answer was kept first. It is everybody's, but this one has been paid for too.
        kept = ledger.find(flight.key) or reply
        return replace(kept, usage=reply.usage, reused=reply.reused)
