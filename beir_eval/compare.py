"""Two saved rankings of a query, or two runs of a data set, named by their files and folders."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beir_eval.data.datasets import read_qrels
from beir_eval.errors import MeasureError, RunFolderError
from beir_eval.experiment.labels import models_of
from beir_eval.experiment.run_folder import RunFolder
from beir_eval.measures.metrics import cutoff_of
from beir_eval.measures.values import EQUAL, FEW, Values, compare_runs
from beir_eval.report.load import Loader
from mcranker.paths import is_file
from personas.errors import SchemaError
from personas.format import counted, p_text, signed
from personas.io.lines import STDIN
from personas.io.rankings import SUFFIXES, checked, read_rankings
from personas.io.select import choose, grades_of
from personas.ranking.comparison import ComparedRuns, RankingComparison, setting_changes
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord, read_query
from personas.ranking.types import Passage, Query, judge_note
from personas.ranking.usage import UsageTable
from personas.report.formats import value as shown
from personas.sanitize import plain

_NO_MODEL_OPTIONS = ("model", "base_url", "ledger")
_SHOWN = 0.00005  # difference of two means that four decimals can show


def compare_files(
    before: str, after: str, *, query: str | None = None, qrels: str | None = None
) -> RankingComparison:
    """Compare saved rankings of a query, which `query` names; `qrels` is a file of judgements."""
    if STDIN in (before, after):
        raise SchemaError("standard input cannot be compared; give files")
    was = _chosen(before, query)
    now = _chosen(after, query and (was.query.id or query))
    grades = None
    if qrels is not None:
        grades = grades_of(read_qrels(qrels), now.query.id, qrels, now.ids)
    return RankingComparison.of(was, now, grades=grades)


def _chosen(source: str, query: str | None) -> RankingRecord:
    """The ranking of a file, or of a folder of files, that `query` names."""
    files = [Path(source)]
    if files[0].is_dir():
        found = (each for each in files[0].iterdir() if each.suffix.lower() in SUFFIXES)
        files = sorted(each for each in found if each.name[0] != "." and each.is_file())
    if not files:
        raise SchemaError(
            f"{source}: has no .json or .jsonl file; give a folder with what 'mcranker rank "
            "--save' wrote, or a run folder of 'beir-eval run'"
        )
    rankings = [each for file in files for each in read_rankings(file)]
    seen = set[tuple[str, str]]()
    for where, data in rankings:
        asked = checked(read_query, data, where, SchemaError)
        key = (asked.id, "" if asked.id else asked.text)
        if key in seen:
            raise SchemaError(
                f"{where}: a second ranking of query {(asked.id or asked.text)[:80]!r}; "
                "compare one ranking a query, each side in a file or folder of its own"
            )
        seen.add(key)
    chosen = choose(rankings, query, None)
    if isinstance(chosen, list):
        raise SchemaError(
            f"{source} has {len(chosen):,} rankings; name one with --query ID, or compare runs of "
            "'beir-eval run'"
        )
    return chosen


class _Run:
    """One of two runs."""

    def __init__(self, name: str) -> None:
        if not is_file(Path(name, "manifest.json")):
            kind = "has no manifest.json" if Path(name).exists() else "is not there"
            raise RunFolderError(
                f"{name!r} {kind}; give a folder of 'beir-eval run' as OUT/DATASET/RANKER; "
                "'beir-eval evaluate --compare' measures TREC files, such as the first stage's, "
                "OUT/DATASET/data/first_stage.trec"
            )
        self.name = name
        self.folder = RunFolder.open(name)
        self.folder.metrics()  # its error says that the run is not finished
        self.manifest, self.data = self.folder.manifest, self.folder.data()
        self.label, self.models = self.manifest.label, models_of(self.manifest)
        # Of a foreign run nothing but the order is known.
        self.note = "a foreign run holds no scores by persona" if self.manifest.foreign else ""

    @property
    def settings(self) -> dict[str, str]:
        manifest = self.manifest
        settings: dict[str, Any] = {
            "ranker": manifest.ranker,
            **manifest.config,
            **{
                name: value
                for name, value in manifest.options.items()
                if name not in {*manifest.config, *_NO_MODEL_OPTIONS}
                and not name.endswith("_model")
            },
            **{f"{role} model": name for role, name in manifest.models.items()},
            **{f"prompt {name}": each[:8] for name, each in manifest.prompt_hashes.items()},
            **manifest.versions,
        }
        return {name: "none" if of is None else shown(of) for name, of in settings.items()}

    def warnings(self, values: Values) -> Iterator[str]:
        """Yield notes about the run: its judge, changed files, and the flaws of its values."""
        judged = judge_note(self.manifest.weak_judge, self.manifest.models.get("scoring", ""))
        if judged:
            yield f"{judged[0].lower()}{judged[1:].removesuffix('.')}"
        if changed := self.folder.changed():
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
        found: dict[str, RankingRecord] = {}
        if not self.manifest.foreign:
            found = {ranking.query.id: ranking for ranking in self.folder.rankings(query_ids)}
        lacking = [each for each in query_ids if each not in found]
        if not lacking:
            return found
        run, failed, texts = self.folder.run(), self.folder.metrics().failed, self.data.queries()
        for each in lacking:
            # Nothing but documents and scores is known, or why there are none.
            listed = enumerate(run.get(each, ()))
            found[each] = RankingRecord(
                query=Query(texts[each], each),
                hits=tuple(
                    [Hit.of(Passage(doc, ""), place, score=of) for place, (doc, of) in listed]
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
                failure="" if run.get(each) else failed.get(each, "it is not in the run"),
            )
        return found


def compare_run_folders(
    a: str, b: str, *, measure: str = "nDCG@10", top: int = 5, query: str | None = None
) -> ComparedRuns:
    """Compare two runs, and explain the queries that changed most, or the one that is named."""
    runs = _Run(a), _Run(b)
    common, left_out = _common_queries(*runs)
    loader = Loader(measure)
    every = [loader.of_run(run.folder, run.data).values for run in runs]
    ids = [each for each in common if all(each in of.of for of in every)]
    if not ids:
        raise MeasureError(f"no query has a value of {measure!r} in both runs")
    if query is not None and query not in ids:
        raise RunFolderError(
            f"no query {query[:80]!r} is in both runs with the same judgements and a value of "
            f"{measure!r}; the first is {ids[0]!r}"
        )
    one, two = (of.only(ids) for of in every)
    test = compare_runs({"": {"a": one, "b": two}}, "a")[""]["b"]
    changes = {each: two.of[each] - one.of[each] for each in ids}
    # Rounded, so that equal changes stay equal whatever they are made of.
    ordered = sorted(changes, key=lambda each: -round(abs(changes[each]), 9))
    chosen = [each for each in ordered if abs(changes[each]) > EQUAL][:top]
    notes, facts, entries = list[str](), dict[str, str](), list[dict[str, Any]]()
    same = runs[0].label == runs[1].label
    for letter, run, of in zip(("A, before", "B, after"), runs, (one, two), strict=True):
        warnings = list(run.warnings(of))
        notes += [f"{letter[0]}: {said}." for said in (*warnings, run.note) if said]
        label = plain(f"{run.label} ({run.name})" if same else run.label)
        models = f", {plain(run.models)}" if run.models else ""
        facts[letter] = f"{label}: {measure} {of.mean:.4f}{models}"
        entries.append(
            {name: getattr(run, name) for name in ("name", "label", "models")}
            | {"mean": of.mean, "by_lot": of.by_lot, "note": run.note, "warnings": warnings}
        )
    notes += [f"{each}." for each in test.notes]
    queries = counted(len(ids), "query", "queries")
    if len(ids) < FEW:
        notes.append(f"{queries}, fewer than {FEW}: the test is rough.")
    if left_out:
        notes.append(
            f"{counted(left_out, 'judged query', 'judged queries')} left out, which only one of "
            "the runs has or which were judged otherwise."
        )
    p_value = "not tested: a test takes 6 queries, and differences that vary"
    if test.p_value is not None:
        p_value = f"p = {p_text(test.p_value)}".replace("= <", "<")
    verdict = (
        f"B less A: {signed(test.difference, 4)}; better on {test.wins}, equal on {test.ties}, "
        f"worse on {test.losses}; paired t-test: {p_value}."
    )
    settings, data = [run.settings for run in runs], runs[0].data.manifest
    return ComparedRuns(
        title=f"{data.dataset}: {measure} of {queries}, A to B",
        names=(runs[0].label, runs[1].label),
        notes=notes,
        verdict=[verdict] if any(changes.values()) else [verdict, "No query differs."],
        comparisons=_compared(runs, chosen if query is None else [query], cutoff_of(measure)),
        values={each: (one.of[each], two.of[each]) for each in ids},
        measure=measure,
        facts=facts,
        settings=setting_changes(*settings),
        figures={
            "dataset": data.dataset,
            "first_stage": data.first_stage.name,
            "queries_compared": len(ids),
            "left_out": left_out,
            "runs": entries,
            "test": asdict(test),
        },
    )


def _common_queries(a: _Run, b: _Run) -> tuple[list[str], int]:
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


def _compared(
    runs: tuple[_Run, _Run], ids: list[str], depth: int | None
) -> list[RankingComparison]:
    sides = [run.rankings(ids) for run in runs]
    wanted = {each.id for side in sides for ranking in side.values() for each in ranking.passages}
    # All texts at once: they are read from one large file.
    texts = dict.fromkeys(wanted, ("", ""))
    for run in reversed(runs):
        texts |= run.data.passages(wanted)
    grades = runs[0].data.qrels()
    return [
        RankingComparison.of(
            *(side[each].with_texts(texts) for side in sides),
            grades=grades.get(each, {}),
            depth=depth,
        )
        for each in ids
    ]
