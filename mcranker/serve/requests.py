"""Requests of all clients: one table of the fields that they send, read from raw JSON.

Each field is checked in its turn, counts before contents, and the first fault ends it: nothing is
built from a body that is refused.
"""

from __future__ import annotations

import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from mcranker.inputs.documents import as_fields, of_record
from mcranker.inputs.passages import as_passages, in_conversation
from mcranker.ranking import Ranking
from mcranker.serve.bodies import Problem, bounded
from mcranker.serve.settings import Limits
from personas.errors import shown
from personas.format import counted
from personas.ranking.types import Passage, Query

T = TypeVar("T")
_OF_A_SCORE = 100  # bytes, about
_OF_A_PASSAGE = 1_000
BYTES_A_TOKEN = 4
"""UTF-8 bytes a token, if no tokenizer is known: about that of English, more than other scripts."""
_LONGEST_NAME = 500
_MOST_FIELDS = 100
Document = str | dict[str, Any]
Reader = Callable[[Any, str, Limits], Any]
Fields = Mapping[str, tuple[str, Reader]]
"""Field of a body -> its name here, and its check; raises `Problem`."""
_OF_QUERIES = {"text", "id"}
_NO_EFFECT = ("priority", "max_chunks_per_doc", "max_query_length", "rewrite_query", "latency")
_NOT_OFFERED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "relevant_spans": (
        lambda value: isinstance(value, dict) and value.get("mode") != "disabled",
        "leave it out, or see /v1/explain for why a document ranks where it does",
    ),
    "return_embeddings": (bool, "there are no embeddings; leave it out"),
    "mm_processor_kwargs": (bool, "only texts are ranked; leave it out"),
}
"""Field -> if a value of it asks for what there is not, and what to do instead."""


class Explanations(Generic[T]):
    """Rankings, or what else has a page, by id; the oldest make room for new ones."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: OrderedDict[str, tuple[T, str, int]] = OrderedDict()
        self._bytes = 0

    def put(self, made: T, size: int, holder: str = "") -> str:
        """Keep one of `size` bytes and return its id; `holder` names the key it was asked with."""
        name, most = uuid.uuid4().hex, self._limits.explanations_bytes
        if size <= most:
            self._kept[name] = made, holder, size
            self._bytes += size
        while len(self._kept) > self._limits.explanations or self._bytes > most:
            self._bytes -= self._kept.popitem(last=False)[1][2]
        return name

    def get(self, name: str, holder: str = "") -> T:
        """The one with that id."""
        made, owner, _ = self._kept.get(name, (None, "", 0))
        if made is None or owner != holder:
            said = f"there is no ranking {name[:100]!r}, or it is no longer kept; rank again"
            raise Problem("not_found", said)
        return made


def size_of(ranking: Ranking) -> int:
    """Return the bytes that a ranking takes, about."""
    # Python takes up to four bytes for a character.
    texts = sum(4 * (len(each.text) + len(each.title)) for each in ranking.passages)
    scores = _OF_A_PASSAGE + _OF_A_SCORE * len(ranking.personas)
    return texts + scores * len(ranking.passages)


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A request of a rerank client, in any dialect."""

    query: str
    documents: Sequence[Document]
    model: str | None = None
    top_n: int = 0
    return_documents: bool | None = None
    max_tokens: int = 0
    rank_fields: Sequence[str] = ()
    timeout: float | None = None
    raw: bool = False
    instruction: str = ""
    reasons: int = 0
    warnings: tuple[str, ...] = ()

    @classmethod
    def read(cls, body: Mapping[str, Any], limits: Limits) -> RerankRequest:
        """Read a body of any dialect."""
        for name in ("input", "parameters"):  # DashScope and Pinecone put fields there
            if isinstance(body.get(name), dict):
                body = {**body, **body[name], name: None}
        for name, (given, instead) in _NOT_OFFERED.items():
            if given(body.get(name)):
                raise Problem("invalid", f"invalid request: {name} is not offered; {instead}")
        found = read_fields(body, RERANK_FIELDS, limits, required=("query", "documents"))
        if not found["documents"]:
            raise Problem("empty", "invalid request: list of documents must not be empty")
        ignored = [name for name in _NO_EFFECT if body.get(name) not in (None, False)]
        return cls(**found, warnings=tuple(f"{name} has no effect here" for name in ignored))

    def passages(self) -> tuple[Passage, ...]:
        """The passages, each with its place for an id."""
        return tuple(
            _passage(place, document, self.rank_fields)
            for place, document in enumerate(self.documents)
        )


def read_fields(
    body: Mapping[str, Any],
    fields: Fields,
    limits: Limits,
    *,
    strict: bool = False,
    required: Sequence[str] = (),
) -> dict[str, Any]:
    """The values of a body's fields by the names of the table; null is absent, other fields too."""
    if strict and (unknown := [name for name in body if name not in fields]):
        raise Problem("invalid", f"invalid request: there is no field {unknown[0][:100]!r}")
    found: dict[str, Any] = {}
    for name, (attribute, read) in fields.items():
        if (value := body.get(name)) is not None:
            found.setdefault(attribute, read(value, name, limits))
    for name in required:
        if name not in found:
            raise Problem("invalid", f"invalid request: {name!r} is missing")
    return found


def read_question(body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """The values of `QUESTION_FIELDS`; the question has the earlier turns of ``messages``."""
    found = read_fields(body, QUESTION_FIELDS, limits, strict=True)
    if (messages := body.get("messages")) is not None:
        query = found["question"] = in_conversation(messages, found.get("question"))
        _text(query.conversation, "messages", limits)
    if "question" not in found:
        raise Problem("invalid", "invalid request: 'question' is missing")
    return found


def cut_to_bytes(
    passages: Sequence[Passage], tokens: int
) -> tuple[tuple[Passage, ...], tuple[str, ...]]:
    """Cut passages to `tokens` tokens, for models whose tokenizer is not known."""
    most, short = tokens * BYTES_A_TOKEN, []
    for each in passages:
        text = each.text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
        short.append(replace(each, text=text) if len(text) < len(each.text) else each)
    count = sum(a is not b for a, b in zip(short, passages, strict=True))
    said = (
        f"{counted(count, 'document')} cut to {most} bytes: {BYTES_A_TOKEN} a token, since the "
        "model's tokenizer is not known here"
    )
    return tuple(short), (said,) if count else ()


def _passage(place: int, document: Document, fields: Sequence[str]) -> Passage:
    """Return the passage of a text, a record's text, or its fields; its id is its place."""
    text, where = document, f"documents[{place}]"
    if isinstance(document, dict) and fields:
        chosen = {name: document[name] for name in fields if name in document}
        if not chosen:
            said = f"{where} has none of the rank_fields {', '.join(fields)[:200]}"
            raise Problem("invalid", f"invalid request: {said}")
        text = as_fields(chosen, where, hidden=())
    elif isinstance(document, dict):
        text = of_record(document, where)["text"]
    (passage,) = as_passages([{"id": str(place), "text": text}], first=place)
    return passage


# Readers


def _refuse(name: str, value: Any, wanted: str) -> Problem:
    return Problem("invalid", f"invalid request: {name} is {shown(value)}; give {wanted}")


def _number(value: Any) -> bool:
    # No NaN, which compares with nothing, and no whole number that is too large for a float.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def _that(holds: Callable[[Any], bool], wanted: str) -> Reader:
    """Return a reader of values that satisfy `holds`."""

    def read(value: Any, name: str, limits: Limits) -> Any:
        if not holds(value):
            raise _refuse(name, value, wanted)
        return value

    return read


def _up_to(limit: str, *, least: int = 0, zero: str = "all") -> Reader:
    """Return a reader of whole numbers, cut to a field of `Limits`."""

    def read(value: Any, name: str, limits: Limits) -> int:
        # JSON has numbers of one kind, and those of over 64 bits are read as floats.
        if not (_number(value) and value % 1 == 0 and value >= least):
            raise _refuse(name, value, f"a whole number above 0, or 0 for {zero}")
        most: int = getattr(limits, limit)
        return min(max(int(value), 0), most)

    return read


def _flag(value: Any, name: str, limits: Limits) -> bool:
    """True or false, also as a word."""
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower(), value)
    if not isinstance(value, bool):
        raise _refuse(name, value, "true or false")
    return value


def _text(value: Any, name: str, limits: Limits) -> str:
    """A text, also as the only one of a list, or under ``text``."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        value = value.get("text")
    if not isinstance(value, str):
        raise _refuse(name, value, "one text")
    if not value.strip():
        raise Problem("invalid", f"invalid request: {name} must not be empty")
    if len(value) > limits.query:
        said = f"{name} has {len(value)} characters; give up to {limits.query}"
        raise Problem("too_large", said)
    return value


def _query(value: Any, name: str, limits: Limits) -> Query:
    """A query with or without an id."""
    query_id = value.get("id") or "" if isinstance(value, dict) else ""
    if isinstance(value, dict) and not (isinstance(query_id, str) and value.keys() <= _OF_QUERIES):
        raise _refuse(name, value, "a text, or an object with text and id")
    return Query(_text(value, name, limits), query_id)


def _documents(value: Any, name: str, limits: Limits) -> list[Document]:
    found: list[Document] = [value] if isinstance(value, str) else value
    if not isinstance(found, list):
        raise _refuse(name, value, "a list of texts or objects")
    _records(found, name, limits)
    for place, document in enumerate(found):
        if not isinstance(document, str | dict):
            raise _refuse(f"{name}[{place}]", document, "a text or an object")
        if isinstance(document, dict) and "image" in document:
            raise Problem("invalid", f"{name}[{place}]: only texts are ranked; give a text")
    return found


def _records(value: Any, name: str, limits: Limits) -> list[Any] | dict[str, Any]:
    if not isinstance(value, list | dict):
        raise _refuse(name, value, "a list, or an object of id to text")
    if len(value) > limits.documents:
        said = f"{name} has {len(value)} documents; send up to {limits.documents} at once"
        raise Problem("too_large", said)
    bounded(value, name, limits.values)
    return value


def _names(value: Any, name: str, limits: Limits) -> list[str]:
    if not isinstance(value, list) or len(value) > _MOST_FIELDS:
        raise _refuse(name, value, f"a list of up to {_MOST_FIELDS} names")
    return [_name(each, f"{name}[{place}]", limits) for place, each in enumerate(value)]


def _options(value: Any, name: str, limits: Limits) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refuse(name, value, "an object")
    bounded(value, name, limits.values // 5)  # each may be a fault, which takes longer
    return value


_name = _that(
    lambda value: isinstance(value, str) and len(value) <= _LONGEST_NAME,
    f"a name of up to {_LONGEST_NAME} characters",
)

_seconds = _that(lambda value: _number(value) and value > 0, "seconds, a number above 0")

_share = _that(lambda value: _number(value) and 0 <= value <= 1, "a number from 0 to 1")

_OF_ALL: Fields = {
    "timeout": ("timeout", _seconds),
    **dict.fromkeys(
        ("instruction", "instruct"),
        ("instruction", lambda value, *rest: "" if value == "" else _text(value, *rest)),
    ),
    "reasons": ("reasons", _up_to("documents", zero="none")),
}

RERANK_FIELDS: Fields = {
    **dict.fromkeys(("query", "text_1", "queries", "data_1"), ("query", _text)),
    **dict.fromkeys(
        ("documents", "texts", "passages", "input", "text_2", "items", "data_2"),
        ("documents", _documents),
    ),
    "model": ("model", _name),
    **dict.fromkeys(("top_n", "top_k"), ("top_n", _up_to("documents"))),
    **dict.fromkeys(
        ("return_documents", "return_text", "return_input"), ("return_documents", _flag)
    ),
    **dict.fromkeys(
        ("max_tokens_per_doc", "max_doc_length", "truncate_prompt_tokens"),
        ("max_tokens", _up_to("body", least=-1)),  # vLLM's word for as many as the model takes
    ),
    "rank_fields": ("rank_fields", _names),
    "raw_scores": ("raw", _flag),
    **dict.fromkeys(
        ("use_activation", "activation", "softmax"), ("raw", lambda *given: not _flag(*given))
    ),
    **_OF_ALL,
}
"""Fields of rerank clients of any dialect."""

RANK_FIELDS: Fields = {
    "query": ("query", _query),
    "documents": ("documents", _records),
    "ranker": ("ranker", _name),
    "options": ("options", _options),
    "top_n": RERANK_FIELDS["top_n"],
    "min_relevance": ("min_relevance", _share),
    **{name: _OF_ALL[name] for name in ("timeout", "instruction", "reasons")},
}
"""Fields of ``/v1/rank`` and ``/v1/rank/stream``."""

QUESTION_FIELDS: Fields = {
    **dict.fromkeys(("question", "query"), ("question", _query)),
    "messages": ("messages", lambda value, name, limits: bounded([value], name, limits.values)),
    "timeout": _OF_ALL["timeout"],
}
"""Fields of ``/v1/answer`` and ``/v1/answer/stream``."""
