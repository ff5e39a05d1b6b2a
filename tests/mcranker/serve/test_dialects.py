"""Requests of rerank clients and their answers, byte for byte as HTTP has them."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest

from mcranker import Capabilities, ScriptedChat
from mcranker.serve import RankerSettings, Settings, hash_key
from mcranker.serve.dialects import DIALECTS
from tests.support.serving import KEY, client, model, settings

TEXTS = ["cloth", "surgical", "N95"]
QUERY = {"query": "best masks", "documents": TEXTS}
SCORES = [0.3, 0.2, 0.1]
"""Three personas give 1, 2 and 3 of 10 to the first, second and third passage."""

TOKENS = {"prompt_tokens": 1300, "completion_tokens": 65, "total_tokens": 1365}
"""A recruiter, three rubrics, nine scores: 13 calls of 100 and 5 tokens."""


async def post(path: str, body: dict[str, Any], **more: Any) -> Any:
    """The answer's JSON."""
    async with client(**more) as http:
        answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def results(score: str = "relevance_score", **documents: Any) -> list[dict[str, Any]]:
    """What is answered, best first; `documents` is one key and what shows each text."""
    return [
        {"index": index, score: pytest.approx(value)}
        | {key: shown(TEXTS[index]) for key, shown in documents.items()}
        for index, value in zip((2, 1, 0), SCORES, strict=True)
    ]


def as_object(text: str) -> dict[str, str]:
    return {"text": text}


GENERAL = (
    *("/v2/rerank", "/v1/rerank", "/rerank", "/reranking", "/v1/reranking", "/reranks"),
    *("/v1/reranks", "/compatible-api/v1/reranks", "/inference/v1/rerank"),
    *("/v1/v2/rerank", "/v1/v1/rerank"),
)


@pytest.mark.parametrize("path", GENERAL)
async def test_the_general_form(path: str) -> None:
    body = await post(path, {**QUERY, "model": "rerank-v3.5"})
    assert body.pop("id")
    assert body == {
        "object": "rerank",
        "model": "team",
        "results": results(),
        "usage": TOKENS,
        "meta": {
            "api_version": {"version": "2"},
            "tokens": {"input_tokens": 1300, "output_tokens": 65},
            "reused_tokens": 0,
            "judged_by": ["scripted:tests"],
            "relevance": "absolute",
            "unscored": 0,
            "missing_scores": 0,
        },
    }


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/infinity/rerank"])
async def test_infinity(path: str) -> None:
    asked = {**QUERY, "raw_scores": False, "return_documents": True}
    body = await post(path, asked)
    assert body["object"] == "rerank"
    assert body["results"] == results(document=str)
    assert body["usage"]["total_tokens"] == 1365


async def test_a_client_that_sends_nothing_of_its_own_names_its_dialect_in_the_address() -> None:
    asked = {**QUERY, "return_documents": True}
    assert (await post("/infinity/rerank", asked))["results"] == results(document=str)
    assert (await post("/rerank", asked))["results"] == results(document=as_object)
    async with client() as http:
        assert (await http.post("/nothing/rerank", json=asked)).status_code == 404


@pytest.mark.parametrize("more", [{"top_k": None, "truncation": True}, {"top_k": 3}])
async def test_voyage(more: dict[str, Any]) -> None:
    body = await post("/v1/rerank", {**QUERY, "model": "rerank-2", **more})
    # Other clients that say top_k read results.
    assert body["data"] == body["results"] == results()
    assert (body["object"], body["usage"]["total_tokens"]) == ("list", 1365)
    shown = await post("/v1/rerank", {**QUERY, **more, "return_documents": True})
    assert shown["data"] == results(document=str)


async def test_pinecone() -> None:
    asked = {"query": "q", "documents": [{"text": each} for each in TEXTS], "rank_fields": ["text"]}
    headers = {"X-Pinecone-Api-Version": "2026-01"}
    async with client() as http:
        answer = await http.post("/rerank", json=asked, headers=headers)
        bare = await http.post(
            "/rerank", json={**asked, "return_documents": False}, headers=headers
        )
    body = answer.json()
    assert body["model"] == "team"
    assert body["data"] == results("score", document=as_object)
    assert body["usage"]["rerank_units"] == 1
    assert bare.json()["data"] == results("score")


async def test_mixedbread() -> None:
    asked = {"model": "m", "query": "q", "input": TEXTS, "top_k": 2, "return_input": True}
    body = await post("/v1/reranking", asked)
    assert body["data"] == results("score", input=str)[:2]
    assert (body["object"], body["top_k"], body["return_input"]) == ("list", 2, True)
    assert body["usage"] == TOKENS


@pytest.mark.parametrize("path", ["/v1/ranking", "/ranking", "/v1/retrieval/nvidia/m/reranking"])
async def test_nvidia(path: str) -> None:
    asked = {"query": {"text": "q"}, "passages": [{"text": each} for each in TEXTS]}
    body = await post(path, {"model": "nvidia/m", "truncate": "END", **asked})
    assert [each["index"] for each in body["rankings"]] == [2, 1, 0]
    for each, score in zip(body["rankings"], SCORES, strict=True):
        assert 1 / (1 + math.exp(-each["logit"])) == pytest.approx(score)


async def test_a_logit_is_finite() -> None:
    def score(request: Any) -> str:
        return f'{{"Score": {10 if request.tag.doc_id == "0" else 0}}}'

    body = await post("/v1/ranking", {"query": "q", "passages": ["a", "b"]}, score=score)
    # log(0.999999 / 0.000001) = 13.8155
    assert [each["logit"] for each in body["rankings"]] == pytest.approx([13.8155, -13.8155])


@pytest.mark.parametrize(
    "asked",
    [
        {"text_1": "q", "text_2": TEXTS},
        {"text_1": ["q"], "text_2": TEXTS},
        {"queries": "q", "documents": TEXTS},
        {"queries": "q", "items": TEXTS},
        {"data_1": "q", "data_2": TEXTS},
    ],
)
async def test_vllm_scores_in_the_order_as_given(asked: dict[str, Any]) -> None:
    body = await post("/v1/score", asked)
    assert body["object"] == "list"
    assert body["data"] == [
        {"index": index, "score": pytest.approx(value)}
        for index, value in enumerate(reversed(SCORES))
    ]
    assert (await post("/score", {"text_1": "q", "text_2": "one"}))["data"][0]["score"] > 0


async def test_dashscope() -> None:
    asked = {"query": "q", "documents": TEXTS}
    body = await post(
        "/api/v1/services/rerank/text-rerank/text-rerank",
        {"model": "m", "input": asked, "parameters": {"top_n": 2, "return_documents": True}},
    )
    assert body["request_id"]
    assert body["output"]["results"] == results(document=as_object)[:2]
    assert body["usage"]["total_tokens"] == 1365


async def test_zeroentropy() -> None:
    body = await post("/v1/models/rerank", {**QUERY, "latency": "fast"})
    assert body["results"] == results()
    # "best masks", "cloth", "surgical" and "N95"
    assert (body["total_bytes"], body["total_tokens"]) == (10 + 5 + 8 + 3, 1365)
    assert body["actual_latency_mode"] == "fast"
    assert body["inference_latency"] > 0
    assert body["meta"]["warnings"] == ["latency has no effect here"]


async def test_tei() -> None:
    asked = {"query": "q", "texts": TEXTS}
    assert await post("/rerank", asked) == results("score")
    raw = await post(
        "/rerank", {**asked, "raw_scores": True, "return_text": True, "truncate": True}
    )
    assert raw[0] == {"index": 2, "score": 9.0, "text": "N95"}


# Fields


async def test_documents_are_returned_to_those_who_ask() -> None:
    for more in ({}, {"return_documents": False}, {"truncate_prompt_tokens": -1}):
        assert (await post("/v1/rerank", {**QUERY, **more}))["results"] == results()
    for said in (True, "true", "True"):
        found = await post("/v1/rerank", {**QUERY, "return_documents": said})
        assert found["results"] == results(document=as_object)


@pytest.mark.parametrize("name", ["top_n", "top_k"])
async def test_how_many_are_returned(name: str) -> None:
    assert len((await post("/v1/rerank", {**QUERY, name: 2}))["results"]) == 2
    for everything in (0, None, 99):
        assert len((await post("/v1/rerank", {**QUERY, name: everything}))["results"]) == 3


async def test_scores_of_the_ranker_instead_of_relevance() -> None:
    for name in ("use_activation", "activation", "softmax"):
        body = await post("/v1/rerank", {**QUERY, name: False})
        # Sums of three personas' scores.
        assert [each["relevance_score"] for each in body["results"]] == [9.0, 6.0, 3.0]
        assert body["meta"]["relevance"] == "own"


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


@pytest.mark.parametrize("documents", [[{"text": "a"}, {"text": "b", "title": 3}], ["a", "b"]])
async def test_the_text_of_a_record_is_what_is_judged(documents: list[Any]) -> None:
    body = await post("/v1/rerank", {"query": "q", "documents": documents})
    assert [each["index"] for each in body["results"]] == [1, 0]


@pytest.mark.parametrize("name", ["instruction", "instruct"])
async def test_an_instruction_is_one_more_criterion(name: str) -> None:
    prompts: list[str] = []

    def score(request: Any) -> str:
        prompts.append(request.messages[-1].content)
        return '{"Score": 5}'

    body = await post("/v1/rerank", {**QUERY, name: "Prefer trials"}, score=score)
    assert all("3. Prefer trials (weight 30%)" in each for each in prompts)
    assert body["meta"]["instruction"] == "one more criterion of every judge, 30% of the weight"


async def test_an_instruction_is_refused_where_it_has_no_effect() -> None:
    scripted = ScriptedChat(lambda _: "", capabilities=Capabilities(label_logprobs=True))
    ranker = RankerSettings("yes", "rg_yn", {"model": scripted, "ledger": None}, ("*",))
    asked = {**QUERY, "instruction": "Prefer trials"}
    async with client(Settings(rankers=(ranker,))) as http:
        answers = [await http.post(path, json=asked) for path in ("/v2/rerank", "/v1/rank")]
    for answer in answers:
        assert answer.status_code == 400
        assert "takes none" in answer.json()["message"]


async def test_tokens_are_counted_when_the_ledger_answers_as_well(tmp_path: Any) -> None:
    async with client(settings(options={"ledger": str(tmp_path / "ledger")})) as http:
        first = (await http.post("/v1/rerank", json=QUERY)).json()
        again = (await http.post("/v1/rerank", json=QUERY)).json()
    assert first["usage"] == again["usage"] == TOKENS
    assert first["meta"]["reused_tokens"] == 0
    assert again["meta"]["reused_tokens"] == 1365


@pytest.mark.parametrize(
    "field", ["max_tokens_per_doc", "truncate_prompt_tokens", "max_doc_length"]
)
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
    assert "2 documents cut to 40 bytes" in answer.json()["meta"]["warnings"][0]


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


@pytest.mark.parametrize(
    ("body", "message", "kind"),
    [
        ({"documents": ["a"]}, "invalid request: 'query' is missing", "invalid"),
        ({"query": " ", "documents": ["a"]}, "invalid request: query must not be empty", "invalid"),
        (
            {"query": "q", "documents": []},
            "invalid request: list of documents must not be empty",
            "empty",
        ),
        (
            {"query": "q", "documents": ["a", 1]},
            "invalid request: documents[1] is 1; give a text or an object",
            "invalid",
        ),
        (
            {"query": "q", "documents": ["a"], "top_n": "2"},
            "invalid request: top_n is '2'; give a whole number above 0, or 0 for all",
            "invalid",
        ),
        (
            {"query": "q", "documents": ["a"], "return_documents": "yes"},
            "invalid request: return_documents is 'yes'; give true or false",
            "invalid",
        ),
        (
            {"query": "q", "documents": ["a"], "timeout": 0},
            "invalid request: timeout is 0; give seconds, a number above 0",
            "invalid",
        ),
    ],
)
async def test_errors_are_under_every_name(body: dict[str, Any], message: str, kind: str) -> None:
    async with client() as http:
        answer = await http.post("/v1/rerank", json=body)
    assert (answer.status_code, answer.json()) == (400, said(message, kind))


async def test_an_unknown_field_is_ignored_but_by_the_services_own_routes() -> None:
    async with client() as http:
        answer = await http.post("/v1/rerank", json={**QUERY, "colour": 1})
        own = await http.post("/v1/rank", json={**QUERY, "colour": 1})
    assert answer.status_code == 200
    assert own.json() == said("invalid request: there is no field 'colour'")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (
            {"query": "q", "texts": []},
            400,
            {
                "error": "invalid request: list of documents must not be empty",
                "error_type": "Empty",
            },
        ),
        (
            {"query": "q", "texts": [1]},
            422,
            {
                "error": "invalid request: texts[0] is 1; give a text or an object",
                "error_type": "Validation",
            },
        ),
    ],
)
async def test_errors_of_tei(body: dict[str, Any], status: int, error: dict[str, str]) -> None:
    async with client() as http:
        answer = await http.post("/rerank", json=body)
    assert (answer.status_code, answer.json()) == (status, error)


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


async def test_an_unknown_route_says_why_where_clients_look() -> None:
    async with client() as http:
        answer = await http.post("/v3/rerank", json=QUERY)
        method = await http.get("/v2/rerank")
    assert (answer.status_code, method.status_code) == (404, 405)
    assert answer.json()["detail"] == "there is no route '/v3/rerank'; did you mean '/v2/rerank'?"
    assert method.json()["detail"] == "'/v2/rerank' takes POST, not 'GET'"


@pytest.mark.parametrize("path", ["/v2/rerank", "/v1/rank"])
@pytest.mark.parametrize("number", [b"2", b"2.0", b"18446744073709551616", b"1" + b"0" * 30])
async def test_whole_numbers_are_taken_however_large_they_are(path: str, number: bytes) -> None:
    content = b'{"query":"q","documents":["a","b"],"top_n":' + number + b"}"
    async with client() as http:
        answer = await http.post(
            path, content=content, headers={"Content-Type": "application/json"}
        )
    found = answer.json()
    assert len(found.get("results") or found["returned"]) == 2


# What clients ask besides


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
        rankers=tuple(type(each)(each.name, options=each.options) for each in service.rankers)
    )
    async with client(only) as http:
        answer = await http.get("/v1/models/other")
        asked = await http.post("/v1/rerank", json={**QUERY, "model": "other"})
    assert answer.status_code == asked.status_code == 404
    assert "model 'other' not found; available: team" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/healthz", "/health", "/ping", "/v1/health/live", "/readyz", "/v1/health/ready"]
)
async def test_probes_need_no_key(path: str) -> None:
    async with client(settings(keys={"a": hash_key(KEY)})) as http:
        assert (await http.get(path)).status_code == 200


async def test_info_and_what_xinference_asks_first() -> None:
    keys = {"a": hash_key(KEY)}
    async with client() as http:
        info = (await http.get("/info")).json()
        auth = (await http.get("/v1/cluster/auth")).json()
    assert (info["model_id"], info["max_client_batch_size"]) == ("team", 1000)
    assert "reranker" in info["model_type"]
    assert auth == {"auth": False}
    async with client(settings(keys=keys)) as http:
        assert (await http.get("/v1/cluster/auth")).json() == {"auth": True}
        assert (await http.get("/info")).status_code == 401


async def test_a_key_as_pinecones_clients_send_it() -> None:
    async with client(settings(keys={"a": hash_key(KEY)})) as http:
        answers: list[httpx.Response] = [
            await http.post("/rerank", json=QUERY, headers={"Api-Key": key})
            for key in (KEY, f"{KEY}x")
        ]
    assert [each.status_code for each in answers] == [200, 401]


def test_dialects_share_no_name_and_no_route() -> None:
    names = [each.name for each in DIALECTS]
    routes = [route for each in DIALECTS for route in each.routes]
    assert len({*names}) == len(names)
    assert len({*routes, *GENERAL}) == len(routes) + len(GENERAL)
