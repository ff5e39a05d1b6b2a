"""Input of rankers: queries, the passages that the first stage found, judgements; foreign runs.

It is written to the folder ``data`` (see `beir_eval.experiment.run_folder`), so that reports need
neither the data set nor the first stage again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from beir_eval.errors import DatasetError, RunFolderError
from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    MANIFEST,
    METRICS,
    RANKINGS,
    DataFolder,
    DataManifest,
    ForeignNote,
    digests,
)
from beir_eval.experiment.suite_form import DATASET
from beir_eval.files import locked, write_form
from beir_eval.measures.ties import Tied, measured
from mcranker.inputs.trec import with_ties, write_trec
from mcranker.logs import safe_logger
from personas.io.atomic import replacing_folder
from personas.ranking.types import Passage, Query

if TYPE_CHECKING:
    from beir_eval.data.datasets import Dataset
    from beir_eval.data.first_stage import FirstStage
    from mcranker.inputs.trec import Run

_FILES = ("queries.jsonl", "qrels.tsv", "passages.jsonl", "first_stage.trec", METRICS)
_log = safe_logger("mcranker.beir_eval.prepare")


@dataclass(frozen=True, slots=True)
class RankingInput:
    """The input of rankers, in memory."""

    manifest: DataManifest  # about it
    about: str  # what the collection is, for ``criteria="dataset"``; may be empty
    queries: Mapping[str, str]  # query id -> text, in the order in which they are ranked
    # Query id -> document id -> grade; of these queries only.
    qrels: Mapping[str, Mapping[str, int]]
    run: Run  # the first stage's run
    texts: Mapping[str, tuple[str, str]]  # document id -> title and text, of the passages in `run`
    # Path -> foreign run and what of it did not fit, of those that the suite has.
    foreign: Mapping[str, tuple[Run, ForeignNote]]

    def work(self, query_ids: Sequence[str] | None = None) -> Iterator[tuple[Query, list[Passage]]]:
        """Queries with their passages in first-stage order, as rankers take them."""
        for query_id in self.queries if query_ids is None else query_ids:
            passages = []
            for doc_id, score in self.run.get(query_id, ()):
                title, text = self.texts[doc_id]
                passages.append(Passage(doc_id, text, title, score))
            yield Query(self.queries[query_id], query_id), passages


def chosen_queries(
    dataset: Dataset, *, queries: Sequence[str] = (), limit: int | None = None
) -> Dataset:
    """The data set with some of its queries."""
    judged = [query_id for query_id in dataset.queries if dataset.qrels.get(query_id)]
    for place, query_id in enumerate(queries):
        if query_id not in dataset.queries:
            raise DatasetError(f"{dataset.name} has no query {query_id!r}")
        if query_id in queries[:place]:
            raise DatasetError(f"query {query_id!r} is named twice")
        if query_id not in dataset.qrels:
            raise DatasetError(
                f"query {query_id!r} of {dataset.name} has no judgements; name judged queries"
            )
    kept = list(queries or judged)[:limit]
    return replace(
        dataset,
        queries={query_id: dataset.queries[query_id] for query_id in kept},
        qrels={query_id: dataset.qrels[query_id] for query_id in kept},
    )


def prepare(
    dataset: Dataset,
    run: Run,
    stage: FirstStage,
    *,
    queries_in_full: int,
    about: str,
    foreign: Mapping[str, tuple[Run, ForeignNote]],
) -> RankingInput:
    """Return the input of rankers for `dataset`."""
    kept = {query_id: list(run.get(query_id, ()))[: stage.depth] for query_id in dataset.queries}
    wanted = dict.fromkeys(doc_id for documents in kept.values() for doc_id, _ in documents)
    documents = {doc_id: dataset.corpus[doc_id] for doc_id in wanted}
    texts = {doc_id: (each.title, each.text) for doc_id, each in documents.items()}
    manifest = DataManifest(
        dataset=dataset.name,
        description=dataset.description,
        paper=dataset.paper,
        split=dataset.split,
        documents=len(dataset.corpus),
        queries=len(dataset.queries),
        queries_in_full=queries_in_full,
        depth=stage.depth,
        first_stage=stage.note(),
        content=_fingerprint(dataset, kept, texts),
        judge=dataset.by_model,
    )
    about = about or dataset.about
    return RankingInput(manifest, about, dataset.queries, dataset.qrels, kept, texts, foreign)


def read_foreign(named: str, dataset: Dataset, depth: int) -> tuple[Run, ForeignNote]:
    """Read another program's TREC run, plain or packed by gzip (``.gz``), for some queries.

    Scores that the file sets apart by the smallest step, as `write_trec` does, are equal again.
    """
    from beir_eval.data.first_stage import absent_documents, read_run

    path = Path(named.replace(DATASET, dataset.name)).expanduser()
    listed, queries = read_run(path, dataset), dataset.queries
    whole = {each: with_ties(listed[each]) for each in queries if each in listed}
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
    if note.oddities:
        _log.warning("%s on %s: %s", path, dataset.name, "; ".join(note.oddities))
    return run, note


def keep_data(prepared: RankingInput, folder: Path, measures: Sequence[str]) -> DataFolder:
    """Write the folder ``data`` of a data set, or see that it is there already."""
    with locked(folder, wait=True):
        return _kept(prepared, folder, measures)


def _kept(prepared: RankingInput, folder: Path, measures: Sequence[str]) -> DataFolder:
    path = folder / DATA_FOLDER
    if path.exists():
        found = DataFolder.open(path)
        same = found.manifest.content == prepared.manifest.content
        used = any(each.stat().st_size for each in folder.glob(f"*/{RANKINGS}"))
        if not same and used:
            known, wanted = found.manifest.model_dump(), prepared.manifest.model_dump()
            changed = [
                f"{name.replace('_', ' ')} {known[name]!r}, now {wanted[name]!r}"
                for name in ("split", "queries", "depth", "first_stage", "documents")
                if known[name] != wanted[name]
            ]
            what = "; ".join(changed) or "texts, judgements or scores that are different now"
            raise RunFolderError(
                f"{path} holds {what}; choose another --out, or delete {folder} (answers stay in "
                "the ledger)"
            )
        if same and set(measures) <= set(found.metrics().measures):
            return found
    tied = {query_id: Tied.of_scores(found) for query_id, found in prepared.run.items()}
    metrics = measured(prepared.run, tied, prepared.qrels, measures)
    with replacing_folder(path) as new:
        queries, texts = prepared.queries.items(), prepared.texts.items()
        _write_lines(new / "queries.jsonl", ({"_id": key, "text": text} for key, text in queries))
        passages = ({"_id": key, "title": title, "text": text} for key, (title, text) in texts)
        _write_lines(new / "passages.jsonl", passages)
        rows = ["query-id\tcorpus-id\tscore"]
        for query_id, grades in prepared.qrels.items():
            rows += [f"{query_id}\t{doc_id}\t{grade}" for doc_id, grade in grades.items()]
        (new / "qrels.tsv").write_bytes(("\n".join(rows) + "\n").encode())
        write_trec(prepared.run, new / "first_stage.trec", "first-stage")
        write_form(new / METRICS, metrics)
        files = digests(new, _FILES)
        write_form(new / MANIFEST, prepared.manifest.model_copy(update={"files": files}))
    _log.info("%s: %s", path, prepared.manifest.description)
    return DataFolder.open(path)


def _write_lines(path: Path, entries: Iterable[Mapping[str, str]]) -> None:
    lines = (orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE) for entry in entries)
    path.write_bytes(b"".join(lines))


def _fingerprint(dataset: Dataset, run: Run, texts: Mapping[str, tuple[str, str]]) -> str:
    found = hashlib.sha256()
    for query_id, text in dataset.queries.items():
        found.update(orjson.dumps([query_id, text, sorted(dataset.qrels[query_id].items())]))
        found.update(orjson.dumps([list(pair) for pair in run[query_id]]))
    for doc_id, (title, text) in texts.items():
        found.update(orjson.dumps([doc_id, title, text]))
    return found.hexdigest()
