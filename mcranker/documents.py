"""Documents that are no plain text: records of fields, and the objects of retrieval libraries.

LangChain's, LlamaIndex's and Haystack's documents are known by their attributes; no such library
is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from mcranker.errors import InputError

ID_KEYS = ("_id", "id", "docid", "doc_id", "docno")
TEXT_KEYS = ("text", "contents", "body", "page_content", "content")
METADATA_KEYS = ("metadata", "meta")

_TEXTS = ("page_content", "content", "text")
_IDS = ("node_id", "id", "doc_id")
_DEEPEST = 20  # fields within one another


class LangChainDocument(Protocol):
    """A document of LangChain; its ``metadata`` and ``id`` are read as well."""

    page_content: str


class HaystackDocument(Protocol):
    """A document of Haystack; its ``meta``, ``id`` and ``score`` are read as well."""

    content: str | None


class LlamaIndexNode(Protocol):
    """A node of LlamaIndex, perhaps as ``node`` of an object with a ``score``."""

    def get_content(self) -> str: ...


def of_record(record: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Id, text, title, score and metadata of a record, as they are; id and score may be None.

    Keys that mean nothing here are part of the metadata, and are the text where there is none.

    Raises:
        InputError: there is neither a text nor another field; fields nest too deep.
    """
    used = {
        what: next((key for key in keys if record.get(key) is not None), None)
        for what, keys in (("id", ID_KEYS), ("text", TEXT_KEYS), ("metadata", METADATA_KEYS))
    }
    known = {*used.values(), "title", "score"}
    rest = {key: value for key, value in record.items() if key not in known}
    own = record.get(used["metadata"])
    fields = record.get(used["text"])
    if fields is None:
        fields = {key: value for key, value in rest.items() if key not in ID_KEYS} or None
    text = as_fields(fields, where) if _nests(fields) else fields
    if text is None or (fields is not None and text == "" and _nests(fields)):
        raise InputError(f"{where} has no text; put a string under one of {', '.join(TEXT_KEYS)}")
    return {
        "id": record.get(used["id"]),
        "text": text,
        "title": record.get("title") or "",
        "score": record.get("score"),
        "metadata": {**rest, **(own if isinstance(own, Mapping) else {"metadata": own})}
        if own is not None
        else rest,
    }


def of_object(document: object, where: str) -> dict[str, Any]:
    """Return id, text, title, score and metadata of an object; id and score may be None.

    Raises:
        InputError: it has no text.
    """
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


def as_fields(value: object, where: str = "the document") -> str:
    """Return fields as lines for people and models; empty ones are left out.

    >>> print(as_fields({"name": "Lamp", "price": 20, "parts": ["shade", "cable"], "note": None}))
    name: Lamp
    price: 20
    parts:
      - shade
      - cable

    Raises:
        InputError: they nest deeper than 20 levels.
    """
    return "\n".join(_lines(value, where, _DEEPEST))


def _lines(value: object, where: str, levels: int) -> Iterator[str]:
    if not levels:
        raise InputError(
            f"{where} has fields that nest deeper than {_DEEPEST} levels; give a text instead"
        )
    if isinstance(value, Mapping):
        for name, inner in value.items():
            lines = list(_lines(inner, where, levels - 1))
            if len(lines) == 1 and not _nests(inner):
                yield f"{name}: {lines[0]}"
            elif lines:
                yield f"{name}:"
                yield from (f"  {line}" for line in lines)
    elif isinstance(value, Sequence) and _nests(value):
        for inner in value:
            for place, line in enumerate(_lines(inner, where, levels - 1)):
                yield f"{'  ' if place else '- '}{line}"
    elif value is not None:
        yield from (str(value).lower() if isinstance(value, bool) else str(value)).splitlines()


def _nests(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes)


def _first(holder: object, names: Sequence[str]) -> Any:
    found = (getattr(holder, name, None) for name in names)
    return next((value for value in found if value is not None), None)
