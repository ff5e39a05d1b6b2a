"""A chat model that never asks the same question twice."""

from __future__ import annotations

from dataclasses import replace

from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest
from mcranker.llm.ledger.in_flight import InFlight
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.ledger.store import NewAnswer
from mcranker.llm.wrapper import Wrapper


class Ledgered(Wrapper):
    """A chat model whose answers are looked up in a ledger first, and kept there before use."""

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
        self._store = ledger.store
        self._in_flight = ledger.in_flight
        self._among_processes = among_processes
        self._new = False  # the last request asked for had no answer

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
            flight, new = self._in_flight.join(key, self)
            if new:
                return await self._ask(flight, request)
            await self._in_flight.wait(flight)
            if flight.reply is not None:
                return replace(flight.reply, reused=True)
            if flight.error is not None and flight.asker is self:
                raise flight.error

    async def mark_unusable(self, request: ChatRequest) -> None:
        """Note that the answer to `request` could not be read."""
        await self._store.mark_unusable(request_key(self._asked, request))

    async def _ask(self, flight: InFlight, request: ChatRequest) -> ChatReply:
        store, keys = self._store, (flight.key,)
        try:
            reply = None
            if not (self._new and self._among_processes):  # else a claim finds it out as well
                reply = (await store.get_many(keys)).get(flight.key)
            if reply is None and self._among_processes:
                reply = await self._in_flight.claim(flight)
            elif reply is None:
                await store.claim_many(())  # can an answer be kept?
            self._new = reply is None
            if reply is None:
                reply = await self._model.complete(request)
                answer = NewAnswer(flight.key, reply, self.name, request.tag.stage)
                # From here on it is written, even if this call is cancelled.
                if await store.complete_many([answer]):
                    # Another answer was kept first. All use it, but this one was paid for too.
                    kept = (await store.get_many(keys)).get(flight.key, reply)
                    reply = replace(kept, usage=reply.usage, reused=reply.reused)
        except BaseException as error:
            if flight.claimed:
                store.release(keys)
            # All callers share an error; after a cancellation another one asks.
            shared = error if isinstance(error, Exception) else None
            self._in_flight.complete(flight, error=shared)
            raise
        self._in_flight.complete(flight, reply)
        return reply
