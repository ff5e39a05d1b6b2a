"""Run folders as `Values`, all by the measure of one report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import other_server
from beir_eval.experiment.run_folder import (
    RANKINGS,
    DataFolder,
    Metrics,
    RunFolder,
    ScoreCounts,
)
from beir_eval.measures.metrics import ceiling, evaluate, judged_share
from beir_eval.measures.ties import Tied, missing_bounds, tie_figures
from beir_eval.measures.values import Values
from mcranker.inputs.trec import with_ties
from personas.ensembles import Rule

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run by the measure of a report."""

    values: Values
    metrics: Metrics  # with the share of judged documents where its run is there
    ceilings: Mapping[str, float]  # query id -> value of the best order of what it ranked

    @property
    def ceiling(self) -> float | None:
        """The mean of `ceilings`; None where they are not known."""
        found = self.ceilings.values()
        return math.fsum(found) / len(found) if found else None


class Loader:
    """Reads run folders, each once, all with one measure."""

    def __init__(self, measure: str, *, provider_prices: bool = False) -> None:
        self.measure = measure
        self.judged = judged_share(measure)
        self._provider_prices = provider_prices
        self._kept: dict[Path, Measured] = {}
        self._files: dict[tuple[str, str], Any] = {}

    def of_first_stage(self, data: DataFolder) -> Measured:
        """Metrics of the first stage's run; raises as `of_run` does."""
        return self._measured(data, data)

    def of_run(self, run: RunFolder, data: DataFolder) -> Measured:
        """Metrics of a finished run, over the same queries as those of its first stage."""
        measured = self._measured(run, data)
        both = (measured, self._measured(data, data))
        ours, theirs = (each.metrics.per_query[self.measure].keys() for each in both)
        if ours != theirs:
            raise RunFolderError(
                f"{run.path}: its metrics and those of its first stage are of different queries, "
                f"e.g. {min(ours ^ theirs)!r} is in one only; run the same 'beir-eval run' again"
            )
        return measured

    def _measured(self, folder: RunFolder | DataFolder, data: DataFolder) -> Measured:
        if folder.path in self._kept:
            return self._kept[folder.path]
        ranked = folder if isinstance(folder, RunFolder) else None
        foreign = ranked is not None and ranked.manifest.foreign is not None
        file = folder.path / ("run.trec" if ranked else "first_stage.trec")
        read = ranked.run if ranked else data.first_stage
        run = read() if file.exists() else None
        metrics, qrels = folder.metrics(), self._read(data, data.qrels)
        names = (self.measure, *[self.judged] * (run is not None))
        if absent := [each for each in names if each not in metrics.per_query]:
            found = evaluate(read() if run is None else run, qrels, absent)
            per_query = metrics.per_query | {k: dict(v) for k, v in found.per_query.items()}
            means = {**metrics.means, **found.means}
            metrics = metrics.model_copy(update={"means": means, "per_query": per_query})
        values = metrics.per_query[self.measure].values()
        if not all(0 <= value <= 1 for value in (*values, metrics.means[self.measure])):
            raise MeasureError(
                f"{folder.path}: measure {self.measure!r} has values outside 0 to 1; a report "
                "takes measures such as 'nDCG@10', 'R@100' or 'AP'"
            )
        unknown = self.measure not in metrics.ties
        tied = None
        if unknown and ranked and not foreign and (ranked.path / RANKINGS).exists():
            tied = ties_of_rankings(ranked, data)
        elif unknown and run is not None and (foreign or not ranked):
            tied = {each: Tied.of_scores(with_ties(found)) for each, found in run.items()}
        if tied is not None:
            figures = tie_figures(tied, qrels, [self.measure])
            drawn = metrics.by_lot | {name: dict(v) for name, v in figures.by_lot.items()}
            bounds = {**metrics.ties, **figures.bounds}
            metrics = metrics.model_copy(update={"ties": bounds, "by_lot": drawn})
        if ranked and metrics.taken and other_server(ranked.manifest) and not self._provider_prices:
            taken = metrics.taken.model_copy(update={"cost": None})
            metrics = metrics.model_copy(update={"taken": taken})
        ceilings: Mapping[str, float] = {}
        if ranked and not foreign:
            ceilings = self._measured(data, data).ceilings
        elif run is not None:
            ceilings = ceiling(run, qrels, self.measure)
        of_run = self._values(metrics, ranked, data, ceilings)
        self._kept[folder.path] = Measured(of_run, metrics, ceilings)
        return self._kept[folder.path]

    def _values(
        self,
        metrics: Metrics,
        run: RunFolder | None,
        data: DataFolder,
        ceilings: Mapping[str, float],
    ) -> Values:
        of, scores = metrics.per_query[self.measure], metrics.scores or ScoreCounts()
        # The best that a query without a result could have had.
        limits = {each: (0.0, ceilings.get(each, 1.0)) for each in of}
        ends = {each: limits[each] for each in metrics.failed if each in limits}
        if run and scores.missing and (run.path / RANKINGS).exists():
            ends |= missing_bounds(run.rankings(), self._read(data, data.qrels), self.measure)
        elif scores.missing:  # of which queries, is not known
            ends = limits
        judge, models = data.manifest.judge, run.manifest.models.values() if run else ()
        return Values(
            of,
            self.measure,
            total=metrics.means[self.measure],
            lots=metrics.by_lot.get(self.measure, {}),
            lots_known=self.measure in metrics.ties,
            open=ends,
            failed=metrics.failed,
            missing=scores.missing,
            asked=scores.asked,
            unit=ScoreCounts.unit([scores])[1],
            cut=metrics.cut,
            depth=data.manifest.depth,
            judge=judge,
            own=bool(judge) and judge in models,
            scale=(0.0, 1.0),
        )

    def _read(self, data: DataFolder, read: Callable[[], _Read]) -> _Read:
        """Read a file of `data` once; folders of the same content share it."""
        key = (data.manifest.content, read.__name__)
        if key not in self._files:
            self._files[key] = read()
        found: _Read = self._files[key]
        return found


def ties_of_rankings(run: RunFolder, data: DataFolder) -> dict[str, Tied]:
    """The rankings of a run, with their ties."""
    texts: Mapping[str, tuple[str, str]] | None = None
    found = {}
    for ranking in run.rankings():
        if texts is None and Rule.of(ranking.config).keeps_order:
            texts = data.passages()
        found[ranking.query.id] = Tied.of_ranking(ranking, texts)
    return found
