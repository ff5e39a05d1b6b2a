"""Input files and standard input: passages, queries, runs and corpora.

Everything is read as UTF-8, with or without a byte order mark, plain or packed by gzip (``.gz``);
blank lines are skipped. Every complaint is one line that begins with ``FILE:LINE``. A line may have
64 MB, a JSON document 1,000 MB, so that no file takes all memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from mcranker.documents import ID_KEYS, TEXT_KEYS
from mcranker.errors import InputError
from mcranker.inputs import as_passages, in_conversation
from mcranker.topics import TopicField, has_headings, has_topics, read_topics
from mcranker.trec import decimal
from personas.ensembles import HIGHEST_SCORE
from personas.errors import shown
from personas.format import counted
from personas.io.lines import (
    LONGEST_LINE,
    LONGEST_RANKING,
    distinct,
    joined,
    megabytes,
    named,
    parsed,
    read_texts,
)
from personas.ranking.types import Passage, Query

Format = Literal["jsonl", "json", "tsv", "text"]
FORMATS = get_args(Format)

_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "text",
    ".md": "text",
}
_ID_COLUMNS = {"_id", "id", "docid", "doc_id", "docno", "pid", "qid", "query_id", "query-id"}


_Entry = tuple[str, str | dict[str, Any]]
"""Place in the file, and a text or a record."""


def read_passages(
    source: str,
    format: Format | None = None,  # noqa: A002
    *,
    what: str = "passage",
    lines: Iterator[tuple[str, str]] | None = None,
) -> list[Passage]:
    """Return the passages of a file, or of standard input for ``-``, in its order.

    | format | what it is |
    |---|---|
    | jsonl | an object with text and perhaps id a line, or a string a line |
    | json | an array of these, or an object id -> text |
    | tsv | id, tab, text; more columns need a line of headings (id, title, text, score) |
    | text | one passage a line, named by its place from 0 |

    Args:
        source: the file.
        format: None to go by the suffix, and where that says nothing by the first character.
        what: what messages call an entry.
        lines: of the file, if it is open already.

    Raises:
        InputError: the file cannot be read, is empty, or an entry of it is no passage.
    """
    entries = _entries(source, format, lines)
    if what == "query":
        entries = (
            (where, _with_usual_keys(entry, where))
            for where, entry in entries
            if isinstance(entry, str) or entry.get("keep") is not False
        )
    found = list(distinct(_passages(entries, named=what != "passage"), InputError))
    if not found:
        raise InputError(f"{named(source)}: there is no {what} in it")
    return found


def read_queries(source: str, topic_field: TopicField = "title") -> list[Query]:
    """The queries of a file with an id and a text each, in its order.

    It is JSONL, JSON or TSV as `read_passages` takes it, where ``qid`` and ``query`` are good names
    as well, and one with ``"keep": false`` is passed over; ``messages`` are a conversation, as
    `mcranker.inputs.in_conversation` takes it. Or it is topics or a table as
    `mcranker.topics.read_topics` takes them.

    Args:
        source: the file.
        topic_field: of topics, which field is the query.

    Raises:
        InputError: as `read_passages` and `read_topics`; or an empty text.
    """
    lines = _read_lines(source, json=_format_of(source) == "json")
    first = next(lines, None)
    if first is not None:
        lines = chain([first], lines)
        if has_topics(first[1]) or has_headings(first[1]):
            return read_topics(lines, named(source), topic_field)
    passages = read_passages(source, what="query", lines=lines)
    for passage in passages:
        if not passage.text.strip():
            raise InputError(f"{named(source)}: query {passage.id!r} has no text")
    return [Query(each.text, each.id, each.metadata.get("messages", ())) for each in passages]


def read_corpus(source: str, wanted: Container[str]) -> dict[str, Passage]:
    """The wanted passages of a corpus, by id; the others are read over and not kept.

    Raises:
        InputError: as `read_passages`; or a wanted id is there twice.
    """
    entries = _passages(_entries(source, None), named=True)
    found = ((where, passage) for where, passage in entries if passage.id in wanted)
    return {passage.id: passage for passage in distinct(found, InputError)}


def _format_of(source: str) -> Format | None:
    return _SUFFIXES.get(Path(source.lower().removesuffix(".gz")).suffix)


def _read_lines(source: str, *, json: bool) -> Iterator[tuple[str, str]]:
    hint = "see whether it is the right file; a JSON document may have "
    hint += f"{megabytes(LONGEST_RANKING)}: name it FILE.json"
    longest = LONGEST_RANKING if json else LONGEST_LINE
    return read_texts(source, InputError, longest=longest, too_long=hint)


def _with_usual_keys(entry: str | dict[str, Any], where: str) -> str | dict[str, Any]:
    """A query's record with its id and text under the names that passages have for them."""
    if isinstance(entry, str):
        return entry
    names = {"qid": ID_KEYS, "query_id": ID_KEYS, "query": TEXT_KEYS, "question": TEXT_KEYS}
    record = {
        usual[0] if (usual := names.get(key)) and not entry.keys() & set(usual) else key: value
        for key, value in entry.items()
    }
    if (messages := record.pop("messages", None)) is not None:
        texts = (record[key] for key in TEXT_KEYS if isinstance(record.get(key), str))
        text = next(texts, None)
        try:
            query = in_conversation(messages, None if text is None else Query(text))
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        record = {TEXT_KEYS[0]: query.text, **record, "messages": query.turns}
    return record


def _passages(entries: Iterable[_Entry], *, named: bool) -> Iterator[tuple[str, Passage]]:
    """The entries as passages; if they are `named`, records must have an id and a text."""
    for place, (where, found) in enumerate(entries):
        entry = found.strip() if isinstance(found, str) else found
        if named and isinstance(entry, dict):
            for what, keys in (("id", ID_KEYS), ("text", TEXT_KEYS)):
                if not any(entry.get(key) is not None for key in keys):
                    raise InputError(
                        f"{where}: the entry has no {what}; put it under one of {', '.join(keys)}"
                    )
        try:
            (passage,) = as_passages((entry,), first=place)
        except InputError as error:
            message = str(error).replace(f"docs[{place}]", "the entry")
            raise InputError(f"{where}: {message}") from error
        yield where, passage


def _entries(
    source: str,
    format: Format | None,  # noqa: A002
    lines: Iterator[tuple[str, str]] | None = None,
) -> Iterator[_Entry]:
    format = format or _format_of(source)  # noqa: A001
    if lines is None:
        lines = _read_lines(source, json=format == "json")
    if format is None:
        first = next(lines, None)
        if first is None:
            return
        lines = chain([first], lines)
        start = first[1].lstrip()
        format = "jsonl" if start.startswith("{") else "text"  # noqa: A001
        if start.startswith("[") and _is_json_start(start):
            format = "json"  # noqa: A001
    if format == "text":
        yield from lines
    elif format == "tsv":
        yield from _tsv(lines)
    elif format == "json":
        yield from _json_entries(lines, named(source))
    else:
        for where, line in lines:
            yield where, _record(parsed(line, [where], InputError, loose=True), where)


def _tsv(lines: Iterator[tuple[str, str]]) -> Iterator[_Entry]:
    columns = ["_id", "text"]
    for number, (where, line) in enumerate(lines):
        cells = line.rstrip("\r\n").split("\t")
        if number == 0 and cells[0].strip().lower() in _ID_COLUMNS:
            columns = ["_id", *(cell.strip().lower() for cell in cells[1:])]
            if len(columns) == 2:
                columns[1] = "text"
            continue
        if len(cells) != len(columns):
            raise InputError(
                f"{where}: {counted(len(cells), 'column')} instead of {len(columns)}; give an id, "
                "a tab and a text, or a first line that names the columns (id, title, text, score)"
            )
        record: dict[str, Any] = dict(zip(columns, cells, strict=True))
        if "score" in record:
            record["score"] = _score(record["score"], where)
        yield where, record


def _json_entries(lines: Iterator[tuple[str, str]], name: str) -> Iterator[_Entry]:
    text, places = joined(lines, name, InputError)
    if not places:
        return
    data = parsed(text, places, InputError, loose=True)
    if isinstance(data, dict):
        data = [
            {"_id": key, **value} if isinstance(value, dict) else {"_id": key, "text": value}
            for key, value in data.items()
        ]
    if not isinstance(data, list):
        raise InputError(f"{name}: holds a {type(data).__name__}; give an array or an object")
    for number, entry in enumerate(data, start=1):
        where = f"{name}: entry {number}"
        yield where, _record(entry, where)


def _record(entry: Any, where: str) -> str | dict[str, Any]:
    if isinstance(entry, str | dict):
        return entry
    raise InputError(
        f"{where}: a {type(entry).__name__}; give an object with an id and a text, or a string"
    )


def _is_json_start(text: str) -> bool:
    rest = text[1:].lstrip()
    return not rest or rest[0] in '"{]'


def _score(text: str, where: str) -> float:
    with contextlib.suppress(ValueError):
        if abs(value := decimal(text)) <= HIGHEST_SCORE:
            return value
    raise InputError(
        f"{where}: the score {shown(text)} is no finite number of up to {HIGHEST_SCORE:.3g}"
    )
