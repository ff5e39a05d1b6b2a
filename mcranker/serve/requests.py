"""Requests of all clients, checked by pydantic within `Limits`; the first fault counts.

Counts are checked before contents: nothing is built from a body that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
)

from mcranker.inputs.documents import as_fields, of_record
from mcranker.inputs.passages import as_passages, as_query, in_conversation
from mcranker.serve.bodies import Problem, bounded
from mcranker.serve.settings import Limits
from personas.errors import fault, shown
from personas.ranking.types import Passage, Query

B = TypeVar("B", bound="_Body")
Document = str | dict[str, Any]
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


# Values


def _limits(info: ValidationInfo) -> Limits:
    assert isinstance(info.context, Limits)
    return info.context


def _count(value: Any, info: ValidationInfo) -> int:
    # JSON has numbers of one kind, and those of over 64 bits are read as floats.
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise ValueError("must be a whole number, 0 or more")
    if value % 1:
        raise ValueError("must be a whole number")
    count = int(value)
    limits = _limits(info)
    return min(count, limits.body if info.field_name == "max_tokens" else limits.documents)


def _text(value: Any, info: ValidationInfo) -> str:
    """A text, also as the only one of a list, or under ``text``."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        value = value.get("text")
    if not isinstance(value, str):
        raise ValueError("must be one text")  # noqa: TRY004 - as pydantic wants it
    if not value.strip():
        raise ValueError("it must not be empty")
    if len(value) > (most := _limits(info).query):
        said = f"{info.field_name} has {len(value)} characters; give up to {most}"
        raise Problem("too_large", said)
    return value


def _query(value: Any, info: ValidationInfo) -> Query:
    """A query with or without an id."""
    query_id = value.get("id") or "" if isinstance(value, dict) else ""
    if isinstance(value, dict) and (not isinstance(query_id, str) or value.keys() - {"text", "id"}):
        raise ValueError("must be a text, or an object with text and id")
    return Query(_text(value, info), query_id)


def _records(value: Any, info: ValidationInfo) -> list[Any] | dict[str, Any]:
    if not isinstance(value, list | dict):
        raise ValueError("must be a list, or an object of id to text")  # noqa: TRY004
    limits = _limits(info)
    if len(value) > limits.documents:
        said = f"there are {len(value)} documents; send up to {limits.documents} at once"
        raise Problem("too_large", said)
    bounded(value, "documents", limits.values)
    return value


def _documents(value: Any, info: ValidationInfo) -> list[Document]:
    found = _records([value] if isinstance(value, str) else value, info)
    if not isinstance(found, list):
        raise ValueError("must be a list of texts or objects")  # noqa: TRY004
    for place, document in enumerate(found):
        where = f"invalid request: documents[{place}]"
        if not isinstance(document, str | dict):
            raise Problem("invalid", f"{where} is {shown(document)}; give a text or an object")
        if isinstance(document, dict) and "image" in document:
            raise Problem("invalid", f"{where}: only texts are ranked; give a text")
    if not found:
        raise Problem("empty", "invalid request: list of documents must not be empty")
    return found


def _options(value: Any, info: ValidationInfo) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be an object")  # noqa: TRY004
    bounded(value, "options", _limits(info).values // 5)  # each may be a fault, which takes longer
    return value


def _messages(value: Any, info: ValidationInfo) -> Any:
    bounded([value], "messages", _limits(info).values)
    return value


_Count = Annotated[int, PlainValidator(_count)]
_Text = Annotated[str, PlainValidator(_text)]
_Instruction = Annotated[
    str, PlainValidator(lambda value, info: "" if value == "" else _text(value, info))
]
_Query = Annotated[Query, PlainValidator(_query)]
_Name = Annotated[str, Field(max_length=500)]
_Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True)

    @classmethod
    def read(cls: type[B], body: Mapping[str, Any], limits: Limits) -> B:
        given = {name: value for name, value in body.items() if value is not None}
        try:
            return cls.model_validate(given, context=limits)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
        name = ".".join(str(part)[:100] for part in first["loc"])
        raise Problem("invalid", f"invalid request: {fault(first, name)}")


class RerankRequest(_Body):
    """A request of a rerank client, in any dialect."""

    min_relevance: ClassVar[float | None] = None
    query: _Text = Field(validation_alias=AliasChoices("query", "text_1", "queries", "data_1"))
    documents: Annotated[list[Document], PlainValidator(_documents)] = Field(
        validation_alias=AliasChoices(
            "documents", "texts", "passages", "input", "text_2", "items", "data_2"
        )
    )
    model: _Name | None = None
    top_n: _Count = Field(0, validation_alias=AliasChoices("top_n", "top_k"))
    return_documents: bool | None = Field(
        None, validation_alias=AliasChoices("return_documents", "return_text", "return_input")
    )
    max_tokens: Annotated[_Count, BeforeValidator(lambda value: 0 if value == -1 else value)] = (
        Field(  # vLLM's word for as many as the model takes
            0,
            validation_alias=AliasChoices(
                "max_tokens_per_doc", "max_doc_length", "truncate_prompt_tokens"
            ),
        )
    )
    rank_fields: list[_Name] = Field([], max_length=100)
    raw_scores: bool = False
    activated: bool = Field(
        True, validation_alias=AliasChoices("use_activation", "activation", "softmax")
    )
    timeout: _Seconds | None = None
    instruction: _Instruction = Field("", validation_alias=AliasChoices("instruction", "instruct"))
    reasons: _Count = 0
    warnings: tuple[str, ...] = Field((), validation_alias="")

    @classmethod
    def read(cls, body: Mapping[str, Any], limits: Limits) -> RerankRequest:
        for name in ("input", "parameters"):  # DashScope and Pinecone put fields there
            if isinstance(body.get(name), dict):
                body = {**body, **body[name], name: None}
        for name, (given, instead) in _NOT_OFFERED.items():
            if given(body.get(name)):
                raise Problem("invalid", f"invalid request: {name} is not offered; {instead}")
        ignored = [name for name in _NO_EFFECT if body.get(name) not in (None, False)]
        warnings = tuple(f"{name} has no effect here" for name in ignored)
        return super().read(body, limits).model_copy(update={"warnings": warnings})

    @property
    def raw(self) -> bool:
        """True if the ranker's own scores are wanted."""
        return self.raw_scores or not self.activated

    def passages(self) -> tuple[Passage, ...]:
        """The passages, each with its place for an id."""
        return tuple(
            _passage(place, document, self.rank_fields)
            for place, document in enumerate(self.documents)
        )


class RankRequest(_Body):
    """A request of ``/v1/rank`` and ``/v1/rank/stream``."""

    model_config = ConfigDict(extra="forbid")

    query: _Query
    documents: Annotated[Any, PlainValidator(_records)]
    ranker: _Name | None = None
    options: Annotated[dict[str, Any], PlainValidator(_options)] = {}
    top_n: _Count = Field(0, validation_alias=AliasChoices("top_n", "top_k"))
    min_relevance: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    timeout: _Seconds | None = None
    instruction: _Instruction = ""
    reasons: _Count = 0

    def passages(self) -> tuple[Passage, ...]:
        return as_passages(self.documents)


class QuestionRequest(_Body):
    """A request of ``/v1/answer`` and ``/v1/answer/stream``."""

    model_config = ConfigDict(extra="forbid")

    question: _Query | None = Field(None, validation_alias=AliasChoices("question", "query"))
    messages: Annotated[Any, PlainValidator(_messages)] = None
    timeout: _Seconds | None = None

    def asked(self, limits: Limits) -> Query:
        """The question, with the earlier turns of `messages`."""
        question = self.question
        if self.messages is not None:
            question = in_conversation(self.messages, question)
            if len(question.conversation) > limits.query:
                raise Problem("too_large", f"messages are longer than {limits.query} characters")
        if question is None:
            raise Problem("invalid", "invalid request: 'question' is missing")
        return as_query(question, "question")


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
