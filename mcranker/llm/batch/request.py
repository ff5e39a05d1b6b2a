"""Types shared by the collector of requests and the follower of batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio

from mcranker.errors import MCRankerError
from mcranker.llm.batch.notes import BatchNotes
from mcranker.llm.batch.protocol import BatchService
from mcranker.llm.chat import ChatReply, ChatRequest


class AnswerStore(Protocol):
    """The part of a ledger that batches use."""

    def find(self, key: bytes) -> ChatReply | None:
        """Return the reply that is kept under a key."""
        ...

    def keep(self, key: bytes, reply: ChatReply, *, model: str, stage: str) -> Awaitable[object]:
        """Keep a reply; awaiting the result makes it durable."""
        ...

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Acquire a lock by name, across processes."""
        ...


@dataclass(frozen=True, slots=True)
class BatchTimings:
    """Intervals and limits of batches, in seconds.

    | field | how long |
    |---|---|
    | ``linger`` | no further request must have come, before those that wait are sent |
    | ``longest_linger`` | the first of them waits for that, at most |
    | ``first_poll`` | between sending a batch and the first look at it; the waits then grow |
    | ``longest_poll`` | between two looks, at most |
    | ``patience`` | a service may fail without interruption before it is given up |
    | ``settle`` | a note without a batch is taken for one that is about to be sent |
    """

    linger: float = 2.0
    longest_linger: float = 30.0
    first_poll: float = 5.0
    longest_poll: float = 60.0
    patience: float = 3600.0
    settle: float = 900.0


@dataclass(slots=True)
class BatchContext:
    """State shared by the batches of one event loop.

    Attributes:
        service: the provider's batch API.
        notes: of batches under way, of this run and others.
        ledger: where every reply goes; None to keep none.
        timings: when things happen.
        clock: seconds since 1970.
        reached: the service has answered before.
    """

    service: BatchService
    notes: BatchNotes
    ledger: AnswerStore | None
    timings: BatchTimings
    clock: Callable[[], float]
    reached: bool = False

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Keep other processes from noting batches of this model meanwhile."""
        if self.ledger is None:
            return nullcontext()
        return self.ledger.alone(f"batches {self.service.chat.name} {self.service.chat.endpoint}")


@dataclass(eq=False, slots=True)
class BatchedRequest:
    """A request, shared by all its callers.

    Attributes:
        unsettled: the place under its key until it is settled.
        waiting: how many wait.
        batches: how many it has been in.
        called: set when it is settled, and when one who waits is to go on with the work.
    """

    key: str
    request: ChatRequest
    unsettled: dict[str, BatchedRequest]
    waiting: int = 0
    batches: int = 0
    reply: ChatReply | None = None
    error: MCRankerError | None = None
    called: anyio.Event = field(default_factory=anyio.Event)

    @property
    def settled(self) -> bool:
        """True if there is a reply or an error."""
        return self.reply is not None or self.error is not None

    def settle(self, outcome: ChatReply | MCRankerError) -> None:
        """Set the result and wake the waiting callers."""
        if isinstance(outcome, ChatReply):
            self.reply = outcome
        else:
            self.error = outcome
        self.leave()
        self.called.set()

    def leave(self) -> None:
        """Make room for another request of the same key."""
        if self.unsettled.get(self.key) is self:
            del self.unsettled[self.key]

    async def wait(self) -> None:
        """Wait for the next call."""
        if self.called.is_set():
            self.called = anyio.Event()
        await self.called.wait()

    def take(self) -> ChatReply:
        """Return the reply. Only the first caller is charged for it.

        Raises:
            MCRankerError: there is an error instead.
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        assert self.reply is not None, "take() is for settled requests"
        reply, self.reply = self.reply, replace(self.reply, reused=True)
        return reply
