"""Measures of run folders, all with the measure of one report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import other_server
from beir_eval.experiment.rankings import RANKINGS
from beir_eval.experiment.run_folder import DataFolder, Metrics, RunFolder
from beir_eval.measures.ties import Tied, tie_figures
from mcranker.trec import Run, with_ties
from personas.ensembles import Rule

if TYPE_CHECKING:
    from beir_eval.experiment.foreign import ForeignRun


class Shelf:
    """Metrics of run folders, all with one measure.

    What folders of former versions lack, the measure or its ties drawn by lot, is computed from
    their rankings where they are there.

    Args:
        measure: as ir-measures writes it; upper and lower case make no difference where the
            folders have it.
        provider_prices: as `build_report` has it.
    """

    def __init__(self, measure: str, *, provider_prices: bool = False) -> None:
        self.measure = measure
        self._provider_prices = provider_prices
        self._kept: dict[Path, Metrics] = {}
        self._qrels: dict[str, Mapping[str, Mapping[str, int]]] = {}

    def of_first_stage(self, data: DataFolder) -> Metrics:
        """Metrics of the first stage's run.

        Raises:
            RunFolderError, RunError: a file cannot be read.
            MeasureError: the measure is unknown, or has values outside 0 to 1.
        """
        if data.path not in self._kept:
            metrics = self._with_measure(data.metrics(), data.path, data, data.first_stage)

            trec = data.path / "first_stage.trec"
            tied = _tied_by_score(data.first_stage)
            self._kept[data.path] = self._with_ties(metrics, data, trec, tied)
        return self._kept[data.path]

    def of_run(self, run: RunFolder, data: DataFolder) -> Metrics:
        """Metrics of a finished run, over the same queries as those of its first stage.

        Raises:
            RunFolderError: they are of other queries, or a file cannot be read.
            RunError: the run cannot be read.
            MeasureError: the measure is unknown, or has values outside 0 to 1.
        """
        if run.path not in self._kept:
            metrics = self._with_measure(run.metrics(), run.path, data, run.run)
            if metrics.taken and other_server(run.manifest) and not self._provider_prices:
                taken = metrics.taken.model_copy(update={"cost": None})
                metrics = metrics.model_copy(update={"taken": taken})

            if run.manifest.foreign:
                file, tied = run.path / "run.trec", _tied_by_score(run.run)
            else:
                file, tied = run.path / RANKINGS, partial(_tied, run, data)
            self._kept[run.path] = self._with_ties(metrics, data, file, tied)
        metrics, first_stage = self._kept[run.path], self.of_first_stage(data)
        ours, theirs = (each.per_query[self.measure] for each in (metrics, first_stage))
        if ours.keys() != theirs.keys():
            odd = min(ours.keys() ^ theirs.keys())
            raise RunFolderError(
                f"{run.path}: its metrics and those of its first stage are of different queries, "
                f"e.g. {odd!r} is in one only; run the same 'beir-eval run' again"
            )
        return metrics

    def of_foreign(self, run: ForeignRun, data: DataFolder) -> Metrics:
        """Metrics of a foreign run that is in no folder.

        Raises:
            RunFolderError: the judgements cannot be read.
            MeasureError: the measure is unknown, or has values outside 0 to 1.
        """
        metrics = run.metrics(self._qrels_of(data), (self.measure,))
        return self._with_measure(metrics, Path(run.note.file), data, lambda: run.run)

    def _with_measure(
        self, metrics: Metrics, path: Path, data: DataFolder, run: Callable[[], Run]
    ) -> Metrics:
        measure = self.measure
        if measure not in metrics.means or measure not in metrics.per_query:
            metrics = _added(metrics, measure, run(), self._qrels_of(data))
        values = metrics.per_query[measure].values()
        if not all(0 <= value <= 1 for value in (*values, metrics.means[measure])):
            raise MeasureError(
                f"{path}: measure {measure!r} has values outside 0 to 1; a report takes measures "
                "such as 'nDCG@10', 'R@100' or 'AP'"
            )
        return metrics

    def _with_ties(
        self, metrics: Metrics, data: DataFolder, file: Path, tied: Callable[[], dict[str, Tied]]
    ) -> Metrics:
        """With ties drawn by lot, if `file` is there from which `tied` reads what was ranked."""
        known = metrics.ties.get(self.measure)
        if (known is not None and known.by_lot is not None) or not file.exists():
            return metrics
        found = tie_figures(tied(), self._qrels_of(data), (self.measure,))
        by_lot = {name: dict(values) for name, values in found.by_lot.items()}
        return metrics.model_copy(
            update={
                "ties": {**metrics.ties, **found.bounds},
                "by_lot": {**metrics.by_lot, **by_lot},
            }
        )

    def _qrels_of(self, data: DataFolder) -> Mapping[str, Mapping[str, int]]:
        content = data.manifest.content
        if content not in self._qrels:
            self._qrels[content] = data.qrels()
        return self._qrels[content]


def _tied_by_score(read: Callable[[], Run]) -> Callable[[], dict[str, Tied]]:
    return lambda: {each: Tied.of_scores(with_ties(found)) for each, found in read().items()}


def _tied(run: RunFolder, data: DataFolder) -> dict[str, Tied]:
    texts: Mapping[str, tuple[str, str]] | None = None
    found = {}
    for ranking in run.rankings():
        if texts is None and Rule.of(ranking.config).keeps_order:
            texts = data.passages()
        found[ranking.query.id] = Tied.of_ranking(ranking, texts)
    return found


def _added(
    metrics: Metrics, measure: str, run: Run, qrels: Mapping[str, Mapping[str, int]]
) -> Metrics:
    from beir_eval.measures.metrics import evaluate

    found = evaluate(run, qrels, (measure,))
    return metrics.model_copy(
        update={
            "measures": (*metrics.measures, measure),
            "means": {**metrics.means, **found.means},
            "per_query": {**metrics.per_query, measure: dict(found.per_query[measure])},
        }
    )
