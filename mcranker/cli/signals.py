"""Signals that end the command: Ctrl-C, SIGTERM, SIGHUP. All of them end it in the same way."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

from mcranker.runtime.stopping import stopping

T = TypeVar("T")
_HEARD = ("SIGTERM", "SIGHUP")
_PATIENCE = 2.0  # seconds for cleaning up, after which the next signal ends the process


class Interrupts:
    """Hears what asks the command to end, in the ``with`` block, and lets it clean up."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._since = 0.0
        self._cancel: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """Of a command that was asked to end, by the convention of shells."""
        return 128 + (self.first or signal.SIGINT)

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if ignored and hasattr(signal, "pthread_sigmask"):
            # A shell's background job is deaf to Ctrl-C, but not to the others.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._set(signal.SIGINT, self)
        for name in _HEARD:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                self._set(number, self._hear_other)
        _active.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self in _active:
            _active.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT."""
        if not self._is_first(number):
            return
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()

    def at_once(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT in long work that an event loop waits for (`mcranker.runtime.bridge`)."""
        if self._is_first(number):
            raise KeyboardInterrupt

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run an event loop; as `run`."""
        import asyncio

        import anyio

        async def heard() -> T:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            # Called from a signal's handler, it has to wake the loop as well.
            self._cancel = lambda: (task.cancel(), loop.call_soon_threadsafe(int))
            try:
                return await main()
            finally:
                self._cancel = None

        try:
            return anyio.run(heard)
        except asyncio.CancelledError:
            if self.first is None:
                raise
            raise KeyboardInterrupt from None

    def _set(self, number: signal.Signals, handler: Callable[..., None]) -> None:
        self._before[number] = signal.signal(number, handler)

    def _hear_other(self, number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else self.at_once)(number, frame)

    def _is_first(self, number: int) -> bool:
        now = time.monotonic()
        if self.first is None:
            self.first, self._since = signal.Signals(number), now
            stopping.begin()
            return True
        if now - self._since > _PATIENCE:
            os._exit(self.exit_code)
        return False


_active: list[Interrupts] = []


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``await main()``, in an event loop that ends with the command."""
    return (_active[-1] if _active else Interrupts()).run(main)
