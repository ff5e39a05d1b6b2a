"""Metrics of run folders, all by the measure of one report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import other_server
from beir_eval.experiment.run_folder import RANKINGS, DataFolder, Metrics, RunFolder
from beir_eval.measures.metrics import ceiling, evaluate, judged_share
from beir_eval.measures.ties import Tied, tie_figures
from mcranker.inputs.trec import with_ties
from personas.ensembles import Rule

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run by the measure of a report."""

    metrics: Metrics  # with the share of judged documents where its run is there
    ceiling: float | None = None  # of the documents that it ranked; None where not known


class MetricsCache:
    """Metrics of run folders, all with one measure."""

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
            tied = _ties_of_rankings(ranked, data)
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
        highest = None
        if ranked and not foreign:
            highest = self._measured(data, data).ceiling
        elif run is not None:
            best = ceiling(run, qrels, self.measure).values()
            highest = math.fsum(best) / len(best)
        self._kept[folder.path] = Measured(metrics, highest)
        return self._kept[folder.path]

    def _read(self, data: DataFolder, read: Callable[[], _Read]) -> _Read:
        """Read a file of `data` once; folders of the same content share it."""
        key = (data.manifest.content, read.__name__)
        if key not in self._files:
            self._files[key] = read()
        found: _Read = self._files[key]
        return found


def by_lot(metrics: Metrics, measure: str) -> dict[str, float]:
    """Query id -> value, ties drawn by lot where that is known."""
    return {**metrics.per_query[measure], **metrics.by_lot.get(measure, {})}


def _ties_of_rankings(run: RunFolder, data: DataFolder) -> dict[str, Tied]:
    texts: Mapping[str, tuple[str, str]] | None = None
    found = {}
    for ranking in run.rankings():
        if texts is None and Rule.of(ranking.config).keeps_order:
            texts = data.passages()
        found[ranking.query.id] = Tied.of_ranking(ranking, texts)
    return found
