"""Metrics of run folders, all by the measure of one report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import other_server
from beir_eval.experiment.rankings import RANKINGS
from beir_eval.experiment.run_folder import DataFolder, Metrics, RunFolder
from beir_eval.measures.metrics import Companions, ceiling, evaluate
from beir_eval.measures.overlap import rank_biased_overlap
from beir_eval.measures.ties import Tied, tie_figures
from mcranker.trec import Run, with_ties
from personas.ensembles import Rule

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run by the measure of a report."""

    metrics: Metrics  # those of `Companions` included where its run is there
    ceiling: float | None = None  # of the documents that it ranked; None where not known
    overlap: float | None = None  # with the first stage; None where the run is not there


class MetricsCache:
    """Metrics of run folders, all with one measure.

    What folders of former versions lack, such as the measure or its ties drawn by lot, is computed
    from their runs and rankings where they are there.

    Args:
        measure: as ir-measures writes it; upper and lower case make no difference where the
            folders have it.
        provider_prices: as `build_report` has it.
        alone: without the companions of the measure where folders do not have them.
    """

    def __init__(self, measure: str, *, provider_prices: bool = False, alone: bool = False) -> None:
        self.measure = measure
        self.companions = Companions.of(measure)
        self._alone = alone
        self._provider_prices = provider_prices
        self._kept: dict[Path, Measured] = {}
        self._files: dict[tuple[str, str], Any] = {}

    def of_first_stage(self, data: DataFolder) -> Measured:
        """Metrics of the first stage's run; raises as `of_run` does."""
        if data.path not in self._kept:
            file = data.path / "first_stage.trec"
            metrics = self._completed(
                data.metrics(), data.path, data, (file, data.first_stage), (file, _ties_of_scores)
            )
            highest = self._ceiling(self._first_stage(data), data) if file.exists() else None
            self._kept[data.path] = Measured(metrics, highest)
        return self._kept[data.path]

    def of_run(self, run: RunFolder, data: DataFolder) -> Measured:
        """Metrics of a finished run, over the same queries as those of its first stage."""
        first_stage = self.of_first_stage(data)
        if run.path not in self._kept:
            file = run.path / "run.trec"
            ties = (
                (file, _ties_of_scores)
                if run.manifest.foreign
                else (run.path / RANKINGS, partial(_ties_of_rankings, run, data))
            )
            metrics = self._completed(run.metrics(), run.path, data, (file, run.run), ties)
            if metrics.taken and other_server(run.manifest) and not self._provider_prices:
                taken = metrics.taken.model_copy(update={"cost": None})
                metrics = metrics.model_copy(update={"taken": taken})
            found = run.run() if file.exists() else None
            highest = first_stage.ceiling
            if run.manifest.foreign and found is not None:
                highest = self._ceiling(found, data)
            self._kept[run.path] = Measured(metrics, highest, self._overlap(found, data))
        measured = self._kept[run.path]
        ours, theirs = (each.metrics.per_query[self.measure] for each in (measured, first_stage))
        if ours.keys() != theirs.keys():
            odd = min(ours.keys() ^ theirs.keys())
            raise RunFolderError(
                f"{run.path}: its metrics and those of its first stage are of different queries, "
                f"e.g. {odd!r} is in one only; run the same 'beir-eval run' again"
            )
        return measured

    def _completed(
        self,
        metrics: Metrics,
        path: Path,
        data: DataFolder,
        run: tuple[Path, Callable[[], Run]],
        ties: tuple[Path, Callable[[Run], dict[str, Tied]]],
    ) -> Metrics:
        """Add what a report needs and the folder lacks; companions only if `run` is there."""
        companions = self.companions.names if run[0].exists() and not self._alone else ()
        names = (self.measure, *companions)
        if absent := [each for each in names if each not in metrics.per_query]:
            found = evaluate(run[1](), self._qrels_of(data), absent)
            per_query = metrics.per_query | {k: dict(v) for k, v in found.per_query.items()}
            means = {**metrics.means, **found.means}
            metrics = metrics.model_copy(update={"means": means, "per_query": per_query})
        self._check_range(metrics, path)
        unknown = [
            name for name in names if (of := metrics.ties.get(name)) is None or of.by_lot is None
        ]
        if unknown and ties[0].exists():
            listed = run[1]() if ties[0] == run[0] else {}
            figures = tie_figures(ties[1](listed), self._qrels_of(data), unknown)
            drawn = metrics.by_lot | {name: dict(v) for name, v in figures.by_lot.items()}
            bounds = {**metrics.ties, **figures.bounds}
            metrics = metrics.model_copy(update={"ties": bounds, "by_lot": drawn})
        return metrics

    def _check_range(self, metrics: Metrics, path: Path) -> None:
        values = metrics.per_query[self.measure].values()
        if not all(0 <= value <= 1 for value in (*values, metrics.means[self.measure])):
            raise MeasureError(
                f"{path}: measure {self.measure!r} has values outside 0 to 1; a report takes "
                "measures such as 'nDCG@10', 'R@100' or 'AP'"
            )

    def _ceiling(self, run: Run, data: DataFolder) -> float:
        values = ceiling(run, self._qrels_of(data), self.measure).values()
        return math.fsum(values) / len(values)

    def _overlap(self, run: Run | None, data: DataFolder) -> float | None:
        """The mean over the queries that both have."""
        if run is None or not (data.path / "first_stage.trec").exists():
            return None
        found = [
            rank_biased_overlap([each for each, _ in run[query_id]], [each for each, _ in listed])
            for query_id, listed in self._first_stage(data).items()
            if query_id in run
        ]
        return math.fsum(found) / len(found) if found else None

    def _first_stage(self, data: DataFolder) -> Run:
        return self._read(data, data.first_stage)

    def _qrels_of(self, data: DataFolder) -> Mapping[str, Mapping[str, int]]:
        return self._read(data, data.qrels)

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


def _ties_of_scores(run: Run) -> dict[str, Tied]:
    return {each: Tied.of_scores(with_ties(found)) for each, found in run.items()}


def _ties_of_rankings(run: RunFolder, data: DataFolder, _: Run) -> dict[str, Tied]:
    texts: Mapping[str, tuple[str, str]] | None = None
    found = {}
    for ranking in run.rankings():
        if texts is None and Rule.of(ranking.config).keeps_order:
            texts = data.passages()
        found[ranking.query.id] = Tied.of_ranking(ranking, texts)
    return found
