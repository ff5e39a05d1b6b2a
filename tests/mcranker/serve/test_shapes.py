"""Requests and answers in each shape, and errors in its own form."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker import ScriptedChat
from mcranker.serve.shapes import COHERE_V1, JINA, SHARED, TEI, VLLM, Shape, shape_of
from tests.support.serving import client, model, settings

QUERY = {"query": "best masks", "documents": ["cloth", "surgical", "N95"]}


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({}, SHARED),
        ({"top_n": 2, "return_documents": True, "model": "m"}, SHARED),
        ({"rank_fields": ["text"]}, COHERE_V1),
        ({"max_chunks_per_doc": 10}, COHERE_V1),
        ({"max_tokens_per_doc": 10}, COHERE_V1),
        ({"truncate_prompt_tokens": -1}, VLLM),
        ({"use_activation": True}, VLLM),
        ({"return_embeddings": False}, JINA),
        ({"texts": ["a"]}, TEI),
    ],
)
def test_fields_tell_the_shape(fields: dict[str, Any], shape: Shape) -> None:
    assert shape_of({**QUERY, **fields}) is shape


async def test_cohere_v2() -> None:
    async with client() as http:
        answer = await http.post("/v2/rerank", json={**QUERY, "model": "rerank-v3.5", "top_n": 2})
    body = answer.json()
    # Three personas give 1, 2 and 3 of 10 to the first, second and third passage.
    assert body["results"] == [
        {"index": 2, "relevance_score": pytest.approx(0.3)},
        {"index": 1, "relevance_score": pytest.approx(0.2)},
    ]
    assert body["id"] == answer.headers["x-ranking-id"]
    # A recruiter, two rubrics, nine scores: 13 calls, with the rubric of the NLP scientist.
    tokens = {"input_tokens": 1300, "output_tokens": 65}
    assert body["meta"] == {"api_version": {"version": "2"}, "tokens": tokens}


async def test_cohere_v1_with_structured_documents() -> None:
    documents = [
        {"title": "Cloth", "text": "cloth masks", "price": 3},
        {"title": "Surgical", "text": "surgical masks", "price": 5},
    ]
    async with client() as http:
        answer = await http.post(
            "/v1/rerank",
            json={
                "query": "masks",
                "documents": documents,
                "rank_fields": ["title", "price"],
                "return_documents": True,
                "max_chunks_per_doc": 4,
            },
        )
        whole = await http.get(f"/v1/explain/{answer.headers['x-ranking-id']}")
    body = answer.json()
    assert [each["document"] for each in body["results"]] == [documents[1], documents[0]]
    assert body["meta"]["warnings"] == ["max_chunks_per_doc has no effect here"]
    assert "title: Surgical" in whole.text
    assert "price: 5" in whole.text
    assert "surgical masks" not in whole.text  # it was not among the fields


@pytest.mark.parametrize("documents", [[{"text": "a"}, {"text": "b", "title": 3}], ["a", "b"]])
async def test_the_text_of_a_record_is_what_is_judged(documents: list[Any]) -> None:
    async with client() as http:
        answer = await http.post("/v1/rank", json={"query": "q", "documents": ["a", "b"]})
        other = await http.post("/v1/rerank", json={"query": "q", "documents": documents})
        page = await http.get(f"/v1/explain/{other.headers['x-ranking-id']}")
    assert answer.json()["returned"] == ["1", "0"]
    assert [each["index"] for each in other.json()["results"]] == [1, 0]
    assert page.status_code == 200


async def test_jina() -> None:
    async with client() as http:
        answer = await http.post(
            "/v1/rerank",
            json={**QUERY, "return_documents": True, "return_embeddings": False, "model": "m"},
        )
    body = answer.json()
    assert set(body) == {"model", "object", "usage", "results"}
    assert body["usage"] == {"total_tokens": 1365}
    assert body["results"][0] == {
        "index": 2,
        "relevance_score": pytest.approx(0.3),
        "document": {"text": "N95"},
    }


async def test_vllm_returns_documents_and_takes_none_for_all() -> None:
    asked = {**QUERY, "top_n": 0, "truncate_prompt_tokens": -1}
    async with client() as http:
        answer = await http.post("/v1/rerank", json=asked)
        raw = await http.post("/v1/rerank", json={**asked, "use_activation": False})
    body = answer.json()
    assert body["id"].startswith("rerank-")
    assert body["usage"] == {"prompt_tokens": 1300, "total_tokens": 1365}
    assert [each["document"]["text"] for each in body["results"]] == ["N95", "surgical", "cloth"]
    # Sums of three personas' scores.
    assert [each["relevance_score"] for each in raw.json()["results"]] == [9.0, 6.0, 3.0]


async def test_shared_fields_are_answered_to_all() -> None:
    async with client() as http:
        answer = await http.post("/v1/rerank", json={**QUERY, "model": "m", "top_n": 1})
    body = answer.json()
    assert set(body) == {"id", "model", "object", "usage", "results", "meta"}
    assert body["results"] == [{"index": 2, "relevance_score": pytest.approx(0.3)}]


async def test_tei() -> None:
    asked = {"query": "q", "texts": ["a", "b"]}
    async with client() as http:
        plain = await http.post("/rerank", json=asked)
        raw = await http.post("/rerank", json={**asked, "raw_scores": True, "return_text": True})
    assert plain.json() == [
        {"index": 1, "score": pytest.approx(0.2)},
        {"index": 0, "score": pytest.approx(0.1)},
    ]
    assert raw.json()[0] == {"index": 1, "score": 6.0, "text": "b"}


async def test_rerank_without_a_version_takes_documents_too() -> None:
    async with client() as http:
        answer = await http.post("/rerank", json={**QUERY, "top_n": 1})
    assert answer.json()["results"][0]["index"] == 2


ERRORS: list[tuple[str, dict[str, Any], int, dict[str, Any]]] = [
    (
        "/v2/rerank",
        {"query": " ", "documents": ["a"]},
        400,
        {"message": "invalid request: query must not be empty"},
    ),
    (
        "/v2/rerank",
        {"query": "q", "documents": []},
        400,
        {"message": "invalid request: list of documents must not be empty"},
    ),
    (
        "/v2/rerank",
        {"documents": ["a"]},
        400,
        {"message": "invalid request: 'query' is missing"},
    ),
    (
        "/v1/rerank",
        {"query": "q", "documents": [], "truncation": True},
        422,
        {"detail": "invalid request: list of documents must not be empty"},
    ),
    (
        "/v1/rerank",
        {"query": "q", "documents": ["a"], "top_n": "2", "use_activation": True},
        400,
        {
            "error": {
                "message": "invalid request: top_n is '2': Input should be a valid integer",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            }
        },
    ),
    (
        "/rerank",
        {"query": "q", "texts": []},
        400,
        {
            "error": "invalid request: list of documents must not be empty",
            "error_type": "Empty",
        },
    ),
    (
        "/rerank",
        {"query": "q", "texts": [1]},
        422,
        {
            "error": "invalid request: texts.0 is 1: Input should be a valid string",
            "error_type": "Validation",
        },
    ),
    (
        "/v1/rank",
        {"query": "q", "documents": ["a"], "colour": 1},
        400,
        {
            "error": {
                "code": "invalid",
                "message": "invalid request: there is no field 'colour'",
                "retryable": False,
            }
        },
    ),
]


@pytest.mark.parametrize(("path", "body", "status", "said"), ERRORS)
async def test_errors_have_the_form_of_the_shape(
    path: str, body: dict[str, Any], status: int, said: dict[str, Any]
) -> None:
    async with client() as http:
        answer = await http.post(path, json=body)
    assert (answer.status_code, answer.json()) == (status, said)


async def test_a_shared_request_is_told_of_errors_in_all_forms() -> None:
    async with client() as http:
        answer = await http.post("/v1/rerank", json={"query": "", "documents": ["a"]})
    body = answer.json()
    assert answer.status_code == 400
    assert body["message"] == body["detail"] == body["error"]["message"]


@pytest.mark.parametrize(
    ("path", "fields", "word"),
    [
        ("/v2/rerank", {"relevant_spans": {"mode": "enabled"}}, "relevant_spans"),
        ("/v1/rerank", {"return_embeddings": True}, "return_embeddings"),
        ("/v1/rerank", {"use_activation": True, "instruction": "be kind"}, "instruction"),
        ("/v1/rerank", {"documents": [{"image": "http://example.com/a.png"}]}, "documents[0]"),
        ("/v1/rerank", {"documents": [{"a": 1}], "rank_fields": ["b"]}, "rank_fields b"),
    ],
)
async def test_what_is_not_offered_is_refused(path: str, fields: dict[str, Any], word: str) -> None:
    async with client() as http:
        answer = await http.post(path, json={**QUERY, **fields})
    assert answer.status_code in (400, 422)
    assert word in answer.text


@pytest.mark.parametrize("field", ["max_tokens_per_doc", "truncate_prompt_tokens"])
async def test_documents_are_cut_for_the_model_and_returned_whole(field: str) -> None:
    # Ten tokens of four bytes each; "ä" has two.
    documents = ["a" * 50, "ä" * 30, "short"]
    asked = {"query": "q", "documents": documents, "return_documents": True, field: 10}
    async with client() as http:
        answer = await http.post("/v1/rerank", json=asked)
        page = (await http.get(f"/v1/explain/{answer.headers['x-ranking-id']}")).text
    assert "a" * 40 in page
    assert "a" * 41 not in page
    assert "ä" * 20 in page
    assert "ä" * 21 not in page
    returned = {each["index"]: each["document"]["text"] for each in answer.json()["results"]}
    assert returned == dict(enumerate(documents))


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
