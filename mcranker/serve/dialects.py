"""The dialects of rerank clients: their recognition and their answers.

What clients send is one table, `mcranker.serve.requests.RerankRequest`. What they are answered is
one form too, which Cohere's, Jina's, vLLM's, Xinference's, llama.cpp's and others' clients read;
the entries of `DIALECTS` are those that need another. A new one is an entry here, a line in
"Answers" of docs/serve.md and a test in tests/mcranker/serve/test_dialects.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mcranker.serve.bodies import STATUS, Problem
from mcranker.serve.requests import RerankRequest
from personas.ranking.hit import Hit

_ERROR_TYPES = {
    "not_found": "NotFoundError",
    "no_key": "AuthenticationError",
    "overloaded": "RateLimitError",
}


def error_body(problem: Problem) -> dict[str, Any]:
    """Return an error under every name by which clients look for its message."""
    message, code = problem.message, problem.kind
    other = "InternalServerError" if problem.ours else "BadRequestError"
    error: dict[str, Any] = {"type": _ERROR_TYPES.get(code, other), "param": None, "code": code}
    error = {"message": message, **error, "retryable": problem.retryable}
    return {"message": message, "detail": message, "code": code, "error": error}


@dataclass(frozen=True, slots=True)
class ApiDialect:
    """Recognition and answers of one kind of client."""

    name: str
    routes: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    results: str = "results"
    score: str = "relevance_score"
    document: str = "document"
    bare: bool = False
    returns_documents: bool = False
    scale: Callable[[float], float] = float
    whole: Callable[[dict[str, Any], RerankRequest, float], Any] = lambda answer, *_: answer
    problem: Callable[[Problem], Any] = error_body
    status: Mapping[str, int] = field(default_factory=dict)

    def status_of(self, problem: Problem) -> int:
        return self.status.get(problem.kind, STATUS[problem.kind])

    def answer(
        self,
        request: RerankRequest,
        scored: Iterable[tuple[Hit, float | None]],
        *,
        name: str,
        model: str,
        meta: Mapping[str, Any],
        seconds: float,
    ) -> Any:
        """The body of an answer, as JSON values."""
        wanted, results = request.return_documents, []
        for hit, score in scored:
            shown = None if score is None else self.scale(score)
            result: dict[str, Any] = {"index": hit.index, self.score: shown}
            if self.returns_documents if wanted is None else wanted:
                document = request.documents[hit.index]
                is_object = self.bare or isinstance(document, dict)
                result[self.document] = document if is_object else {"text": document}
            if hit.reasons:
                result["reasons"] = {name: asdict(each) for name, each in hit.reasons.items()}
            results.append(result)
        asked, answered = meta["tokens"].values()
        answer = {
            "id": name,
            "object": "rerank",
            "model": model,
            self.results: results,
            "usage": {
                "prompt_tokens": asked,
                "completion_tokens": answered,
                "total_tokens": asked + answered,
            },
            "meta": meta,
        }
        return self.whole(answer, request, seconds)


def _logit(score: float) -> float:
    """Return the logit of a score; scores outside 0 to 1 as they are."""
    if not 0 <= score <= 1:
        return score
    bounded = min(max(score, 1e-6), 1 - 1e-6)
    return math.log(bounded / (1 - bounded))


def _bytes(request: RerankRequest) -> int:
    texts = (request.query, *request.documents)
    return sum(len(str(each).encode("utf-8", "replace")) for each in texts)


_TEI_KINDS = {
    "empty": "Empty",
    "overloaded": "Overloaded",
    **dict.fromkeys(("unavailable", "misconfigured"), "Unhealthy"),
    **dict.fromkeys(("upstream", "timeout", "internal"), "Backend"),
}

GENERAL = ApiDialect("general")  # for clients that read ``results[].relevance_score``

DIALECTS = (
    ApiDialect(
        "tei",
        marks=frozenset({"texts"}),
        score="score",
        document="text",
        bare=True,
        whole=lambda answer, *_: answer["results"],
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
        whole=lambda answer, *_: {**answer, "usage": {"rerank_units": 1, **answer["usage"]}},
    ),
    ApiDialect(
        "mixedbread",
        marks=frozenset({"input"}),
        results="data",
        score="score",
        document="input",
        bare=True,
        whole=lambda answer, request, _: {
            **answer,
            "object": "list",
            "top_k": request.top_n or len(request.documents),
            "return_input": bool(request.return_documents),
        },
    ),
    ApiDialect(
        "voyage",
        marks=frozenset({"top_k"}),
        results="data",
        bare=True,
        # Others may say top_k as well, and read results.
        whole=lambda answer, *_: {**answer, "object": "list", "results": answer["data"]},
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
        whole=lambda answer, *_: {
            **answer,
            "object": "list",
            "data": sorted(answer["data"], key=lambda result: result["index"]),
            "created": int(time.time()),
        },
    ),
    ApiDialect(
        "dashscope",
        ("/api/v1/services/rerank/text-rerank/text-rerank",),
        whole=lambda answer, *_: {
            "request_id": answer["id"],
            "output": {"results": answer["results"]},
            "usage": answer["usage"],
            "meta": answer["meta"],
        },
    ),
    ApiDialect(
        "zeroentropy",
        ("/v1/models/rerank", "/models/rerank"),
        whole=lambda answer, request, seconds: {
            **answer,
            "total_bytes": _bytes(request),
            "total_tokens": answer["usage"]["total_tokens"],
            "actual_latency_mode": "fast",
            "e2e_latency": seconds,
            "inference_latency": seconds,
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
