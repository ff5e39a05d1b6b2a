"""An event loop whose clock jumps to the next timer, so that an hour passes in no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs timers in their order without waiting for them.

    Raises:
        RuntimeError: everything waits, and nothing will ever happen.
    """

    def __init__(self) -> None:
        self._selector_of_time = _JumpingSelector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        return self._selector_of_time.now


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if timeout is None and not ready:
            raise RuntimeError("everything waits, and nothing will ever happen")
        self.now += timeout or 0.0
        return ready


def now() -> float:
    """The time in seconds on the running loop's clock."""
    return asyncio.get_running_loop().time()


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
