"""Progress on standard error: a bar on a terminal, a line at the end elsewhere."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from mcranker.cli.flags import flag
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.output import DONE, ERROR, print_line
from mcranker.errors import FATAL_ERRORS, InputError, MCRankerError
from mcranker.estimate import cost_of
from mcranker.events import RankingStarted
from personas.format import counted, dollars, file_size
from personas.ranking.usage import UsageTable
from personas.sanitize import plain

if TYPE_CHECKING:
    from mcranker.llm.local.catalogue import CatalogueEntry
    from mcranker.rag.result import RAGEvent
    from mcranker.rankers import RankedQuery

_STAGES = {
    "TeamRecruited": "writing criteria",
    "PassageScored": "scoring",
    "PassageAssessed": "assessing",
    "PassagesCompared": "comparing",
    "RankingDone": "asking for reasons",
    "query": "writing queries",
    "retrieval": "searching",
    "rerank": "ranking",
    "context": "choosing passages",
    "answer": "writing the answer",
    "citations": "checking citations",
}
"""Event of a ranking, or stage of an answer -> the work that is counted from then on."""


@dataclass(slots=True)
class Tracker:
    """Work in progress: a number of queries or other units, or the steps of one without a unit."""

    stage: str = "ranking"
    total: int | None = None
    done: int = 0
    unit: str = "queries"
    after: float = 0.0
    usage: UsageTable = field(default_factory=UsageTable)
    current: dict[str, UsageTable] = field(default_factory=dict)

    def count(self, usage: UsageTable | None = None) -> None:
        """Count one finished query and its usage; None where unknown."""
        self.done += 1
        if usage is not None:
            self.usage.add_all(usage)

    def take(self, event: RAGEvent) -> None:
        """Count an event of one query."""
        if isinstance(event, RankingStarted):
            self.current[event.query_id] = event.usage
        if stage := _STAGES.get(getattr(event, "name", type(event).__name__)):
            self.stage = stage
            self.total, self.done = getattr(event, "total", None), getattr(event, "done", 0)

    @property
    def reached(self) -> str:
        if self.unit:
            return f"after {self.done:,} of {self.total or 0:,} {self.unit}"
        done = "" if self.total is None else f", {self.done:,} of {self.total:,} done"
        return f"while {self.stage}{done}"

    @property
    def used(self) -> str:
        """``34 calls, 51,200 tokens, $0.012``; a cost only where there is one and it is known."""
        table = UsageTable()
        for each in (self.usage, *self.current.values()):
            table.add_all(each)
        total, known = table.total, table.reused.total.calls
        spent = cost_of(table)
        parts = [
            counted(total.calls, "call") if total.calls or known else "",
            counted(total.input_tokens + total.output_tokens, "token") if total.calls else "",
            dollars(spent) if spent else "",
            f"{known:,} from the ledger" if known else "",
        ]
        return ", ".join(filter(None, parts))


def live_is_wanted(*, quiet: bool) -> bool:
    """True if standard error is a terminal and ``--quiet`` is not given."""
    return not quiet and sys.stderr.isatty()


class ProgressDisplay:
    """Shows a tracker on standard error while the block runs, if `wanted`."""

    def __init__(self, tracker: Tracker, *, wanted: bool) -> None:
        self._tracker = tracker
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[used]}", style="dim"),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            disable=not wanted,
        )
        self._task = self._progress.add_task(tracker.stage, total=None, count="", used="")

    def __enter__(self) -> ProgressDisplay:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def take(self, event: RAGEvent) -> None:
        self._tracker.take(event)
        self.update()

    def update(self) -> None:
        """Show what the tracker has counted by now; the time left includes what follows."""
        tracker, total = self._tracker, self._tracker.total
        if self._progress.disable:
            return
        self._progress.update(
            self._task,
            description=tracker.stage,
            completed=tracker.done,
            total=total and total * (1 + tracker.after),
            count=f"{tracker.done:,}/{total:,} {tracker.unit}" if total else "",
            used=tracker.used,
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the display away while the block writes results."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


@contextmanager
def showing(ctx: click.Context, tracker: Tracker, reached: str = "{}") -> Iterator[ProgressDisplay]:
    """Show what the tracker counts while the block runs, and name it if that is interrupted."""
    invocation = ctx.ensure_object(Invocation)
    invocation.reached = lambda: reached.format(tracker.reached)
    live = live_is_wanted(quiet=ctx.params["quiet"])
    with ProgressDisplay(tracker, wanted=live) as display, invocation.held():
        yield display


class Finished(Protocol):
    """One of many results, or its error, with its place in the order of writing, from 0."""

    @property
    def place(self) -> int: ...
    @property
    def error(self) -> MCRankerError | None: ...


F = TypeVar("F", bound=Finished)


async def in_order(
    ctx: click.Context,
    results: AsyncIterable[F],
    write: Callable[[F], None],
    tracker: Tracker,
    usage: Callable[[F], UsageTable | None] = lambda _: None,
) -> None:
    """Write results in the order of their places, each as soon as those before it are there.

    Without a live display, a line on standard error sums up.
    """
    early: dict[int, F] = {}
    place = 0
    with showing(ctx, tracker) as display:
        async for found in results:
            tracker.count(usage(found))
            display.update()
            early[found.place] = found
            while place in early:
                with display.paused():
                    write(early.pop(place))
                place += 1
            if isinstance(found.error, FATAL_ERRORS):
                break
    ctx.ensure_object(Invocation).doing("writing the results")
    for _, found in sorted(early.items()):
        write(found)
    if not ctx.params["quiet"] and not live_is_wanted(quiet=False):
        parts = (f"{tracker.done:,} of {tracker.total or 0:,} {tracker.unit}", tracker.used)
        say(f"{tracker.stage}: {', '.join(filter(None, parts))}")


async def work_off(ctx: click.Context, results: AsyncIterable[RankedQuery], total: int) -> int:
    """Count a worker's results until there are no more, or one that all others would meet."""
    errors: list[MCRankerError] = []
    tracker = Tracker("working", total)
    with showing(ctx, tracker) as display:
        async for found in results:
            tracker.count()
            display.update()
            errors += [found.error] if found.error else []
            if isinstance(found.error, FATAL_ERRORS):
                break
    print_line(
        f"{tracker.done - len(errors):,} of {total:,} queries done here; the same command "
        "without --worker takes all results from the ledger"
    )
    if errors:
        say(f"error: {counted(len(errors), 'query', 'queries')} failed; the first: {errors[0]}")
    return ERROR if errors else DONE


def worker_flag() -> click.Parameter:
    """``--worker``."""
    return flag(
        "--worker",
        "Rank only queries that no other worker over this ledger has taken; write no results. "
        "max_calls and max_cost hold for all workers together over PostgreSQL, and for each over a "
        "file.",
        is_flag=True,
        section="Output",
    )


def fetch_models(models: Iterable[str], *, quiet: bool) -> None:
    """Fetch local models of the catalogue that are missing before the work begins."""
    from mcranker.llm.local.model_files import resolve, resolve_encoder

    for name, entry in _missing(models):
        packages = ("xllamacpp",) if entry.tokenizer is None else ("onnxruntime", "tokenizers")
        if not all(map(importlib.util.find_spec, packages)):
            continue  # connecting says what to install
        if not quiet:
            say(f"fetching {plain(name)} ({file_size(entry.size)})")
        if ctx := click.get_current_context(silent=True):
            ctx.ensure_object(Invocation).doing(f"fetching {name}; nothing of it was kept")
        resolve(name) if entry.tokenizer is None else resolve_encoder(entry)


def check_local_models(models: Iterable[str]) -> None:
    """Refuse local models that would have to be fetched first."""
    for name, entry in _missing(models):
        raise InputError(
            f"local:{name} is not on this machine, and --dry-run fetches nothing; "
            f"run 'mcranker models --download {entry.name}' first"
        )


def _missing(models: Iterable[str]) -> Iterator[tuple[str, CatalogueEntry]]:
    from mcranker.llm.local.catalogue import find

    for model in models:
        prefix, _, name = (part.strip() for part in model.partition(":"))
        entry = find(name) if prefix == "local" else None
        if entry is not None and not Path(name).exists() and not is_here(entry):
            yield name, entry


def is_here(entry: CatalogueEntry) -> bool:
    """True if the cache folder has the files of a model."""
    from mcranker.llm.local.model_files import cache_folder

    return all((cache_folder() / part.file).is_file() for part in entry.files)
