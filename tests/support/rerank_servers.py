"""What rerank services do with a request: each validates it, refuses it, or answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.loopback import Answer, Body, Reply

Relevance = Callable[[str, str], Any]
"""Query and text -> the score that the service gives."""


def cohere(score: Relevance) -> Callable[[Body], Reply]:
    """Cohere's ``POST /v2/rerank``: at most 1,000 documents, best first, no texts."""

    def answer(body: Body) -> Reply:
        if set(body) != {"model", "query", "documents"} or not 1 <= len(body["documents"]) <= 1000:
            return Answer(400, {"message": "invalid request: list of documents must be 1 to 1000"})
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return {"id": "1", "results": _results(body["query"], body["documents"], score)} | {
            "meta": meta
        }

    return answer


def jina(score: Relevance) -> Callable[[Body], Reply]:
    """Jina's and vLLM's ``POST /v1/rerank``: the texts come back, tokens are counted."""

    def answer(body: Body) -> Reply:
        if set(body) != {"model", "query", "documents"}:
            return Answer(422, {"detail": [{"loc": ["body"], "msg": "extra fields"}]})
        results = _results(body["query"], body["documents"], score)
        for result in results:
            result["document"] = {"text": body["documents"][result["index"]]}
        usage = {"total_tokens": 7 * len(results), "prompt_tokens": 7 * len(results)}
        return {"id": "1", "model": body["model"], "usage": usage, "results": results}

    return answer


def tei(score: Relevance) -> Callable[[Body], Reply]:
    """Text Embeddings Inference's ``POST /rerank``: ``texts``, at most 32, and a bare list."""

    def answer(body: Body) -> Reply:
        if "texts" not in body:
            said = "Failed to deserialize the JSON body into the target type: missing field `texts`"
            return Answer(422, said.encode(), {"Content-Type": "text/plain"})
        if len(body["texts"]) > 32:
            said = f"batch size {len(body['texts'])} > maximum allowed batch size 32"
            return Answer(413, {"error": said, "error_type": "Validation"})
        results = _results(body["query"], body["texts"], score)
        return Answer(
            body=[{"index": each["index"], "score": each["relevance_score"]} for each in results]
        )

    return answer


def _results(query: str, texts: list[str], score: Relevance) -> list[Body]:
    scored = [
        {"index": index, "relevance_score": score(query, text)} for index, text in enumerate(texts)
    ]
    return sorted(scored, key=lambda each: str(each["relevance_score"]), reverse=True)
