"""Data sets: documents, queries and judgements, from a folder in BEIR format.

Such a folder holds ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``,
``text``) and ``qrels/SPLIT.tsv`` (query id, document id and grade, parted by tabs, under a line
of headings).
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, Field, ValidationError

from beir_eval.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

__all__ = ["COLLECTIONS", "Dataset", "Document", "load"]

COLLECTIONS: Mapping[str, str] = {
    "mini": "a small collection that comes with the package, for demonstrations and tests",
}
"""Names that `load` knows, each with a line about the collection."""

_log = logging.getLogger("mcranker.beir_eval.datasets")


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
        name: name of the collection, or of its folder.
        corpus: document id -> document, in the order of the file.
        queries: query id -> text, in the order of the file.
        qrels: query id -> document id -> grade; 0 or less is not relevant. Every query in it
            is one of the file ``queries.jsonl``; its documents may be missing from the corpus.
        description: what the data set is and how large, in a line for people.
    """

    name: str
    corpus: Mapping[str, Document]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    description: str


def load(
    name_or_path: str | os.PathLike[str], *, split: str = "test", judged_only: bool = True
) -> Dataset:
    """Load a data set by name, or from a folder in BEIR format.

    Args:
        name_or_path: a name of `COLLECTIONS`, or a folder. A name goes before a folder of the
            same name: write ``"./mini"`` or a `Path` for the folder.
        split: which judgements: the name of a file in ``qrels``, without ``.tsv``.
        judged_only: keep only the queries with judgements in the split; else all queries.

    Judgements of queries that ``queries.jsonl`` does not hold are left out, and a warning is
    logged with their number; judgements of documents outside the corpus stay (they count in
    the ideal ranking, as in trec_eval), and are logged as well.

    Raises:
        DatasetError: no such collection or folder; a file is missing or cannot be read, or is
            not UTF-8; a line is not JSON, lacks a key or holds a wrong type; an id is empty,
            holds white space or stands twice; the corpus, the queries or the judgements are
            empty.
    """
    if isinstance(name_or_path, str) and name_or_path in COLLECTIONS:
        name = name_or_path
        folder: Traversable = resources.files("beir_eval") / "collections" / name
        about = COLLECTIONS[name]
    else:
        path = Path(name_or_path)
        if not path.is_dir():
            known = ", ".join(sorted(COLLECTIONS))
            raise DatasetError(
                f"no data set {os.fspath(name_or_path)!r}: neither a known name ({known}) nor a "
                "folder; a folder in BEIR format holds corpus.jsonl, queries.jsonl and "
                "qrels/SPLIT.tsv"
            )
        name = path.resolve().name
        folder = path
        about = "a folder in BEIR format"
    return _load_folder(folder, name, about, split=split, judged_only=judged_only)


class _CorpusLine(BaseModel, strict=True):
    id: str = Field(alias="_id")
    title: str | None = None
    text: str


class _QueryLine(BaseModel, strict=True):
    id: str = Field(alias="_id")
    text: str


_Line = TypeVar("_Line", _CorpusLine, _QueryLine)


def _load_folder(
    folder: Traversable, name: str, about: str, *, split: str, judged_only: bool
) -> Dataset:
    # Small files first: a wrong split is noticed before a large corpus has been read.
    judgements = _read_qrels(folder, split)
    queries = {line.id: line.text for line in _read_jsonl(folder / "queries.jsonl", _QueryLine)}
    corpus = {
        line.id: Document(line.id, line.title or "", line.text)
        for line in _read_jsonl(folder / "corpus.jsonl", _CorpusLine)
    }
    if not corpus:
        raise DatasetError(f"{folder / 'corpus.jsonl'}: no document in it; the corpus is empty")
    qrels = {query_id: grades for query_id, grades in judgements.items() if query_id in queries}
    _log_strays(name, judgements, queries, corpus)
    if judged_only:
        queries = {query_id: text for query_id, text in queries.items() if query_id in qrels}
    if not queries:
        raise DatasetError(
            f"{folder}: none of its queries has a judgement in split {split!r}; "
            "see whether queries.jsonl and the qrels file belong together"
        )
    counts = (
        f"{len(corpus):,} documents, {len(queries):,} queries, "
        f"{sum(map(len, qrels.values())):,} judgements in split {split}"
    )
    return Dataset(name, corpus, queries, qrels, f"{name}: {about}; {counts}")


def _log_strays(
    name: str,
    judgements: Mapping[str, Mapping[str, int]],
    queries: Mapping[str, str],
    corpus: Mapping[str, Document],
) -> None:
    strangers = [query_id for query_id in judgements if query_id not in queries]
    if strangers:
        _log.warning(
            "%s: %d judged queries are not in queries.jsonl and are left out, e.g. %r",
            name,
            len(strangers),
            strangers[0],
        )
    absent = sum(doc_id not in corpus for grades in judgements.values() for doc_id in grades)
    if absent:
        _log.warning("%s: %d judgements are of documents outside the corpus", name, absent)


def _read_jsonl(file: Traversable, form: type[_Line]) -> Iterator[_Line]:
    first_seen: dict[str, int] = {}
    for place, number, line in _read_lines(file):
        try:
            entry = form.model_validate_json(line)
        except ValidationError as failure:
            raise DatasetError(f"{place}: {_explain(failure)}") from failure
        _check_id(entry.id, "_id", place)
        if entry.id in first_seen:
            raise DatasetError(
                f"{place}: _id {entry.id!r} stands in line {first_seen[entry.id]} already"
            )
        first_seen[entry.id] = number
        yield entry


def _read_qrels(folder: Traversable, split: str) -> dict[str, dict[str, int]]:
    file = folder / "qrels" / f"{split}.tsv"
    if not file.is_file():
        others = _splits(folder)
        found = f"there is {', '.join(others)}" if others else "there is no qrels/*.tsv at all"
        raise DatasetError(f"{file}: no judgements of split {split!r}; {found}")
    qrels: dict[str, dict[str, int]] = {}
    for place, number, line in _read_lines(file):
        fields = line.rstrip("\r\n").split("\t")
        if number == 1 and fields[-1].strip().lower() == "score":
            continue
        if len(fields) != 3:
            raise DatasetError(
                f"{place}: {len(fields)} columns; a line of judgements has three, parted by "
                "tabs: query id, document id, grade"
            )
        query_id, doc_id, grade_text = (field.strip() for field in fields)
        _check_id(query_id, "query id", place)
        _check_id(doc_id, "document id", place)
        try:
            grade = int(grade_text)
        except ValueError as failure:
            raise DatasetError(f"{place}: grade {grade_text!r} is no whole number") from failure
        if qrels.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
            raise DatasetError(
                f"{place}: query {query_id!r} and document {doc_id!r} were given grade "
                f"{qrels[query_id][doc_id]} before, now {grade}; keep one of the lines"
            )
    if not qrels:
        raise DatasetError(f"{file}: no judgement in it; the split is empty")
    return qrels


def _read_lines(file: Traversable) -> Iterator[tuple[str, int, str]]:
    """(``FILE:LINE``, line number from 1, text) of every line that is not blank."""
    try:
        with file.open("rb") as lines:
            for number, raw in enumerate(lines, start=1):
                place = f"{file}:{number}"
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as failure:
                    raise DatasetError(
                        f"{place}: byte {failure.start + 1} of the line is not UTF-8; "
                        "convert the file first"
                    ) from failure
                if line.strip():
                    yield place, number, line
    except FileNotFoundError as failure:
        raise DatasetError(f"{file}: no such file; a data set in BEIR format has it") from failure
    except OSError as failure:
        raise DatasetError(f"{file}: cannot be read: {failure.strerror}") from failure


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


def _check_id(value: str, what: str, place: str) -> None:
    # TREC runs, in which every result ends up, have columns parted by white space.
    if not value or any(character in " \t\n\r\x0b\f" for character in value):
        raise DatasetError(f"{place}: {what} {value!r} is empty or holds white space")
