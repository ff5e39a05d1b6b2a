"""Actors: a mailbox, a bounded number of messages in hand, and statistics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

M = TypeVar("M")
R = TypeVar("R")


class ActorStatistics(NamedTuple):
    """State of an actor."""

    #: messages that wait in the mailbox
    queued: int
    #: messages that are handled now
    in_flight: int
    #: messages handled to the end
    done: int
    #: messages whose handling raised an error
    failed: int


class _Envelope(Generic[M, R]):
    """A message and, if its sender waits, the place of the answer."""

    __slots__ = ("answer", "answered", "error", "message")

    def __init__(self, message: M, *, wants_answer: bool) -> None:
        self.message = message
        self.answered = anyio.Event() if wants_answer else None
        self.answer: R | None = None
        self.error: Exception | None = None


class _Mailbox(NamedTuple, Generic[M, R]):
    send: MemoryObjectSendStream[_Envelope[M, R]]
    receive: MemoryObjectReceiveStream[_Envelope[M, R]]


class Actor(Generic[M, R]):
    """Handles messages of type M one after the other, or several at once, answering with R.

    Args:
        name: for error messages and statistics.
        handle: what is done with a message.
        workers: how many messages are handled at once, each in a task that ends when no
            message waits.
        mailbox: how many messages may wait before `tell` and `ask` wait themselves.

    `run` belongs into a task group. An error from a message that was sent with `tell` ends
    `run` with that error, and so the task group; one from `ask` goes to the caller.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[M], Awaitable[R]],
        *,
        workers: int = 1,
        mailbox: int | None = None,
    ) -> None:
        self.name = name
        self._handle = handle
        self._workers = workers
        self._size = mailbox if mailbox is not None else 2 * workers
        self._mailbox: _Mailbox[M, R] | None = None
        self._in_flight = self._done = self._failed = 0

    async def run(self) -> None:
        """Handle messages until the mailbox is closed and empty."""
        mailbox = self._open_mailbox()
        if self._workers == 1:
            async with mailbox.receive, mailbox.send:
                async for envelope in mailbox.receive:
                    await self._work(envelope, mailbox.receive)
            return
        free = anyio.Semaphore(self._workers, fast_acquire=True)
        async with mailbox.receive, mailbox.send, anyio.create_task_group() as tasks:
            while True:
                await free.acquire()
                following = _at_hand(mailbox.receive)
                if following is None:
                    try:
                        following = await mailbox.receive.receive()
                    except anyio.EndOfStream:
                        return
                tasks.start_soon(self._work, following, mailbox.receive, free, name=self.name)

    async def tell(self, message: M) -> None:
        """Put a message into the mailbox; waits while the mailbox is full.

        Raises:
            BrokenResourceError, ClosedResourceError: the actor takes no messages any more.
        """
        envelope: _Envelope[M, R] = _Envelope(message, wants_answer=False)
        mailbox = self._open_mailbox().send
        try:
            mailbox.send_nowait(envelope)
        except anyio.WouldBlock:
            await mailbox.send(envelope)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # If everything is being stopped, this is where the sender is.
            await anyio.lowlevel.checkpoint()
            raise

    async def ask(self, message: M) -> R:
        """Put a message into the mailbox and wait for the answer.

        Raises:
            Exception: whatever handling the message raised.
        """
        envelope: _Envelope[M, R] = _Envelope(message, wants_answer=True)
        await self._open_mailbox().send.send(envelope)
        assert envelope.answered is not None
        await envelope.answered.wait()
        if envelope.error is not None:
            raise envelope.error
        return envelope.answer  # type: ignore[return-value]  # set before `answered`

    def close(self) -> None:
        """Take no further messages; `run` ends when those in the mailbox are handled."""
        self._open_mailbox().send.close()

    def statistics(self) -> ActorStatistics:
        """Return the actor's state."""
        queued = 0
        if self._mailbox is not None:
            waiting = self._mailbox.receive.statistics()
            queued = waiting.current_buffer_used + waiting.tasks_waiting_send
        return ActorStatistics(queued, self._in_flight, self._done, self._failed)

    def _open_mailbox(self) -> _Mailbox[M, R]:
        # Opened at its first use, so that an actor that never runs leaves nothing to close.
        if self._mailbox is None:
            self._mailbox = _Mailbox(
                *anyio.create_memory_object_stream[_Envelope[M, R]](self._size)
            )
        return self._mailbox

    async def _work(
        self,
        envelope: _Envelope[M, R],
        mailbox: MemoryObjectReceiveStream[_Envelope[M, R]],
        free: anyio.Semaphore | None = None,
    ) -> None:
        """Handle a message and those that wait by then."""
        following: _Envelope[M, R] | None = envelope
        while following is not None:
            await self._handle_one(following)
            following = _at_hand(mailbox)
        if free is not None:
            free.release()

    async def _handle_one(self, envelope: _Envelope[M, R]) -> None:
        self._in_flight += 1
        try:
            envelope.answer = await self._handle(envelope.message)
        except Exception as error:
            self._failed += 1
            if envelope.answered is None:
                raise
            envelope.error = error
        except BaseException:
            # Cancelled: the caller must not take the missing answer for one.
            envelope.error = RuntimeError(f"{self.name} was stopped before it answered")
            raise
        else:
            self._done += 1
        finally:
            self._in_flight -= 1
            if envelope.answered is not None:
                envelope.answered.set()


def _at_hand(mailbox: MemoryObjectReceiveStream[_Envelope[M, R]]) -> _Envelope[M, R] | None:
    """Return the next message if there is one: waiting costs several turns of the event loop."""
    try:
        return mailbox.receive_nowait()
    except (anyio.WouldBlock, anyio.EndOfStream):
        return None
