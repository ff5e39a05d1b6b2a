"""Documents that are no plain text: records of data sets and services, and libraries' objects.

Keys of records are known in any case, with or without ``_``, ``-`` and spaces: ``pageContent`` is
``page_content``. LangChain's, LlamaIndex's and Haystack's documents are known by their attributes;
no such library is imported.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

from mcranker.errors import InputError

ID_KEYS = (
    *("_id", "id", "pid", "passage_id", "psg_id", "chunk_id", "node_id", "docid", "docno"),
    *("document_id", "uuid", "pk"),
)
TEXT_KEYS = (
    *("text", "contents", "body", "page_content", "content", "passage_text", "passage"),
    *("chunk_text", "chunk", "context", "document", "document_text", "paragraph"),
    *("paragraph_text", "segment", "snippet", "abstract"),
)
QUERY_KEYS = ("query", "question", "text")
QUERY_ID_KEYS = ("query_id", "qid", "_id", "id")
TITLE_KEYS = ("title", "document_title", "doc_title", "page_title", "headline")
SCORE_KEYS = ("score", "_score")
METADATA_KEYS = ("metadata", "meta")
RECORD_KEYS = (
    *("_source", "entity", "payload", "properties", "fields", "document", "doc", "passage"),
    *("chunk", "node", *METADATA_KEYS),
)
"""Keys that may hold the fields of a record which has no text of its own."""
LIST_KEYS = (
    *("docs", "documents", "passages", "ctxs", "hits", "results", "result", "matches", "points"),
    *("objects", "nodes", "chunks", "items", "records", "rows", "response", "value", "data"),
)
"""Keys of a mapping that may hold the list of documents."""
LABEL_KEYS = (
    *("is_selected", "has_answer", "answers", "answer_start", "is_impossible", "relevance"),
    *("relevance_score", "is_relevant", "relevant", "label", "labels", "grade", "rating"),
    *("qrel", "qrels", "judgment", "judgement", "distance", "similarity", "certainty"),
)
"""Judgements and measures, which no judge sees, not even among the fields of a structured text."""

_TEXTS = ("page_content", "content", "text")
_IDS = ("node_id", "id", "doc_id")
_DEEPEST = 20  # fields within one another
_SHOWN = 20  # keys in a message


class LangChainDocument(Protocol):
    """A document of LangChain; its ``metadata`` and ``id`` are read as well."""

    page_content: str


class HaystackDocument(Protocol):
    """A document of Haystack; its ``meta``, ``id`` and ``score`` are read as well."""

    content: str | None


class LlamaIndexNode(Protocol):
    """A node of LlamaIndex, perhaps as ``node`` of an object with a ``score``."""

    def get_content(self) -> str: ...


def entries(docs: Iterable[Any]) -> Iterator[Any]:
    """Yield texts, records and objects of a list, a mapping id -> text or record, or a response."""
    named = isinstance(docs, Mapping)
    for each in (docs,) if isinstance(docs, Mapping) else docs:
        if not isinstance(each, Mapping):
            yield each
        elif (held := _held(each, whole=named)) is not None:
            yield from entries(held) if named else held
        elif (
            not named
            or _is_record(each)
            or not all(isinstance(value, str | Mapping) for value in each.values())
            or not KNOWN.isdisjoint(map(fold, each))
        ):
            yield each  # which is refused if it is no record
        else:
            for key, value in each.items():
                fields = value if isinstance(value, Mapping) else {"text": value}
                yield {**fields, "_id": "" if key is None else key}


def key_of(record: Mapping[Any, Any], keys: Iterable[str]) -> Any:
    """Return the key of a record's value that is one of `keys`, the first one; else None."""
    return next((key for key in _keys(record, keys) if record[key] is not None), None)


@lru_cache(10_000)
def fold(key: object) -> str:
    """Return the form of a key by which it is known."""
    name = str(key).strip().lower()
    return name[:1] + name[1:].translate({ord(each): None for each in "_- "})


KNOWN = frozenset(
    map(fold, chain(ID_KEYS, TEXT_KEYS, TITLE_KEYS, SCORE_KEYS, METADATA_KEYS, LABEL_KEYS))
)
_HIDDEN = frozenset(map(fold, chain(LABEL_KEYS, SCORE_KEYS)))


def of_record(record: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Id, text, title, score and metadata of a record, as they are; id and score may be None."""
    fields, outer = record, record
    if _text_key(record) is None and (wrapper := _wrapper(record)) is not None:
        outer = {key: value for key, value in record.items() if key != wrapper}
        fields = {**record[wrapper], **outer}
    text_key, metadata_key = _text_key(fields), key_of(fields, METADATA_KEYS)
    text = None if text_key is None else fields[text_key]
    if _nests(text):
        text = as_fields(text, where) or None
    if text is None:
        inner = (record[key] for key in _keys(record, RECORD_KEYS))
        inner = (each.items() for each in inner if isinstance(each, Mapping))
        kinds = [f"{str(k)[:50]!r} ({type(v).__name__})" for k, v in chain(record.items(), *inner)]
        seen = ", ".join([*kinds[:_SHOWN], *(["..."] if len(kinds) > _SHOWN else [])]) or "none"
        raise InputError(
            f"{where} has no text; its keys are {seen}: "
            "put a string, or fields to show, under 'text'; docs/serve.md lists what is read"
        )
    used = {
        "id": key_of(outer, ID_KEYS) or key_of(fields, ID_KEYS),
        "title": key_of(fields, TITLE_KEYS),
        "score": key_of(fields, SCORE_KEYS),
    }
    known = {*used.values(), text_key, metadata_key, "title", *SCORE_KEYS}
    metadata = {key: value for key, value in fields.items() if key not in known}
    if metadata_key is not None:
        own = fields[metadata_key]
        metadata |= own if isinstance(own, Mapping) else {"metadata": own}
    parts = {what: fields.get(key) for what, key in used.items()}
    return {**parts, "text": text, "title": parts["title"] or "", "metadata": metadata}


def of_object(document: object, where: str) -> dict[str, Any]:
    """Return id, text, title, score and metadata of an object; id and score may be None."""
    node = getattr(document, "node", document)
    text = _first(node, _TEXTS)
    if text is None and callable(content := getattr(node, "get_content", None)):
        text = content()
    if text is None:
        for each in _TEXTS:
            if hasattr(node, each):
                raise InputError(f"{where} has no text: its {each} is None; leave it out")
        raise InputError(
            f"{where} is a {type(document).__name__}; give a string, a record, a Passage, or a "
            "document with page_content, content or text"
        )
    metadata = _first(node, METADATA_KEYS)
    return {
        "id": _first(node, _IDS),
        "text": text,
        "title": _first(node, ("title",)) or "",
        "score": _first(document, ("score",)),
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
    }


def as_fields(value: object, where: str = "the document", hidden: Container[str] = _HIDDEN) -> str:
    """Return fields as lines for people and models; empty and `hidden` ones are left out."""
    return "\n".join(_lines(value, where, _DEEPEST, hidden))


def _lines(value: object, where: str, levels: int, hidden: Container[str]) -> Iterator[str]:
    if not levels:
        raise InputError(
            f"{where} has fields that nest deeper than {_DEEPEST} levels; give a text instead"
        )
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if fold(name) in hidden:
                continue
            lines = list(_lines(inner, where, levels - 1, hidden))
            if len(lines) == 1 and not _nests(inner):
                yield f"{name}: {lines[0]}"
            elif lines:
                yield f"{name}:"
                yield from (f"  {line}" for line in lines)
    elif isinstance(value, Sequence) and _nests(value):
        for inner in value:
            for place, line in enumerate(_lines(inner, where, levels - 1, hidden)):
                yield f"{'  ' if place else '- '}{line}"
    elif value is not None:
        yield from (str(value).lower() if isinstance(value, bool) else str(value)).splitlines()


def _keys(record: Mapping[Any, Any], keys: Iterable[str]) -> Iterator[Any]:
    """Yield the keys of a record that are among `keys`, in the order of these."""
    own = {fold(key): key for key in record}
    for key in keys:
        if key in record:
            yield key
        elif (other := own.get(fold(key))) is not None:
            yield other


def _text_key(record: Mapping[Any, Any]) -> Any:
    if isinstance(text := record.get("text"), str) and text:
        return "text"
    found = [
        key
        for key in _keys(record, TEXT_KEYS)
        if isinstance(record[key], str) or (fold(key) == "text" and _nests(record[key]))
    ]
    return next((key for key in found if record[key]), found[0] if found else None)


def _wrapper(record: Mapping[Any, Any]) -> Any:
    """Return the key that holds the fields of a record."""
    inner = (key for key in _keys(record, RECORD_KEYS) if isinstance(record[key], Mapping))
    return next((key for key in inner if _text_key(record[key]) is not None), None)


def _is_record(fields: Mapping[Any, Any]) -> bool:
    return _text_key(fields) is not None or _wrapper(fields) is not None


def _held(holder: Mapping[Any, Any], *, whole: bool) -> Sequence[Any] | None:
    """Return the documents in a mapping that is none; as an entry it has to be sure of them."""
    for _ in range(4):  # mappings around a list
        fields = whole and _nests(holder.get(_text_key(holder)))
        if _is_record(holder) and not fields:
            return None
        if (rows := _rows(holder, whole=whole)) or fields:
            return rows or None
        inner = next((holder[k] for k in _keys(holder, LIST_KEYS) if _nests(holder[k])), None)
        if not isinstance(inner, Mapping):
            return inner if whole or (inner and isinstance(inner[0], Mapping)) else None
        holder, whole = inner, True
    return None


def _rows(table: Mapping[Any, Any], *, whole: bool) -> list[dict[Any, Any]]:
    """Return the rows of columns, in an entry of two or of ``documents``, not of one ``text``."""
    columns: dict[Any, Sequence[Any]] = {}
    for key, value in table.items():
        if _nests(value) and not isinstance(value, Mapping):
            one = str(key).removesuffix("s")
            name = one if fold(one) in KNOWN and fold(key) not in KNOWN else key
            a_query = len(value) == 1 and isinstance(value[0], list)  # as Chroma answers
            columns[name] = value[0] if a_query else value
    of_texts = (
        key
        for key in _keys(columns, TEXT_KEYS)
        if columns[key] and all(isinstance(cell, str) for cell in columns[key])
    )
    if (text := next(of_texts, None)) is None:
        return []
    kept = {key: each for key, each in columns.items() if len(each) == len(columns[text])}
    if not whole and len(kept) == 1 and text in table:
        return []
    return [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)]


def _nests(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes)


def _first(holder: object, names: Sequence[str]) -> Any:
    found = (getattr(holder, name, None) for name in names)
    return next((value for value in found if value is not None), None)
