"""Reads each folder's metrics once, and computes a measure that they do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.run_folder import DataFolder, Metrics, RunFolder
from beir_eval.runs import Run

__all__ = ["Shelf"]


class Shelf:
    """Metrics of run folders, all with one measure.

    Args:
        measure: as ir-measures writes it; upper and lower case make no difference where the
            folders have it.
    """

    def __init__(self, measure: str) -> None:
        self.measure = measure
        self._kept: dict[Path, Metrics] = {}
        self._qrels: dict[str, Mapping[str, Mapping[str, int]]] = {}

    def of_first_stage(self, data: DataFolder) -> Metrics:
        """Metrics of the first stage's run.

        Raises:
            RunFolderError, RunError: a file cannot be read.
            MeasureError: the measure is unknown, or has values outside 0 to 1.
        """
        if data.path not in self._kept:
            self._kept[data.path] = self._with_measure(
                data.metrics(), data.path, data, data.first_stage
            )
        return self._kept[data.path]

    def of_run(self, run: RunFolder, data: DataFolder) -> Metrics:
        """Metrics of a finished run, over the same queries as those of its first stage.

        Raises:
            RunFolderError: they are of other queries, or a file cannot be read.
            RunError: the run cannot be read.
            MeasureError: the measure is unknown, or has values outside 0 to 1.
        """
        if run.path not in self._kept:
            self._kept[run.path] = self._with_measure(run.metrics(), run.path, data, run.run)
        metrics, first_stage = self._kept[run.path], self.of_first_stage(data)
        ours, theirs = (each.per_query[self.measure] for each in (metrics, first_stage))
        if ours.keys() != theirs.keys():
            odd = min(ours.keys() ^ theirs.keys())
            raise RunFolderError(
                f"{run.path}: its metrics and those of its first stage are of different queries, "
                f"e.g. {odd!r} is in one only; run the same 'beir-eval run' again"
            )
        return metrics

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

    def _qrels_of(self, data: DataFolder) -> Mapping[str, Mapping[str, int]]:
        content = data.manifest.content
        if content not in self._qrels:
            self._qrels[content] = data.qrels()
        return self._qrels[content]


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
