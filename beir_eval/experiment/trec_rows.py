"""TREC runs of other programs as rows: measured like ours, and asked for no call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beir_eval.errors import RunFolderError, SuiteError
from beir_eval.experiment.rankings import RANKINGS
from beir_eval.experiment.run_folder import (
    FOREIGN,
    RUN_FILES,
    ForeignNote,
    Metrics,
    RunManifest,
    digests,
)
from beir_eval.files import write_form
from beir_eval.measures.ties import Tied, measured
from mcranker.errors import RunError
from mcranker.inputs.trec import Run, read_trec, with_ties, write_trec
from mcranker.logs import safe_logger
from personas.format import counted

if TYPE_CHECKING:
    from beir_eval.data.datasets import Dataset
    from beir_eval.experiment.run_folder import SuiteNote

DATASET = "{dataset}"
"""Placeholder in a path for the name of each data set."""

_log = safe_logger("mcranker.beir_eval.foreign")


def check_template(named: str, where: str) -> None:
    """Check that a path has no braces but those of ``{dataset}``; `where` is its file and key."""
    if not named.strip():
        raise SuiteError(f"{where}={named!r}: name a TREC run")
    if set(named.replace(DATASET, "")) & set("{}"):
        raise SuiteError(f"{where}={named!r}: the only placeholder is {DATASET}")


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run file's results for the queries that are ranked."""

    # Query id -> (document id, score), best first, in the order of the queries; those without a
    # line have no entry. Scores that the file sets apart by the smallest step, as
    # `mcranker.inputs.trec.write_trec` does, are equal again.
    run: Run
    note: ForeignNote  # which file it was, and what of it was left out

    @classmethod
    def read(cls, named: str, dataset: Dataset, depth: int) -> ForeignRun:
        """Read a TREC run of six columns, plain or packed by gzip (``.gz``)."""
        from beir_eval.data.first_stage import absent_documents

        path = Path(named.replace(DATASET, dataset.name)).expanduser()
        listed, queries = read_trec(path, needed=True), dataset.queries
        whole = {each: with_ties(listed[each]) for each in queries if each in listed}
        if not whole:
            raise RunError(
                f"{path}: none of the {len(queries)} queries of {dataset.name} is in this run, "
                f"which begins with query {next(iter(listed))!r}; is it of another data set or "
                "split?"
            )
        run = {query_id: found[:depth] for query_id, found in whole.items()}
        note = ForeignNote(
            file=path.name,
            sha256=digests(path.parent, [path.name])[path.name],
            without=len(queries) - len(run),
            other_queries=len(listed) - len(run),
            below_depth=sum(len(found) - len(run[each]) for each, found in whole.items()),
            documents=len({doc_id for found in run.values() for doc_id, _ in found}),
            unknown_documents=len(absent_documents(run, dataset.corpus)),
        )
        if odd := oddities(note):
            _log.warning("%s on %s: %s", path, dataset.name, "; ".join(odd))
        return cls(run, note)

    def keep(
        self,
        folder: Path,
        label: str,
        data: str,
        suite: SuiteNote | None,
        qrels: Mapping[str, Mapping[str, int]],
        measures: Sequence[str],
    ) -> Metrics:
        """Write a run folder, in place of what an earlier file of that label left there."""
        if (folder / RANKINGS).exists():
            raise RunFolderError(
                f"{folder} holds what {label!r} ranked when it was no foreign run; choose another "
                "--out, or delete the folder"
            )
        tied = {query_id: Tied.of_scores(found) for query_id, found in self.run.items()}
        metrics = measured(self.run, tied, qrels, measures)
        folder.mkdir(parents=True, exist_ok=True)
        ranked = {query_id: found for query_id, found in self.run.items() if found}
        write_trec(ranked, folder / "run.trec", folder.name)
        write_form(folder / "metrics.json", metrics)
        manifest = RunManifest(
            label=label,
            ranker=FOREIGN,
            options={},
            config={},
            models={},
            prompt_hashes={},
            versions={},
            data=data,
            suite=suite,
            foreign=self.note,
            finished=True,
            files=digests(folder, RUN_FILES),
        )
        write_form(folder / "manifest.json", manifest)
        return metrics


def oddities(note: ForeignNote) -> list[str]:
    """Return the problems found in the run file."""
    said = []
    if note.without:
        said.append(f"{counted(note.without, 'query', 'queries')} without a line, counted as empty")
    if note.other_queries:
        others = counted(note.other_queries, "other query", "other queries")
        said.append(f"{others}, not ranked here")
    if note.below_depth:
        said.append(f"{counted(note.below_depth, 'document')} below the depth, left out")
    if note.unknown_documents:
        said.append(f"{counted(note.unknown_documents, 'document')} not in the corpus")
    return said
