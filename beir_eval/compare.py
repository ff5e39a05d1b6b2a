"""Two runs of a data set: how much they differ, and the queries on which they differ most.

A run is a run folder, the first stage's run beside one, or a TREC file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from beir_eval.data.datasets import judging_model, read_qrels
from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import models_of
from beir_eval.experiment.run_folder import FIRST_STAGE, DataFolder, Metrics, RunFolder, ScoreCounts
from beir_eval.measures.metrics import cutoff_of, evaluate
from beir_eval.measures.values import EQUAL, compare_runs
from mcranker.inputs.trec import Run, read_trec
from mcranker.paths import is_file, is_folder
from personas.format import counted, p_text, signed
from personas.ranking.comparison import ComparedRuns, QueryRow, RankingComparison, setting_changes
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.ranking.types import Passage, Query, judge_note
from personas.ranking.usage import UsageTable
from personas.report.formats import value as shown
from personas.sanitize import plain

FIRST_STAGE_NAME = "first-stage"
"""Means the first stage's run of what the other run has ranked."""
Texts = Mapping[str, tuple[str, str]]
"""Document id -> title and text."""

_NO_MODEL_OPTIONS = ("model", "base_url", "ledger")
_TOLD = 0.00005
"""Difference of two means that four decimals can show."""


@dataclass(frozen=True, slots=True)
class ComparisonData:
    """Judgements that runs are measured by, and what there is to show of queries and passages."""

    dataset: str
    split: str  # which judgements; empty if not known
    qrels: Mapping[str, Mapping[str, int]]  # query id -> document id -> grade
    queries: Mapping[str, str] = field(default_factory=dict)  # texts, if they are at hand
    texts: Callable[[Collection[str]], Texts] = lambda _: {}  # of those documents at hand
    first_stage: Run = field(default_factory=dict)  # empty if there is none
    first_stage_name: str = ""  # e.g. "BM25"
    judge: str = ""  # the model that made the judgements; empty if people did

    @classmethod
    def of_folder(cls, data: DataFolder) -> ComparisonData:
        """Read the data of a run folder."""
        return cls(
            dataset=data.manifest.dataset,
            split=data.manifest.split,
            qrels=data.qrels(),
            queries=data.queries(),
            texts=lambda doc_ids: data.passages(set(doc_ids)),
            first_stage=data.first_stage(),
            first_stage_name=data.manifest.first_stage.name,
            judge=data.manifest.judge,
        )

    @classmethod
    def of_dataset(cls, name: str, *, split: str = "test") -> ComparisonData:
        """Load a data set to measure TREC files by."""
        from beir_eval.data.load import load

        dataset = load(name, split=split)

        def texts(doc_ids: Collection[str]) -> Texts:
            found = {each: dataset.corpus[each] for each in doc_ids if each in dataset.corpus}
            return {doc_id: (each.title, each.text) for doc_id, each in found.items()}

        judge = dataset.by_model
        return cls(dataset.name, dataset.split, dataset.qrels, dataset.queries, texts, judge=judge)

    @classmethod
    def of_qrels(cls, path: str) -> ComparisonData:
        """Read a file of judgements to measure TREC files by."""
        return cls(Path(path).name, "", read_qrels(path), judge=judging_model(path))


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the two runs."""

    name: str  # as it was given
    label: str  # of its row in tables
    data: ComparisonData
    run: Run  # query id -> (document id, score), best first
    note: str = ""  # why there are no scores by persona; empty if there are
    source: RunFolder | DataFolder | None = None  # the data's for the first stage; None for TREC
    metrics: Metrics | None = None  # those of the folder

    @property
    def models(self) -> str:
        """The models' names; empty if not known."""
        return models_of(self.source.manifest) if isinstance(self.source, RunFolder) else ""

    @property
    def settings(self) -> dict[str, str]:
        """Name -> value as text; empty if not known."""
        if not isinstance(self.source, RunFolder):
            return {}
        manifest = self.source.manifest
        settings: dict[str, Any] = {"ranker": manifest.ranker, **manifest.config}
        settings |= {
            name: value
            for name, value in manifest.options.items()
            if name not in {*manifest.config, *_NO_MODEL_OPTIONS} and not name.endswith("_model")
        }
        settings |= {f"{role} model": name for role, name in manifest.models.items()}
        settings |= {f"prompt {name}": each[:8] for name, each in manifest.prompt_hashes.items()}
        settings |= manifest.versions
        return {name: "none" if of is None else shown(of) for name, of in settings.items()}

    def values(self, measure: str) -> Mapping[str, float]:
        """Query id -> value of `measure`, for every judged query."""
        if self.metrics is not None and measure in self.metrics.per_query:
            return self.metrics.per_query[measure]
        return evaluate(self.run, self.data.qrels, (measure,)).per_query[measure]

    def lots(self, measure: str) -> Mapping[str, float]:
        """Query id -> value of `measure` with ties drawn by lot, of queries where it is another."""
        return self.metrics.by_lot.get(measure, {}) if self.metrics else {}

    def warnings(self, measure: str, values: Mapping[str, float]) -> tuple[str, ...]:
        """Notes about the run: its judge, changed files, ties and missing scores."""
        if self.source is None or self.metrics is None:
            return ()
        said = []
        after = ""
        if isinstance(self.source, RunFolder):
            after, model = " after the run", self.source.manifest.models.get("scoring", "")
            judged = judge_note(self.source.manifest.weak_judge, model).removesuffix(".")
            said += [f"{judged[0].lower()}{judged[1:]}"] if judged else []
        if changed := self.source.changed():
            said.append(f"files were changed{after}: {', '.join(changed)}")
        lots = self.lots(measure)
        as_ranked = math.fsum(values.values()) / len(values)
        by_lot = math.fsum(lots.get(each, value) for each, value in values.items()) / len(values)
        if abs(as_ranked - by_lot) >= _TOLD:
            said.append(
                f"with ties drawn by lot, its mean is {by_lot:.4f} and not {as_ranked:.4f}; the "
                "test goes by that, queries are shown as ranked"
            )
        scores = self.metrics.scores
        if scores and scores.missing:
            said.append(
                f"{scores.missing:,} of its {scores.asked:,} {ScoreCounts.unit([scores])[1]} are "
                "missing, and the values imputed for them count"
            )
        return tuple(said)

    def rankings(self, query_ids: Collection[str]) -> dict[str, RankingRecord]:
        """Query id -> the whole ranking, perhaps without texts; an empty one if there is none."""
        found = {}
        if isinstance(self.source, RunFolder) and not self.note:
            found = {ranking.query.id: ranking for ranking in self.source.rankings(query_ids)}
        return {each: found.get(each) or self._order_alone(each) for each in query_ids}

    def _order_alone(self, query_id: str) -> RankingRecord:
        """A ranking of which nothing but documents and scores is known, or why there is none."""
        listed = self.run.get(query_id, ())
        failed = self.metrics.failed if self.metrics else {}
        return RankingRecord(
            query=Query(self.data.queries.get(query_id, ""), query_id),
            hits=tuple(
                [
                    Hit.of(Passage(doc_id, ""), place, score=score)
                    for place, (doc_id, score) in enumerate(listed)
                ]
            ),
            personas=(),
            team=None,
            ranker=self.label,
            config={},
            models={},
            prompt_hashes={},
            calls=UsageTable(),
            seconds={},
            absolute=False,
            failure="" if listed else failed.get(query_id, "it is not in the run"),
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that can be compared."""

    a: ComparedRun
    b: ComparedRun
    common: Sequence[str]  # ids of the judged queries that both have, with the same judgements
    left_out: int  # judged queries that are not among them

    def texts(self, doc_ids: Collection[str]) -> Texts:
        """Document id -> title and text, of those that either run has at hand."""
        found = dict(self.a.data.texts(doc_ids))
        left = {doc_id for doc_id in doc_ids if doc_id not in found}
        if left and self.b.data is not self.a.data:
            found.update(self.b.data.texts(left))
        return found


def open_pair(a: str, b: str, *, data: ComparisonData | None = None) -> Pair:
    """Open the runs named `a` and `b`."""
    folders = [_run_folder(name) for name in (a, b)]
    known = {each.manifest.data: each.data() for each in folders if each}
    # Runs of the same data share them: one and the same object.
    data_of = {content: ComparisonData.of_folder(folder) for content, folder in known.items()}
    if data is not None and data_of:
        raise RunFolderError(
            f"{a if folders[0] else b!r} brings its own judgements; leave out --qrels and --dataset"
        )
    shared = next(iter(data_of.values()), data)
    if shared is None:
        raise RunFolderError(
            f"neither {a!r} nor {b!r} is a run folder, so there are no judgements; give a folder "
            "of 'beir-eval run', or --qrels or --dataset for TREC files"
        )
    found = []
    for name, folder in zip((a, b), folders, strict=True):
        if folder:
            label, of = folder.manifest.label, data_of[folder.manifest.data]
            # Of a foreign run nothing but the order is known.
            note = "a foreign run holds no scores by persona" if folder.manifest.foreign else ""
            run = ComparedRun(name, label, of, folder.run(), note, folder, folder.metrics())
        elif name != FIRST_STAGE_NAME:
            note = "a TREC run holds no scores by persona"
            run = ComparedRun(name, Path(name).stem, shared, read_trec(name), note)
        elif known:
            source = next(iter(known.values()))
            label = f"{FIRST_STAGE} ({shared.first_stage_name})"
            note, metrics = "the first stage has no personas", source.metrics()
            run = ComparedRun(name, label, shared, shared.first_stage, note, source, metrics)
        else:
            raise RunFolderError(
                f"{FIRST_STAGE_NAME!r} is the first stage of the other run's folder; "
                "give a folder of 'beir-eval run' beside it"
            )
        found.append(run)
    first, second = found
    common, left_out = _common_queries(first, second)
    return Pair(first, second, common, left_out)


def _run_folder(name: str) -> RunFolder | None:
    """Open the run folder of that name; None for what is none and need not be one."""
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


def _common_queries(a: ComparedRun, b: ComparedRun) -> tuple[list[str], int]:
    """Return the ids of the queries that can be compared, and how many judged ones cannot."""
    named = [f"{run.data.dataset} ({run.data.split})" for run in (a, b)]
    if named[0] != named[1]:
        raise RunFolderError(
            f"{a.name!r} ranks {named[0]} and {b.name!r} {named[1]}; compare runs of one data set"
        )
    ours, theirs = a.data.qrels, b.data.qrels
    common = [each for each, grades in ours.items() if grades and theirs.get(each) == grades]
    if not common:
        raise RunFolderError(
            f"{a.name!r} and {b.name!r} have no query of {named[0]} with the same judgements in "
            "common, so there is nothing to compare; run both with the same queries"
        )
    return common, len({*ours, *theirs}) - len(common)


def compare_pair(
    pair: Pair,
    *,
    measure: str = "nDCG@10",
    top: int = 5,
    direction: Literal["both", "gains", "losses"] = "both",
    query: str | None = None,
) -> ComparedRuns:
    """Compare two runs, and explain the queries that changed most."""
    if query is not None and query not in pair.common:
        raise RunFolderError(
            f"no query {query[:80]!r} is in both runs with the same judgements; "
            f"the first is {pair.common[0]!r}"
        )
    sides, data = (pair.a, pair.b), pair.a.data
    values = [run.values(measure) for run in sides]
    ids = [each for each in pair.common if all(each in of_run for of_run in values)]
    if not ids:
        raise MeasureError(f"no query has a value of {measure!r} in both runs")
    values = [{each: of_run[each] for each in ids} for of_run in values]
    means = [math.fsum(of_run.values()) / len(ids) for of_run in values]
    tested = {
        name: {each: run.lots(measure).get(each, value) for each, value in of_run.items()}
        for name, run, of_run in zip("ab", sides, values, strict=True)
    }
    test = compare_runs({"": tested}, "a")[""]["b"]
    changes = {each: values[1][each] - values[0][each] for each in ids}
    wanted = [
        each
        for each, change in changes.items()
        if abs(change) > EQUAL and (direction == "both" or (change > 0) == (direction == "gains"))
    ]
    # Rounded, so that equal changes stay equal whatever they are made of.
    wanted.sort(key=lambda each: -round(abs(changes[each]), 9))
    chosen = wanted[:top] if query is None else [query]
    comparisons = _compared(pair, chosen, cutoff_of(measure))
    warnings = [run.warnings(measure, of_run) for run, of_run in zip(sides, values, strict=True)]
    notes = [
        f"{letter}: {said}."
        for letter, run, warned in zip("AB", sides, warnings, strict=True)
        for said in (*warned, *filter(None, [run.note]))
    ]
    if judge := pair.a.data.judge:
        own = [
            letter
            for letter, run in zip("AB", sides, strict=True)
            if isinstance(run.source, RunFolder) and judge in run.source.manifest.models.values()
        ]
        also = f", which also ranked {' and '.join(own)}" if own else ""
        notes.insert(0, f"The judgements are by a model, {plain(judge)}{also}, not by people.")
    if pair.left_out:
        left_out = counted(pair.left_out, "judged query", "judged queries")
        notes.append(
            f"{left_out} left out, which only one of the runs has or which were judged otherwise."
        )
    p_value = "not tested: a test takes 6 queries, and differences that vary"
    if test.p_value is not None:
        p_value = p_text(test.p_value)
        p_value = f"p {p_value}" if p_value[0] == "<" else f"p = {p_value}"
    same = pair.a.label == pair.b.label
    facts = []
    for side, run, mean in zip(("A, before", "B, after"), sides, means, strict=True):
        label = f"{run.label} ({run.name})" if same else run.label
        models = f", {plain(run.models)}" if run.models else ""
        facts.append((side, f"{plain(label)}: {measure} {mean:.4f}{models}"))
    settings = (pair.a.settings, pair.b.settings)
    return ComparedRuns(
        title=f"{data.dataset}: {measure} of {counted(len(ids), 'query', 'queries')}, A to B",
        notes=notes,
        verdict=[
            f"B less A: {signed(test.difference, 4)}; better on {test.wins}, equal on {test.ties}, "
            f"worse on {test.losses}; paired t-test: {p_value}.",
            *([] if any(changes.values()) else ["No query differs."]),
        ],
        rows=[
            QueryRow.of(each, *(of_run[each.after.query.id] for of_run in values))
            for each in comparisons
        ],
        comparisons=comparisons,
        measure=measure,
        facts=facts,
        settings=setting_changes(*settings) if all(settings) else (),
        figures={
            "dataset": data.dataset,
            "first_stage": data.first_stage_name,
            "queries_compared": len(ids),
            "left_out": pair.left_out,
            "runs": [
                {name: getattr(run, name) for name in ("name", "label", "models")}
                | {"mean": mean, "note": run.note, "warnings": list(warned)}
                for run, mean, warned in zip(sides, means, warnings, strict=True)
            ],
            "test": asdict(test),
        },
    )


def _compared(pair: Pair, ids: list[str], cutoff: int | None) -> list[RankingComparison]:
    sides = [run.rankings(ids) for run in (pair.a, pair.b)]
    wanted = {each.id for side in sides for ranking in side.values() for each in ranking.passages}
    # All texts at once: they are read from one large file.
    texts = {**dict.fromkeys(wanted, ("", "")), **pair.texts(wanted)}
    first_stage = pair.a.data.first_stage
    return [
        RankingComparison.of(
            *(side[each].with_texts(texts) for side in sides),
            grades=pair.a.data.qrels.get(each, {}),
            depth=cutoff,
            first_stage={
                doc_id: rank for rank, (doc_id, _) in enumerate(first_stage.get(each, ()), 1)
            },
        )
        for each in ids
    ]
