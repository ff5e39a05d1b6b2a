"""The room that the slots of an engine share, and who is let in."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(eq=False, slots=True)
class _Turn:
    tokens: int
    loop: asyncio.AbstractEventLoop
    granted: asyncio.Future[None]


class ContextRoom:
    """Counts the tokens that calls in flight may fill, over all event loops and threads.

    An engine whose slots share one context fails all calls in flight when they fill it
    together. Calls are let in first come, first served, so that a long one is not overtaken
    for ever.

    Args:
        tokens: size of the context.
    """

    def __init__(self, tokens: int) -> None:
        self._size = self._free = tokens
        self._lock = threading.Lock()
        self._line: deque[_Turn] = deque()

    @property
    def free(self) -> int:
        """Free tokens."""
        return self._free

    @asynccontextmanager
    async def hold(self, tokens: int) -> AsyncIterator[None]:
        """Wait until there is room for that many tokens, and hold it inside the block.

        A call larger than the whole context is let in alone: the engine says why it fails.
        """
        tokens = min(tokens, self._size)
        loop = asyncio.get_running_loop()
        turn = _Turn(tokens, loop, loop.create_future())
        with self._lock:
            self._line.append(turn)
            self._admit()
        try:
            await turn.granted
        except asyncio.CancelledError:
            with self._lock:
                if turn in self._line:
                    self._line.remove(turn)
                else:
                    self._free += tokens
                self._admit()
            raise
        try:
            yield
        finally:
            with self._lock:
                self._free += tokens
                self._admit()

    def _admit(self) -> None:
        while self._line and self._line[0].tokens <= self._free:
            turn = self._line.popleft()
            if not turn.loop.is_closed():
                self._free -= turn.tokens
                turn.loop.call_soon_threadsafe(_grant, turn.granted)


def _grant(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)
