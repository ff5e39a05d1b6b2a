"""Data sets of ir_datasets: downloaded when first used, their documents read from disk."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from beir_eval.data.catalogue import CATALOGUE, Known
from beir_eval.data.datasets import (
    COLLECTIONS,
    Dataset,
    Document,
    Wanted,
    assemble,
    check_id,
    log_absent,
)
from beir_eval.errors import BeirEvalError, DatasetError, ExtraMissing
from mcranker.logs import safe_logger

ENVIRONMENT = "IR_DATASETS_HOME"
LONGEST = 300  # characters of a foreign message that are shown

_log = safe_logger("mcranker.beir_eval.datasets")


def home() -> Path:
    """The folder in which ir_datasets keeps its files; it need not be there yet."""
    return Path(os.environ.get(ENVIRONMENT, Path.home() / ".ir_datasets"))


@contextmanager
def plainly(name: str, identifier: str) -> Iterator[None]:
    """Run calls of ir_datasets."""

    def taken_over(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith("[starting] http"):
            _log.info("%s: downloading %s", name, text.removeprefix("[starting] "))
        elif text == "[starting] building docstore":
            _log.info("%s: storing its documents in %s", name, home())
        elif text.startswith("download error"):
            _log.info("%s: the download was cut off, or did not begin; trying again", name)
        else:
            _log.debug("ir_datasets: %s", text)
        return False

    logger = logging.getLogger("ir_datasets")
    logger.addFilter(taken_over)
    try:
        yield
    except BeirEvalError:
        raise
    except ImportError as missing:  # a package that only this data set needs
        raise DatasetError(f"{name!r} cannot be read: {_short(missing)}") from missing
    except Exception as failure:  # whatever foreign code raises about damaged files
        raise DatasetError(_explain(failure, name, identifier)) from failure
    finally:
        logger.removeFilter(taken_over)


def _explain(failure: Exception, name: str, identifier: str) -> str:
    if failure.args[:1] == ("All download sources failed",):
        failure = failure.args[1][0][1]  # of the first source; the others are its copies
    text = _short(failure)
    # What is not imported has raised nothing.
    requests = sys.modules.get("requests")
    if requests is not None and isinstance(failure, requests.RequestException):
        host = urlsplit(getattr(failure.request, "url", None) or "").hostname or "the server"
        return (
            f"{name!r} is not on this machine and cannot be downloaded from {host}: {text}; try "
            "again with a network, or give a folder in BEIR format"
        )
    if isinstance(failure, FileNotFoundError):
        path = os.fspath(failure.filename or (failure.args[0] if failure.args else ""))
        return f"{name!r} needs {path!r}, which is not there; see https://ir-datasets.com"
    if isinstance(failure, OSError) or text.startswith("Insufficient disk space"):
        where = os.fspath(getattr(failure, "filename", None) or home())
        what = getattr(failure, "strerror", None) or text
        return f"{name!r}: {where!r}: {what}; mend that, or set {ENVIRONMENT} to another folder"
    top, *rest = identifier.split("/")
    # The innermost folder that is there: of BEIR, each data set has its own.
    places = (home().joinpath(top, *rest[:count]) for count in range(len(rest), 0, -1))
    folder = next((each for each in places if top == "beir" and each.is_dir()), home() / top)
    return (
        f"{name!r}: a file is damaged or incomplete, or not the one that was expected "
        f"({type(failure).__name__}: {text}); delete {os.fspath(folder)!r} and load the data set "
        "again"
    )


def _short(failure: BaseException) -> str:
    return " ".join(str(failure).split())[:LONGEST] or "no message"


BATCH = 1000  # documents that are in memory at once while ids are looked up
SPLITS = 8  # of a data set that an error names, at most
SUGGESTIONS = 4  # names that an error offers, at most


class StoredCorpus(Mapping[str, Document]):
    """Documents that stay on disk until they are asked for."""

    def __init__(self, source: Any, name: str, identifier: str) -> None:
        """Build the index of the documents if there is none yet."""
        self._source, self._name, self._identifier = source, name, identifier
        with plainly(name, identifier):
            self._store = source.docs_store()
            if hasattr(self._store, "build"):
                self._store.build()
            count = source.docs_count()
            self._length = sum(1 for _ in source.docs_iter()) if count is None else int(count)

    def __getitem__(self, doc_id: str) -> Document:
        return self.get_many((doc_id,))[doc_id]

    def __contains__(self, doc_id: object) -> bool:
        return isinstance(doc_id, str) and doc_id in self.get_many((doc_id,))

    def __iter__(self) -> Iterator[str]:
        return (document.id for document in self.documents())

    def __len__(self) -> int:
        return self._length

    def items(self) -> ItemsView[str, Document]:
        """Ids and documents, in the order of the collection."""
        return _Items(self)

    def values(self) -> ValuesView[Document]:
        """Documents, in the order of the collection."""
        return _Values(self)

    def get_many(self, doc_ids: Iterable[str]) -> dict[str, Document]:
        """Those of `doc_ids` that are in the corpus, in any order."""
        with plainly(self._name, self._identifier):
            # Looked up by what the documents say: an id longer than all others is cut by the
            # index, and finds a document that it does not mean.
            found = {each.doc_id: each for each in self._store.get_many_iter(list(doc_ids))}
            return {doc_id: self._document(each) for doc_id, each in found.items()}

    def missing(self, doc_ids: Iterable[str]) -> set[str]:
        """Those of `doc_ids` that are not in the corpus."""
        wanted = sorted(set(doc_ids))
        absent = set(wanted)
        for start in range(0, len(wanted), BATCH):
            absent -= self.get_many(wanted[start : start + BATCH]).keys()
        return absent

    def documents(self) -> Iterator[Document]:
        """All documents, in the order of the collection."""
        with plainly(self._name, self._identifier):
            for each in self._source.docs_iter():
                yield self._document(each)

    def _document(self, record: Any) -> Document:
        check_id(record.doc_id, "document id", self._identifier)
        title = getattr(record, "title", None) or ""
        if not hasattr(record, "title"):
            return Document(record.doc_id, "", _text(record))
        if isinstance(getattr(record, "text", None), str):
            return Document(record.doc_id, title, record.text)
        text = _text(record)  # which has the title in front, mostly
        return Document(record.doc_id, title, text.removeprefix(title).lstrip())


class _Items(ItemsView[str, Document]):
    _mapping: StoredCorpus

    def __iter__(self) -> Iterator[tuple[str, Document]]:
        return ((document.id, document) for document in self._mapping.documents())


class _Values(ValuesView[Document]):
    _mapping: StoredCorpus

    def __iter__(self) -> Iterator[Document]:
        return self._mapping.documents()


def is_here(entry: Known) -> bool:
    """True if the main file of a data set of the paper is on this machine; asks no network."""
    return bool(entry.files) and (home() / entry.files).exists()


def load_id(identifier: str, wanted: Wanted) -> Dataset:
    """The data set of that id, or of `wanted.known` if it is one of the paper's."""
    entry = wanted.known
    if entry is not None:
        identifier = _obtainable(entry)
    library = _library(wanted.place)
    # A data set that asks for a password does so on standard output.
    with plainly(wanted.place, identifier), redirect_stdout(sys.stderr):
        identifier, source = _found(library.registry, identifier, wanted)
        judgements = _judgements(source, identifier)
        corpus = StoredCorpus(source, wanted.place, identifier)
        field = entry.query_field if entry else ""
        queries = dict(_queries(source, identifier, corpus, field))
    split = wanted.split if entry else _split(library.registry, identifier, wanted.split)
    title = f"{entry.title}, " if entry else ""
    source_name = f"{title}{identifier} of ir_datasets"
    name = entry.name if entry else identifier.replace("/", "-")
    wanted = replace(wanted, name=name, place=identifier, source=source_name, split=split)
    dataset = assemble(wanted, corpus, queries, judgements)
    judged = [doc_id for grades in judgements.values() for doc_id in grades]
    absent = corpus.missing(judged)
    log_absent(wanted.name, sum(doc_id in absent for doc_id in judged))
    return dataset


def _obtainable(entry: Known) -> str:
    """Return the data set's id; raise a `DatasetError` if there is none."""
    folder = f"give a folder in BEIR format that is called {entry.name!r}"
    if entry.ir_datasets is None:
        raise DatasetError(f"{entry.name!r} cannot be downloaded: {entry.licence}; then {folder}")
    if entry.licence and not is_here(entry):
        raise DatasetError(
            f"{entry.name!r} cannot be downloaded: {entry.licence}; put them at "
            f"{str(home() / entry.files)!r}, or {folder}"
        )
    return entry.ir_datasets


def _library(name: str) -> Any:
    with plainly(name, name):  # the import makes folders
        try:
            import ir_datasets
        except ModuleNotFoundError as missing:
            raise ExtraMissing("ir_datasets", f"the data set {name!r}") from missing
    return ir_datasets


def _found(registry: Any, identifier: str, wanted: Wanted) -> tuple[str, Any]:
    """Return id and data set with its split, or raise a `DatasetError`."""
    own = _registered(registry, identifier)
    if own is None:
        raise DatasetError(_unknown(registry, wanted.place))
    parent = identifier.rpartition("/")[0]
    other = wanted.split != "test" and not identifier.endswith(f"/{wanted.split}")
    candidates = [identifier]
    if other:
        candidates = [f"{identifier}/{wanted.split}", f"{parent}/{wanted.split}"]
    elif not own.has_qrels():
        candidates = [f"{identifier}/{wanted.split}"]
    for candidate in candidates:
        source = _registered(registry, candidate)
        if source is not None and source.has_qrels():
            if not (source.has_docs() and source.has_queries()):
                raise DatasetError(f"{candidate!r} has no documents or no queries in ir_datasets")
            return candidate, source
    above = parent if other and own.has_qrels() and parent else identifier
    known = (x for x in registry if x.startswith(f"{above}/") and registry[x].has_qrels())
    offered = ", ".join(map(repr, islice(known, SPLITS)))
    there = f"there are {offered}" if offered else "there are none at all"
    raise DatasetError(f"{wanted.place!r} has no judgements of split {wanted.split!r}; {there}")


def _registered(registry: Any, identifier: str) -> Any:
    try:
        return registry[identifier]
    except KeyError:
        return None


def _unknown(registry: Any, name: str) -> str:
    ids = list(registry)
    names = [*COLLECTIONS, *CATALOGUE, *ids]
    close = [each for each in names if name.lower() in each.lower().split("/")]
    close += get_close_matches(name.lower(), names, SUGGESTIONS)
    offered = ", ".join(map(repr, list(dict.fromkeys(close))[:SUGGESTIONS]))
    hint = f" (did you mean {offered}?)" if offered else ""
    return (
        f"no data set {name!r}{hint}: no name ({', '.join([*COLLECTIONS, *CATALOGUE])}), no "
        "folder, and no id of ir_datasets; a folder in BEIR format holds corpus.jsonl, "
        "queries.jsonl and qrels/SPLIT.tsv"
    )


def _split(registry: Any, identifier: str, asked: str) -> str:
    """Return the part of an id after its corpus, e.g. ``"dev/small"``; `asked` if there is none."""
    parts = identifier.split("/")
    for count in range(len(parts) - 1, 0, -1):
        above = _registered(registry, "/".join(parts[:count]))
        if above is not None and above.has_docs() and not above.has_qrels():
            return "/".join(parts[count:])
    return asked


def _judgements(source: Any, identifier: str) -> dict[str, dict[str, int]]:
    """Query id -> document id -> grade; the highest where a pair has several."""
    if "relevance" not in source.qrels_cls()._fields:
        raise DatasetError(f"the judgements of {identifier!r} have no grades of relevance")
    found: dict[str, dict[str, int]] = {}
    for each in source.qrels_iter():
        grades = found.get(each.query_id)
        if grades is None:
            check_id(each.query_id, "query id", identifier)
            grades = found[each.query_id] = {}
        check_id(each.doc_id, "document id", identifier)
        grades[each.doc_id] = max(each.relevance, grades.get(each.doc_id, each.relevance))
    if not found:
        raise DatasetError(f"{identifier}: no judgement in it")
    return found


def _queries(
    source: Any, identifier: str, corpus: StoredCorpus, field: str
) -> Iterator[tuple[str, str]]:
    for query in source.queries_iter():
        check_id(query.query_id, "query id", identifier)
        if field:
            yield query.query_id, " ".join(getattr(query, field).split())
        elif "doc_id" in query._fields and not hasattr(query, "default_text"):
            document = corpus.get_many((query.doc_id,)).get(query.doc_id)
            if document is None:
                raise DatasetError(
                    f"{identifier}: query {query.query_id!r} is the document {query.doc_id!r}, "
                    "which the corpus does not have"
                )
            yield query.query_id, document.title
        else:
            yield query.query_id, _text(query)


def _text(record: Any) -> str:
    """The text that ir_datasets takes by default, else the field ``text``, else all fields."""
    if hasattr(record, "default_text"):
        return record.default_text() or ""
    if isinstance(getattr(record, "text", None), str):
        return str(record.text)
    fields = {name: value for name, value in record._asdict().items() if isinstance(value, str)}
    return " ".join(value for name, value in fields.items() if not name.endswith(("_id", "url")))
