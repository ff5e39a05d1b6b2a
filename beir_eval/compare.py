"""Two runs of a data set: how much they differ, and the queries on which they differ most.

A run is a run folder, or the first stage's run beside one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import models_of
from beir_eval.experiment.run_folder import FIRST_STAGE, DataFolder, RunFolder
from beir_eval.measures.metrics import cutoff_of
from beir_eval.measures.values import EQUAL, FEW, Values, compare_runs
from beir_eval.report.load import Loader
from mcranker.paths import is_file
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

_NO_MODEL_OPTIONS = ("model", "base_url", "ledger")
_SHOWN = 0.00005
"""Difference of two means that four decimals can show."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the two runs."""

    name: str  # as it was given
    label: str  # of its row in tables
    data: DataFolder
    source: RunFolder | DataFolder  # the data's for the first stage
    note: str = ""  # why there are no scores by persona; empty if there are

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

    def values(self, loader: Loader) -> Values:
        """The values of every judged query, with their flaws."""
        if isinstance(self.source, RunFolder):
            return loader.of_run(self.source, self.data).values
        return loader.of_first_stage(self.source).values

    def warnings(self, values: Values) -> Iterator[str]:
        """Yield notes about the run: its judge, changed files, and the flaws of its values."""
        if isinstance(self.source, RunFolder):
            model = self.source.manifest.models.get("scoring", "")
            if judged := judge_note(self.source.manifest.weak_judge, model).removesuffix("."):
                yield f"{judged[0].lower()}{judged[1:]}"
        if changed := self.source.changed():
            yield f"files were changed after the run: {', '.join(changed)}"
        as_ranked, by_lot = values.mean or 0.0, values.by_lot or 0.0
        if abs(as_ranked - by_lot) >= _SHOWN:
            yield (
                f"with ties drawn by lot, its mean is {by_lot:.4f} and not {as_ranked:.4f}; the "
                "test goes by that, queries are shown as ranked"
            )
        yield from (flaw.said for flaw in values.flaws() if flaw.kind != "few")

    def rankings(self, query_ids: Collection[str]) -> dict[str, RankingRecord]:
        """Query id -> the whole ranking, perhaps without texts; an empty one if there is none."""
        found, texts = dict[str, RankingRecord](), self.data.queries()
        if isinstance(self.source, RunFolder) and not self.note:
            found = {ranking.query.id: ranking for ranking in self.source.rankings(query_ids)}
        if lacking := [each for each in query_ids if each not in found]:
            source, failed = self.source, self.source.metrics().failed
            run = source.run() if isinstance(source, RunFolder) else source.first_stage()
            for each in lacking:
                query = Query(texts[each], each)
                found[each] = self._order_alone(query, run.get(each, ()), failed)
        return found

    def _order_alone(
        self, query: Query, listed: Sequence[tuple[str, float]], failed: Mapping[str, str]
    ) -> RankingRecord:
        """A ranking of which nothing but documents and scores is known, or why there is none."""
        return RankingRecord(
            query=query,
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
            failure="" if listed else failed.get(query.id, "it is not in the run"),
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that can be compared."""

    a: ComparedRun
    b: ComparedRun
    common: Sequence[str]  # ids of the judged queries that both have, with the same judgements
    left_out: int  # judged queries that are not among them


def open_pair(a: str, b: str) -> Pair:
    """Open the runs named `a` and `b`."""
    folders = [_run_folder(name) for name in (a, b)]
    data = next((each.data() for each in folders if each), None)

    def opened(name: str, folder: RunFolder | None) -> ComparedRun:
        if folder:
            folder.metrics()  # its error says that the run is not finished
            # Of a foreign run nothing but the order is known.
            note = "a foreign run holds no scores by persona" if folder.manifest.foreign else ""
            return ComparedRun(name, folder.manifest.label, folder.data(), folder, note)
        if data is None:
            raise RunFolderError(
                f"{FIRST_STAGE_NAME!r} is the first stage of the other run's folder; "
                "give a folder of 'beir-eval run' beside it"
            )
        label = f"{FIRST_STAGE} ({data.manifest.first_stage.name})"
        return ComparedRun(name, label, data, data, "the first stage has no personas")

    one, two = opened(a, folders[0]), opened(b, folders[1])
    return Pair(one, two, *_common_queries(one, two))


def _run_folder(name: str) -> RunFolder | None:
    """Open the run folder of that name; None for the first stage."""
    if name == FIRST_STAGE_NAME:
        return None
    if not is_file(Path(name, "manifest.json")):
        kind = "has no manifest.json" if Path(name).exists() else "is not there"
        raise RunFolderError(
            f"{name!r} {kind}; give a folder of 'beir-eval run' as OUT/DATASET/RANKER, or "
            f"{FIRST_STAGE_NAME!r}; 'beir-eval evaluate --compare' measures TREC files"
        )
    return RunFolder.open(name)


def _common_queries(a: ComparedRun, b: ComparedRun) -> tuple[list[str], int]:
    """Return the ids of the queries that can be compared, and how many judged ones cannot."""
    named = [f"{run.data.manifest.dataset} ({run.data.manifest.split})" for run in (a, b)]
    if named[0] != named[1]:
        raise RunFolderError(
            f"{a.name!r} ranks {named[0]} and {b.name!r} {named[1]}; compare runs of one data set"
        )
    ours, theirs = a.data.qrels(), b.data.qrels()
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
    query: str | None = None,
) -> ComparedRuns:
    """Compare two runs, and explain the queries that changed most."""
    if query is not None and query not in pair.common:
        raise RunFolderError(
            f"no query {query[:80]!r} is in both runs with the same judgements; "
            f"the first is {pair.common[0]!r}"
        )
    sides, data, loader = (pair.a, pair.b), pair.a.data.manifest, Loader(measure)
    every = [run.values(loader) for run in sides]
    ids = [each for each in pair.common if all(each in of.of for of in every)]
    if not ids:
        raise MeasureError(f"no query has a value of {measure!r} in both runs")
    values = [of.only(ids) for of in every]
    test = compare_runs({"": dict(zip("ab", values, strict=True))}, "a")[""]["b"]
    changes = {each: values[1].of[each] - values[0].of[each] for each in ids}
    wanted = [each for each, change in changes.items() if abs(change) > EQUAL]
    # Rounded, so that equal changes stay equal whatever they are made of.
    wanted.sort(key=lambda each: -round(abs(changes[each]), 9))
    chosen = wanted[:top] if query is None else [query]
    comparisons = _compared(pair, chosen, cutoff_of(measure))
    warnings = [[*run.warnings(of)] for run, of in zip(sides, values, strict=True)]
    notes = [
        f"{letter}: {said}."
        for letter, run, warned in zip("AB", sides, warnings, strict=True)
        for said in (*warned, *filter(None, [run.note]))
    ]
    notes += [f"{each}." for each in test.notes]
    if len(ids) < FEW:
        noun = counted(len(ids), "query", "queries")
        notes.append(f"{noun}, fewer than {FEW}: the test is rough.")
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
    for side, run, of in zip(("A, before", "B, after"), sides, values, strict=True):
        label = f"{run.label} ({run.name})" if same else run.label
        models = f", {plain(run.models)}" if run.models else ""
        facts.append((side, f"{plain(label)}: {measure} {of.mean:.4f}{models}"))
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
            QueryRow.of(each, *(of.of[each.after.query.id] for of in values))
            for each in comparisons
        ],
        comparisons=comparisons,
        measure=measure,
        facts=facts,
        settings=setting_changes(*settings) if all(settings) else (),
        figures={
            "dataset": data.dataset,
            "first_stage": data.first_stage.name,
            "queries_compared": len(ids),
            "left_out": pair.left_out,
            "runs": [
                {name: getattr(run, name) for name in ("name", "label", "models")}
                | {"mean": of.mean, "by_lot": of.by_lot, "note": run.note, "warnings": warned}
                for run, of, warned in zip(sides, values, warnings, strict=True)
            ],
            "test": asdict(test),
        },
    )


def _compared(pair: Pair, ids: list[str], cutoff: int | None) -> list[RankingComparison]:
    sides = [run.rankings(ids) for run in (pair.a, pair.b)]
    wanted = {each.id for side in sides for ranking in side.values() for each in ranking.passages}
    # All texts at once: they are read from one large file.
    texts = {**dict.fromkeys(wanted, ("", "")), **pair.b.data.passages(wanted)}
    texts |= pair.a.data.passages(wanted)
    grades, first_stage = pair.a.data.qrels(), pair.a.data.first_stage()
    return [
        RankingComparison.of(
            *(side[each].with_texts(texts) for side in sides),
            grades=grades.get(each, {}),
            depth=cutoff,
            first_stage={
                doc_id: rank for rank, (doc_id, _) in enumerate(first_stage.get(each, ()), 1)
            },
        )
        for each in ids
    ]
