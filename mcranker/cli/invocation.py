"""State of one run of the command, whatever its verb."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from signal import SIGINT
from typing import TYPE_CHECKING

import click

from mcranker.cli.failures import Interrupted
from mcranker.cli.signals import Interrupts
from personas.sanitize import one_line

if TYPE_CHECKING:
    from mcranker.retrieval.readers import Skipped

_LOGGERS = ("mcranker", "personas")
_LONGEST = 4_000  # characters of a line; an id may have millions
_speaker = ["mcranker"]


def say(message: str) -> None:
    """Print one line to standard error, after the program's name; a very long one is cut."""
    line = one_line(message)
    say_as_it_is(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}...")


def skip_note(*, quiet: bool) -> Callable[[Skipped], None]:
    """Return what says that a document is left out, unless `quiet`."""
    return lambda each: None if quiet else say(f"left out: {each.path}: {each.reason}")


def say_as_it_is(message: str) -> None:
    """Like `say`, for one short, harmless line; imports nothing."""
    # Where no message can be shown, the work goes on all the same.
    with contextlib.suppress(OSError):
        click.echo(f"{_speaker[0]}: {message}", err=True)


def speak_as(program: str) -> None:
    """Start the lines of `say` with this name."""
    _speaker[0] = program


@dataclass(slots=True)
class Invocation:
    """Flags that hold for every verb, and how far the work has come."""

    debug: bool = False
    verbose: bool = False
    reached: Callable[[], str] = "before any work was done".__str__
    interrupts: Interrupts = field(default_factory=Interrupts)

    def doing(self, what: str) -> None:
        """Name the current work, for the message of an interrupt."""
        self.reached = f"while {what}".__str__

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Like `doing`, for as long as the block lasts."""
        before = self.reached
        self.doing(what)
        yield
        self.reached = before

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
        """Return the message about an interrupt, and the exit code."""
        first = self.interrupts.first
        how = "interrupted" if first in (None, SIGINT) else f"stopped by {first.name}"
        said = "".join(each if each.isprintable() else "?" for each in self.reached())
        return Interrupted(f"{how} {said}", self.interrupts.exit_code)

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Show the packages' log records on standard error, one line each."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        levels = [logger.level for logger in loggers]
        handler = _OneLine()
        for logger in loggers:
            logger.addHandler(handler)
        self.set_level(noted=False)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.removeHandler(handler)
                logger.setLevel(level)

    def set_level(self, *, noted: bool) -> None:
        """Show informative records from now on, or only warnings; `verbose` shows them always."""
        level = logging.INFO if noted or self.verbose else logging.WARNING
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(level)

    @contextmanager
    def noting(self, wanted: bool) -> Iterator[None]:
        """Show informative log records of the block, if `wanted`."""
        self.set_level(noted=wanted)
        try:
            yield
        finally:
            self.set_level(noted=False)


class _OneLine(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        say(f"{mark}{record.getMessage()}")
