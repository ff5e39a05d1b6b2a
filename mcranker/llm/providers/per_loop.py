"""One client per event loop.

An HTTP client belongs to the event loop in which it was opened. A ranker may be used from
several loops, one after the other (`asyncio.run` twice) or at once (two threads), so a
model asks here for the client of the loop it runs in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from mcranker.runtime.forks import abandon, renew_in_child


class Closable(Protocol):
    """A client of a library."""

    def close(self) -> Awaitable[None]:
        """Release its connections, in the loop in which they were opened."""
        ...


Client = TypeVar("Client", bound=Closable)


class PerLoop(Generic[Client]):
    """Opens a client at its first use in each loop, and closes it at the latest with the loop."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open = open_client
        self._reset()
        renew_in_child(self)

    def after_fork(self) -> None:
        for entry in self._open_clients.items():
            abandon(entry)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._open_clients: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    async def get(self) -> Client:
        """The running loop's client."""
        loop = asyncio.get_running_loop()
        entry = self._open_clients.get(loop)
        if entry is not None:
            return entry[0]
        client = self._open()
        guard = _guard(client)
        with self._lock:
            # A client refers to its loop, so the weak keys alone would never let go of one.
            for dead in [each for each in self._open_clients if each.is_closed()]:
                del self._open_clients[dead]
            self._open_clients[loop] = (client, guard)
        # The generator yields without waiting, so no other task of this loop runs in between.
        await anext(guard)
        return client

    async def aclose(self) -> None:
        """Close the running loop's client, if it has one. The others go with their loops."""
        with self._lock:
            entry = self._open_clients.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[1].aclose()


async def _guard(client: Closable) -> AsyncGenerator[None, None]:
    # A loop that shuts down (asyncio.run, anyio.run) closes its asynchronous generators:
    # so the client is closed even without a call of aclose().
    try:
        yield
    finally:
        await client.close()
