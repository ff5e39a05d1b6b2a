"""The shapes that reranking clients speak: what they ask, what they are answered, their errors.

| shape | route | told by |
|---|---|---|
| Cohere v2 | ``/v2/rerank`` | the route |
| Cohere v1 | ``/v1/rerank`` | ``rank_fields``, ``max_chunks_per_doc``, ``max_tokens_per_doc`` |
| vLLM | ``/v1/rerank``, ``/rerank`` | ``truncate_prompt_tokens``, ``use_activation``, … |
| Jina | ``/v1/rerank``, ``/rerank`` | ``return_embeddings``, ``truncation``, … |
| TEI | ``/rerank``, ``/v1/rerank`` | ``texts`` |
| any of them | ``/v1/rerank``, ``/rerank`` | only fields that Cohere, Jina and vLLM share |

An answer in the last shape has the keys of all three, so that each of these clients finds its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mcranker.serve.problems import STATUS, Kind, Problem
from personas.errors import shown

_Document = str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client wants, whatever its shape.

    Attributes:
        query: to rank for.
        documents: texts or records, in first-stage order.
        model: name of a ranker, or one of its other names; None for the first ranker.
        top_n: results that are returned, at most; None for all.
        return_documents: whether results hold their documents.
        max_tokens: tokens of a document that are judged; None for all.
        fields: of records, in the order in which they are judged; empty for the text.
        timeout: seconds; None for the service's own.
        raw: whether scores are those of the ranker instead of relevance from 0 to 1.
        notes: what was asked and is not done, for the client to read.
    """

    query: str
    documents: Sequence[_Document]
    model: str | None = None
    top_n: int | None = None
    return_documents: bool = False
    max_tokens: int | None = None
    fields: tuple[str, ...] = ()
    timeout: float | None = None
    raw: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One document of an answer; `score` is None if it was not judged."""

    index: int
    score: float | None
    document: _Document | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What a client is answered, whatever its shape.

    Attributes:
        id: of the ranking, for ``/v1/explain``.
        model: name of the ranker.
        results: best first.
        input_tokens: of all calls that this took.
        output_tokens: likewise.
        notes: what the client should know: what is missing, and what was asked and not done.
    """

    id: str
    model: str
    results: Sequence[Result]
    input_tokens: int
    output_tokens: int
    notes: tuple[str, ...] = ()


class _Body(BaseModel):
    """Fields that several shapes share; others are let pass, as their servers do."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    model: str | None = Field(None, max_length=500)
    query: str
    documents: list[_Document]
    top_n: int | None = Field(None, ge=1)
    return_documents: bool | None = None
    timeout: float | None = Field(None, gt=0, allow_inf_nan=False)


class _CohereV2Body(_Body):
    max_tokens_per_doc: int | None = Field(None, ge=1)
    priority: int | None = None
    relevant_spans: dict[str, Any] | None = None
    rank_fields: list[str] | None = None


class _CohereV1Body(_CohereV2Body):
    max_chunks_per_doc: int | None = Field(None, ge=1)


class _JinaBody(_Body):
    return_embeddings: bool | None = None
    truncation: bool | None = None
    max_doc_length: int | None = Field(None, ge=1)
    max_query_length: int | None = Field(None, ge=1)


class _VllmBody(_Body):
    top_n: int | None = Field(None, ge=0)
    truncate_prompt_tokens: int | None = Field(None, ge=-1)
    priority: int | None = None
    use_activation: bool | None = None
    activation: bool | None = None
    softmax: bool | None = None
    instruction: str | None = None
    mm_processor_kwargs: dict[str, Any] | None = None


class _TeiBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    query: str
    texts: list[str]
    model: str | None = Field(None, max_length=500)
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool | None = None
    truncation_direction: Literal["Left", "left", "Right", "right"] = "Right"
    timeout: float | None = Field(None, gt=0, allow_inf_nan=False)


class Errors:
    """How clients are told what is wrong: the service's own form, which shapes replace."""

    status: ClassVar[Mapping[Kind, int]] = {}
    """Statuses that differ from those of `problems.STATUS`."""

    def problem(self, problem: Problem, status: int) -> Any:
        """The body of an error, as JSON values."""
        return {
            "error": {
                "code": problem.kind,
                "message": problem.message,
                "retryable": problem.retryable,
            }
        }

    def status_of(self, problem: Problem) -> int:
        """The HTTP status of a problem."""
        return self.status.get(problem.kind, STATUS[problem.kind])


class Shape(Errors, ABC):
    """How clients of one kind speak."""

    name: ClassVar[str]
    body: ClassVar[type[BaseModel]]
    """What requests hold."""

    @abstractmethod
    def asked(self, body: Any) -> Asked:
        """What a checked body asks."""

    @abstractmethod
    def answer(self, answered: Answered) -> Any:
        """The body of an answer, as JSON values."""

    def read(self, body: Mapping[str, Any]) -> Asked:
        """What a body asks.

        Raises:
            Problem: it lacks a field, has a wrong value, or asks for what there is not.
        """
        return self.asked(checked(self.body, body))


class CohereV2(Shape):
    """``/v2/rerank``."""

    name = "cohere v2"
    body = _CohereV2Body

    def asked(self, body: _CohereV2Body) -> Asked:
        spans = body.relevant_spans
        if spans is not None and spans.get("mode") != "disabled":
            raise Problem(
                "invalid",
                "invalid request: relevant_spans are not offered; leave them out, or see "
                "/v1/explain for why a document ranks where it does",
            )
        return Asked(
            query=body.query,
            documents=body.documents,
            model=body.model,
            top_n=body.top_n,
            return_documents=bool(body.return_documents),
            max_tokens=body.max_tokens_per_doc,
            fields=tuple(body.rank_fields or ()),
            timeout=body.timeout,
            notes=_not_done(body, "priority"),
        )

    def answer(self, answered: Answered) -> Any:
        return {
            "id": answered.id,
            "results": [_result(each) for each in answered.results],
            "meta": _meta(answered, "2"),
        }

    def problem(self, problem: Problem, status: int) -> Any:
        return {"message": problem.message}


class CohereV1(CohereV2):
    """``/v1/rerank`` with fields that only Cohere has."""

    name = "cohere v1"
    body = _CohereV1Body

    def asked(self, body: _CohereV2Body) -> Asked:
        asked = super().asked(body)
        return replace(asked, notes=(*asked.notes, *_not_done(body, "max_chunks_per_doc")))

    def answer(self, answered: Answered) -> Any:
        return {**super().answer(answered), "meta": _meta(answered, "1")}


class Jina(Shape):
    """Jina's API."""

    name = "jina"
    body = _JinaBody
    status: ClassVar[Mapping[Kind, int]] = {"invalid": 422, "empty": 422}

    def asked(self, body: _JinaBody) -> Asked:
        _refuse_images(body.documents)
        if body.return_embeddings:
            raise Problem("invalid", "return_embeddings: there are no embeddings; leave it out")
        return Asked(
            query=body.query,
            documents=body.documents,
            model=body.model,
            top_n=body.top_n,
            return_documents=bool(body.return_documents),
            max_tokens=body.max_doc_length,
            timeout=body.timeout,
            notes=_not_done(body, "max_query_length"),
        )

    def answer(self, answered: Answered) -> Any:
        return {
            "model": answered.model,
            "object": "list",
            "usage": {"total_tokens": answered.input_tokens + answered.output_tokens},
            "results": [_result(each) for each in answered.results],
        }

    def problem(self, problem: Problem, status: int) -> Any:
        return {"detail": problem.message}


class Vllm(Shape):
    """vLLM's server."""

    name = "vllm"
    body = _VllmBody

    def asked(self, body: _VllmBody) -> Asked:
        _refuse_images(body.documents)
        for field in ("instruction", "mm_processor_kwargs"):
            if getattr(body, field) is not None:
                raise Problem("invalid", f"{field}: this service has no use for it; leave it out")
        tokens = body.truncate_prompt_tokens
        return Asked(
            query=body.query,
            documents=body.documents,
            model=body.model,
            top_n=body.top_n or None,
            return_documents=body.return_documents is not False,
            max_tokens=tokens if tokens is not None and tokens > 0 else None,
            timeout=body.timeout,
            raw=False in (body.use_activation, body.activation, body.softmax),
            notes=_not_done(body, "priority"),
        )

    def answer(self, answered: Answered) -> Any:
        return {
            "id": f"rerank-{answered.id}",
            "model": answered.model,
            "usage": _usage(answered),
            "results": [_result(each) for each in answered.results],
        }

    def problem(self, problem: Problem, status: int) -> Any:
        return {"error": _openai_error(problem, status)}


class Shared(Shape):
    """``/v1/rerank`` with fields that Cohere, Jina and vLLM share."""

    name = "shared"
    body = _Body

    def asked(self, body: _Body) -> Asked:
        _refuse_images(body.documents)
        return Asked(
            query=body.query,
            documents=body.documents,
            model=body.model,
            top_n=body.top_n,
            return_documents=bool(body.return_documents),
            timeout=body.timeout,
        )

    def answer(self, answered: Answered) -> Any:
        return {
            "id": answered.id,
            "model": answered.model,
            "object": "list",
            "usage": _usage(answered),
            "results": [_result(each) for each in answered.results],
            "meta": _meta(answered, "1"),
        }

    def problem(self, problem: Problem, status: int) -> Any:
        message = problem.message
        return {"message": message, "detail": message, "error": _openai_error(problem, status)}


class Tei(Shape):
    """Hugging Face's text-embeddings-inference."""

    name = "tei"
    body = _TeiBody
    status: ClassVar[Mapping[Kind, int]] = {"invalid": 422, "upstream": 424, "timeout": 424}

    _KINDS: ClassVar[Mapping[Kind, str]] = {
        "empty": "Empty",
        "overloaded": "Overloaded",
        "unavailable": "Unhealthy",
        "upstream": "Backend",
        "timeout": "Backend",
        "internal": "Backend",
    }

    def asked(self, body: _TeiBody) -> Asked:
        return Asked(
            query=body.query,
            documents=body.texts,
            model=body.model,
            return_documents=body.return_text,
            timeout=body.timeout,
            raw=body.raw_scores,
        )

    def answer(self, answered: Answered) -> Any:
        return [
            {"index": each.index, "score": each.score}
            | ({} if each.document is None else {"text": each.document})
            for each in answered.results
        ]

    def problem(self, problem: Problem, status: int) -> Any:
        kind = self._KINDS.get(problem.kind, "Validation")
        return {"error": problem.message, "error_type": kind}


COHERE_V2, COHERE_V1, JINA, VLLM = CohereV2(), CohereV1(), Jina(), Vllm()
SHARED, TEI, OWN = Shared(), Tei(), Errors()

_TOLD_BY: tuple[tuple[Shape, frozenset[str]], ...] = (
    (TEI, frozenset({"texts"})),
    (
        COHERE_V1,
        frozenset({"rank_fields", "max_chunks_per_doc", "max_tokens_per_doc", "relevant_spans"}),
    ),
    (
        VLLM,
        frozenset(
            {
                "truncate_prompt_tokens",
                "use_activation",
                "activation",
                "softmax",
                "instruction",
                "mm_processor_kwargs",
                "priority",
            }
        ),
    ),
    (JINA, frozenset({"return_embeddings", "truncation", "max_doc_length", "max_query_length"})),
)


def shape_of(body: Mapping[str, Any]) -> Shape:
    """The shape of a request to ``/v1/rerank`` or ``/rerank``, told by its fields."""
    return next((shape for shape, fields in _TOLD_BY if not fields.isdisjoint(body)), SHARED)


def checked(model: type[BaseModel], body: Mapping[str, Any]) -> Any:
    """The body as `model`.

    Raises:
        Problem: it is not of that form.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise Problem("invalid", f"invalid request: {_explain(error)}") from error


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    # A union's own parts are no names of the client's.
    where = ".".join(str(part)[:60] for part in first["loc"][:2])
    if first["type"] == "missing":
        return f"{where!r} is missing"
    if first["type"] == "extra_forbidden":
        return f"there is no field {where!r}"
    return f"{where} is {shown(first['input'])}: {first['msg']}"


def _result(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = {"index": result.index, "relevance_score": result.score}
    if result.document is not None:
        document = result.document
        found["document"] = {"text": document} if isinstance(document, str) else document
    return found


def _meta(answered: Answered, version: str) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "api_version": {"version": version},
        "tokens": {
            "input_tokens": answered.input_tokens,
            "output_tokens": answered.output_tokens,
        },
    }
    return {**meta, "warnings": list(answered.notes)} if answered.notes else meta


def _usage(answered: Answered) -> dict[str, int]:
    both = answered.input_tokens + answered.output_tokens
    return {"prompt_tokens": answered.input_tokens, "total_tokens": both}


def _openai_error(problem: Problem, status: int) -> dict[str, Any]:
    names: dict[Kind, str] = {
        "not_found": "NotFoundError",
        "no_key": "AuthenticationError",
        "overloaded": "RateLimitError",
    }
    kind = names.get(problem.kind, "InternalServerError" if problem.ours else "BadRequestError")
    return {"message": problem.message, "type": kind, "param": None, "code": status}


def _not_done(body: BaseModel, *fields: str) -> tuple[str, ...]:
    return tuple(
        f"{field} has no effect here" for field in fields if getattr(body, field) is not None
    )


def _refuse_images(documents: Sequence[_Document]) -> None:
    for place, document in enumerate(documents):
        if isinstance(document, dict) and "image" in document:
            raise Problem("invalid", f"documents[{place}]: only texts are ranked; give a text")
