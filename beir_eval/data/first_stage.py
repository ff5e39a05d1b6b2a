"""The first stage: what finds the documents that the rankers get. BM25, or any run."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from beir_eval.errors import SettingError, check_number, check_whole
from mcranker.errors import RunError
from mcranker.inputs.trec import read_trec
from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.retrieval import bm25 as stored
from mcranker.retrieval.bm25 import BM25, Found, versions
from mcranker.retrieval.lucene import Lucene

if TYPE_CHECKING:
    from beir_eval.data.datasets import Dataset, Document
    from beir_eval.experiment.run_folder import FirstStageNote

Engine: TypeAlias = Literal["bm25s", "pyserini", "file"]
DEEPEST = 2**31 - 1
"""Documents a query, at most: Lucene takes no more."""

_log = safe_logger("mcranker.beir_eval.first_stage")


@dataclass(frozen=True, slots=True)
class FirstStage:
    """The search that finds the documents of every query.

        FirstStage()                                    BM25 with the paper's settings
        FirstStage(depth=20, k1=1.2, b=0.75)
        FirstStage("pyserini")                          Lucene's BM25 over the given corpus
        FirstStage("file", run="fused.trec")            a run from elsewhere

    Attributes:
        engine: ``"bm25s"``: built in; ``"pyserini"``: Lucene; ``"file"``: a TREC run.
        depth: documents a query, from 1.
        k1: of BM25, from 0.
        b: of BM25, 0 to 1.
        run: the TREC run, for ``"file"`` only.

    Raises:
        SettingError: a value is out of its range, or two do not go together.
    """

    engine: Engine = "bm25s"
    depth: int = 100
    k1: float = 0.9
    b: float = 0.4
    run: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.engine not in (known := get_args(Engine)):
            raise SettingError(
                f"engine={self.engine!r} is unknown; give {' or '.join(map(repr, known))}"
            )
        check_whole("depth", self.depth, 1, DEEPEST)
        check_number("k1", self.k1, 0, example=0.9)
        check_number("b", self.b, 0, 1, example=0.4)
        if self.engine == "file" and self.run is None:
            raise SettingError("engine='file' needs a run; give run= the path of a TREC run")
        run = None if self.run is None else os.fspath(self.run)
        bm25 = self.engine if self.engine in ("bm25s", "pyserini") else "bm25s"
        for name, value, usual, engine in (
            ("run", run, None, "file"),
            ("k1", self.k1, 0.9, bm25),
            ("b", self.b, 0.4, bm25),
        ):
            if self.engine != engine and value != usual:
                raise SettingError(
                    f"{name}={value!r} goes with engine={engine!r}, not {self.engine!r}"
                )

    def note(self) -> FirstStageNote:
        """Its name in tables and its settings, as run folders keep them; of a path the name."""
        from beir_eval.experiment.run_folder import FirstStageNote

        if self.run is not None:
            path = Path(self.run)
            return FirstStageNote(name=path.stem, settings={"engine": "file", "run": path.name})
        settings: dict[str, Any] = {"engine": self.engine, "k1": self.k1, "b": self.b}
        name = "BM25" if self.engine == "bm25s" else "BM25 (Lucene)"
        return FirstStageNote(name=name, settings=settings, versions=_installed(self.engine))


def find(dataset: Dataset, stage: FirstStage, *, cache: Path | bool | None = None) -> Found:
    """The run of `stage` for all queries of `dataset`, in their order.

    A query that finds nothing, or that a run file does not have, has an empty list. Scores are
    as the engine or the file gives them.

    Args:
        dataset: what is searched.
        stage: how.
        cache: folder where runs are kept and found again, by the content of corpus and queries,
            the settings, and the engine's version; True for ``first_stage`` in MCRANKER_CACHE or
            the user's cache folder, None or False for none. A run file is read again each time.

    Raises:
        RunError: the run file cannot be read, has a document that is not in the corpus, or none
            of the queries; or Lucene failed.
        DatasetError: the corpus cannot be read from disk.
        mcranker.errors.ConfigError: a package of the engine is not installed.
    """
    if stage.run is not None:
        return _from_file(dataset, stage, Path(stage.run))
    root = cache_root() / "first_stage" if cache is True else cache or None
    started = time.perf_counter()
    lucene = Lucene.here() if stage.engine == "pyserini" else None
    key, run = "", None
    if root is not None:
        parts: dict[str, Any] = {
            "corpus": stored.digest_of(_documents(dataset)),
            "queries": stored.digest_of(dataset.queries.items()),
            "engine": {"pyserini": lucene.jar.name} if lucene else versions(),
            "depth": stage.depth,
            "k1": float(stage.k1),
            "b": float(stage.b),
        }
        key = stored.key_of(parts)
        run = stored.kept_run(root, key)
    if run is not None:
        _log.info("%s: these queries were searched before; their run was kept", dataset.name)
    else:
        with tempfile.TemporaryDirectory(prefix="mcranker-index-") as scratch:
            if lucene is not None:
                lucene.index(_documents(dataset), Path(scratch))
                run = lucene.search(
                    Path(scratch), dataset.queries, stage.depth, k1=stage.k1, b=stage.b
                )
            else:
                texts = ((doc_id, f"{title} {text}") for doc_id, title, text in _documents(dataset))
                run = BM25(texts, k1=stage.k1, b=stage.b).retrieve(dataset.queries, stage.depth)
        if root is not None:
            stored.keep_run(root, key, run)
    seconds = time.perf_counter() - started
    _log.info("found documents in %s for %d queries in %.2f s", dataset.name, len(run), seconds)
    return run


def retrieve(dataset: Dataset, depth: int = 100, *, k1: float = 0.9, b: float = 0.4) -> Found:
    """BM25 run for all queries of `dataset`, in their order; title and text are searched as one.

    The defaults are those of the paper's first stage (BM25 of Anserini). Nothing is kept on disk.

    Raises:
        SettingError, mcranker.errors.ConfigError: as `find`.
    """
    return find(dataset, FirstStage(depth=depth, k1=k1, b=b))


def _installed(package: str) -> dict[str, str]:
    """The package and its version; empty where it is not installed."""
    with contextlib.suppress(PackageNotFoundError):
        return {package: version(package)}
    return {}


def _documents(dataset: Dataset) -> Iterator[tuple[str, str, str]]:
    return ((each.id, each.title, each.text) for each in dataset.corpus.values())


def read_run(path: Path, dataset: Dataset) -> Found:
    """Read a TREC run that has some of the queries."""
    listed, queries = read_trec(path, needed=True), dataset.queries
    if not listed.keys() & queries.keys():
        raise RunError(
            f"{path}: none of the {len(queries)} queries of {dataset.name} is in this run, which "
            f"begins with query {next(iter(listed))!r}; is it of another data set or split?"
        )
    return listed


def _from_file(dataset: Dataset, stage: FirstStage, path: Path) -> Found:
    listed = read_run(path, dataset)
    run = {query_id: listed.get(query_id, [])[: stage.depth] for query_id in dataset.queries}
    if absent := [query_id for query_id in run if query_id not in listed]:
        _log.warning(
            "%s: %d of %d queries are not in this run, e.g. %r; nothing is ranked for them",
            path,
            len(absent),
            len(run),
            absent[0],
        )
    _check_documents(run, dataset, str(path))
    return run


def absent_documents(
    run: Mapping[str, Sequence[tuple[str, float]]], corpus: Mapping[str, Document]
) -> set[str]:
    """Ids of the documents of a run that are not in a corpus."""
    from beir_eval.data.ir_source import StoredCorpus

    listed = {doc_id for documents in run.values() for doc_id, _ in documents}
    if isinstance(corpus, StoredCorpus):  # one question for each would take minutes
        return corpus.missing(listed)
    return {doc_id for doc_id in listed if doc_id not in corpus}


def _check_documents(run: Found, dataset: Dataset, source: str) -> None:
    absent = absent_documents(run, dataset.corpus)
    for query_id, documents in run.items():
        for doc_id, _ in documents:
            if doc_id in absent:
                raise RunError(
                    f"{source}: document {doc_id!r} of query {query_id!r} is not in the corpus of "
                    f"{dataset.name}; is it of another data set, or another version of it?"
                )
