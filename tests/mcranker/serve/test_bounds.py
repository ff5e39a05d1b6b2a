"""What a request may take, and what happens when there is too much of them, or too little time."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import anyio
import httpx
import pytest

from mcranker import ChatRequest, ServerFailed
from tests.support.serving import by_place, client, serving, settings, until, until_so

ASKED = {"query": "q", "documents": ["a", "b"]}
NESTED: object = "a"
for _ in range(60):
    NESTED = [NESTED]


class Gate:
    """A model that scores once it is let; counts who waits, and who was cancelled."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.waiting = 0
        self.cancelled = 0

    async def score(self, request: ChatRequest) -> str:
        self.waiting += 1
        try:
            await until_so(self.open.is_set)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return by_place(request)


@pytest.mark.parametrize("path", ["/v2/rerank", "/v1/rerank", "/rerank", "/v1/rank"])
async def test_large_bodies_are_refused_by_their_length_or_once_they_are_too_long(
    path: str,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100

    headers = {"Content-Type": "application/json"}
    async with client(settings(limits={"body": 1_000})) as http:
        known = await http.post(path, content=b"x" * 1_001, headers=headers)
        unknown = await http.post(path, content=pieces(), headers=headers)
    assert known.status_code == unknown.status_code == 413
    assert "1,000 bytes" in known.text


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/rerank", {"query": "q", "documents": ["a"] * 4}, 413),
        ("/rerank", {"query": "q", "texts": ["a"] * 4}, 413),
        ("/v1/rank", {"query": "q", "documents": ["a"] * 4}, 413),
        ("/v1/rank", {"query": "q" * 11, "documents": ["a"]}, 413),
        ("/v1/rank", {"query": "q" * 10, "documents": ["a"] * 3}, 200),
    ],
)
async def test_documents_and_queries_are_bounded(
    path: str, body: dict[str, object], status: int
) -> None:
    async with client(settings(limits={"documents": 3, "query": 10})) as http:
        assert (await http.post(path, json=body)).status_code == status


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/v1/rerank", {"documents": [1] * 100_000}, 413),
        ("/v1/rerank", {"documents": [{"a": [1] * 60_000}]}, 413),
        ("/v1/rerank", {"documents": ["a"], "rank_fields": ["a"] * 101}, 400),
        ("/v1/rank", {"documents": {"1": {"a": [[1]] * 60_000}}}, 413),
        ("/v1/rank", {"documents": ["a"], "options": {"team": {"members": [1] * 60_000}}}, 413),
        ("/v1/rank", {"documents": ["a"], "options": {"team": NESTED}}, 400),
        ("/v1/rank", {"documents": ["a"], "options": {"team": {"members": [1] * 9_000}}}, 400),
    ],
)
async def test_counts_and_levels_are_bounded_before_contents_are_looked_at(
    path: str, fields: dict[str, object], status: int
) -> None:
    async with client(settings(per_request=("team",))) as http:
        answer = await http.post(path, json={"query": "q", **fields})
    assert answer.status_code == status
    assert len(answer.text) < 1_500


async def test_only_json_is_read() -> None:
    async with client() as http:
        form = await http.post("/v1/rank", data={"query": "q"})
        text = await http.post("/v2/rerank", content=json.dumps(ASKED))
        charset = await http.post(
            "/v2/rerank",
            content=json.dumps(ASKED),
            headers={"Content-Type": "Application/JSON; charset=utf-8"},
        )
    assert (form.status_code, text.status_code, charset.status_code) == (415, 415, 200)


async def test_a_slow_body_is_not_waited_for() -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    async with client(settings(limits={"body_seconds": 0.05})) as http:
        answer = await http.post(
            "/v1/rank", content=never(), headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 408


async def test_too_many_requests_are_refused_and_told_when_to_come_back() -> None:
    gate = Gate()
    answers: list[httpx.Response] = []
    limits = {"rankings": 1, "waiting": 1}
    async with client(settings(gate.score, limits=limits)) as http, anyio.create_task_group() as g:

        async def post() -> None:
            answers.append(await http.post("/v2/rerank", json=ASKED))

        g.start_soon(post)
        await until_so(lambda: bool(gate.waiting))
        g.start_soon(post)
        await until_so(lambda: _waits(http))
        refused = await http.post("/v2/rerank", json=ASKED)
        tei = await http.post("/rerank", json={"query": "q", "texts": ["a"]})
        stream = await http.post("/v1/rank/stream", json=ASKED)
        gate.open.set()
    for answer in (refused, tei, stream):
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
    assert tei.json()["error_type"] == "Overloaded"
    assert [answer.status_code for answer in answers] == [200, 200]


async def test_waiting_has_an_end() -> None:
    gate = Gate()
    limits = {"rankings": 1, "wait": 0.05}
    async with client(settings(gate.score, limits=limits)) as http, anyio.create_task_group() as g:
        g.start_soon(lambda: http.post("/v2/rerank", json=ASKED))
        await until_so(lambda: bool(gate.waiting))
        refused = await http.post("/v2/rerank", json=ASKED)
        sooner = await http.post("/v2/rerank", json=ASKED, headers={"X-Timeout": "0.01"})
        gate.open.set()
    assert refused.status_code == sooner.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert "0.01 seconds" in sooner.json()["message"]


@pytest.mark.parametrize("by_header", [True, False])
async def test_at_the_deadline_what_is_known_is_returned_and_said(by_header: bool) -> None:
    async def one(request: ChatRequest) -> str:
        if request.tag.doc_id == "1":
            await anyio.sleep_forever()
        return by_place(request)

    headers = {"X-Timeout": "1.0"} if by_header else {}
    field = {} if by_header else {"timeout": 1.0}
    async with client(settings(one)) as http:
        cohere = await http.post("/v2/rerank", json={**ASKED, **field}, headers=headers)
        own = await http.post("/v1/rank", json={**ASKED, **field}, headers=headers)
        metrics = await _metrics(http)
    body = cohere.json()
    assert cohere.status_code == 200
    assert [each["index"] for each in body["results"]] == [0, 1]
    assert cohere.headers["x-partial"] == "deadline"
    assert cohere.headers["x-missing-scores"] == "3"
    assert body["meta"]["warnings"][0] == "partial: the deadline came before all scores"
    assert own.json()["ranking"]["partial"] is True
    assert b'mcranker_rankings_total{outcome="partial",ranker="team"} 2.0' in metrics


async def test_the_operators_deadline_is_the_longest() -> None:
    gate = Gate()
    async with client(settings(gate.score, limits={"deadline": 0.1})) as http:
        with anyio.fail_after(5):
            answer = await http.post("/v1/rank", json={**ASKED, "timeout": 1000})
    assert answer.headers["x-partial"] == "deadline"


async def test_where_every_score_is_needed_the_deadline_is_an_error() -> None:
    gate = Gate()
    service = settings(gate.score, options={"missing_policy": "fail"}, limits={"deadline": 0.05})
    async with client(service) as http:
        own = await http.post("/v1/rank", json=ASKED)
        tei = await http.post("/rerank", json={"query": "q", "texts": ["a"]})
    assert (own.status_code, own.json()["error"]["code"]) == (504, "timeout")
    assert (tei.status_code, tei.json()["error_type"]) == (424, "Backend")


async def test_the_order_that_was_given_is_returned_where_the_operator_wants_it() -> None:
    def down(_: ChatRequest) -> str:
        raise ServerFailed("http://10.0.0.7:8000 is down", model="openai:m")

    service = settings(down, options={"on_failure": "keep_order"})
    async with client(service) as http:
        answer = await http.post("/v2/rerank", json=ASKED)
        own = await http.post("/v1/rank", json=ASKED)
        metrics = await _metrics(http)
    assert [each["index"] for each in answer.json()["results"]] == [0, 1]
    assert "the order is the one that was given" in answer.headers["x-notes"]
    assert "10.0.0.7" not in own.text
    assert b'outcome="first_stage",ranker="team"} 2.0' in metrics


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", ""])
async def test_odd_timeouts_are_refused(value: str) -> None:
    async with client() as http:
        answer = await http.post("/v1/rank", json=ASKED, headers={"X-Timeout": value})
    assert answer.status_code == 400


def test_a_client_that_hangs_up_cancels_its_calls() -> None:
    gate = Gate()
    with serving(score=gate.score) as address:
        for path in ("/v1/rank", "/v2/rerank", "/v1/rank/stream"):
            with _posted(address, path, ASKED):
                until(lambda: gate.waiting == 6)
            until(lambda: gate.waiting == 0)
        metrics = httpx.get(f"{address}/metrics").text
    assert gate.cancelled == 18
    assert 'mcranker_rankings_total{outcome="cancelled",ranker="team"} 3.0' in metrics
    assert 'mcranker_rankings_in_progress{ranker="team"} 0.0' in metrics


def test_a_reader_that_does_not_read_holds_up_nobody() -> None:
    # The whole ranking is far more than the buffers of a connection hold.
    large = {"query": "q", "documents": ["x" * 12_000_000]}
    limits = {"rankings": 1, "waiting": 4, "reader": 0.5, "body": 20_000_000}
    with serving(limits=limits) as address, _posted(address, "/v1/rank/stream", large):
        answer = httpx.post(f"{address}/v2/rerank", json=ASKED, timeout=20)
        until(
            lambda: 'route="/v1/rank/stream",status="499"' in httpx.get(f"{address}/metrics").text
        )
    assert answer.status_code == 200


def test_what_is_under_way_is_finished_before_the_service_stops() -> None:
    gate = Gate()
    answers: list[httpx.Response] = []

    with serving(score=gate.score) as address:

        def post() -> None:
            answers.append(httpx.post(f"{address}/v2/rerank", json=ASKED, timeout=20))

        client_ = threading.Thread(target=post)
        client_.start()
        until(lambda: gate.waiting == 6)
        # Stopping begins while the ranking is under way; it may go on a moment later.
        timer = threading.Timer(0.3, gate.open.set)
        timer.start()
    client_.join(10)
    timer.join(10)
    assert [answer.status_code for answer in answers] == [200]


async def _waits(http: httpx.AsyncClient) -> bool:
    return b'mcranker_requests_waiting{ranker="team"} 1.0' in await _metrics(http)


async def _metrics(http: httpx.AsyncClient) -> bytes:
    return (await http.get("/metrics")).content


@contextmanager
def _posted(address: str, path: str, body: object) -> Iterator[socket.socket]:
    """A connection that has sent a request and reads nothing; it is closed at the end."""
    host, port = address.removeprefix("http://").split(":")
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((host, int(port)))
        connection.sendall(head.encode() + content)
        yield connection
