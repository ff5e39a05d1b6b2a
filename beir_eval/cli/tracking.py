"""Progress of an experiment: passages of all cells, and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from beir_eval.experiment.run import ExperimentListener
from beir_eval.report.numbers import measure_text
from mcranker import events
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.progress import ProgressDisplay, Tracker, live_is_wanted
from personas.format import counted, seconds
from personas.ranking.usage import UsageTable
from personas.sanitize import plain

if TYPE_CHECKING:
    from beir_eval.experiment.cell import RunJob
    from beir_eval.experiment.run import CellResult
    from beir_eval.experiment.suite import DatasetSpec
    from mcranker.events import Event
    from mcranker.rankers import RankedQuery


@dataclass(slots=True)
class CellTracker(Tracker):
    """Counts the passages of one cell, queries in progress by the share of their scores."""

    unit: str = "passages"
    name: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    _queries_done: int = 0
    _finished: int = 0
    _shares: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = sum(self.sizes.values())
        self._update()

    def take(self, event: Event) -> None:
        """Count one event."""
        match event:
            case events.RankingStarted(query_id=query_id, usage=usage):
                self.current[query_id] = usage
            case events.PassageScored(query_id=query_id, done=done, total=total):
                self._shares[query_id] = done / max(total, 1)
                self._update()

    def end_query(self, query_id: str) -> None:
        """Count one query that is finished, or failed."""
        self._queries_done += 1
        self._finished += self.sizes.get(query_id, 0)
        self._shares.pop(query_id, None)
        self.usage.add_all(self.current.pop(query_id, UsageTable()))
        self._update()

    @property
    def reached(self) -> str:
        """Progress in words."""
        return f"in {self.name}, after {self._queries_done} of {len(self.sizes)} queries"

    def _update(self) -> None:
        queries, shares = len(self.sizes), self._shares.items()
        self.stage = f"{self.name}, query {min(self._queries_done + 1, queries)} of {queries}"
        under_way = sum(self.sizes.get(each, 0) * share for each, share in shares)
        self.done = self._finished + int(under_way)


class Display(ExperimentListener):
    """Shows the cell in progress, and a line for each one that is done, on standard error."""

    def __init__(self, invocation: Invocation, *, quiet: bool) -> None:
        self._invocation = invocation
        self._quiet = quiet
        self._live: ProgressDisplay | None = None
        self._since = time.perf_counter()
        self.tracker = CellTracker()

    def dataset_begins(self, spec: DatasetSpec) -> None:
        self._invocation.doing(f"preparing the data set {spec.name}")

    def cell_begins(self, cell: RunJob, place: int, count: int, scores_after: int) -> None:
        sizes = {query_id: len(cell.prepared.run[query_id]) for query_id in cell.open_queries}
        name = plain(f"{cell.prepared.manifest.dataset}, {cell.spec.label} ({place} of {count})")
        after = scores_after / max(1, cell.scores_ahead)
        self.tracker = CellTracker(name=name, sizes=sizes, after=after)
        self._invocation.reached = lambda: f"{self.tracker.reached}; run it again to go on"
        self._since = time.perf_counter()
        self._live = ProgressDisplay(self.tracker, wanted=live_is_wanted(quiet=self._quiet))
        self._live.__enter__()

    def event(self, event: Event) -> None:
        self.tracker.take(event)
        if self._live is not None:
            self._live.update()

    def query_done(self, ranked: RankedQuery) -> None:
        self.tracker.end_query(ranked.query.id)
        if self._live is not None:
            self._live.update()

    def cell_ends(self, result: CellResult) -> None:
        self.close()
        if self._quiet:
            return
        took = seconds(time.perf_counter() - self._since)
        reused = f", {result.reused:,} from the ledger" if result.reused else ""
        calls = f"{counted(result.calls, 'call')}{reused}, {took}"
        if result.metrics is not None:
            measure = result.metrics.measures[0]
            value = f"{measure} {measure_text(result.metrics.means[measure])}"
            done = calls if result.metrics.taken else "foreign run"
            say(f"{self.tracker.name}: {value}; {done}")
        elif result.unsupported:
            say(f"{self.tracker.name}: left out")

    def close(self) -> None:
        """Take the live display away."""
        if self._live is not None:
            self._live.__exit__()
            self._live = None
