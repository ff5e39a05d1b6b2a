"""The runs of a report, and the run each of them is compared with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from beir_eval.errors import RunFolderError
from beir_eval.experiment.labels import row_labels
from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    RANKINGS,
    DataFolder,
    RunFolder,
    find_runs,
    judged_by_team,
)
from mcranker.paths import is_folder
from personas.ensembles import highest_score

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
