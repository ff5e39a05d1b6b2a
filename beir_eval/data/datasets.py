"""Data sets: documents, queries and judgements, by name, by ir_datasets id, or from a folder.

A folder in BEIR format holds ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl``
(``_id``, ``text``) and ``qrels/SPLIT.tsv`` (query id, document id and grade, parted by tabs,
under a line of headings). The first two may be packed: ``corpus.jsonl.gz``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, Field, ValidationError

from beir_eval.data.catalogue import Known, known
from beir_eval.data.qrels import add_grade
from beir_eval.errors import DatasetError
from beir_eval.text_files import read_lines
from mcranker.logs import safe_logger
from mcranker.paths import is_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

__all__ = ["COLLECTIONS", "Dataset", "Document", "load"]

COLLECTIONS: Mapping[str, str] = {
    "mini": "a small collection that comes with the package, for demonstrations and tests",
}
"""Collections that come with the package, each with a line about it."""

_ABOUT = {
    "mini": "Short passages on everyday subjects: health, consumer law, money, software, travel, "
    "shopping, history and the environment. The queries are questions, and one claim; a relevant "
    "passage answers just what is asked, for the person, place and time that are meant.",
}
_BLANK = " \t\n\r\x0b\f"
_ID = re.compile(f"[^{_BLANK}\0]+")  # tools in C end a text at a zero byte
_log = safe_logger("mcranker.beir_eval.datasets")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a corpus; `title` is empty where the collection has none."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """A corpus with queries and judgements.

    Attributes:
        name: name of the collection, or of its folder, or its ir_datasets id with dashes for
            slashes: fit to name a folder.
        corpus: document id -> document, in the order of the collection. Of ir_datasets it is
            read from disk as it is asked for (a `beir_eval.data.ir_source.StoredCorpus`).
        queries: query id -> text, in the order of the collection.
        qrels: query id -> document id -> grade; 0 or less is not relevant. Every query in it
            is one of the collection's; its documents may be missing from the corpus.
        description: what the data set is and how large, in a line for people.
        about: what the collection and its queries are, in words for ``criteria="dataset"``;
            empty where nothing is known.
        split: which judgements.
        paper: its key in the paper's tables, e.g. ``"touche"``; None if it is none of the
            paper's, or if the split is not ``"test"``.
    """

    name: str
    corpus: Mapping[str, Document]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    description: str
    about: str = ""
    split: str = "test"
    paper: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `load` was asked for, as its sources need it.

    Attributes:
        name: of the data set that is made.
        place: the folder or id, for messages.
        source: what it comes from, for the description.
        split: which judgements.
        judged_only: whether queries without judgements are left out.
        known: the paper's data set that it is, or None.
    """

    name: str
    place: str
    source: str
    split: str
    judged_only: bool
    known: Known | None


def load(
    name_or_path: str | os.PathLike[str], *, split: str = "test", judged_only: bool = True
) -> Dataset:
    """Load a data set, and download it first where that is needed and possible.

    Args:
        name_or_path: in this order: a name of `COLLECTIONS`; a name or alias of
            `beir_eval.data.catalogue`, such as ``"scifact"``; a folder in BEIR format; an id of
            ir_datasets, such as ``"beir/fiqa/test"``, ``"msmarco-passage/dev/small"`` or
            ``"cranfield"``. Write ``"./scifact"`` or a `Path` for a folder with such a name; a
            folder called like a data set of the paper counts as that data set.
        split: which judgements: the name of a file in ``qrels``, without ``.tsv``. Of an id,
            the split that it ends in goes before ``"test"``; any other one stands for the id
            with that ending.
        judged_only: keep only the queries with judgements in the split; else all queries.

    Judgements of queries that the collection does not hold are left out, and a warning is
    logged with their number; judgements of documents outside the corpus stay (they count in
    the ideal ranking, as in trec_eval), and are logged as well.

    Data sets of ir_datasets are kept in ``~/.ir_datasets``, or where ``IR_DATASETS_HOME`` says.
    Progress of a download is shown on standard error. Of the queries of Robust04 and News the
    text is that which BEIR takes: the description, and the headline of the article.

    Raises:
        DatasetError: nothing has that name; it is not on this machine and cannot be downloaded,
            or only under a licence; the split is not there; a file is missing, damaged or
            cannot be read, or is not UTF-8; a line is not JSON, lacks a key or holds a wrong
            type; an id is empty, holds white space or stands twice; the corpus, the queries or
            the judgements are empty.
        ExtraMissing: ir_datasets is needed and not installed.
    """
    name = os.fspath(name_or_path)
    by_name = isinstance(name_or_path, str)
    if by_name and name in COLLECTIONS:
        folder: Traversable = resources.files("beir_eval") / "collections" / name
        wanted = Wanted(name, str(folder), COLLECTIONS[name], split, judged_only, None)
        return replace(_load_folder(folder, wanted), about=_ABOUT[name])
    entry = known(name) if by_name else None
    path = Path(name)
    if entry is None and is_folder(path):
        whole = path.resolve().name
        source = "a folder in BEIR format"
        return _load_folder(path, Wanted(whole, name, source, split, judged_only, known(whole)))
    if not by_name or name.startswith((".", "/", "~")) or "\\" in name:
        raise DatasetError(
            f"no folder {name!r}; a folder in BEIR format holds corpus.jsonl, queries.jsonl and "
            "qrels/SPLIT.tsv"
        )
    from beir_eval.data.ir_source import load_id

    return load_id(name, Wanted(name, name, "", split, judged_only, entry))


def assemble(
    wanted: Wanted,
    corpus: Mapping[str, Document],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
) -> Dataset:
    """The data set of these parts; strangers among the judgements are left out and logged.

    Raises:
        DatasetError: the corpus is empty, or no query has a judgement.
    """
    if not corpus:
        raise DatasetError(f"{wanted.place}: no document in it; the corpus is empty")
    qrels = {query_id: grades for query_id, grades in judgements.items() if query_id in queries}
    strangers = [query_id for query_id in judgements if query_id not in queries]
    if strangers:
        _log.warning(
            "%s: %d judged queries are not among the queries and are left out, e.g. %r",
            wanted.name,
            len(strangers),
            strangers[0],
        )
    if wanted.judged_only:
        queries = {query_id: text for query_id, text in queries.items() if query_id in qrels}
    if not queries:
        raise DatasetError(
            f"{wanted.place}: none of its queries has a judgement in split {wanted.split!r}; "
            "see whether queries and judgements belong together"
        )
    counts = (
        f"{len(corpus):,} documents, {len(queries):,} queries, "
        f"{sum(map(len, qrels.values())):,} judgements in split {wanted.split}"
    )
    entry = wanted.known
    return Dataset(
        name=wanted.name,
        corpus=corpus,
        queries=queries,
        qrels=qrels,
        description=f"{wanted.name}: {wanted.source}; {counts}",
        about=entry.about if entry else "",
        split=wanted.split,
        paper=entry.name if entry and wanted.split == "test" else None,
    )


def log_absent(name: str, absent: int) -> None:
    """Warn of judgements that are of documents outside the corpus, if there are any."""
    if absent:
        _log.warning("%s: %d judgements are of documents outside the corpus", name, absent)


def check_id(value: str, what: str, place: str) -> None:
    """See that an id can stand in a TREC run, whose columns are parted by white space.

    Raises:
        DatasetError: it is empty, or holds white space or a zero byte.
    """
    if not _ID.fullmatch(value):
        raise DatasetError(
            f"{place}: {what} {value!r} is empty or holds white space or a zero byte"
        )


class _CorpusLine(BaseModel, strict=True):
    id: str = Field(alias="_id")
    title: str | None = None
    text: str


class _QueryLine(BaseModel, strict=True):
    id: str = Field(alias="_id")
    text: str


_Line = TypeVar("_Line", _CorpusLine, _QueryLine)


def _load_folder(folder: Traversable, wanted: Wanted) -> Dataset:
    # Small files first: a wrong split is noticed before a large corpus has been read.
    judgements = _read_qrels(folder, wanted.split)
    queries = {line.id: line.text for line in _read_jsonl(folder, "queries.jsonl", _QueryLine)}
    corpus = {
        line.id: Document(line.id, line.title or "", line.text)
        for line in _read_jsonl(folder, "corpus.jsonl", _CorpusLine)
    }
    dataset = assemble(wanted, corpus, queries, judgements)
    absent = sum(doc_id not in corpus for grades in judgements.values() for doc_id in grades)
    log_absent(wanted.name, absent)
    return dataset


def _read_jsonl(folder: Traversable, name: str, form: type[_Line]) -> Iterator[_Line]:
    first_seen: dict[str, int] = {}
    file, packed = folder / name, folder / f"{name}.gz"
    if packed.is_file() and not file.is_file():
        file = packed
    for place, number, line in read_lines(file, hint="; a data set in BEIR format has it"):
        try:
            entry = form.model_validate_json(line)
        except ValidationError as failure:
            raise DatasetError(f"{place}: {_explain(failure)}") from failure
        check_id(entry.id, "_id", place)
        if entry.id in first_seen:
            raise DatasetError(
                f"{place}: _id {entry.id!r} stands in line {first_seen[entry.id]} already"
            )
        first_seen[entry.id] = number
        yield entry


def _read_qrels(folder: Traversable, split: str) -> dict[str, dict[str, int]]:
    if split != re.split(r"[/\\]", split)[-1]:
        raise DatasetError(f"split {split!r} is no name of a file in {folder / 'qrels'}")
    file = folder / "qrels" / f"{split}.tsv"
    if not file.is_file():
        others = _splits(folder)
        found = f"there is {', '.join(others)}" if others else "there is no qrels/*.tsv at all"
        raise DatasetError(f"{file}: no judgements of split {split!r}; {found}")
    qrels: dict[str, dict[str, int]] = {}
    for place, number, line in read_lines(file):
        fields = line.rstrip("\r\n").split("\t")
        if number == 1 and fields[-1].strip().lower() == "score":
            continue
        if len(fields) != 3:
            raise DatasetError(
                f"{place}: {len(fields)} columns; a line of judgements has three, parted by "
                "tabs: query id, document id, grade"
            )
        query_id, doc_id, grade_text = (field.strip(_BLANK) for field in fields)
        check_id(query_id, "query id", place)
        check_id(doc_id, "document id", place)
        add_grade(qrels, query_id, doc_id, grade_text, place)
    if not qrels:
        raise DatasetError(f"{file}: no judgement in it; the split is empty")
    return qrels


def _splits(folder: Traversable) -> list[str]:
    qrels = folder / "qrels"
    if not qrels.is_dir():
        return []
    return sorted(
        repr(entry.name.removesuffix(".tsv"))
        for entry in qrels.iterdir()
        if entry.name.endswith(".tsv")
    )


def _explain(failure: ValidationError) -> str:
    first = failure.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['ctx']['error']}"
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"the key {key!r} is missing"
    if not key:
        return "not a JSON object"
    return f"{key!r} is {first['input']!r}; it should be a text"
