"""The two runs of a comparison: run folders, the first stage's run beside them, or TREC files."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from beir_eval.compare.basis import Basis, Texts, basis_of_folder
from beir_eval.errors import RunFolderError
from beir_eval.experiment.labels import models_of
from beir_eval.experiment.run_folder import (
    FIRST_STAGE,
    DataFolder,
    Metrics,
    RunFolder,
    ScoreCounts,
)
from mcranker.paths import is_file, is_folder
from mcranker.trec import Run, read_trec
from personas.ranking.record import RankingRecord
from personas.ranking.types import Passage, Query, ScoreMatrix
from personas.ranking.usage import UsageTable
from personas.weak_judges import judge_note

FIRST_STAGE_NAME = "first-stage"
"""Means the first stage's run of the data that the other run has ranked."""

_NO_MODEL_OPTIONS = ("model", "base_url", "ledger")
_TOLD = 0.00005
"""Difference of two means that four decimals can show."""


class ComparedRun(ABC):
    """One of the two runs.

    Attributes:
        name: as it was given.
        label: of its row in tables.
        models: the models' names; empty if not known.
        settings: name -> value as text; empty if not known.
        failed: query id -> why it was not ranked.
        note: why there are no scores by persona; empty if there are.
    """

    note: ClassVar[str] = ""

    def __init__(self, name: str, label: str, basis: Basis) -> None:
        self.name = name
        self.label = label
        self.basis = basis
        self.models = ""
        self.settings: Mapping[str, str] = {}
        self.failed: Mapping[str, str] = {}

    @abstractmethod
    def run(self) -> Run:
        """The run: query id -> (document id, score), best first."""

    def values(self, measure: str) -> Mapping[str, float]:
        """Query id -> value of `measure`, for every judged query.

        Raises:
            MeasureError: the measure is unknown or cannot be computed.
            RunError, RunFolderError: the run cannot be used.
            ExtraMissing: ir-measures is not installed.
        """
        kept = self._kept_values()
        if measure in kept:
            return kept[measure]
        from beir_eval.measures.metrics import evaluate

        return evaluate(self.run(), self.basis.qrels, (measure,)).per_query[measure]

    def lots(self, measure: str) -> Mapping[str, float]:
        """Query id -> value of `measure` with ties drawn by lot, of queries where it is another."""
        return {}

    def warnings(self, measure: str, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return notes on the run: its judge, changed files, ties and missing scores."""
        return ()

    def rankings(self, query_ids: Collection[str]) -> dict[str, RankingRecord]:
        """Query id -> the whole ranking, perhaps without texts; an empty one if there is none.

        Raises:
            RunError, RunFolderError: the run cannot be used.
        """
        return self._filled({}, query_ids)

    def _filled(
        self, found: dict[str, RankingRecord], query_ids: Collection[str]
    ) -> dict[str, RankingRecord]:
        """The rankings found, and for other queries what the run and its failures say."""
        run, texts = self.run(), self.basis.queries
        for query_id in query_ids:
            if query_id not in found:
                why = self.failed.get(query_id, "it is not in the run")
                query = Query(texts.get(query_id, ""), query_id)
                found[query_id] = _bare(query, run.get(query_id, ()), self.label, why)
        return found

    def _kept_values(self) -> Mapping[str, Mapping[str, float]]:
        return {}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that can be compared.

    Attributes:
        a: the first.
        b: the second.
        common: ids of the judged queries that both have, with the same judgements.
        left_out: how many judged queries are not among them.
    """

    a: ComparedRun
    b: ComparedRun
    common: Sequence[str]
    left_out: int

    @property
    def basis(self) -> Basis:
        """Return the measures of both, and the first stage, as in the first run."""
        return self.a.basis

    def texts(self, doc_ids: Collection[str]) -> Texts:
        """Document id -> title and text, of those that either run has at hand."""
        found = dict(self.a.basis.texts(doc_ids))
        left = {doc_id for doc_id in doc_ids if doc_id not in found}
        if left and self.b.basis is not self.a.basis:
            found.update(self.b.basis.texts(left))
        return found


def open_pair(a: str, b: str, *, basis: Basis | None = None) -> Pair:
    """The runs named `a` and `b`.

    Args:
        a: a run folder, a TREC file, or `FIRST_STAGE_NAME`.
        b: the same.
        basis: what TREC files are measured by, where neither run is a run folder.

    Raises:
        RunFolderError: there is no such folder or file; a folder is not finished; the runs are
            of different data sets, or no query is in both; there is nothing to measure by, or
            it is given twice.
        RunError: a TREC file cannot be read.
    """
    folders = [_run_folder(name) for name in (a, b)]
    bases = _bases(folders)
    if basis is not None and any(bases):
        raise RunFolderError(
            f"{a if bases[0] else b!r} brings its own judgements; leave out --qrels and --dataset"
        )
    shared = bases[0] or bases[1] or basis
    if shared is None:
        raise RunFolderError(
            f"neither {a!r} nor {b!r} is a run folder, so there are no judgements; give a folder "
            "of 'beir-eval run', or --qrels or --dataset for TREC files"
        )
    data = next((folder.data() for folder in folders if folder), None)
    runs = [
        (_ForeignRun if folder.manifest.foreign else _FolderRun)(name, folder, own or shared)
        if folder
        else _FirstStageRun(name, data, shared)
        if name == FIRST_STAGE_NAME
        else _TrecRun(name, shared)
        for name, folder, own in zip((a, b), folders, bases, strict=True)
    ]
    common, left_out = _common_queries(*runs)
    return Pair(runs[0], runs[1], common, left_out)


class _FolderRun(ComparedRun):
    def __init__(self, name: str, folder: RunFolder, basis: Basis) -> None:
        super().__init__(name, folder.manifest.label, basis)
        self._folder = folder
        self.models = models_of(folder.manifest)
        self.settings = _settings(folder)
        self.failed = self._metrics.failed

    @cached_property
    def _metrics(self) -> Metrics:
        return self._folder.metrics()

    def run(self) -> Run:
        return self._folder.run()

    def lots(self, measure: str) -> Mapping[str, float]:
        return self._metrics.by_lot.get(measure, {})

    def warnings(self, measure: str, values: Mapping[str, float]) -> tuple[str, ...]:
        changed, model = self._folder.changed(), self._folder.manifest.models.get("scoring", "")
        judged = judge_note(self._folder.weak_judge, model).removesuffix(".")
        return (
            *([f"{judged[0].lower()}{judged[1:]}"] if judged else []),
            *([f"files were changed after the run: {', '.join(changed)}"] if changed else []),
            *_warnings(self._metrics, measure, values),
        )

    def rankings(self, query_ids: Collection[str]) -> dict[str, RankingRecord]:
        found = {ranking.query.id: ranking for ranking in self._folder.rankings(query_ids)}
        return self._filled(found, query_ids)

    def _kept_values(self) -> Mapping[str, Mapping[str, float]]:
        return self._metrics.per_query


class _ForeignRun(_FolderRun):
    note = "a foreign run holds no scores by persona"

    def rankings(self, query_ids: Collection[str]) -> dict[str, RankingRecord]:
        return self._filled({}, query_ids)  # nothing but the order is known


class _FirstStageRun(ComparedRun):
    note = "the first stage has no personas"

    def __init__(self, name: str, data: DataFolder | None, basis: Basis) -> None:
        if data is None:
            raise RunFolderError(
                f"{FIRST_STAGE_NAME!r} is the first stage of the other run's folder; "
                "give a folder of 'beir-eval run' beside it"
            )
        super().__init__(name, f"{FIRST_STAGE} ({basis.first_stage_name})", basis)
        self._data = data

    def run(self) -> Run:
        return self.basis.first_stage

    def lots(self, measure: str) -> Mapping[str, float]:
        return self._data.metrics().by_lot.get(measure, {})

    def warnings(self, measure: str, values: Mapping[str, float]) -> tuple[str, ...]:
        changed = self._data.changed()
        return (
            *([f"files were changed: {', '.join(changed)}"] if changed else []),
            *_warnings(self._data.metrics(), measure, values),
        )

    def _kept_values(self) -> Mapping[str, Mapping[str, float]]:
        return self._data.metrics().per_query


class _TrecRun(ComparedRun):
    note = "a TREC run holds no scores by persona"

    def __init__(self, name: str, basis: Basis) -> None:
        super().__init__(name, Path(name).stem, basis)
        self._run = read_trec(name)

    def run(self) -> Run:
        return self._run


def _warnings(metrics: Metrics, measure: str, values: Mapping[str, float]) -> tuple[str, ...]:
    said = []
    lots = metrics.by_lot.get(measure, {})
    as_ranked = math.fsum(values.values()) / len(values)
    by_lot = math.fsum(lots.get(each, value) for each, value in values.items()) / len(values)
    if abs(as_ranked - by_lot) >= _TOLD:
        said.append(
            f"with ties drawn by lot, its mean is {by_lot:.4f} and not {as_ranked:.4f}; the test "
            "goes by that, queries are shown as ranked"
        )
    if metrics.scores and metrics.scores.missing:
        scores = metrics.scores
        said.append(
            f"{scores.missing:,} of its {scores.asked:,} {ScoreCounts.unit([scores])[1]} are "
            "missing, and their substitutes count"
        )
    return tuple(said)


def _run_folder(name: str) -> RunFolder | None:
    """The run folder of that name; None for what is none and need not be one.

    Raises:
        RunFolderError: it is a folder without a run, or nothing at all.
    """
    path = Path(name)
    if name == FIRST_STAGE_NAME or is_file(path):
        return None
    if not is_file(path / "manifest.json"):
        kind = "has no manifest.json" if is_folder(path) else "is not there"
        raise RunFolderError(
            f"{name!r} {kind}; give a folder of 'beir-eval run' as OUT/DATASET/RANKER, a TREC "
            f"file, or {FIRST_STAGE_NAME!r}"
        )
    return RunFolder.open(path)


def _bases(folders: Sequence[RunFolder | None]) -> list[Basis | None]:
    """Return each folder's ranked data; one and the same object where it is the same."""
    known: dict[str, Basis] = {}
    bases: list[Basis | None] = []
    for folder in folders:
        if folder is None:
            bases.append(None)
            continue
        if folder.manifest.data not in known:
            known[folder.manifest.data] = basis_of_folder(folder.data())
        bases.append(known[folder.manifest.data])
    return bases


def _common_queries(a: ComparedRun, b: ComparedRun) -> tuple[list[str], int]:
    """Ids of the queries that can be compared, and how many judged ones cannot.

    Raises:
        RunFolderError: the runs are of different data sets, or have no query in common.
    """
    named = [f"{run.basis.dataset} ({run.basis.split})" for run in (a, b)]
    if named[0] != named[1]:
        raise RunFolderError(
            f"{a.name!r} ranks {named[0]} and {b.name!r} {named[1]}; compare runs of one data set"
        )
    judged_a, judged_b = a.basis.qrels, b.basis.qrels
    common = [
        query_id
        for query_id, grades in judged_a.items()
        if grades and judged_b.get(query_id) == grades
    ]
    if not common:
        raise RunFolderError(
            f"{a.name!r} and {b.name!r} have no query of {named[0]} with the same judgements in "
            "common, so there is nothing to compare; run both with the same queries"
        )
    return common, len({*judged_a, *judged_b}) - len(common)


def _settings(folder: RunFolder) -> dict[str, str]:
    manifest = folder.manifest
    others = {
        name: value
        for name, value in manifest.options.items()
        if name not in manifest.config
        and name not in _NO_MODEL_OPTIONS
        and not name.endswith("_model")
    }
    settings = {"ranker": manifest.ranker, **manifest.config, **others}
    settings |= {f"{role} model": name for role, name in manifest.models.items()}
    settings |= {f"prompt {name}": each[:8] for name, each in manifest.prompt_hashes.items()}
    settings |= dict(manifest.versions)
    return {name: _said(value) for name, value in settings.items()}


def _said(setting: Any) -> str:
    from personas.report.formats import value

    return "none" if setting is None else value(setting)


def _bare(
    query: Query, run: Sequence[tuple[str, float]], label: str, failure: str
) -> RankingRecord:
    """A ranking of which nothing but documents and scores is known, or why there is none."""
    import numpy as np

    return RankingRecord(
        query=query,
        passages=tuple([Passage(doc_id, "") for doc_id, _ in run]),
        order=np.arange(len(run)),
        final=np.array([score for _, score in run], dtype=np.float64),
        matrix=ScoreMatrix.empty(len(run), 0),
        personas=(),
        team=None,
        ranker=label,
        config={},
        models={},
        prompt_hashes={},
        calls=UsageTable(),
        seconds={},
        failure="" if run else failure,
        has_texts=False,
    )
