"""Pairs of query and document that are to be judged, and the runs that they come from."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from beir_eval.errors import SettingError
from beir_eval.experiment.labels import row_labels
from beir_eval.experiment.run_folder import find_runs
from mcranker.inputs.trec import Run, read_trec
from mcranker.paths import is_folder

Pairs: TypeAlias = Mapping[str, Collection[str]]
"""Query id -> ids of the documents to be judged for it, each once."""
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> grade."""


@dataclass(frozen=True, slots=True)
class System:
    """A run whose documents are judged."""

    label: str  # unique among the systems
    run: Run  # its lists, best first
    models: frozenset[str] | None = None  # that made it; None if not known, as of a TREC file


def read_systems(paths: Sequence[str | os.PathLike[str]]) -> list[System]:
    """Read runs: run folders of ``beir-eval run``, or folders that hold some, then TREC files.

    Raises:
        RunFolderError, RunError: one cannot be read.
        SettingError: two have the same label.
    """
    folders = [path for path in paths if is_folder(Path(path))]
    runs = find_runs(folders) if folders else []
    found = []
    for label, each in zip(row_labels(runs), runs, strict=True):
        models = None if each.manifest.foreign else frozenset(each.manifest.models.values())
        found.append(System(label, each.run(), models))
    found += [System(Path(path).stem, read_trec(path)) for path in paths if path not in folders]
    for label, times in Counter(each.label for each in found).items():
        if times > 1:
            raise SettingError(f"{times} runs are called {label!r}; rename a file, or give one")
    return found


def pooled(systems: Sequence[System], depth: int) -> Pairs:
    """Return the first `depth` documents that each system has for a query, rank by rank."""
    found = {}
    for query_id in dict.fromkeys(each for system in systems for each in system.run):
        ranks = zip_longest(*(each.run.get(query_id, ())[:depth] for each in systems))
        listed = (entry[0] for rank in ranks for entry in rank if entry is not None)
        found[query_id] = list(dict.fromkeys(listed))
    return found


def judged_pairs(qrels: Qrels, sample: int | None = None, *, seed: int = 0) -> Pairs:
    """Return the pairs that people have judged, or about `sample` of them.

    Each grade has its share of the sample, rounded, but one pair at least: agreement by chance
    depends on the shares.
    """
    by_grade = defaultdict[int, list[tuple[str, str]]](list)
    for query_id, grades in qrels.items():
        for doc_id, grade in grades.items():
            by_grade[grade].append((query_id, doc_id))
    total = sum(map(len, by_grade.values()))
    drawn = random.Random(seed)  # noqa: S311 - nothing secret
    chosen: defaultdict[str, list[str]] = defaultdict(list)
    for _, pairs in sorted(by_grade.items()):
        count = len(pairs) if sample is None else max(1, round(sample * len(pairs) / total))
        for query_id, doc_id in drawn.sample(pairs, min(count, len(pairs))):
            chosen[query_id].append(doc_id)
    return {query_id: sorted(chosen[query_id]) for query_id in qrels if query_id in chosen}
