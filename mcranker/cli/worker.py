"""``--worker``: queries that no other process has taken; their replies go into the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Protocol

import click

from mcranker.cli.failures import DONE, ERROR
from mcranker.cli.files import print_line
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.progress import ProgressDisplay, Tracker
from mcranker.cli.verb import flag
from mcranker.errors import FATAL_ERRORS, MCRankerError


class Done(Protocol):
    """A result of one of many queries, or its error."""

    @property
    def error(self) -> MCRankerError | None: ...


@dataclass(slots=True)
class Worker:
    """Counts what a worker did."""

    total: int
    done: int = 0
    failed: int = 0
    why: MCRankerError | None = None
    noun: str = "query"
    plural: str = "queries"

    async def take(
        self, results: AsyncIterable[Done], invocation: Invocation, *, live: bool
    ) -> None:
        """Count results until there are no more, or one that all others would meet."""
        tracker = Tracker("working", self.total, unit=self.plural)
        invocation.reached = lambda: tracker.reached
        with ProgressDisplay(tracker, wanted=live) as display, invocation.held():
            async for found in results:
                tracker.count()
                display.update()
                self.done += found.error is None
                self.failed += found.error is not None
                self.why = self.why or found.error
                if isinstance(found.error, FATAL_ERRORS):
                    break

    def finish(self) -> int:
        """Print what was done; return the exit code."""
        print_line(
            f"{self.done:,} of {self.total:,} {self.plural} done here; the same command without "
            "--worker takes all results from the ledger"
        )
        if self.why is None:
            return DONE
        noun = self.noun if self.failed == 1 else self.plural
        say(f"error: {self.failed:,} {noun} failed; the first: {self.why}")
        return ERROR


def worker_flag() -> click.Parameter:
    """``--worker``."""
    return flag(
        "--worker",
        "Do the queries that no other worker over the same ledger has taken; write no results. "
        "max_calls and max_cost hold for all workers together over PostgreSQL, and for each over a "
        "file.",
        is_flag=True,
        section="Output",
    )
