"""One ranker over one data set: ranked query by query into a run folder, resumable anywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beir_eval.errors import RunFolderError
from beir_eval.experiment.cell import Cell, CellResult, ExperimentListener
from beir_eval.experiment.run_folder import (
    FOREIGN,
    MANIFEST,
    METRICS,
    RANKINGS,
    Metrics,
    Percentiles,
    RunCost,
    RunFolder,
    RunManifest,
    ScoreCounts,
    digests,
    index_rankings,
    ranking_line,
    read_rankings,
)
from beir_eval.files import append_whole, cut_torn_line, write_form
from beir_eval.measures.ties import Tied, measured
from mcranker.errors import ModelError, UnsupportedCapability
from mcranker.inputs.trec import write_trec
from mcranker.llm.limits.budget import Budget
from mcranker.llm.masking import shown_url
from mcranker.logs import safe_logger
from mcranker.rankers import RANKERS
from mcranker.runtime.bridge import interruptible
from personas.ensembles import find_ensemble
from personas.io.atomic import replacing
from personas.ranking.record import RankingRecord
from personas.ranking.types import ASSESSOR
from personas.ranking.usage import UsageTable

if TYPE_CHECKING:
    from beir_eval.experiment.prepare import RankingInput
    from mcranker.events import Event
    from mcranker.inputs.trec import Run
    from mcranker.rankers import RankedQuery, Ranker

_FILES = (RANKINGS, "run.trec", METRICS)
_LONGEST_REASON = 120
_OF_SCORES = ("score", "assess")
"""Stages whose answers are about passages."""

_log = safe_logger("mcranker.beir_eval.cell")


@dataclass
class RankerCell(Cell):
    """One ranker over one data set."""

    prepared: RankingInput  # what is ranked
    measures: Sequence[str]  # names as ir-measures writes them; the first one heads the tables
    first_stage: Metrics | None = None  # measures of its run
    budget: Budget = field(default_factory=Budget)  # what all cells are paid from

    @property
    def dataset(self) -> str:
        return self.prepared.manifest.dataset

    @cached_property
    def done(self) -> set[str]:
        """Ids of the queries already ranked; nothing is changed."""
        if not self._rankings.exists():
            return set()
        return set(index_rankings(self._rankings, finished=False).offsets)

    @property
    def sizes(self) -> Mapping[str, int]:
        run = self.prepared.run
        queries = (each for each in self.prepared.queries if each not in self.done)
        return {each: len(run.get(each, ())) for each in queries}

    async def run(self, listener: ExperimentListener) -> CellResult:
        """Rank what is open, and measure it all."""
        if self.spec.run:
            with interruptible():
                return self._result(metrics=self._keep_foreign())
        try:
            return await self._ranked(listener)
        except UnsupportedCapability as failure:
            if self.spec.note is None:  # in a suite, it is a result
                raise
            return self._result(stopped=failure)

    async def _ranked(self, listener: ExperimentListener) -> CellResult:
        paid: list[tuple[int, float | None]] = []
        reused = 0

        async def emit(event: Event) -> None:
            listener.event(event)

        def keep(ranked: RankedQuery) -> Exception | None:
            nonlocal reused
            listener.query_done(ranked.query)
            ranking = ranked.ranking
            if ranking is not None and not ranking.failure:
                append_whole(self._rankings, ranking_line(ranking))
                self.done.add(ranking.query.id)
                paid.append((ranking.usage.calls, ranking.cost))
                reused += ranking.reused.calls
                return None
            # The first stage's order must not be measured as the ranker's.
            error = ranked.error or ModelError(ranking.failure if ranking else "not ranked")
            self.failed[ranked.query.id] = str(error)
            return error

        stopped: Exception | None = None
        async with connected(self.spec.ranker, self.spec.options, self.budget) as ranker:
            self._begin(ranker)
            metrics = self._finished()
            if metrics is None:
                work = self.prepared.work([*self.sizes])
                stopped, last = await self.take(ranker.arank_many(work, emit=emit), keep)
                if not self.done:
                    stopped = stopped or last  # a mean over nothing but failures says nothing
                with interruptible():
                    metrics = None if stopped else self._finish()
        costs = [cost for _, cost in paid if cost is not None]
        calls, cost = sum(calls for calls, _ in paid), sum(costs)
        known = cost if len(costs) == len(paid) else None
        return self._result(
            metrics=metrics, calls=calls, cost=known, reused=reused, stopped=stopped
        )

    def _result(self, **more: Any) -> CellResult:
        return self.result(first_stage=self.first_stage, depth=self.prepared.manifest.depth, **more)

    def _begin(self, ranker: Ranker) -> None:
        # Another program may have ranked some since they were counted.
        vars(self).pop("done", None)
        if cut_torn_line(self._rankings):
            _log.warning("%s: the last ranking was torn; it is made again", self._rankings)
        endpoint = getattr(ranker.models.scoring, "endpoint", "")
        self.begin(
            begun=bool(self.done),
            ranker=self.spec.ranker,
            config=ranker.config.recorded(how=False),
            models=dict(ranker.models.names),
            server=shown_url(endpoint) if "://" in endpoint else "",  # else a model in this process
            weak_judge=ranker.models.scoring.capabilities.weak_judge,
            prompt_hashes=dict(ranker.prompt_hashes),
            data=self.prepared.manifest.content,
        )

    def _finish(self) -> Metrics:
        """Write the TREC run, the measures, and the rankings in the order of the queries."""
        self._rankings.touch()
        offsets = index_rankings(self._rankings, finished=True).offsets
        tried = offsets.keys() | self.failed.keys()
        gone = [each for each in self.prepared.queries if each not in tried]
        if gone:
            raise RunFolderError(
                f"{self._rankings}: {len(gone)} rankings that were made are gone, e.g. of query "
                f"{gone[0]!r}; let one run at a time write there, and run it again"
            )
        # Rewritten with one line in memory at a time.
        with replacing(self._rankings) as file, self._rankings.open("rb") as lines:
            for query_id in self.prepared.queries:
                if query_id in offsets:
                    lines.seek(offsets[query_id])
                    file.write(lines.readline())
        run, metrics = _measured(read_rankings(self._rankings), self.prepared, self.measures)
        metrics = metrics.model_copy(update={"failed": dict(self.failed)})
        self._write(run, metrics)
        self.mark_finished(_FILES)
        return metrics

    def _finished(self) -> Metrics | None:
        """The measures, if all queries are done and none failed; else None."""
        if not (self.path / METRICS).exists() or self.sizes:
            return None
        folder = RunFolder.open(self.path)
        if not folder.manifest.finished:
            return None
        metrics = folder.metrics()
        return metrics if metrics.measures == tuple(self.measures) else self._finish()

    def _keep_foreign(self) -> Metrics:
        """Measure a foreign run, in place of what an earlier file of that label left there."""
        if self._rankings.exists():
            raise RunFolderError(
                f"{self.path} holds what {self.spec.label!r} ranked when it was no foreign run; "
                "choose another --out, or delete the folder"
            )
        run, note = self.prepared.foreign[self.spec.run]
        tied = {query_id: Tied.of_scores(found) for query_id, found in run.items()}
        metrics = measured(run, tied, self.prepared.qrels, self.measures)
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(run, metrics)
        manifest = RunManifest(
            label=self.spec.label,
            ranker=FOREIGN,
            options={},
            config={},
            models={},
            versions={},
            data=self.prepared.manifest.content,
            suite=self.spec.note,
            foreign=note,
            finished=True,
            files=digests(self.path, _FILES),
        )
        write_form(self.path / MANIFEST, manifest)
        return metrics

    def _write(self, run: Mapping[str, Sequence[tuple[str, float]]], metrics: Metrics) -> None:
        ranked = {each: run[each] for each in self.prepared.queries if run.get(each)}
        write_trec(ranked, self.path / "run.trec", self.path.name)
        write_form(self.path / METRICS, metrics)

    @property
    def _rankings(self) -> Path:
        return self.path / RANKINGS


def make_ranker(name: str, options: Mapping[str, Any]) -> Ranker:
    """Return a ranker that returns all passages."""
    make: Callable[..., Ranker] = RANKERS.get(name)
    return make(**{"top_n": None, **options})


@asynccontextmanager
async def connected(name: str, options: Mapping[str, Any], budget: Budget) -> AsyncIterator[Ranker]:
    """Make a ranker for the time of the block, its calls paid from the budget."""
    async with make_ranker(name, options) as made:
        yield made.within(budget) if budget.limited else made


def _measured(
    rankings: Iterable[RankingRecord], prepared: RankingInput, measures: Sequence[str]
) -> tuple[Run, Metrics]:
    """The TREC run of rankings, which are read one by one, and its metrics."""
    run: dict[str, list[tuple[str, float]]] = {}
    tied: dict[str, Tied] = {}
    counts, reasons = Counter[str](), Counter[str]()
    used, seconds = UsageTable(), list[float]()
    for ranking in rankings:
        run[ranking.query.id] = _with_numbers(ranking.run)
        tied[ranking.query.id] = Tied.of_ranking(ranking, prepared.texts)
        _count(ranking, counts, reasons)
        for table in (ranking.calls, ranking.calls.reused):
            for key, usage in table.items():
                used.add(*key, usage)
        # What the ledger had took no time that says anything.
        reused = any(stage in _OF_SCORES for stage, _, _ in ranking.calls.reused)
        if "total" in ranking.seconds and not reused:
            seconds.append(ranking.seconds["total"])
    scores = ScoreCounts(
        **{name: counts[name] for name in ("asked", "comparisons", "missing")},
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        unreadable=sum(usage.unreadable for usage in used.values()),
    )
    more = {"short_teams": counts["short_teams"], "cut": counts["cut"], "scores": scores}
    metrics = measured(run, tied, prepared.qrels, measures)
    return run, metrics.model_copy(update={**more, "taken": _taken(used, seconds)})


def _count(ranking: RankingRecord, counts: Counter[str], reasons: Counter[str]) -> None:
    """Count the scores of a ranking, and why some are missing."""
    missing, ensemble = ranking.missing, find_ensemble(ranking.config)
    given = sum(score is not None for hit in ranking.hits for score in hit.scores.values())
    if ensemble is not None and ensemble.asks:  # the final score is an assessor's, no persona's
        given += sum(ASSESSOR not in hit.missing for hit in ranking.judged)
    counts.update(missing=len(missing), asked=given + len(missing))
    reasons.update(_in_short(each.reason) for each in missing)
    if (compared := ranking.comparisons) is not None:
        made, failed = compared.asked, compared.failed
        counts.update(asked=made, comparisons=made, missing=failed)
        if failed:
            reasons[_in_short(compared.reason)] += failed
    counts["cut"] += any(hit.cut for hit in ranking.hits)
    size = ranking.config.get("team_size")
    if ranking.team is not None and isinstance(size, int):
        counts["short_teams"] += len(ranking.team.members) < size


def _taken(used: UsageTable, seconds: Sequence[float]) -> RunCost:
    import numpy as np

    from mcranker.llm.prices import cost
    from personas.ranking.usage import Usage

    sorted_rows = [(key, used[key]) for key in sorted(used)]
    total = sum((usage for _, usage in sorted_rows), start=Usage())
    # Priced together, so that it makes no difference which answers were there already.
    costs = [cost(model, usage) for (_, _, model), usage in sorted_rows]
    known = [each for each in costs if each is not None]
    timed = None
    if seconds:
        p50, p90, p99 = (round(float(each), 3) for each in np.percentile(seconds, (50, 90, 99)))
        timed = Percentiles(queries=len(seconds), p50=p50, p90=p90, p99=p99)
    return RunCost(
        calls=total.calls,
        input_tokens=total.input_tokens,
        cached_input_tokens=total.cached_input_tokens,
        output_tokens=total.output_tokens,
        # The order of the answers must not show in the last digits.
        seconds=round(total.seconds, 3),
        cost=round(math.fsum(known), 9) if len(known) == len(costs) else None,
        query_seconds=timed,
    )


def _with_numbers(run: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The run, where a passage without a score has one below all before it."""
    numbered: list[tuple[str, float]] = []
    for doc_id, score in run:
        below = min([0.0, *(before for _, before in numbered[-1:])]) - 1.0
        numbered.append((doc_id, below if math.isnan(score) else score))
    return numbered


def _in_short(reason: str) -> str:
    """The reason without the model's own words, so that equal reasons count together."""
    return reason.partition(" The answer:")[0][:_LONGEST_REASON]
