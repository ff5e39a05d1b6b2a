"""Experiments: the rankers of a suite over its data sets, resumable anywhere.

```python
from beir_eval import Plan, load_suite, run_suite

plan = Plan(out="runs/table1", limit=20, depth=20, options={"model": "local:smollm2-135m"})
for result in run_suite(load_suite("table1"), plan):
    print(result.dataset, result.label, result.metrics.means)
```

Every ranking is written as soon as it is there, and every answer is in the ledger before
it is used: the same call again goes on where the last one ended, and asks nothing twice. Runs
that share a ledger share answers, so that three ensembles of the same scores cost one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beir_eval.data.first_stage import FirstStage
from beir_eval.errors import SettingError
from beir_eval.experiment.cell import RunJob, judges
from beir_eval.experiment.prepare import RankingInput, chosen_queries, keep_data, prepare
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite, chosen
from beir_eval.experiment.suite_form import dataset_folder_name, folder_name
from beir_eval.lock import locked
from beir_eval.ranges import check_whole
from mcranker.logs import safe_logger
from mcranker.runtime.bridge import interruptible

if TYPE_CHECKING:
    import os

    from beir_eval.experiment.run_folder import Metrics
    from mcranker.estimate import Estimate
    from mcranker.events import Event
    from mcranker.rankers import RankedQuery, Ranker
    from personas.ranking.types import Passage, Query

GIVE_UP = 5
"""Queries that fail one after the other, before a run is stopped: the model is out of reach."""

_LIMITS = ("max_calls", "max_cost")

_log = safe_logger("mcranker.beir_eval.run")


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of one run of a suite; those left out come from the suite.

    Attributes:
        out: folder of the run folders.
        datasets: in place of the suite's; empty for the suite's.
        rankers: labels of those to run; empty for all.
        queries: ids of the queries; empty for all judged ones.
        limit: only the first N queries of each data set.
        depth: passages a query; None for the suite's.
        first_stage: what finds the passages; its depth is not looked at.
        measures: names as ir-measures writes them; the first one heads the tables.
        options: for all rankers: models, ``base_url``, ``ledger``, fields of `RankerConfig`; in
            place of the suite's settings, but not of what a ranker of the suite sets itself.
            ``max_calls`` and ``max_cost`` hold for the whole experiment.
        cache: keep indexes and first-stage runs in the cache folder.
    """

    out: str | os.PathLike[str]
    datasets: tuple[DatasetSpec, ...] = ()
    rankers: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    limit: int | None = None
    depth: int | None = None
    first_stage: FirstStage = field(default_factory=FirstStage)
    measures: tuple[str, ...] = ("nDCG@10",)
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: bool = True


@dataclass(frozen=True, slots=True)
class CellResult:
    """One ranker over one data set.

    Attributes:
        dataset: name of the data set.
        label: the ranker's.
        path: the run folder.
        metrics: measures; None if the run stopped before it was finished.
        first_stage: measures of the first stage's run.
        calls: calls made now for the queries that were ranked.
        cost: US dollars paid for them; None if a price is not known.
        reused: answers that the ledger had.
        depth: passages a query, at most.
        stopped: the error that ended the run early: a budget that is spent, something that fails
            every query, or the last of `GIVE_UP` failures in a row, or of all; None if none.
    """

    dataset: str
    label: str
    path: Path
    metrics: Metrics | None
    first_stage: Metrics
    depth: int
    calls: int = 0
    cost: float | None = None
    reused: int = 0
    stopped: Exception | None = None

    @classmethod
    def of(
        cls, cell: RunJob, first_stage: Metrics, metrics: Metrics | None = None, **more: Any
    ) -> CellResult:
        """The result of a cell; `more` are its other fields, those without calls if left out."""
        data = cell.prepared.manifest
        return cls(
            data.dataset, cell.spec.label, cell.path, metrics, first_stage, data.depth, **more
        )

    @property
    def unsupported(self) -> bool:
        """True if it stopped because the model cannot serve the ranker."""
        from mcranker.errors import UnsupportedCapability

        return isinstance(self.stopped, UnsupportedCapability)

    @property
    def of_this_cell(self) -> bool:
        """True if it stopped for a reason that need not hold for the cells that follow.

        The model cannot serve the ranker, or its answers to it cannot be read, or the requests
        are refused as they are.
        """
        from mcranker.errors import ReplyError, RequestRejected

        return self.unsupported or isinstance(self.stopped, ReplyError | RequestRejected)


class ExperimentListener:
    """Observer of an experiment; override the methods, which do nothing."""

    def dataset_begins(self, spec: DatasetSpec) -> None:
        """Called before a data set is loaded and its passages are found."""

    def cell_begins(self, cell: RunJob, place: int, count: int, scores_after: int) -> None:
        """The `place`-th of `count` cells begins, counted from 1.

        `scores_after` is how many scores the cells after it will ask for, as `RunJob.scores_ahead`
        counts them; a data set that is not loaded yet is taken to be as large as this one.
        """

    def event(self, event: Event) -> None:
        """Something happened to a query of this cell."""

    def query_done(self, ranked: RankedQuery) -> None:
        """A query was ranked, or failed."""

    def cell_ends(self, result: CellResult) -> None:
        """The cell is finished, or stopped."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A suite and how it is run, ready to go.

    Raises:
        SettingError: the plan names a ranker that the suite does not have, or no data set; its
            limit or depth is below 1.
    """

    suite: Suite
    plan: Plan

    def __post_init__(self) -> None:
        for name in ("limit", "depth"):
            if (value := getattr(self.plan, name)) is not None:
                check_whole(name, value, 1)
        chosen(self.suite.rankers, self.plan.rankers, self.suite.name)
        if not self.datasets:
            raise SettingError("no data set is named; name one or more")

    @property
    def datasets(self) -> tuple[DatasetSpec, ...]:
        """The data sets, in order."""
        return self.plan.datasets or self.suite.datasets

    @property
    def rankers(self) -> tuple[RankerSpec, ...]:
        """The rankers, in order, with the plan's options."""
        wanted = chosen(self.suite.rankers, self.plan.rankers, self.suite.name)
        return tuple(replace(spec, options=self._options(spec)) for spec in wanted)

    def _options(self, spec: RankerSpec) -> dict[str, Any]:
        own = {name: value for name, value in spec.options.items() if name in spec.own}
        return {**spec.options, **self.plan.options, **own}

    def __len__(self) -> int:
        return len(self.datasets) * len(self.rankers)

    def prepared(self, spec: DatasetSpec) -> RankingInput:
        """Return the input of rankers for a data set.

        Raises:
            DatasetError: it cannot be had; see `beir_eval.load`.
            SettingError, RunError, ExtraMissing: the first stage cannot be run.
        """
        from beir_eval.data.first_stage import find
        from beir_eval.data.load import load
        from beir_eval.experiment.trec_rows import ForeignRun

        plan = self.plan
        whole = load(spec.name, split=spec.split, topic_field=spec.topic_field)
        chosen = chosen_queries(whole, queries=plan.queries, limit=plan.limit)
        stage = replace(plan.first_stage, depth=plan.depth or self.suite.depth)
        foreign = {
            spec.run: ForeignRun.read(spec.run, chosen, stage.depth)
            for spec in self.rankers
            if spec.run
        }
        run = find(chosen, stage, cache=plan.cache)
        prepared = prepare(
            chosen,
            run,
            depth=stage.depth,
            first_stage=stage.note(),
            queries_in_full=sum(bool(grades) for grades in whole.qrels.values()),
            about=spec.about,
        )
        return replace(prepared, foreign=foreign)

    def cells(self, prepared: RankingInput) -> Iterator[RunJob]:
        """One cell for each ranker."""
        folder = self._folder(prepared)
        for spec in self.rankers:
            path = folder / folder_name(spec.label)
            yield RunJob(path, _with_dataset(spec, prepared), prepared, self.plan.measures)

    async def run(self, listener: ExperimentListener | None = None) -> AsyncIterator[CellResult]:
        """Run every cell that is not finished, one after the other.

        Yields:
            A result for each cell, in the order of data sets and rankers; after one that
            stopped early no more, unless it is `CellResult.of_this_cell`.

        Raises:
            BeirEvalError: a data set, the first stage or a run folder is at fault, or another
                program is writing to that folder.
            MCRankerError: a ranker cannot be made.
            OSError: something cannot be written.
        """
        from mcranker.errors import UnsupportedCapability

        listener = listener or ExperimentListener()
        options = self.plan.options
        left = {name: options[name] for name in _LIMITS if options.get(name) is not None}
        place = 0
        for number, dataset in enumerate(self.datasets, start=1):
            listener.dataset_begins(dataset)
            with interruptible():
                prepared = self.prepared(dataset)
                data = keep_data(prepared, self._folder(prepared), self.plan.measures)
            first_stage = data.metrics()
            ahead = sum(cell.scores_ahead for cell in self.cells(prepared))
            ahead += (len(self.datasets) - number) * self._scores(prepared)
            for cell in self.cells(prepared):
                place += 1
                ahead -= cell.scores_ahead
                listener.cell_begins(cell, place, len(self), ahead)
                with locked(cell.path):
                    try:
                        if cell.spec.run:
                            result = _keep_foreign(cell, first_stage)
                        else:
                            result = await _run_cell(cell, first_stage, left, listener)
                    except UnsupportedCapability as failure:
                        if cell.spec.note is None:  # in a suite, it is a result
                            raise
                        result = CellResult.of(cell, first_stage, stopped=failure)
                listener.cell_ends(result)
                yield result
                if result.stopped is not None and not result.of_this_cell:
                    return

    def queries(self) -> int:
        """Number of queries of all cells that rank; data sets are read for it."""
        prepared = [self.prepared(dataset) for dataset in self.datasets]
        return sum(len(p.queries) * sum(not s.run for s in self.rankers) for p in prepared)

    async def work(self) -> AsyncIterator[RankedQuery]:
        """Rank queries of all cells that no other process over the same ledger has taken.

        No run folder is read or written: `run` takes the replies from the ledger.

        Raises:
            BeirEvalError, MCRankerError: as `run`.
        """
        from mcranker.rankers.work_claims import run_name, share_budget, shared_work

        options = self.plan.options
        left = {name: options[name] for name in _LIMITS if options.get(name) is not None}
        for dataset in self.datasets:
            prepared = self.prepared(dataset)
            for spec in self.rankers:
                if spec.run:
                    continue
                async with make_ranker(spec.ranker, {**spec.options, **left}) as ranker:
                    models = ranker.models
                    shared = share_budget(models.budget, models.ledger, self._name())
                    about = run_name(ranker.name, ranker.models.names.values(), ranker.config)
                    name = partial(_piece_name, f"{about} {prepared.manifest.dataset}")
                    work = shared_work(prepared.work(), ranker.models.ledger, name)
                    async with aclosing(work), ranker.arank_many(work) as stream:
                        async for ranked in stream:
                            yield ranked
                    if not shared:
                        _take_off(left, ranker)

    def _name(self) -> str:
        """Return the same name for the same work, whatever its limits."""
        from mcranker.config import HOW_NOT_WHAT

        plan, how = self.plan, {*HOW_NOT_WHAT, "ledger"}
        rankers = [
            (
                spec.label,
                spec.ranker,
                sorted((k, repr(v)) for k, v in spec.options.items() if k not in how),
            )
            for spec in self.rankers
        ]
        return repr(
            (self.datasets, rankers, plan.queries, plan.limit, plan.depth, plan.first_stage)
        )

    def estimate(self) -> Iterator[tuple[str, str, Estimate]]:
        """Yield data set, label, and the estimate of each cell; nothing is sent or written.

        Calls that an earlier cell makes and the ledger keeps are not counted again.

        Raises:
            BeirEvalError, MCRankerError: as `run`.
        """
        from mcranker.errors import UnsupportedCapability
        from mcranker.estimate import Estimate

        counted: set[bytes] = set()
        for dataset in self.datasets:
            prepared = self.prepared(dataset)
            for cell in self.cells(prepared):
                if cell.spec.run:
                    yield prepared.manifest.dataset, cell.spec.label, Estimate()
                    continue
                try:
                    ranker = make_ranker(cell.spec.ranker, cell.spec.options)
                except UnsupportedCapability as failure:
                    if cell.spec.note is None:
                        raise
                    _log.warning("%s is left out: %s", cell.spec.label, failure)
                    continue
                with ranker:
                    work = prepared.work(cell.open_queries)
                    yield (
                        prepared.manifest.dataset,
                        cell.spec.label,
                        ranker.estimate_many(work, counted=counted),
                    )

    def _scores(self, prepared: RankingInput) -> int:
        """Scores that all rankers together ask for, of all queries."""
        passages = sum(len(ranked) for ranked in prepared.run.values())
        return passages * sum(judges(spec) for spec in self.rankers)

    def _folder(self, prepared: RankingInput) -> Path:
        name, split = prepared.manifest.dataset, prepared.manifest.split
        whole = name if split == "test" else f"{name} {split}"
        return Path(self.plan.out) / dataset_folder_name(whole)


def run_suite(
    suite: Suite, plan: Plan, *, watch: Callable[[CellResult], None] | None = None
) -> list[CellResult]:
    """Run a suite and wait for it.

    Args:
        suite: what to run, see `load_suite`.
        plan: how.
        watch: called with every result as soon as it is there.

    Raises:
        BeirEvalError, MCRankerError, OSError: as `Experiment.run`.
    """
    import anyio

    async def collect() -> list[CellResult]:
        results = []
        async for result in Experiment(suite, plan).run():
            results.append(result)
            if watch is not None:
                watch(result)
        return results

    return anyio.run(collect)


def _piece_name(run: str, piece: tuple[Query, list[Passage]]) -> str:
    return f"{run} {piece[0].id} {len(piece[1])}"


def _keep_foreign(cell: RunJob, first_stage: Metrics) -> CellResult:
    """Measure a foreign run and write its run folder."""
    prepared, spec = cell.prepared, cell.spec
    content = prepared.manifest.content
    with interruptible():
        metrics = prepared.foreign[spec.run].keep(
            cell.path, spec.label, content, spec.note, prepared.qrels, cell.measures
        )
    return CellResult.of(cell, first_stage, metrics)


async def _run_cell(
    cell: RunJob, first_stage: Metrics, left: dict[str, Any], listener: ExperimentListener
) -> CellResult:
    """Rank what is open; `left` is the budget of all cells, and what is spent is taken off it."""
    from mcranker.errors import FATAL_ERRORS, BudgetExceeded, ModelError

    async def emit(event: Event) -> None:
        listener.event(event)

    paid: list[tuple[int, float | None]] = []
    reused = 0
    failed_in_a_row = 0
    error: Exception | None = None
    stopped: Exception | None = None
    options = {**cell.spec.options, **left}
    async with make_ranker(cell.spec.ranker, options) as ranker:
        cell.begin(ranker)
        metrics = cell.finished()
        if metrics is None:
            stream = ranker.arank_many(cell.prepared.work(cell.open_queries), emit=emit)
            async with stream:
                async for ranked in stream:
                    listener.query_done(ranked)
                    if ranked.ranking is not None and not ranked.ranking.failure:
                        cell.keep(ranked.ranking)
                        paid.append((ranked.ranking.usage.calls, ranked.ranking.cost))
                        reused += ranked.ranking.reused.calls
                        failed_in_a_row = 0
                        continue
                    # The first stage's order must not be measured as the ranker's.
                    error = ranked.error or ModelError(
                        ranked.ranking.failure if ranked.ranking else "not ranked"
                    )
                    failed_in_a_row += 1
                    cell.failed[ranked.query.id] = str(error)
                    fatal = isinstance(error, (BudgetExceeded, *FATAL_ERRORS))
                    if fatal or failed_in_a_row == GIVE_UP:
                        stopped = error
                        break
            if not cell.done:
                stopped = stopped or error  # a mean over nothing but failures says nothing
            with interruptible():
                metrics = None if stopped else cell.finish()
        # Rankings say what they took; what a query took that failed, only the budget knows.
        _take_off(left, ranker)
    costs = [cost for _, cost in paid if cost is not None]
    return CellResult.of(
        cell,
        first_stage,
        metrics,
        calls=sum(calls for calls, _ in paid),
        cost=sum(costs) if len(costs) == len(paid) else None,
        reused=reused,
        stopped=stopped,
    )


def _take_off(left: dict[str, Any], ranker: Ranker) -> None:
    """Take what a ranker has spent off what is left."""
    if (spent := ranker.models.budget) is not None:
        for name, taken in zip(_LIMITS, (spent.spent_calls, spent.spent_cost), strict=True):
            if name in left:
                left[name] = max(0, left[name] - taken)


def make_ranker(name: str, options: Mapping[str, Any]) -> Ranker:
    """Return a ranker that returns all passages."""
    from mcranker.rankers import RANKERS

    make: Callable[..., Ranker] = RANKERS.get(name)
    return make(**{"top_n": None, **options})


def _with_dataset(spec: RankerSpec, prepared: RankingInput) -> RankerSpec:
    """With words about the data set, where criteria are written for it."""
    if spec.options.get("criteria") != "dataset" or spec.options.get("dataset"):
        return spec
    if not prepared.about:
        name = prepared.manifest.dataset
        raise SettingError(
            f"{spec.label!r} writes criteria for the data set, and nothing says what {name!r} "
            "is; say so with --about, or with about= in the suite"
        )
    return replace(spec, options={**spec.options, "dataset": prepared.about})
