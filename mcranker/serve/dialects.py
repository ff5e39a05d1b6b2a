"""The dialects of rerank clients: their recognition and their answers.

What clients send is one table, `mcranker.serve.requests.RERANK_FIELDS`. What they are answered is
one form too, which Cohere's, Jina's, vLLM's, Xinference's, llama.cpp's and others' clients read;
the entries of `DIALECTS` are those that need another. A new one is an entry here, a line in the
table of docs/serve.md and a test in tests/mcranker/serve/test_dialects.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mcranker.ranking import Ranking
from mcranker.serve.problems import STATUS, Kind, Problem
from mcranker.serve.requests import RerankRequest


@dataclass(frozen=True, slots=True)
class RerankResponse:
    """An answer in no dialect yet.

    Attributes:
        id: of the ranking, for ``/v1/explain``.
        model: name of the ranker.
        request: what was asked.
        ranking: its hits are the results, best first.
        scores: of each hit; None where it has none.
        seconds: that it took.
        meta: who judged, tokens, and what the client should know.
    """

    id: str
    model: str
    request: RerankRequest
    ranking: Ranking
    scores: Sequence[float | None]
    seconds: float
    meta: Mapping[str, Any]

    @property
    def usage(self) -> dict[str, int]:
        """Tokens, as OpenAI and Jina count them."""
        asked, answered = self.meta["tokens"].values()
        total = asked + answered
        return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": total}


def error_body(problem: Problem) -> dict[str, Any]:
    """Return an error under every name by which clients look for its message."""
    kinds: dict[Kind, str] = {
        "not_found": "NotFoundError",
        "no_key": "AuthenticationError",
        "overloaded": "RateLimitError",
    }
    kind = kinds.get(problem.kind, "InternalServerError" if problem.ours else "BadRequestError")
    return {
        "message": problem.message,
        "detail": problem.message,
        "code": problem.kind,
        "error": {
            "message": problem.message,
            "type": kind,
            "param": None,
            "code": problem.kind,
            "retryable": problem.retryable,
        },
    }


@dataclass(frozen=True, slots=True)
class ApiDialect:
    """Recognition and answers of one kind of client.

    An answer has the results, ``id``, ``model``, ``object``, ``usage`` and ``meta``.

    Attributes:
        name: also a path before any of `ROUTES`, by which a client can choose it.
        routes: where no other clients ask.
        marks: fields of a body, or headers in lower case, that only its clients send to `ROUTES`.
        results: the key of the results.
        score: the key of a result's score.
        document: the key of a result's document.
        bare: documents that came as texts are returned as texts, and not as objects with ``text``.
        returns_documents: results hold their documents unless a request says no.
        scale: makes the score that clients expect of one from 0 to 1.
        more: further keys of an answer, or others than the usual ones.
        whole: makes the body of the answer from all that.
        problem: makes the body of an error.
        status: HTTP statuses that differ from those of `problems.STATUS`.
    """

    name: str
    routes: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    results: str = "results"
    score: str = "relevance_score"
    document: str = "document"
    bare: bool = False
    returns_documents: bool = False
    scale: Callable[[float], float] = float
    more: Callable[[RerankResponse], Mapping[str, Any]] = lambda _: {}
    whole: Callable[[dict[str, Any]], Any] = dict
    problem: Callable[[Problem], Any] = error_body
    status: Mapping[Kind, int] = field(default_factory=dict)

    def status_of(self, problem: Problem) -> int:
        """The HTTP status of a problem."""
        return self.status.get(problem.kind, STATUS[problem.kind])

    def answer(self, response: RerankResponse) -> Any:
        """The body of an answer, as JSON values."""
        wanted = response.request.return_documents
        documents = self.returns_documents if wanted is None else wanted
        results = []
        for hit, score in zip(response.ranking, response.scores, strict=True):
            shown = None if score is None else self.scale(score)
            result: dict[str, Any] = {"index": hit.index, self.score: shown}
            if documents:
                document = response.request.documents[hit.index]
                is_object = self.bare or isinstance(document, dict)
                result[self.document] = document if is_object else {"text": document}
            if hit.reasons:
                result["reasons"] = {name: asdict(each) for name, each in hit.reasons.items()}
            results.append(result)
        answer = {
            "id": response.id,
            "object": "rerank",
            "model": response.model,
            self.results: results,
            "usage": response.usage,
            "meta": response.meta,
        }
        return self.whole({**answer, **self.more(response)})


def _logit(score: float) -> float:
    """Return the logit of a score; scores outside 0 to 1 as they are."""
    if not 0 <= score <= 1:
        return score
    bounded = min(max(score, 1e-6), 1 - 1e-6)
    return math.log(bounded / (1 - bounded))


def _bytes(response: RerankResponse) -> int:
    texts = (response.request.query, *response.request.documents)
    return sum(len(str(each).encode("utf-8", "replace")) for each in texts)


_TEI_KINDS: Mapping[Kind, str] = {
    "empty": "Empty",
    "overloaded": "Overloaded",
    "unavailable": "Unhealthy",
    "misconfigured": "Unhealthy",
    "upstream": "Backend",
    "timeout": "Backend",
    "internal": "Backend",
}

GENERAL = ApiDialect("general")
"""For clients that read ``results[].relevance_score``."""

DIALECTS = (
    ApiDialect(
        "tei",
        marks=frozenset({"texts"}),
        score="score",
        document="text",
        bare=True,
        whole=lambda answer: answer["results"],
        problem=lambda problem: {
            "error": problem.message,
            "error_type": _TEI_KINDS.get(problem.kind, "Validation"),
        },
        status={"invalid": 422, "upstream": 424, "timeout": 424},
    ),
    ApiDialect("infinity", marks=frozenset({"raw_scores"}), bare=True),
    ApiDialect(
        "pinecone",
        marks=frozenset({"x-pinecone-api-version"}),
        results="data",
        score="score",
        returns_documents=True,
        more=lambda response: {"usage": {"rerank_units": 1, **response.usage}},
    ),
    ApiDialect(
        "mixedbread",
        marks=frozenset({"input"}),
        results="data",
        score="score",
        document="input",
        bare=True,
        more=lambda response: {
            "object": "list",
            "top_k": response.request.top_n or len(response.request.documents),
            "return_input": bool(response.request.return_documents),
        },
    ),
    ApiDialect(
        "voyage",
        marks=frozenset({"top_k"}),
        results="data",
        bare=True,
        more=lambda response: {"object": "list"},
        # Others may say top_k as well, and read results.
        whole=lambda answer: {**answer, "results": answer["data"]},
    ),
    ApiDialect(
        "nim",
        ("/v1/ranking", "/ranking", "/v1/retrieval/{model:path}/reranking"),
        frozenset({"passages"}),
        results="rankings",
        score="logit",
        scale=_logit,
    ),
    ApiDialect(
        "vllm-score",
        ("/v1/score", "/score"),
        results="data",
        score="score",
        more=lambda response: {"object": "list", "created": int(time.time())},
        whole=lambda answer: {
            **answer,
            "data": sorted(answer["data"], key=lambda result: result["index"]),
        },
    ),
    ApiDialect(
        "dashscope",
        ("/api/v1/services/rerank/text-rerank/text-rerank",),
        whole=lambda answer: {
            "request_id": answer["id"],
            "output": {"results": answer["results"]},
            "usage": answer["usage"],
            "meta": answer["meta"],
        },
    ),
    ApiDialect(
        "zeroentropy",
        ("/v1/models/rerank", "/models/rerank"),
        more=lambda response: {
            "total_bytes": _bytes(response),
            "total_tokens": response.usage["total_tokens"],
            "actual_latency_mode": "fast",
            "e2e_latency": response.seconds,
            "inference_latency": response.seconds,
        },
    ),
)
"""Dialects with answers of their own; the first one whose marks a request has counts."""

ROUTES = (
    *("/v2/rerank", "/v1/rerank", "/rerank"),
    *("/v1/reranking", "/reranking", "/v1/reranks", "/reranks"),
    *("/compatible-api/v1/reranks", "/inference/v1/rerank"),
)
"""Paths that clients of several kinds use."""


def dialect_of(names: Iterable[str]) -> ApiDialect:
    """The dialect of a request to one of `ROUTES`, by its fields and headers."""
    given = set(names)
    return next((each for each in DIALECTS if not each.marks.isdisjoint(given)), GENERAL)
