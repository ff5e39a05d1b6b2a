"""The live display: what is being done, how fast, and how long it will still take.

`QueryTracker` and `RunTracker` count, and know nothing of terminals; `Live` shows what they
have counted, with rich, on standard error.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mcranker.cli.invocation import say
from personas.format import counted, dollars, file_size
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from mcranker.events import Event
    from mcranker.rankers import Ranker
    from personas.ranking.usage import UsageTable

SETTLED = 0.5  # seconds of scoring before its speed means anything
_UNITS = {
    "writing criteria": "rubrics",
    "scoring": "scores",
    "assessing": "passages",
    "comparing": "comparisons",
}
"""Stage of a query -> what is counted in it."""


class Tracker(Protocol):
    """Work in progress, as displayed."""

    @property
    def stage(self) -> str:
        """The current work, in a few words."""
        ...

    @property
    def done(self) -> int:
        """The part of `total` that is done."""
        ...

    @property
    def total(self) -> int | None:
        """Amount of work in this stage; None if unknown."""
        ...

    @property
    def unit(self) -> str:
        """Unit of `done`, `total` and `per_second`, e.g. ``"scores"``."""
        ...

    @property
    def used(self) -> str:
        """Calls, tokens and cost so far, in a few words; empty while nothing was asked."""
        ...

    def per_second(self) -> float | None:
        """Work done a second, in `unit`; None while unknown."""
        ...

    def seconds_left(self) -> float | None:
        """Seconds until all is done, if it goes on like this; None while unknown."""
        ...


@dataclass(slots=True)
class QueryTracker:
    """Counts the events of one query.

    Attributes:
        assessed: an assessor has the last word on the passages.
        reasons: they are asked for after the ranking.
        clock: the time in seconds.
    """

    stage: str = "recruiting"
    assessed: bool = False
    reasons: bool = False
    clock: Callable[[], float] = time.perf_counter
    done: int = 0
    total: int | None = None
    _usage: UsageTable | None = None
    _written: int = 0
    _since: float | None = None
    _before: int = 0

    @classmethod
    def of(cls, ranker: Ranker, *, reasons: bool = False) -> QueryTracker:
        """Return a tracker with the first and last stages of this ranker."""
        plan, first = ranker.plan, "scoring"
        if plan.recruits or plan.members:
            first = "recruiting" if plan.recruits else "writing criteria"
        return cls(first, assessed=ranker.config.rule.ensemble.asks, reasons=reasons)

    def take(self, event: Event) -> None:
        """Count one event."""
        from mcranker import events

        match event:
            case events.RankingStarted(usage=usage):
                self._usage = usage
            case events.TeamRecruited(personas=personas):
                # Those who are on the team from the start may have begun to write, and to score.
                if self.stage != "scoring":
                    self._enter("writing criteria", len(personas))
                    self.done = self._written
            case events.RubricWritten():
                self._written += 1
                if self.stage == "writing criteria":
                    self.done = self._written
                    if self.done == self.total:
                        self._enter("scoring", None)
            case events.PassageScored(done=done, total=total):
                self._count("scoring", done, total)
                if self.assessed and done == total:
                    self._enter("assessing", None)
            case events.PassageAssessed(done=done, total=total):
                # The assessor works while scores are still coming.
                if self.stage != "scoring":
                    self._count("assessing", done, total)
            case events.PassagesCompared(done=done, total=total):
                self._count("comparing", done, total)
            case events.RankingDone() if self.reasons:
                self._enter("asking for reasons", None)
            case _:
                pass

    @property
    def reached(self) -> str:
        """Progress in words."""
        if self.total is None:
            return f"while {self.stage}"
        return f"while {self.stage}, {self.done:,} of {self.total:,} done"

    @property
    def unit(self) -> str:
        return _UNITS.get(self.stage, "")

    @property
    def used(self) -> str:
        return "" if self._usage is None else used_text([self._usage])

    def per_second(self) -> float | None:
        if self._since is None:
            return None
        elapsed = self.clock() - self._since
        counted_since = self.done - self._before
        return counted_since / elapsed if counted_since and elapsed > SETTLED else None

    def seconds_left(self) -> float | None:
        rate = self.per_second()
        if rate is None or not self.total:
            return None
        return (self.total - self.done) / rate

    def _enter(self, stage: str, total: int | None) -> None:
        self.stage, self.done, self.total, self._since = stage, 0, total, None

    def _count(self, stage: str, done: int, total: int) -> None:
        if self.stage != stage:
            self._enter(stage, total)
        if self._since is None:
            # The speed is taken from the first score on: what came before went into starting.
            self._since, self._before = self.clock(), done
        self.done, self.total = done, total


@dataclass(slots=True)
class RunTracker:
    """Counts the queries of a run that are finished.

    Attributes:
        total: queries in all.
        clock: the time in seconds.
    """

    total: int | None
    clock: Callable[[], float] = time.perf_counter
    stage: str = "ranking"
    unit: str = "queries"
    done: int = 0
    _usage: list[UsageTable] = field(default_factory=list)
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def take(self, usage: UsageTable | None = None) -> None:
        """Count one finished query and its usage; None where unknown."""
        self.done += 1
        if usage is not None:
            self._usage = [merged([*self._usage, usage])]

    @property
    def used(self) -> str:
        return used_text(self._usage)

    @property
    def reached(self) -> str:
        """Progress in words."""
        return f"after {self.done:,} of {counted(self.total or 0, 'query', 'queries')}"

    def per_second(self) -> float | None:
        elapsed = self.clock() - self._since
        return self.done / elapsed if self.done and elapsed > 0 else None

    def seconds_left(self) -> float | None:
        if not self.done or not self.total:
            return None
        return (self.total - self.done) * (self.clock() - self._since) / self.done


def merged(tables: Iterable[UsageTable]) -> UsageTable:
    """All of these as one table."""
    from personas.ranking.usage import UsageTable

    whole = UsageTable()
    for table in tables:
        whole.add_all(table)
    return whole


def used_text(tables: Iterable[UsageTable]) -> str:
    """``34 calls, 51,200 tokens, $0.012``; a cost only where there is one and it is known."""
    from mcranker.llm.prices import cost

    table = merged(tables)
    total, known = table.total, table.reused.total.calls
    if not total.calls and not known:
        return ""
    parts = [counted(total.calls, "call")]
    if total.calls:
        parts.append(counted(total.input_tokens + total.output_tokens, "token"))
    costs = [cost(model, usage) for (_, _, model), usage in table.items()]
    if any(costs) and None not in costs:
        parts.append(dollars(math.fsum(each for each in costs if each is not None)))
    if known:
        parts.append(f"{known:,} from the ledger")
    return ", ".join(parts)


def live_is_wanted(*, quiet: bool) -> bool:
    """True if standard error is a terminal and ``--quiet`` is not given."""
    return not quiet and sys.stderr.isatty()


class Live:
    """Shows a tracker on standard error while the block runs, if `wanted`."""

    def __init__(self, tracker: Tracker, *, wanted: bool) -> None:
        self._tracker = tracker
        self._progress: Progress | None = _progress() if wanted else None

    def __enter__(self) -> Live:
        if self._progress is not None:
            self._task = self._progress.add_task(
                self._tracker.stage, total=None, count="", speed="", left="", used=""
            )
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self) -> None:
        """Show what the tracker has counted by now."""
        if self._progress is None:
            return
        tracker = self._tracker
        rate, left = tracker.per_second(), tracker.seconds_left()
        self._progress.update(
            self._task,
            description=tracker.stage,
            completed=tracker.done,
            total=tracker.total,
            count=_count(tracker),
            speed="" if rate is None else f"{rate:.3g}/s",
            left="" if left is None else f"{_clock_time(left)} left",
            used=tracker.used,
        )

    def paused(self) -> AbstractContextManager[None]:
        """Take the display away while the block writes results."""
        return nullcontext() if self._progress is None else _stopped(self._progress)


@contextmanager
def download_bar(name: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show the bytes fetched so far and their total, once there are any."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    shown = plain(name)
    if not live_is_wanted(quiet=quiet):
        told = False

        def tell(done: int, total: int | None) -> None:
            nonlocal told
            if not (told or quiet):
                say(f"fetching {shown} ({file_size(total)})")
            told = True

        yield tell
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    bar = Progress(*columns, TransferSpeedColumn(), console=_console(), transient=True)
    task = bar.add_task(f"fetching {shown}", total=None)

    def draw(done: int, total: int | None) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield draw
    finally:
        bar.stop()


def _progress() -> Progress:
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[used]}", style="dim"),
        console=_console(),
        transient=True,
        redirect_stdout=False,
    )


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def _stopped(progress: Progress) -> Iterator[None]:
    progress.stop()
    try:
        yield
    finally:
        progress.start()


def _count(tracker: Tracker) -> str:
    if tracker.total is None:
        return ""
    unit = f" {tracker.unit}" if tracker.unit else ""
    return f"{tracker.done:,}/{tracker.total:,}{unit}"


def _clock_time(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
