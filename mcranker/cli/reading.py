"""Passages, queries and corpora of files and standard input; errors begin with ``FILE:LINE``."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from mcranker.errors import InputError
from mcranker.inputs.documents import ID_KEYS, key_of
from mcranker.inputs.passages import in_conversation
from mcranker.inputs.topics import TopicField, has_headings, has_topics, read_topics
from mcranker.retrieval.readers import (
    Format,
    format_of,
    of_entries,
    passages_of,
    read_entries,
    read_text_lines,
    refuse,
)
from personas.io.lines import distinct, named
from personas.ranking.types import Passage, Query

_QUERY_KEYS = {"id": ("_id", "id", "qid", "query_id"), "text": ("text", "query", "question")}
"""BEIR's names before PyTerrier's."""


def read_passages(source: str, format: Format | None = None) -> list[Passage]:  # noqa: A002
    """Return the passages of a source, as `passages_of` reads it, in its order."""
    found = list(distinct(passages_of(source, format), InputError))
    if not found:
        raise InputError(f"{named(source)}: there is no passage in it")
    return found


def read_queries(source: str, topic_field: TopicField = "title") -> list[Query]:
    """The queries of a file with an id and a text each, in its order."""
    found = read_text_lines(source, refuse, format_of(source))
    lines = ((where, line) for where, line in found if line.strip())
    first = next(lines, None)
    if first is not None:
        lines = (each for each in chain([first], lines))
        if has_topics(first[1]) or has_headings(first[1]):
            return read_topics(lines, named(source), topic_field)
    entries = read_entries(lines, named(source), format_of(source))
    queries = list(distinct(of_entries(_queries(entries)), InputError))
    for query in queries:
        if not query.text.strip():
            raise InputError(f"{named(source)}: query {query.id!r} has no text")
    if not queries:
        raise InputError(f"{named(source)}: there is no query in it")
    return [Query(each.text, each.id, each.metadata.get("messages", ())) for each in queries]


def read_corpus(source: str, wanted: Container[str]) -> dict[str, Passage]:
    """The wanted passages of a corpus, by id; the others are read over and not kept."""
    lines = read_text_lines(source, refuse, format_of(source))
    entries = read_entries(lines, named(source), format_of(source))
    found = (each for each in of_entries(_with_ids(entries)) if each[1].id in wanted)
    return {passage.id: passage for passage in distinct(found, InputError)}


def _queries(entries: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for where, entry in entries:
        if not isinstance(entry, Mapping):
            yield where, entry
        elif entry.get("keep") is not False:
            record = {"_id": entry[_key(where, entry, "id", _QUERY_KEYS["id"])]}
            yield where, record | _question(where, entry)


def _question(where: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a query's record, and the earlier turns of its conversation."""
    messages, keys = entry.get("messages"), _QUERY_KEYS["text"]
    if messages is None:
        return {"text": entry[_key(where, entry, "text", keys)]}
    key = key_of(entry, keys)
    try:
        query = in_conversation(messages, None if key is None else Query(entry[key]))
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return {"text": query.text, "messages": query.turns}


def _with_ids(entries: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for where, entry in entries:
        if isinstance(entry, Mapping):
            _key(where, entry, "id", ID_KEYS)
        yield where, entry


def _key(where: str, entry: Mapping[str, Any], what: str, keys: tuple[str, ...]) -> str:
    if (key := key_of(entry, keys)) is None:
        raise InputError(f"{where}: the entry has no {what}; put it under one of {', '.join(keys)}")
    return str(key)
