"""TREC runs of other programs as rows: measured like ours, and asked for no call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from mcranker.logs import safe_logger
from mcranker.trec import Run, read_trec, with_ties, write_trec
from personas.format import counted

if TYPE_CHECKING:
    from beir_eval.data.datasets import Dataset
    from beir_eval.experiment.run_folder import SuiteNote

DATASET = "{dataset}"
"""Placeholder in a path for the name of each data set."""

_log = safe_logger("mcranker.beir_eval.foreign")


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run file's results for the queries that are ranked.

    Attributes:
        run: query id -> (document id, score), best first, in the order of the queries; those
            without a line have no entry. Scores that the file sets apart by the smallest step,
            as `mcranker.trec.write_trec` does, are equal again.
        note: which file it was, and what of it was left out.
    """

    run: Run
    note: ForeignNote

    def metrics(self, qrels: Mapping[str, Mapping[str, int]], measures: Sequence[str]) -> Metrics:
        """The measures over all judged queries, ties included; without calls and scores."""
        tied = {query_id: Tied.of_scores(found) for query_id, found in self.run.items()}
        return measured(self.run, tied, qrels, measures)

    def manifest(self, label: str, data: str, suite: SuiteNote | None = None) -> RunManifest:
        """Return the manifest, with the file in place of a ranker's choices."""
        return RunManifest(
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
        )

    def keep(self, folder: Path, manifest: RunManifest, metrics: Metrics) -> None:
        """Write a run folder, in place of what an earlier file of that label left there.

        Raises:
            RunFolderError: a ranker's rankings are there.
            OSError, RunError: it cannot be written.
        """
        if (folder / RANKINGS).exists():
            raise RunFolderError(
                f"{folder} holds what {manifest.label!r} ranked when it was no foreign run; choose "
                "another --out, or delete the folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        ranked = {query_id: found for query_id, found in self.run.items() if found}
        write_trec(ranked, folder / "run.trec", folder.name)
        write_form(folder / "metrics.json", metrics)
        files = digests(folder, RUN_FILES)
        write_form(folder / "manifest.json", manifest.model_copy(update={"files": files}))


def foreign_path(named: str, dataset: str) -> Path:
    """The file for a data set: `named` with the data set's name for ``{dataset}``."""
    return Path(named.replace(DATASET, dataset)).expanduser()


def check_template(named: str, where: str) -> None:
    """See that a path has no braces but those of ``{dataset}``.

    Args:
        named: the path.
        where: file and key, for messages.

    Raises:
        SuiteError: it has others.
    """
    if not named.strip():
        raise SuiteError(f"{where}={named!r}: name a TREC run")
    if set(named.replace(DATASET, "")) & set("{}"):
        raise SuiteError(f"{where}={named!r}: the only placeholder is {DATASET}")


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A TREC run as it was given.

    Attributes:
        path: of the file.
        sha256: of its bytes.
        listed: query id -> (document id, score), best first, of every query in it.
    """

    path: Path
    sha256: str
    listed: Run

    @classmethod
    def read(cls, path: Path) -> ForeignFile:
        """The file at `path`, plain or packed by gzip (``.gz``), of six columns.

        Raises:
            RunError: the file is not there, damaged, empty or not UTF-8; a line has not six
                columns, a rank or score is no number, or a document appears twice under a query.
        """
        listed = read_trec(path, needed=True)
        return cls(path, digests(path.parent, [path.name])[path.name], listed)

    def of(
        self,
        queries: Collection[str],
        *,
        name: str,
        depth: int,
        dataset: Dataset | None = None,
        seen: Callable[[], Collection[str]] | None = None,
    ) -> ForeignRun:
        """Read a run file's results for the queries that are ranked.

        What does not fit is counted in the note, and a warning says so: queries without a line,
        queries that are not ranked, documents below `depth`, and those that are not in the
        corpus. The last ones keep their ranks, as trec_eval has it.

        Args:
            queries: ids of the queries that are ranked.
            name: of the data set, for messages.
            depth: documents a query that count; the others are left out.
            dataset: whose corpus the documents should be in; None where it is not at hand.
            seen: without it, the ids of documents that are judged or were ranked.

        Raises:
            RunError: none of the queries is in the file.
        """
        whole = {each: with_ties(self.listed[each]) for each in queries if each in self.listed}
        if not whole:
            raise RunError(
                f"{self.path}: none of the {len(queries)} queries of {name} is in this run, which "
                f"begins with query {next(iter(self.listed))!r}; is it of another data set or "
                "split?"
            )
        run = {query_id: found[:depth] for query_id, found in whole.items()}
        documents = {doc_id for found in run.values() for doc_id, _ in found}
        unknown = None if dataset is None else _unknown(run, dataset)
        note = ForeignNote(
            file=self.path.name,
            sha256=self.sha256,
            without=len(queries) - len(run),
            other_queries=len(self.listed) - len(run),
            below_depth=sum(len(found) - len(run[each]) for each, found in whole.items()),
            documents=len(documents),
            unknown_documents=unknown,
            unseen_documents=None if seen is None else len(documents - set(seen())),
        )
        if odd := oddities(note):
            _log.warning("%s on %s: %s", self.path, name, "; ".join(odd))
        return ForeignRun(run, note)


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
    if note.unseen_documents:
        said.append(f"{counted(note.unseen_documents, 'document')} neither ranked nor judged here")
    return said


def _unknown(run: Run, dataset: Dataset) -> int:
    from beir_eval.data.first_stage import absent_documents

    return len(absent_documents(run, dataset.corpus))
