"""The first stage: what finds the documents that the rankers get. BM25, or any run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from beir_eval.errors import SettingError
from beir_eval.retrieval import cache as stored
from beir_eval.retrieval.bm25 import BM25, check_depth, check_k1_and_b, versions
from mcranker.errors import RunError
from mcranker.logs import safe_logger
from mcranker.trec import read_trec

if TYPE_CHECKING:
    from beir_eval.data.datasets import Dataset, Document
    from beir_eval.experiment.run_folder import FirstStageNote
    from beir_eval.retrieval.lucene import Lucene

Engine: TypeAlias = Literal["bm25s", "pyserini", "file"]
Index: TypeAlias = Literal["corpus", "prebuilt"]
Fields: TypeAlias = Literal["flat", "multifield"]

Found: TypeAlias = dict[str, list[tuple[str, float]]]
"""Query id -> (document id, score), best first."""

_log = safe_logger("mcranker.beir_eval.first_stage")


@dataclass(frozen=True, slots=True)
class FirstStage:
    """The search that finds the documents of every query.

        FirstStage()                                    BM25 with the paper's settings
        FirstStage(depth=20, k1=1.2, b=0.75)
        FirstStage("pyserini")                          Lucene's BM25 over the given corpus
        FirstStage("pyserini", index="prebuilt")        over pyserini's index of the data set
        FirstStage("file", run="splade.trec")           a run from elsewhere

    Attributes:
        engine: ``"bm25s"``: built in; ``"pyserini"``: Lucene; ``"file"``: a TREC run.
        depth: documents a query, from 1.
        k1: of BM25, from 0.
        b: of BM25, 0 to 1.
        run: the TREC run, for ``"file"`` only.
        index: for ``"pyserini"``: ``"corpus"`` makes an index of the data set's documents;
            ``"prebuilt"`` takes the one that pyserini offers for it, downloaded once.
        fields: for ``"pyserini"``: title and text searched as one (``"flat"``), or apart with
            their scores added (``"multifield"``).

    Raises:
        SettingError: a value is out of its range, or two do not go together.
    """

    engine: Engine = "bm25s"
    depth: int = 100
    k1: float = 0.9
    b: float = 0.4
    run: str | os.PathLike[str] | None = None
    index: Index = "corpus"
    fields: Fields = "flat"

    def __post_init__(self) -> None:
        for name, kind in (("engine", Engine), ("index", Index), ("fields", Fields)):
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise SettingError(
                    f"{name}={value!r} is unknown; give {' or '.join(map(repr, known))}"
                )
        check_depth(self.depth)
        check_k1_and_b(self.k1, self.b)
        if self.engine == "file" and self.run is None:
            raise SettingError("engine='file' needs a run; give run= the path of a TREC run")
        if self.engine != "file" and self.run is not None:
            raise SettingError(
                f"run={os.fspath(self.run)!r} goes with engine='file', not {self.engine!r}"
            )
        for name, usual in (("index", "corpus"), ("fields", "flat")):
            value = getattr(self, name)
            if self.engine != "pyserini" and value != usual:
                raise SettingError(
                    f"{name}={value!r} goes with engine='pyserini', not {self.engine!r}"
                )

    def note(self) -> FirstStageNote:
        """Its name in tables and its settings, as run folders keep them; of a path the name."""
        from beir_eval.experiment.run_folder import FirstStageNote

        if self.run is not None:
            path = Path(self.run)
            return FirstStageNote(name=path.stem, settings={"engine": "file", "run": path.name})
        if self.engine == "bm25s":
            return FirstStageNote(
                name="BM25",
                settings={"engine": "bm25s", "k1": self.k1, "b": self.b},
                versions=_versions("bm25s"),
            )
        return FirstStageNote(
            name="BM25 (Lucene)",
            settings={
                "engine": "pyserini",
                "k1": self.k1,
                "b": self.b,
                "index": self.index,
                "fields": self.fields,
            },
            versions=_versions("pyserini"),
        )


def _versions(package: str) -> dict[str, str]:
    try:
        return {package: version(package)}
    except PackageNotFoundError:
        return {}


def find(dataset: Dataset, stage: FirstStage, *, cache: Path | bool | None = None) -> Found:
    """The run of `stage` for all queries of `dataset`, in their order.

    A query that finds nothing, or that a run file does not have, has an empty list. Scores are
    as the engine or the file gives them.

    Args:
        dataset: what is searched.
        stage: how.
        cache: folder where indexes and runs are kept and found again, by the content of corpus
            and queries, the settings, and the engine's version; True for
            `beir_eval.retrieval.cache.default_store`, None or False for no folder. A run file is
            read again each time.

    Raises:
        SettingError: no prebuilt index is known for the data set.
        RunError: the run file cannot be read, has a document that is not in the corpus, or none
            of the queries; or Lucene failed.
        DatasetError: the corpus cannot be read from disk.
        ExtraMissing: a package of the engine is not installed.
    """
    if stage.run is not None:
        return _from_file(dataset, stage, Path(stage.run))
    root = stored.default_store() if cache is True else cache or None
    started = time.perf_counter()
    if stage.engine == "pyserini":
        from beir_eval.retrieval.lucene import Lucene

        search: _Search = _LuceneSearch(dataset, stage, root, Lucene.here())
    else:
        search = _Search(dataset, stage, root)
    if root is None:
        run = search.run("")
    else:
        index_key = search.index_key()
        run_key = stored.key_of(
            {
                "index": index_key,
                "queries": stored.queries_digest(dataset.queries),
                "depth": stage.depth,
                "k1": float(stage.k1),
                "b": float(stage.b),
            }
        )
        kept = stored.kept_run(root, run_key)
        run = search.run(index_key) if kept is None else kept
        if kept is None:
            stored.keep_run(root, run_key, run)
        else:
            _log.info("%s: these queries were searched before; their run was kept", dataset.name)
    if stage.index == "prebuilt":
        _check_documents(run, dataset, f"the prebuilt index of {dataset.name}")
    _log.info(
        "found documents in %s for %d queries in %.2f s",
        dataset.name,
        len(run),
        time.perf_counter() - started,
    )
    return run


def retrieve(dataset: Dataset, depth: int = 100, *, k1: float = 0.9, b: float = 0.4) -> Found:
    """BM25 run for all queries of `dataset`, in their order; title and text are searched as one.

    A query that finds nothing has an empty list. The defaults are those of the paper's first
    stage (BM25 of Anserini). Nothing is kept on disk; see `find`.

    Raises:
        SettingError: `depth` is below 1, or `k1` or `b` is out of its range.
        ExtraMissing: bm25s or PyStemmer is not installed.
    """
    return find(dataset, FirstStage(depth=depth, k1=k1, b=b))


@dataclass(frozen=True, slots=True)
class _Search:
    """A search by bm25s; `root` is where its index is kept, or None."""

    dataset: Dataset
    stage: FirstStage
    root: Path | None

    def index_key(self) -> str:
        parts = {"engine": "bm25s", "k1": float(self.stage.k1), "b": float(self.stage.b)}
        return stored.key_of({**parts, **versions(), "corpus": self._corpus()})

    def run(self, index_key: str) -> Found:
        index, depth = self._index(index_key), self.stage.depth
        return {
            query_id: index.search(text, depth) for query_id, text in self.dataset.queries.items()
        }

    def _corpus(self) -> str:
        return stored.corpus_digest(self.dataset.corpus.values())

    def _index(self, key: str) -> BM25:
        kept = stored.find(self.root, "bm25s", key) if self.root else None
        if kept is not None:
            return BM25.load(kept)
        index = BM25(self._texts(), k1=self.stage.k1, b=self.stage.b)
        if self.root:
            stored.keep(self.root, "bm25s", key, index.save)
        return index

    def _texts(self) -> Iterator[tuple[str, str]]:
        for document in self.dataset.corpus.values():
            yield document.id, f"{document.title} {document.text}"


@dataclass(frozen=True, slots=True)
class _LuceneSearch(_Search):
    """A search by Lucene."""

    lucene: Lucene

    def index_key(self) -> str:
        prebuilt = self._prebuilt()
        return stored.key_of(
            {
                "engine": self.lucene.jar.name,
                "fields": self.stage.fields,
                **({"prebuilt": prebuilt} if prebuilt else {"corpus": self._corpus()}),
            }
        )

    def run(self, index_key: str) -> Found:
        prebuilt = self._prebuilt()
        if prebuilt:
            return self._found_in(prebuilt)
        kept = self._kept_index(index_key)
        if kept is not None:
            return self._found_in(kept)
        with tempfile.TemporaryDirectory(prefix="mcranker-index-") as folder:
            self._make_index(Path(folder))
            return self._found_in(Path(folder))

    def _kept_index(self, key: str) -> Path | None:
        if self.root is None:
            return None
        kept = stored.find(self.root, "lucene", key)
        return kept or stored.keep(self.root, "lucene", key, self._make_index)

    def _make_index(self, folder: Path) -> None:
        started = time.perf_counter()
        self.lucene.index(self.dataset.corpus.values(), folder, fields=self.stage.fields)
        _log.info(
            "indexed %d documents with Lucene in %.2f s",
            len(self.dataset.corpus),
            time.perf_counter() - started,
        )

    def _found_in(self, index: Path | str) -> Found:
        stage = self.stage
        return self.lucene.search(
            self.dataset.queries,
            index,
            depth=stage.depth,
            k1=stage.k1,
            b=stage.b,
            fields=stage.fields,
        )

    def _prebuilt(self) -> str:
        """Name of the prebuilt index; empty if the corpus is to be indexed."""
        if self.stage.index == "corpus":
            return ""
        from beir_eval.data.catalogue import known

        entry = known(self.dataset.paper or self.dataset.name)
        if entry is None:
            raise SettingError(
                f"no prebuilt index is known for the data set {self.dataset.name!r}; "
                "take index='corpus'"
            )
        return f"{entry.prebuilt.removesuffix('.flat')}.{self.stage.fields}"


def _from_file(dataset: Dataset, stage: FirstStage, path: Path) -> Found:
    listed = read_trec(path)
    run = {query_id: listed.get(query_id, [])[: stage.depth] for query_id in dataset.queries}
    absent = [query_id for query_id in run if query_id not in listed]
    if absent and len(absent) == len(run):
        raise RunError(
            f"{path}: none of the {len(run)} queries of {dataset.name} is in this run, which "
            f"begins with query {next(iter(listed), '')!r}; is it of another data set or split?"
        )
    if absent:
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
