"""Answers of the service and the MCP server, from an index."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client

from mcranker.rag.config import PipelineConfig
from mcranker.rag.result import RAGResult
from mcranker.serve import create_app, hash_key
from mcranker.serve.mcp import mcp_server
from mcranker.serve.settings import load_settings
from tests.mcranker.rag.fake_pipeline import SENTENCE, FakePipeline, service
from tests.support import serving
from tests.support.serving import KEY, until_so

QUESTION = {"question": "What is NSP?"}

pytestmark = pytest.mark.usefixtures("pipelines")


@asynccontextmanager
async def client(**given: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with serving.client(service(**given)) as found:
        yield found


def events(text: str) -> list[tuple[str, Any]]:
    """Names and data of server-sent events."""
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data[6:])) for name, data in blocks]


@pytest.mark.parametrize("route", ["/v1/answer"])
async def test_an_answer_is_whole_and_names_no_path_or_address(route: str) -> None:
    async with client() as http:
        response = await http.post(route, json={"question": {"text": "why", "id": "q7"}})
    body = response.json()
    answer = RAGResult.from_dict(body["answer"])
    assert (answer.text, answer.id) == (f"{SENTENCE} [1]", "q7")
    assert answer.citations[0].quote == "sentence"
    assert response.headers["x-answer-id"] == body["id"]
    assert answer.models == {"answer": "local:m.gguf"}
    assert "10.0.0.1" not in response.text + response.headers["x-notes"]


async def test_its_page_is_for_the_key_that_asked() -> None:
    other = f"{KEY}-other"
    keys = {"one": hash_key(KEY), "other": hash_key(other)}
    async with client(keys=keys) as http:
        assert (await http.post("/v1/answer", json=QUESTION)).status_code == 401
        mine = {"Authorization": f"Bearer {KEY}"}
        name = (await http.post("/v1/answer", json=QUESTION, headers=mine)).json()["id"]
        page = await http.get(f"/v1/explain/{name}", headers=mine)
        assert page.headers["content-type"].startswith("text/html")
        assert "next sentence" in page.text
        theirs = {"Authorization": f"Bearer {other}"}
        assert (await http.get(f"/v1/explain/{name}", headers=theirs)).status_code == 404


async def test_events_are_the_stages_and_then_the_answer() -> None:
    async with client() as http:
        response = await http.post("/v1/answer/stream", json=QUESTION)
    names, data = zip(*events(response.text), strict=True)
    assert names == ("stage_started", "stage_done", "answer_done")
    assert (data[0]["name"], data[1]["name"], data[1]["calls"]) == ("retrieval", "retrieval", 1)
    assert RAGResult.from_dict(data[2]["answer"]).text == f"{SENTENCE} [1]"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"question": " "}, 400),
        ({**QUESTION, "top": 3}, 400),
        ({"question": "fail"}, 502),
    ],
)
async def test_impossible_requests_and_failed_models(body: dict[str, Any], status: int) -> None:
    async with client() as http:
        assert (await http.post("/v1/answer", json=body)).status_code == status


async def test_a_service_without_an_index_says_so() -> None:
    async with serving.client() as http:
        response = await http.post("/v1/answer", json=QUESTION)
    assert response.status_code == 404
    assert "--index" in response.text


async def test_deadlines_are_the_requests_but_no_later_than_the_services(
    pipelines: list[FakePipeline],
) -> None:
    async with client(limits={"deadline": 7}) as http:
        await http.post("/v1/answer", json={**QUESTION, "timeout": 3})
        await http.post("/v1/answer", json={**QUESTION, "timeout": 30})
    first, second = pipelines[0].deadlines
    assert first == pytest.approx(3, abs=1)
    assert second == pytest.approx(7, abs=1)
    assert pipelines[0].closed


async def test_clients_that_go_cancel_their_answers(pipelines: list[FakePipeline]) -> None:
    async with client() as http:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: http.post("/v1/answer", json={"question": "wait"}))
            await until_so(lambda: bool(pipelines[0].deadlines))
            group.cancel_scope.cancel()
        await until_so(lambda: pipelines[0].cancelled)
        metrics = (await http.get("/metrics")).text
        assert 'mcranker_answers_total{outcome="cancelled"} 1.0' in metrics


def test_the_file_has_a_table_of_the_pipeline(
    tmp_path: Path, pipelines: list[FakePipeline]
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(
        '[answer]\nindex = "papers.index"\npipeline = "rebel"\nmax_calls = 50\n'
        '[answer.answer]\nstyle = "extract"\n'
    )
    settings = load_settings(file)
    create_app(settings)
    made = pipelines[0]
    assert isinstance(made.config, PipelineConfig)
    assert made.index == str(tmp_path / "papers.index")
    assert (made.config.preset, made.config.answer.style) == ("rebel", "extract")
    assert made.options == {"max_calls": 50}


async def test_mcp_answers_with_checked_citations() -> None:
    async with mcp_server(service()) as server, Client(server) as mcp:
        assert "answer" in {each.name for each in (await mcp.list_tools()).tools}
        found = await mcp.call_tool("answer", QUESTION)
    body = found.structured_content
    assert body is not None
    assert (body["answer"], body["kind"]) == (f"{SENTENCE} [1]", "answer")
    assert [each["verdict"] for each in body["citations"]] == ["found"]
    assert body["passages"] == [{"number": 1, "id": "b#1", "document": "b", "title": ""}]
    assert (body["ranking_id"], body["calls"]) == (None, 3)


EARLIER = [
    {"role": "user", "content": "What is BERT?"},
    {"role": "assistant", "content": "A model."},
]
WHOLE = "User: What is BERT? Assistant: A model. User: What is NSP?"
LAST = {"role": "user", "content": "What is NSP?"}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [*EARLIER, LAST]},
        {**QUESTION, "messages": EARLIER},
        {**QUESTION, "messages": [*EARLIER, LAST]},
    ],
)
async def test_a_conversation_reaches_the_pipeline(body: dict[str, Any]) -> None:
    async with client() as http:
        response = await http.post("/v1/answer", json=body)
    assert response.json()["answer"]["question"] == WHOLE


async def test_a_conversation_is_an_argument_of_the_mcp_tool() -> None:
    async with mcp_server(service()) as server, Client(server) as mcp:
        found = await mcp.call_tool("answer", {**QUESTION, "messages": EARLIER})
        wrong = await mcp.call_tool("answer", {**QUESTION, "messages": [{"role": "tool"}]})
    assert not found.is_error
    assert wrong.is_error
