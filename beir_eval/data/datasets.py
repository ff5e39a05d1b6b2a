"""Data sets: documents, queries and judgements; those of a folder.

A folder in BEIR format holds ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl``
(``_id``, ``text``) and ``qrels/SPLIT.tsv`` (query id, document id and grade, under a line of
headings; or TREC's four columns). The first two may be packed: ``corpus.jsonl.gz``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from beir_eval.errors import DatasetError
from mcranker.inputs.grades import HIGHEST_GRADE
from mcranker.inputs.trec import columns
from mcranker.logs import safe_logger
from mcranker.paths import is_file
from personas.io.lines import distinct, parsed, read_records, read_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from beir_eval.data.catalogue import Known


_FORMS = {3: (0, 1, 2), 4: (0, 2, 3)}  # columns -> where query, document and grade stand
BLANK = " \t\n\r\x0b\f"
_ID = re.compile(f"[^{BLANK}\0]+")  # tools in C end a text at a zero byte
BY_MODEL = "its judgements are a model's, {}"
MARK = ".judge.json"
"""Ending of the file that lies beside judgements of a model, see `beir_eval.judging`."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")


def read_qrels(path: str | os.PathLike[str] | Traversable) -> dict[str, dict[str, int]]:
    """Query id -> document id -> grade, in the order of the file."""
    if isinstance(path, str | os.PathLike):
        path = Path(path)
    found: dict[str, dict[str, int]] = {}
    count = 0
    for line_number, (place, line) in enumerate(read_texts(path, DatasetError)):
        fields = columns(line)
        if line_number == 0 and len(fields) == 3 and fields[2].lower() == "score":
            count = 3
            continue
        count = count or len(fields)
        if count not in _FORMS or len(fields) != count:
            raise DatasetError(
                f"{place}: {len(fields)} columns; each line of judgements has three (query id, "
                "document id, grade) or each has four (query id, 0, document id, grade)"
            )
        query_id, doc_id, text = (fields[column] for column in _FORMS[count])
        check_id(query_id, "query id", place)
        check_id(doc_id, "document id", place)
        if not _WHOLE.fullmatch(text):
            raise DatasetError(f"{place}: grade {text[:40]!r} is no whole number")
        grade = int(text)
        if abs(grade) > HIGHEST_GRADE:
            raise DatasetError(
                f"{place}: grade {grade!r} is out of range; give one from {-HIGHEST_GRADE:,} to "
                f"{HIGHEST_GRADE:,}"
            )
        before = found.setdefault(query_id, {}).setdefault(doc_id, grade)
        if before != grade:
            raise DatasetError(
                f"{place}: query {query_id!r} and document {doc_id!r} were given grade {before} "
                f"before, now {grade}; keep one of the lines"
            )
    if not found:
        raise DatasetError(f"{path}: no judgement in it")
    if model := judging_model(path):
        _log.warning("%s: %s", path, BY_MODEL.format(model))
    return found


def judging_model(path: str | os.PathLike[str] | Traversable) -> str:
    """The model that made a file's judgements, by the file beside it; empty if people did."""
    mark = Path(f"{path}{MARK}")
    records = read_records(mark, DatasetError, "model") if is_file(mark) else ()
    return next((str(each["model"]) for _, each in records), "")


def check_id(value: str, what: str, place: str) -> None:
    """Check that an id fits a TREC run, whose columns are parted by white space."""
    if not _ID.fullmatch(value):
        raise DatasetError(
            f"{place}: {what} {value!r} is empty or holds white space or a zero byte"
        )


COLLECTIONS: Mapping[str, str] = {
    "mini": "a small collection that comes with the package, for demonstrations and tests"
}
"""Collections that come with the package, each with a line about it."""

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
            paper's, or if the split is not ``"test"``. A folder is one of them if it has its
            name, and as many documents and judged queries.
        by_model: the model that judged; empty if people did.
    """

    name: str
    corpus: Mapping[str, Document]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    description: str
    about: str = ""
    split: str = "test"
    paper: str | None = None
    by_model: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of `load`, in the form its sources need."""

    name: str  # of the data set that is made
    place: str  # the folder or id, for messages
    source: str  # what it comes from, for the description
    split: str  # which judgements
    judged_only: bool  # whether queries without judgements are left out
    known: Known | None  # the paper's data set that has this name, or None
    checked: bool = False  # whether nothing but a name says that it is `known`


def assemble(
    wanted: Wanted,
    corpus: Mapping[str, Document],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
) -> Dataset:
    """The data set of these parts; judgements of unknown documents are dropped and logged."""
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
        paper=_paper(wanted, len(corpus), len(qrels)),
    )


def _paper(wanted: Wanted, documents: int, judged: int) -> str | None:
    """The data set's key in the paper's tables, if it is one of the paper's."""
    entry = wanted.known
    if entry is None or wanted.split != "test":
        return None
    if wanted.checked and (documents, judged) != (entry.documents, entry.queries):
        _log.warning(
            "%s is called like the paper's %s, but has %d documents and %d judged queries, not "
            "%d and %d: it is not taken for it",
            *(wanted.place, entry.title, documents, judged, entry.documents, entry.queries),
        )
        return None
    return entry.name


def log_absent(name: str, absent: int) -> None:
    """Warn of judgements that are of documents outside the corpus, if there are any."""
    if absent:
        _log.warning("%s: %d judgements are of documents outside the corpus", name, absent)


def load_folder(folder: Traversable, wanted: Wanted) -> Dataset:
    """The data set of a folder in BEIR format."""
    # Small files first: a wrong split is noticed before a large corpus has been read.
    file = _qrels_file(folder, wanted.split)
    judgements = read_qrels(file)
    queries = {each.id: each.text for each in _read_jsonl(folder, "queries.jsonl", "_id", "text")}
    found = _read_jsonl(folder, "corpus.jsonl", "_id", "text", "title")
    corpus = {each.id: each for each in found}
    dataset = assemble(wanted, corpus, queries, judgements)
    absent = sum(doc_id not in corpus for grades in judgements.values() for doc_id in grades)
    log_absent(wanted.name, absent)
    if not (model := judging_model(file)):
        return dataset
    said = f"{dataset.description}; {BY_MODEL.format(model)}"
    return replace(dataset, description=said, by_model=model)


def _read_jsonl(folder: Traversable, name: str, *keys: str) -> Iterator[Document]:
    """The lines of a file, which hold texts under the keys; the title may be missing."""
    file, packed = folder / name, folder / f"{name}.gz"
    if packed.is_file() and not file.is_file():
        file = packed

    def entries() -> Iterator[tuple[str, Document]]:
        missing = "; a data set in BEIR format has it"
        for place, line in read_texts(file, DatasetError, missing=missing):
            found = parsed(line, [place], DatasetError)
            if not isinstance(found, dict):
                raise DatasetError(f"{place}: not a JSON object")
            if found.get("title") is None:
                found["title"] = ""
            for key in keys:
                if key not in found:
                    raise DatasetError(f"{place}: the key {key!r} is missing")
                if not isinstance(value := found[key], str):
                    raise DatasetError(f"{place}: {key!r} is {value!r}; it should be a text")
            check_id(found["_id"], "_id", place)
            yield place, Document(found["_id"], found["title"], found["text"])

    return distinct(entries(), DatasetError)


def _qrels_file(folder: Traversable, split: str) -> Traversable:
    if split != re.split(r"[/\\]", split)[-1]:
        raise DatasetError(f"split {split!r} is no name of a file in {folder / 'qrels'}")
    file = folder / "qrels" / f"{split}.tsv"
    if not file.is_file():
        qrels = folder / "qrels"
        names = [each.name for each in qrels.iterdir()] if qrels.is_dir() else []
        others = sorted(repr(each[:-4]) for each in names if each.endswith(".tsv"))
        found = f"there is {', '.join(others)}" if others else "there is no qrels/*.tsv at all"
        raise DatasetError(f"{file}: no judgements of split {split!r}; {found}")
    return file
