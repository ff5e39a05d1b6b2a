"""State of one run of the command: what is being done, its messages, and signals that end it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from mcranker.runtime.processes import stopping
from personas.sanitize import one_line

if TYPE_CHECKING:
    from mcranker.retrieval.readers import Skipped

T = TypeVar("T")

INTERRUPTED = 130

_LOGGERS = (logging.getLogger("mcranker"), logging.getLogger("personas"))
_LONGEST = 4_000  # characters of a line; an id may have millions
_PATIENCE = 2.0  # seconds for cleaning up, after which the next signal ends the process
_speaker = ["mcranker"]


def say(message: str) -> None:
    """Print one line to standard error, after the program's name; a very long one is cut."""
    line = one_line(message)
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
    # Where no message can be shown, the work goes on all the same.
    with contextlib.suppress(OSError):
        click.echo(f"{_speaker[0]}: {line}", err=True)


def speak_as(program: str) -> None:
    """Start the lines of `say` with this name."""
    _speaker[0] = program


def skip_note(*, quiet: bool) -> Callable[[Skipped], None]:
    """Return what says that a document is left out, unless `quiet`."""
    return lambda each: None if quiet else say(f"left out: {each.path}: {each.reason}")


class Interrupted(Exception):
    """Ctrl-C, or a signal heard as such, as an exception that click does not handle by itself."""

    def __init__(self, message: str, exit_code: int = INTERRUPTED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interrupts:
    """Turns the signals that ask the command to end into one interrupt, and lets it clean up."""

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
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and sys.platform != "win32":
            # A shell's background job is deaf to Ctrl-C, but not to the others.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self)
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.signal(number, self._hear_other)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_first(number):
            if self._cancel is None:
                raise KeyboardInterrupt
            self._cancel()

    def at_once(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT in long work that an event loop waits for (`mcranker.runtime.bridge`)."""
        if self._is_first(number):
            raise KeyboardInterrupt

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
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


@dataclass(slots=True)
class Invocation:
    """Flags that hold for every verb, and how far the work has come."""

    as_json: bool = False
    debug: bool = False
    reached: Callable[[], str] = "before any work was done".__str__
    interrupts: Interrupts = field(default_factory=Interrupts)

    def doing(self, what: str) -> None:
        """Name the current work, for the message of an interrupt."""
        self.reached = f"while {what}".__str__

    @contextmanager
    def held(self) -> Iterator[None]:
        """If the block is interrupted, what came by then holds, whatever cleaning up still does."""
        try:
            yield
        except BaseException:
            self.reached = self.reached().__str__
            raise

    @property
    def interruption(self) -> Interrupted:
        first = self.interrupts.first
        how = "interrupted" if first in (None, signal.SIGINT) else f"stopped by {first.name}"
        return Interrupted(f"{how} {self.reached()}", self.interrupts.exit_code)

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Show the packages' warnings on standard error, one line each."""
        handler = _OneLine()
        for logger in _LOGGERS:
            logger.addHandler(handler)
        try:
            with _level(logging.WARNING):
                yield
        finally:
            for logger in _LOGGERS:
                logger.removeHandler(handler)

    def noting(self, wanted: bool) -> AbstractContextManager[None]:
        """Show informative log records of the block too, if `wanted`."""
        return _level(logging.INFO) if wanted else nullcontext()


def run_loop(main: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``await main()``, in an event loop that ends with the command."""
    return click.get_current_context().ensure_object(Invocation).interrupts.run(main)


@contextmanager
def _level(level: int) -> Iterator[None]:
    before = [logger.level for logger in _LOGGERS]
    for logger in _LOGGERS:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, former in zip(_LOGGERS, before, strict=True):
            logger.setLevel(former)


def debug_option() -> click.Option:
    """``--debug``, before the verb and after it."""

    def note(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.ensure_object(Invocation).debug |= value

    text = "Show the traceback of an error."
    return click.Option(
        ["--debug"], help=text, is_flag=True, expose_value=False, is_eager=True, callback=note
    )


class _OneLine(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        say(f"{mark}{record.getMessage()}")
