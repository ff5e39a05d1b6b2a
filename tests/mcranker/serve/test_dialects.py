"""Requests of rerank clients and their answers, as HTTP has them: one row a dialect and a field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcranker import ScriptedChat
from mcranker.serve import hash_key
from tests.support.serving import KEY, client, model, settings

TEXTS = ["cloth", "surgical", "N95"]
QUERY = {"query": "best masks", "documents": TEXTS}
SCORES = [0.3, 0.2, 0.1]
"""Three personas give 1, 2 and 3 of 10 to the first, second and third passage."""

TOKENS = {"prompt_tokens": 1300, "completion_tokens": 65, "total_tokens": 1365}
"""A recruiter, three rubrics, nine scores: 13 calls of 100 and 5 tokens."""

PINECONE = {"X-Pinecone-Api-Version": "2026-01"}
SHOWN = {"return_documents": True}
OBJECTS = [{"text": each} for each in TEXTS]
LOGITS = [math.log(score / (1 - score)) for score in SCORES]


async def post(path: str, body: dict[str, Any], **more: Any) -> Any:
    """The answer's JSON."""
    async with client(**more) as http:
        answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def results(
    key: str = "relevance_score",
    document: str = "",
    shown: Sequence[Any] = TEXTS,
    scores: Sequence[float] = SCORES,
) -> list[dict[str, Any]]:
    """Results, best first; `document` is the key of a document, if they are shown."""
    return [
        {"index": index, key: pytest.approx(value)} | ({document: shown[index]} if document else {})
        for index, value in zip((2, 1, 0), scores, strict=True)
    ]


GENERAL = (
    *("/v2/rerank", "/v1/rerank", "/rerank", "/reranking", "/v1/reranking", "/reranks"),
    *("/v1/reranks", "/compatible-api/v1/reranks", "/inference/v1/rerank"),
    *("/v1/v2/rerank", "/v1/v1/rerank"),
)


async def test_the_general_form() -> None:
    async with client() as http:
        found = [(await http.post(path, json={**QUERY, "model": "r"})).json() for path in GENERAL]
    assert len({body.pop("id") for body in found}) == len(GENERAL)
    meta = {
        "api_version": {"version": "2"},
        "tokens": {"input_tokens": 1300, "output_tokens": 65},
        "reused_tokens": 0,
        "judged_by": ["scripted:tests"],
        "relevance": "absolute",
        "unscored": 0,
        "missing_scores": 0,
    }
    form = {"object": "rerank", "model": "team", "results": results(), "usage": TOKENS}
    assert found == [{**form, "meta": meta}] * len(GENERAL)


INPUT = {"model": "m", "query": "q", "input": TEXTS}
NVIDIA = {"model": "m", "truncate": "END", "query": {"text": "q"}, "passages": OBJECTS}
TEI = {"query": "q", "texts": TEXTS}
DASHSCOPE = {
    "model": "m",
    "input": {"query": "q", "documents": TEXTS},
    "parameters": {"top_n": 2, "return_documents": True},
}
ALL, SCORED = results(), results("score")
IN_ORDER = SCORED[::-1]
WITH_TEXTS = results(document="document")
WITH_OBJECTS = results(document="document", shown=OBJECTS)
LOGIT = results("logit", scores=LOGITS)
OWN = results(scores=[9.0, 6.0, 3.0])
"""Sums of three personas' scores."""
MIXED = {"object": "list", "top_k": 2, "return_input": True, "usage": TOKENS}
ALL_INPUT = {"data": SCORED, "top_k": 3, "return_input": False}
ALI = "/api/v1/services/rerank/text-rerank/text-rerank"
# Of "best masks", "cloth", "surgical" and "N95".
BYTES = {"total_bytes": 10 + 5 + 8 + 3, "total_tokens": 1365, "actual_latency_mode": "fast"}
VOYAGE = {"object": "list", "data": ALL, "results": ALL, "usage": TOKENS}
ROWS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("/rerank", {**QUERY, **SHOWN, "raw_scores": False}, {"results": WITH_TEXTS}),  # infinity
    # A client that sends nothing of its own names its dialect in the address.
    ("/infinity/rerank", {**QUERY, **SHOWN}, {"results": WITH_TEXTS}),
    ("/rerank", {**QUERY, **SHOWN}, {"results": WITH_OBJECTS}),
    # Other clients that say top_k read results.
    ("/v1/rerank", {**QUERY, "top_k": 3}, VOYAGE),
    ("/v1/rerank", {**QUERY, **SHOWN, "top_k": None}, {"data": WITH_TEXTS}),
    ("/pinecone/rerank", QUERY, {"data": results("score", "document", OBJECTS)}),
    ("/v1/reranking", INPUT, ALL_INPUT),
    (
        "/v1/reranking",
        {**INPUT, "top_k": 2, "return_input": True},
        {"data": results("score", "input")[:2], **MIXED},
    ),
    ("/v1/ranking", NVIDIA, {"rankings": LOGIT}),
    ("/v1/retrieval/nvidia/m/reranking", NVIDIA, {"rankings": LOGIT}),
    ("/v1/score", {"text_1": "q", "text_2": TEXTS}, {"object": "list", "data": IN_ORDER}),
    ("/score", {"text_1": ["q"], "text_2": TEXTS}, {"data": IN_ORDER}),
    ("/score", {"queries": "q", "documents": TEXTS}, {"data": IN_ORDER}),
    ("/score", {"data_1": "q", "data_2": TEXTS}, {"data": IN_ORDER}),
    ("/score", {"text_1": "q", "text_2": TEXTS[0]}, {"data": IN_ORDER[:1]}),
    (ALI, DASHSCOPE, {"output": {"results": WITH_OBJECTS[:2]}, "usage": TOKENS}),
    ("/v1/models/rerank", {**QUERY, "latency": "fast"}, {"results": ALL, **BYTES}),
    ("/v1/rerank", {**QUERY, "return_documents": False}, {"results": ALL}),
    ("/v1/rerank", {**QUERY, "return_documents": "true"}, {"results": WITH_OBJECTS}),
    ("/v1/rerank", {**QUERY, "truncate_prompt_tokens": -1}, {"results": ALL}),
    ("/v1/rerank", {**QUERY, "colour": 1}, {"results": ALL}),
    ("/v1/rerank", {**QUERY, "top_n": 0}, {"results": ALL}),
    ("/v1/rerank", {**QUERY, "top_n": "2"}, {"results": ALL[:2]}),
    ("/v1/rerank", {**QUERY, "top_k": 99}, {"results": ALL}),
    ("/v1/rerank", {**QUERY, "use_activation": False}, {"results": OWN}),
    ("/v1/rerank", {**QUERY, "activation": False}, {"results": OWN}),
    ("/v1/rerank", {**QUERY, "softmax": False}, {"results": OWN}),
    (
        "/v1/rerank",
        {"query": "q", "documents": [{"text": "a"}, {"text": "b", "title": 3}]},
        {"results": ALL[1:]},
    ),
]


@pytest.mark.parametrize(("path", "body", "expected"), ROWS)
async def test_each_dialect_has_its_form(
    path: str, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = await post(path, body)
    assert {key: found.get(key) for key in expected} == expected


async def test_pinecones_clients_are_known_by_a_header() -> None:
    asked = {**QUERY, "documents": OBJECTS, "rank_fields": ["text"]}
    async with client() as http:
        found = [
            (await http.post("/rerank", json={**asked, **more}, headers=PINECONE)).json()
            for more in ({}, {"return_documents": False})
        ]
    assert [each["data"] for each in found] == [results("score", "document", OBJECTS), SCORED]
    assert found[0]["usage"] == {**TOKENS, "rerank_units": 1}


async def test_tei() -> None:
    assert await post("/rerank", TEI) == results("score")
    raw = await post("/rerank", {**TEI, "raw_scores": True, "return_text": True, "truncate": True})
    assert raw[0] == {"index": 2, "score": 9.0, "text": "N95"}


# Fields


async def test_structured_documents_are_judged_by_their_fields() -> None:
    documents = [
        {"title": "Cloth", "text": "cloth masks", "price": 3},
        {"title": "Surgical", "text": "surgical masks", "price": 5},
    ]
    asked = {
        "query": "masks",
        "documents": documents,
        "rank_fields": ["title", "price"],
        "return_documents": True,
        "max_chunks_per_doc": 4,
    }
    async with client() as http:
        answer = await http.post("/v1/rerank", json=asked)
        whole = await http.get(f"/v1/explain/{answer.headers['x-ranking-id']}")
    body = answer.json()
    assert [each["document"] for each in body["results"]] == [documents[1], documents[0]]
    assert body["meta"]["warnings"] == ["max_chunks_per_doc has no effect here"]
    assert answer.headers["x-notes"] == "max_chunks_per_doc has no effect here"
    assert "title: Surgical" in whole.text
    assert "price: 5" in whole.text
    assert "surgical masks" not in whole.text  # it was not among the fields


@pytest.mark.parametrize("name", ["instruction", "instruct"])
async def test_an_instruction_is_one_more_criterion(name: str) -> None:
    prompts: list[str] = []

    def score(request: Any) -> str:
        prompts.append(request.messages[-1].content)
        return '{"Score": 5}'

    body = await post("/v1/rerank", {**QUERY, name: "Prefer trials"}, score=score)
    assert all("3. Prefer trials (weight 30%)" in each for each in prompts)
    assert body["meta"]["instruction"] == "one more criterion of every judge, 30% of the weight"


async def test_tokens_are_counted_when_the_ledger_answers_as_well(tmp_path: Path) -> None:
    async with client(settings(options={"ledger": str(tmp_path / "ledger")})) as http:
        first = (await http.post("/v1/rerank", json=QUERY)).json()
        again = (await http.post("/v1/rerank", json=QUERY)).json()
    assert first["usage"] == again["usage"] == TOKENS
    assert first["meta"]["reused_tokens"] == 0
    assert again["meta"]["reused_tokens"] == 1365


async def test_documents_are_cut_by_the_models_tokens_where_they_are_known() -> None:
    class Letters(ScriptedChat):
        async def cut(self, text: str, tokens: int) -> str:
            return text[:tokens]

    scripted = model()
    letters = Letters(scripted.complete, name="scripted:letters")
    own = {"model": letters, "max_passage_words": 3}
    asked = {"query": "q", "documents": ["one two three four", "five"], "max_tokens_per_doc": 9}
    async with client(settings(options=own)) as http:
        answer = await http.post("/v2/rerank", json=asked)
        longer = await http.post("/v2/rerank", json={**asked, "max_tokens_per_doc": 4096})
        kept = [each.headers["x-ranking-id"] for each in (answer, longer)]
        pages = [(await http.get(f"/v1/explain/{each}")).text for each in kept]
        whole = await http.post("/v1/rank", json={"query": "q", "documents": ["a"]})
    assert "x-notes" not in answer.headers
    assert [each["index"] for each in answer.json()["results"]] == [1, 0]
    assert all("one two" in page for page in pages)
    assert whole.json()["ranking"]["config"]["max_passage_tokens"] is None


# Errors


def said(message: str, kind: str = "invalid", name: str = "BadRequestError") -> dict[str, Any]:
    """An error under every name by which clients look for it."""
    error = {"message": message, "type": name, "param": None, "code": kind, "retryable": False}
    return {"message": message, "detail": message, "code": kind, "error": error}


def tei_said(message: str, kind: str = "Validation") -> dict[str, str]:
    return {"error": f"invalid request: {message}", "error_type": kind}


EMPTY = "list of documents must not be empty"
NO_TEXT = "give a text or an object"


@pytest.mark.parametrize(
    ("fields", "message", "kind"),
    [
        ({"query": None}, "query is missing", "invalid"),
        ({"query": " "}, "query=' ': it must not be empty", "invalid"),
        ({"documents": []}, EMPTY, "empty"),
        ({"documents": ["a", 1]}, f"documents[1] is 1; {NO_TEXT}", "invalid"),
        ({"top_n": -2}, "top_n must be a whole number, 0 or more, not -2", "invalid"),
        ({"timeout": 0}, "timeout must be above 0, not 0", "invalid"),
    ],
)
async def test_errors_are_under_every_name(fields: dict[str, Any], message: str, kind: str) -> None:
    async with client() as http:
        answer = await http.post("/v1/rerank", json={**QUERY, **fields})
    assert (answer.status_code, answer.json()) == (400, said(f"invalid request: {message}", kind))


async def test_errors_of_tei_and_of_the_services_own_routes() -> None:
    async with client() as http:
        empty, number = [
            await http.post("/rerank", json={**TEI, "texts": each}) for each in ([], [1])
        ]
        own = await http.post("/v1/rank", json={**QUERY, "colour": 1})
        route = await http.post("/v3/rerank", json=QUERY)
        method = await http.get("/v2/rerank")
    assert (empty.status_code, empty.json()) == (400, tei_said(EMPTY, "Empty"))
    assert (number.status_code, number.json()) == (422, tei_said(f"documents[0] is 1; {NO_TEXT}"))
    assert own.json() == said("invalid request: there is no key 'colour'")
    assert (route.status_code, method.status_code) == (404, 405)
    assert route.json()["detail"] == "there is no route '/v3/rerank'; did you mean '/v2/rerank'?"
    assert method.json()["detail"] == "'/v2/rerank' takes POST, not 'GET'"


@pytest.mark.parametrize(
    ("path", "fields", "word"),
    [
        ("/v2/rerank", {"relevant_spans": {"mode": "enabled"}}, "relevant_spans"),
        ("/v1/rerank", {"return_embeddings": True}, "return_embeddings"),
        ("/v1/rerank", {"documents": [{"image": "http://example.com/a.png"}]}, "documents[0]"),
        ("/v1/rerank", {"documents": [{"a": 1}], "rank_fields": ["b"]}, "rank_fields b"),
        ("/v1/score", {"text_1": ["q", "r"], "text_2": ["a", "b"]}, "text_1"),
    ],
)
async def test_what_is_not_offered_is_refused(path: str, fields: dict[str, Any], word: str) -> None:
    asked = fields if "text_1" in fields else {**QUERY, **fields}
    async with client() as http:
        answer = await http.post(path, json=asked)
    assert answer.status_code == 400
    assert word in answer.json()["message"]


@pytest.mark.parametrize("number", [b"2.0", b"18446744073709551616", b"1" + b"0" * 30])
async def test_whole_numbers_are_taken_however_large_they_are(number: bytes) -> None:
    content = b'{"query":"q","documents":["a","b"],"top_n":' + number + b"}"
    headers = {"Content-Type": "application/json"}
    async with client() as http:
        answer = await http.post("/v2/rerank", content=content, headers=headers)
    assert len(answer.json()["results"]) == 2


# Other requests of clients


async def test_models() -> None:
    async with client() as http:
        listed = [(await http.get(path)).json() for path in ("/v1/models", "/models")]
        one = (await http.get("/v1/models/BAAI/bge-reranker")).json()
    assert listed[0] == listed[1]
    assert [each["id"] for each in listed[0]["data"]] == ["team"]
    assert listed[0]["models"] == [{"name": "team", "endpoints": ["rerank"]}]
    # Xinference's client looks for the type, and asks by the name that it gave.
    assert one["model_type"] == "rerank"
    assert one["id"] == one["model_uid"] == "BAAI/bge-reranker"


async def test_a_model_that_is_not_there() -> None:
    service = settings()
    only = type(service)(
        rankers=tuple(type(each)(name=each.name, options=each.options) for each in service.rankers)
    )
    async with client(only) as http:
        answer = await http.get("/v1/models/other")
        asked = await http.post("/v1/rerank", json={**QUERY, "model": "other"})
    assert answer.status_code == asked.status_code == 404
    assert "model 'other' not found; available: team" in answer.json()["detail"]


async def test_probes_info_and_keys() -> None:
    async with client() as http:
        info = (await http.get("/info")).json()
        assert (await http.get("/v1/cluster/auth")).json() == {"auth": False}
    assert (info["model_id"], info["max_client_batch_size"]) == ("team", 1000)
    assert "reranker" in info["model_type"]
    async with client(settings(keys={"a": hash_key(KEY)})) as http:
        for path in ("/healthz", "/health", "/ping", "/readyz"):
            for base in (path, f"/v1/health/{'ready' if path == '/readyz' else 'live'}"):
                assert (await http.get(base)).status_code == 200
        assert (await http.get("/v1/cluster/auth")).json() == {"auth": True}
        assert (await http.get("/info")).status_code == 401
        # Pinecone's clients send a key like this.
        for key, status in ((KEY, 200), (f"{KEY}x", 401)):
            answer = await http.post("/rerank", json=QUERY, headers={"Api-Key": key})
            assert answer.status_code == status
