"""Experiments: the rankers of a suite over its data sets, or its pipelines over questions.

```python
from beir_eval import Plan, load_suite, run_suite

plan = Plan(out="runs/table1", limit=20, depth=20, options={"model": "local:smollm2-135m"})
for result in run_suite(load_suite("table1"), plan):
    print(result.dataset, result.label, result.metrics.means)
```

Every ranking and every answer is written as soon as it is there, and every reply is in the ledger
before it is used: the same call again goes on where the last one ended, and asks nothing twice.
Runs that share a ledger share replies, so that three ensembles of the same scores cost one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from beir_eval.errors import SettingError, check_whole
from beir_eval.experiment.cell import Cell, CellResult, ExperimentListener, Plan
from beir_eval.experiment.prepare import (
    RankingInput,
    chosen_queries,
    keep_data,
    prepare,
    read_foreign,
)
from beir_eval.experiment.ranker_cell import RankerCell, connected, make_ranker
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite
from beir_eval.experiment.suite_form import dataset_folder_name, folder_name
from beir_eval.files import locked
from mcranker.config import HOW_NOT_WHAT
from mcranker.errors import UnsupportedCapability
from mcranker.estimate import Estimate
from mcranker.llm.limits.budget import Budget
from mcranker.logs import safe_logger
from mcranker.runtime.bridge import interruptible

if TYPE_CHECKING:
    from beir_eval.experiment.run_folder import Metrics
    from beir_eval.experiment.suite_form import SuiteForm
    from mcranker.rankers import RankedQuery
    from personas.ranking.types import Passage, Query

_LIMITS = ("max_calls", "max_cost")  # of the whole experiment

_log = safe_logger("mcranker.beir_eval.run")


@dataclass(frozen=True, slots=True)
class Experiment:
    """A suite and how it is run, ready to go.

    Raises:
        SettingError: the plan names a ranker that the suite does not have, or no data set; its
            limit or depth is below 1; a suite of pipelines has no questions or documents.
    """

    suite: Suite
    plan: Plan

    def __post_init__(self) -> None:
        for name in ("limit", "depth", "runs"):
            if (value := getattr(self.plan, name)) is not None:
                check_whole(name, value, 1)
        self.suite.chosen(self.plan.rankers)
        if self.suite.pipelines:
            self.form  # noqa: B018 - raises what it lacks
        elif not self.datasets:
            raise SettingError("no data set is named; name one or more")

    @property
    def datasets(self) -> tuple[DatasetSpec, ...]:
        """The data sets, in order."""
        return self.plan.datasets or self.suite.datasets

    @property
    def rankers(self) -> tuple[RankerSpec, ...]:
        """The rankers or pipelines, in order, with the plan's options."""
        wanted = self.suite.chosen(self.plan.rankers)
        return tuple(replace(spec, options=self._options(spec)) for spec in wanted)

    @property
    def form(self) -> SuiteForm:
        """The form of a suite of pipelines, with the plan's values in place of its own."""
        from beir_eval.experiment.pipeline_cell import settled

        assert self.suite.form is not None, "pipelines come from a file"
        return settled(self.suite.form, self.plan, self.suite.name)

    def _options(self, spec: RankerSpec) -> dict[str, Any]:
        of_plan = {k: v for k, v in self.plan.options.items() if k not in _LIMITS}
        own = {name: value for name, value in spec.options.items() if name in spec.own}
        return {**spec.options, **of_plan, **own}

    def __len__(self) -> int:
        return len(self.rankers) * (1 if self.suite.pipelines else len(self.datasets))

    def prepared(self, spec: DatasetSpec) -> RankingInput:
        """Return the input of rankers for a data set.

        Raises:
            DatasetError: it cannot be loaded; see `beir_eval.load`.
            SettingError, RunError, ExtraMissing: the first stage cannot be run.
        """
        from beir_eval.data.first_stage import find
        from beir_eval.data.load import load

        plan = self.plan
        whole = load(spec.name, split=spec.split)
        chosen = chosen_queries(whole, queries=plan.queries, limit=plan.limit)
        stage = replace(plan.first_stage, depth=plan.depth or self.suite.depth)
        files = [each.run for each in self.rankers if each.run]
        foreign = {file: read_foreign(file, chosen, stage.depth) for file in files}
        run = find(chosen, stage, cache=plan.cache)
        in_full = sum(map(bool, whole.qrels.values()))
        return prepare(
            chosen, run, stage, queries_in_full=in_full, about=spec.about, foreign=foreign
        )

    def cells(
        self, prepared: RankingInput, first_stage: Metrics | None = None
    ) -> Iterator[RankerCell]:
        """One cell for each ranker."""
        folder = self._folder(prepared)
        for spec in self.rankers:
            made = _with_dataset(spec, prepared)
            path = folder / folder_name(spec.label)
            yield RankerCell(path, made, prepared, self.plan.measures, first_stage)

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
        listener = listener or ExperimentListener()
        place, count = 0, len(self)
        async with aclosing(self._groups(listener)) as groups:
            async for cells in groups:
                for cell in cells:
                    place += 1
                    listener.cell_begins(cell, place, count)
                    with locked(cell.path):
                        result = await cell.run(listener)
                    listener.cell_ends(result)
                    yield result
                    if result.stopped is not None and not result.of_this_cell:
                        return

    async def _groups(self, listener: ExperimentListener) -> AsyncGenerator[Sequence[Cell], None]:
        """Yield the cells of each data set, or all pipelines."""
        budget = self._budget()
        if self.suite.pipelines:
            from beir_eval.experiment.pipeline_cell import pipeline_cells

            async with pipeline_cells(self.form, self.plan, self.rankers, budget) as cells:
                yield cells
            return
        for dataset in self.datasets:
            listener.dataset_begins(dataset)
            with interruptible():
                prepared = self.prepared(dataset)
                data = keep_data(prepared, self._folder(prepared), self.plan.measures)
            yield [replace(each, budget=budget) for each in self.cells(prepared, data.metrics())]

    def _budget(self) -> Budget:
        options = self.plan.options
        return Budget(max_calls=options.get("max_calls"), max_cost=options.get("max_cost"))

    def queries(self) -> int:
        """Number of queries of all cells that rank; data sets are read for it."""
        prepared = [self.prepared(dataset) for dataset in self.datasets]
        return sum(len(p.queries) * sum(not s.run for s in self.rankers) for p in prepared)

    async def work(self) -> AsyncIterator[RankedQuery]:
        """Rank queries of all cells that no other process over the same ledger has taken.

        No run folder is read or written: `run` takes the replies from the ledger. Errors are
        those of `run`.
        """
        from mcranker.rankers.work_claims import run_name, share_budget, shared_work

        budget = self._budget()
        for dataset in self.datasets:
            prepared = self.prepared(dataset)
            for spec in self.rankers:
                if spec.run:
                    continue
                made = connected(spec.ranker, spec.options, budget)
                async with made as ranker, aclosing(budget):
                    share_budget(budget, ranker.models.ledger, self._name())
                    about = run_name(ranker.name, ranker.models.names.values(), ranker.config)
                    name = partial(_piece_name, f"{about} {prepared.manifest.dataset}")
                    work = shared_work(prepared.work(), ranker.models.ledger, name)
                    async with aclosing(work), ranker.arank_many(work) as stream:
                        async for ranked in stream:
                            yield ranked

    def _name(self) -> str:
        """Return the same name for the same work, whatever its limits."""
        plan, how = self.plan, {*HOW_NOT_WHAT, "ledger"}
        rankers = [
            (x.label, x.ranker, sorted((k, repr(v)) for k, v in x.options.items() if k not in how))
            for x in self.rankers
        ]
        chosen = (plan.queries, plan.limit, plan.depth, plan.first_stage)
        return repr((self.datasets, rankers, *chosen))

    def estimate(self) -> Iterator[tuple[str, str, Estimate]]:
        """Yield data set, label, and the estimate of each cell; nothing is sent or written.

        Calls that an earlier ranker makes and the ledger keeps are not counted again. Errors are
        those of `run`.
        """
        if self.suite.pipelines:
            yield from anyio.run(self._estimate_pipelines)
            return
        counted: set[bytes] = set()
        for dataset in self.datasets:
            prepared = self.prepared(dataset)
            for cell in self.cells(prepared):
                if cell.spec.run:
                    yield cell.dataset, cell.spec.label, Estimate()
                    continue
                try:
                    ranker = make_ranker(cell.spec.ranker, cell.spec.options)
                except UnsupportedCapability as failure:
                    if cell.spec.note is None:
                        raise
                    _log.warning("%s is left out: %s", cell.spec.label, failure)
                    continue
                with ranker:
                    work = prepared.work([*cell.sizes])
                    found = ranker.estimate_many(work, counted=counted)
                    yield cell.dataset, cell.spec.label, found

    async def _estimate_pipelines(self) -> list[tuple[str, str, Estimate]]:
        from beir_eval.experiment.pipeline_cell import pipeline_cells

        async with pipeline_cells(self.form, self.plan, self.rankers, None) as cells:
            return [("", cell.spec.label, await cell.estimate()) for cell in cells]

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
