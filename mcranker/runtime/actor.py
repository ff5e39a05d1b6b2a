"""Actors: a mailbox, and a bounded number of messages in hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from typing import Generic, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

M = TypeVar("M")


class Actor(Generic[M]):
    """Handles messages of type M one after the other, or several at once."""

    def __init__(
        self,
        name: str,
        handle: Callable[[M], Awaitable[None]],
        *,
        workers: int = 1,
        mailbox: int | None = None,
    ) -> None:
        self.name = name
        self._handle = handle
        self._workers = workers
        self._size = 2 * workers if mailbox is None else mailbox

    @cached_property
    def _mailbox(self) -> tuple[MemoryObjectSendStream[M], MemoryObjectReceiveStream[M]]:
        # Opened at its first use, so that an actor that never runs leaves nothing to close.
        return anyio.create_memory_object_stream[M](self._size)

    async def run(self) -> None:
        """Handle messages until the mailbox is closed and empty."""
        send, receive = self._mailbox
        free = anyio.Semaphore(self._workers, fast_acquire=True)
        async with receive, send, anyio.create_task_group() as tasks:
            with suppress(anyio.EndOfStream):
                while True:
                    await free.acquire()
                    try:
                        message = receive.receive_nowait()
                    except anyio.WouldBlock:  # waiting takes several turns of the event loop
                        message = await receive.receive()
                    tasks.start_soon(self._work, message, free, name=self.name)

    async def tell(self, message: M) -> None:
        """Put a message into the mailbox; waits while the mailbox is full."""
        send, _ = self._mailbox
        try:
            send.send_nowait(message)
        except anyio.WouldBlock:
            await send.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # If everything is being stopped, this is where the sender is.
            await anyio.lowlevel.checkpoint()
            raise

    def close(self) -> None:
        """Take no further messages; `run` ends when those in the mailbox are handled."""
        self._mailbox[0].close()

    async def _work(self, message: M, free: anyio.Semaphore) -> None:
        """Handle a message and those that wait by then."""
        while True:
            await self._handle(message)
            try:
                message = self._mailbox[1].receive_nowait()
            except (anyio.WouldBlock, anyio.EndOfStream):
                free.release()
                return
