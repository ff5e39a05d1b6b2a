"""The runs of a report, the run each of them is compared with, and how far they differ."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beir_eval.errors import RunFolderError
from beir_eval.experiment.labels import models_of, row_labels
from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    RANKINGS,
    DataFolder,
    RunFolder,
    find_runs,
    index_rankings,
    judged_by_team,
    ranking_at,
)
from beir_eval.measures.values import Values, compare_runs
from beir_eval.report.load import Loader
from mcranker.paths import is_folder
from personas.ensembles import highest_score
from personas.io.lines import place_of
from personas.ranking.record import OtherRanking, RankingRecord
from personas.survey import DEPTH, Difference

MEASURE = f"nDCG@{DEPTH}"

NO_OTHER = "none"
"""Compare with no other run."""


@dataclass(frozen=True, slots=True)
class Source:
    """One run to report on."""

    run: RunFolder  # its folder
    data: DataFolder  # the folder of what it ranked
    title: str  # its label, with more words where another run of the report has the same
    other: RunFolder | None  # the finished run it is compared with; None if there is none
    team: bool  # a team has judged

    def others(self) -> Mapping[str, int]:
        """Query id -> offset of its ranking in the run compared with."""
        if self.other is None:
            return {}
        return index_rankings(self.other.path / RANKINGS, finished=True).offsets

    def read(
        self,
        queries: Mapping[str, int],
        others: Mapping[str, int],
        grades: Mapping[str, Mapping[str, int]],
    ) -> Iterator[RankingRecord]:
        """Yield the rankings at these offsets, with texts and the other run's ranks beside them."""
        path = self.run.path / RANKINGS
        rankings = _at(path, queries)
        beside: dict[str, OtherRanking] = {}
        if self.other is not None:
            label, top = self.other.manifest.label, highest_score(self.other.manifest.config)
            shared = {each: others[each] for each in queries if each in others}
            theirs = _at(self.other.path / RANKINGS, shared)
            beside = {
                each: OtherRanking.of(label, top, theirs[each].hits if each in theirs else ())
                for each in queries
            }
        texts = self.data.passages({hit.doc_id for of in rankings.values() for hit in of.hits})
        for query_id, ranking in rankings.items():
            if lost := sorted({hit.doc_id for hit in ranking.hits} - texts.keys()):
                raise RunFolderError(
                    f"{self.data.path / 'passages.jsonl'}: has no text of passage {lost[0]!r}, "
                    f"which {place_of(path, queries[query_id])} ranks; bring back the whole folder"
                )
            other = beside.get(query_id)
            yield ranking.with_texts(texts).beside(grades=grades.get(query_id), other=other)


def _at(path: Path, offsets: Mapping[str, int]) -> dict[str, RankingRecord]:
    """The rankings of a file, by query."""
    with path.open("rb") as lines:
        return {each: ranking_at(path, lines, offset) for each, offset in offsets.items()}


def find_sources(
    paths: Iterable[str | os.PathLike[str]], against: str | None = None
) -> tuple[list[Source], list[str]]:
    """Find the runs in or below `paths` that have rankings, those of teams first."""
    given = find_runs(paths)
    ranked = [run for run in given if _has_rankings(run)]
    if not ranked:
        raise RunFolderError(
            f"{given[0].path}: "
            + (
                "a foreign run, of which nothing but the order is known; give folders of rankers"
                if given[0].manifest.foreign
                else "nothing has been ranked yet; run the same 'beir-eval run' again"
            )
        )
    left_out = [
        f"{run.path}: {why}, so it is left out"
        for run in given
        if run not in ranked
        for why in ["a foreign run" if run.manifest.foreign else "nothing has been ranked yet"]
    ]
    teams = [run for run in ranked if judged_by_team(run.path / RANKINGS)]
    parents = list(dict.fromkeys(run.path.parent for run in ranked))

    def place(run: RunFolder) -> tuple[int, bool, int]:
        suite = run.manifest.suite
        return parents.index(run.path.parent), run not in teams, suite.place if suite else 0

    reported = sorted(ranked, key=place)
    others = _others(reported, ranked, teams, against)
    sources = [
        Source(run, run.data(), title, other, run in teams)
        for run, title, other in zip(reported, row_labels(reported), others, strict=True)
    ]
    return sources, left_out


def same_judge(one: RunFolder, other: RunFolder) -> bool:
    """Return True if the same model scored in both, on the same server."""
    judges = [(each.manifest.models.get("scoring"), each.manifest.server) for each in (one, other)]
    return judges[0] == judges[1]


def _others(
    reported: Sequence[RunFolder],
    given: Sequence[RunFolder],
    teams: Sequence[RunFolder],
    against: str | None,
) -> list[RunFolder | None]:
    """For each run, the one to compare it with."""
    if against == NO_OTHER:
        return [None] * len(reported)
    if against is None:
        return [_usual(run, _candidates(run, given)) if run in teams else None for run in reported]
    candidates = [_candidates(run, given) for run in reported]
    chosen = [
        next((each for each in them if each.manifest.label == against), None) for them in candidates
    ]
    if not any(chosen) and is_folder(against):
        folder = RunFolder.open(against)
        chosen = [
            folder
            if folder.manifest.data == run.manifest.data
            and folder.path.resolve() != run.path.resolve()
            else None
            for run in reported
        ]
    if not any(chosen):
        labels = sorted({each.manifest.label for them in candidates for each in them})
        known = ", ".join(map(repr, labels)) or "no other run"
        raise RunFolderError(
            f"no run {against!r} over the same data as {reported[0].path}; there is "
            f"{known}; give a label or a folder, or {NO_OTHER!r}"
        )
    for run in chosen:
        if run is not None:
            run.metrics()  # its error says that the run is not finished
    return chosen


def _candidates(run: RunFolder, given: Sequence[RunFolder]) -> list[RunFolder]:
    """All other runs over the same data: those beside it, then those given."""
    beside = []
    for manifest in sorted(run.path.resolve().parent.glob("*/manifest.json")):
        if manifest.parent.name != DATA_FOLDER:
            # These were not asked for; a damaged one must not stop the report.
            with contextlib.suppress(RunFolderError):
                beside.append(RunFolder.open(manifest.parent))
    found: dict[Path, RunFolder] = {}
    for each in [*beside, *given]:
        if each.manifest.data == run.manifest.data and _has_rankings(each):
            found.setdefault(each.path.resolve(), each)
    found.pop(run.path.resolve(), None)
    return list(found.values())


def _usual(run: RunFolder, candidates: Sequence[RunFolder]) -> RunFolder | None:
    top = highest_score(run.manifest.config)
    fit = [
        each
        for each in candidates
        if each.manifest.finished
        and same_judge(each, run)
        and not judged_by_team(each.path / RANKINGS)
    ]
    return min(
        fit,
        key=lambda each: (
            each.manifest.ranker != "direct",
            highest_score(each.manifest.config) != top,
        ),
        default=None,
    )


def _has_rankings(run: RunFolder) -> bool:
    path = run.path / RANKINGS
    return path.is_file() and path.stat().st_size > 0


def differences(sources: Sequence[Source], cache: Loader) -> list[tuple[Difference, ...]]:
    """Of each run over its first stage and over the other ranker; none of runs not finished."""
    teams = any(source.team for source in sources)
    pairs: dict[tuple[int, str], dict[str, Values]] = {}
    refused: dict[tuple[int, str], str] = {}
    for place, source in enumerate(sources):
        if not source.run.manifest.finished:
            continue
        ours = cache.of_run(source.run, source.data).values
        first = cache.of_first_stage(source.data).values
        against = {source.data.manifest.first_stage.name: (first, _flaw(source.run, ours))}
        if source.other is not None:
            other = cache.of_run(source.other, source.data).values
            against[source.other.manifest.label] = other, _why_not(source, ours, other)
        for name, (base, why_not) in against.items():
            pairs[place, name] = {"ours": ours, "theirs": base}
            if teams and not source.team:
                why_not = why_not or "this report tests its teams alone"
            refused[place, name] = why_not
    shown = compare_runs(pairs, "theirs")
    tested = compare_runs({key: of for key, of in pairs.items() if not refused[key]}, "theirs")
    found: list[list[Difference]] = [[] for _ in sources]
    for key, of in pairs.items():
        than = (tested if key in tested else shown)[key]["ours"]
        p_value = than.p_adjusted if key in tested else None
        why_not = refused[key]
        if not why_not and p_value is None:
            why_not = "a test takes 6 queries, and differences that vary"
        found[key[0]].append(
            Difference(
                against=key[1],
                queries=than.queries,
                ours=of["ours"].by_lot or 0.0,
                theirs=of["theirs"].by_lot or 0.0,
                low=than.interval.low,
                high=than.interval.high,
                p_value=p_value,
                why_not=why_not,
            )
        )
    return list(map(tuple, found))


def _why_not(source: Source, ours: Values, theirs: Values) -> str:
    """Why a difference to the other run would not be the team's; empty if it would be."""
    assert source.other is not None, "there is one to compare with"
    if not same_judge(source.run, source.other):
        judges = (models_of(each.manifest) for each in (source.other, source.run))
        return "its judge is {}, and here it is {}".format(*judges)
    return _flaw(source.run, ours) or _flaw(source.other, theirs)


def _flaw(run: RunFolder, values: Values) -> str:
    said = f"what {run.manifest.label} lacks of {values.unit} or queries could change its mean"
    return said if values.is_open else ""
