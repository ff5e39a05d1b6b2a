"""Runs as `Values`: of run folders and of TREC runs, with what is missing, tied or failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import other_server
from beir_eval.experiment.run_folder import RANKINGS, DataFolder, Metrics, RunFolder, ScoreCounts
from beir_eval.measures.metrics import ceiling, evaluate, judged_share
from beir_eval.measures.ties import Tied, missing_bounds, tie_figures
from beir_eval.measures.values import Values
from beir_eval.report.model import TableCell
from mcranker.inputs.trec import with_ties
from personas.ensembles import Rule

Qrels = Mapping[str, Mapping[str, int]]


class Loader:
    """Reads run folders, each once, all with one measure."""

    def __init__(self, measure: str) -> None:
        self.measure = measure
        self._kept: dict[Path, TableCell] = {}
        self._qrels: dict[str, Qrels] = {}

    def of_first_stage(self, data: DataFolder) -> TableCell:
        """The first stage's run."""
        return self._measured(data, data)

    def of_run(self, run: RunFolder, data: DataFolder) -> TableCell:
        """A finished run, over the same queries as its first stage."""
        found = self._measured(run, data)
        ours, theirs = (x.values.of.keys() for x in (found, self._measured(data, data)))
        if ours != theirs:
            raise RunFolderError(
                f"{run.path}: its metrics and those of its first stage are of different queries, "
                f"e.g. {min(ours ^ theirs)!r} is in one only; run the same 'beir-eval run' again"
            )
        return found

    def _measured(self, folder: RunFolder | DataFolder, data: DataFolder) -> TableCell:
        if folder.path in self._kept:
            return self._kept[folder.path]
        ranked = folder if isinstance(folder, RunFolder) else None
        foreign = ranked is not None and ranked.manifest.foreign is not None
        file = folder.path / ("run.trec" if ranked else "first_stage.trec")
        read = ranked.run if ranked else data.first_stage
        run = read() if file.exists() else None
        metrics, name, content = folder.metrics(), self.measure, data.manifest.content
        if content not in self._qrels:  # folders of the same content share them
            self._qrels[content] = data.qrels()
        qrels = self._qrels[content]
        judged = judged_share(name)
        if absent := [
            each for each in (name, *[judged] * (run is not None)) if each not in metrics.per_query
        ]:
            found = evaluate(read() if run is None else run, qrels, absent)
            per_query = metrics.per_query | {k: dict(v) for k, v in found.per_query.items()}
            means = {**metrics.means, **found.means}
            metrics = metrics.model_copy(update={"means": means, "per_query": per_query})
        if not all(0 <= x <= 1 for x in (*metrics.per_query[name].values(), metrics.means[name])):
            raise MeasureError(
                f"{folder.path}: measure {name!r} has values outside 0 to 1; a report "
                "takes measures such as 'nDCG@10', 'R@100' or 'AP'"
            )
        tied = None
        if name not in metrics.ties and ranked and not foreign:
            if (ranked.path / RANKINGS).exists():
                tied = ties_of_rankings(ranked, data)
        elif name not in metrics.ties and run is not None:
            tied = {each: Tied.of_scores(with_ties(found)) for each, found in run.items()}
        if tied is not None:
            figures = tie_figures(tied, qrels, [name])
            drawn = {
                "ties": metrics.ties | figures.bounds,
                "by_lot": metrics.by_lot | figures.by_lot,
            }
            metrics = metrics.model_copy(update=drawn)
        if ranked and metrics.taken and other_server(ranked.manifest):
            taken = metrics.taken.model_copy(update={"cost": None})
            metrics = metrics.model_copy(update={"taken": taken})
        ceilings: Mapping[str, float] = {}
        if ranked and not foreign:
            ceilings = self._measured(data, data).ceilings
        elif run is not None:
            ceilings = ceiling(run, qrels, name)
        values = Values(
            metrics.per_query[name],
            name,
            total=metrics.means[name],
            lots=metrics.by_lot.get(name, {}),
            lots_known=name in metrics.ties,
            depth=data.manifest.depth,
            judge=data.manifest.judge,
            scale=(0.0, 1.0),
        )
        self._kept[folder.path] = TableCell(
            flawed(values, metrics, ranked, qrels, ceilings),
            metrics,
            ranked.manifest if ranked else None,
            ceilings,
            metrics.means.get(judged),
        )
        return self._kept[folder.path]


def flawed(
    values: Values,
    metrics: Metrics,
    run: RunFolder | None,
    qrels: Qrels,
    ceilings: Mapping[str, float],
) -> Values:
    """The values with what a folder says of failed queries, and of what is missing."""
    scores = metrics.scores or ScoreCounts()
    # The best that a query without a result could have had.
    limits = {each: (0.0, ceilings.get(each, 1.0)) for each in values.of}
    ends = {each: limits[each] for each in metrics.failed if each in limits}
    if run and scores.missing and (run.path / RANKINGS).exists():
        ends |= missing_bounds(run.rankings(), qrels, values.measure)
    elif scores.missing:  # of which queries, is not known
        ends = limits
    models = run.manifest.models.values() if run else ()
    return replace(
        values,
        open=ends,
        failed=metrics.failed,
        empty=len({*metrics.missing_queries} - metrics.failed.keys()),
        missing=scores.missing,
        asked=scores.asked,
        unit=ScoreCounts.unit([scores])[1],
        cut=metrics.cut,
        own=bool(values.judge) and values.judge in models,
    )


def ties_of_rankings(run: RunFolder, data: DataFolder) -> dict[str, Tied]:
    """The rankings of a run, with their ties."""
    texts: Mapping[str, tuple[str, str]] | None = None
    found = {}
    for ranking in run.rankings():
        if texts is None and Rule.of(ranking.config).keeps_order:
            texts = data.passages()
        found[ranking.query.id] = Tied.of_ranking(ranking, texts)
    return found
