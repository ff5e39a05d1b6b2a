"""Signals that ask a program to end: heard as Ctrl-C is, so that it ends in the same way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["heard_as_interrupts"]

_NAMES = ("SIGTERM", "SIGHUP")


@contextmanager
def heard_as_interrupts(note: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Let SIGTERM and SIGHUP do in the block what Ctrl-C does, unless they are ignored.

    Args:
        note: is told of the signal first.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, frame: FrameType | None) -> None:
        note(signal.Signals(number))
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)

    before = {}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        # A shell's background job is deaf to Ctrl-C. It stays so, but has a way to stop.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
