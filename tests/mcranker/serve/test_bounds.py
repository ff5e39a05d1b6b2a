"""Limits of requests: size, values, number and time; odd, hostile and slow clients."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest

from mcranker import ChatRequest
from mcranker.serve import server
from tests.support.serving import Loop, by_place, client, serving, settings, until, until_so

ASKED = {"query": "q", "documents": ["a", "b"]}


IN_ORDER = {200, 400, 404, 413, 415, 422}
SECRETS = (str(Path(__file__).parents[3]), str(Path.home()), "Traceback", 'File "', "site-packages")
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


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


@pytest.mark.parametrize("path", ["/v2/rerank", "/v1/rank"])
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
        gate.open.set()
    for answer in (refused, tei):
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
    assert tei.json()["error_type"] == "Overloaded"
    assert [answer.status_code for answer in answers] == [200, 200]


async def test_at_the_deadline_what_is_known_is_returned_and_said() -> None:
    async def one(request: ChatRequest) -> str:
        if request.tag.doc_id == "1":
            await anyio.sleep_forever()
        return by_place(request)

    async with client(settings(one)) as http:
        cohere = await http.post("/v2/rerank", json={**ASKED, "timeout": 0.3})
        own = await http.post("/v1/rank", json={**ASKED, "timeout": 0.3})
        metrics = await _metrics(http)
    body = cohere.json()
    assert cohere.status_code == 200
    assert [each["index"] for each in body["results"]] == [0, 1]
    assert cohere.headers["x-partial"] == "deadline"
    assert cohere.headers["x-missing-scores"] == "3"
    assert body["meta"]["warnings"][0] == "partial: the deadline came before all scores"
    assert own.json()["ranking"]["partial"] is True
    assert b'mcranker_rankings_total{outcome="partial",ranker="team"} 2.0' in metrics


async def test_where_every_score_is_needed_the_deadline_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcranker.serve.rankers.GRACE", 0.0)
    gate = Gate()
    service = settings(gate.score, options={"missing_policy": "fail"}, limits={"deadline": 0.05})
    async with client(service) as http:
        own = await http.post("/v1/rank", json=ASKED)
        tei = await http.post("/rerank", json={"query": "q", "texts": ["a"]})
    assert (own.status_code, own.json()["error"]["code"]) == (504, "timeout")
    assert (tei.status_code, tei.json()["error_type"]) == (424, "Backend")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_hangs_up_cancels_its_calls(loop: Loop) -> None:
    pytest.importorskip(loop)
    gate = Gate()
    with serving(score=gate.score, loop=loop) as address:
        for path in ("/v1/rank", "/v2/rerank", "/v1/rank/stream"):
            with _posted(address, path, ASKED):
                until(lambda: gate.waiting == 6)
            until(lambda: gate.waiting == 0)
        metrics = httpx.get(f"{address}/metrics").text
    assert gate.cancelled == 18
    assert 'mcranker_rankings_total{outcome="cancelled",ranker="team"} 3.0' in metrics
    assert 'mcranker_rankings_in_progress{ranker="team"} 0.0' in metrics


def test_a_reader_that_does_not_read_delays_no_other_request() -> None:
    # The whole ranking is far more than the buffers of a connection hold.
    large = {"query": "q", "documents": ["x" * 12_000_000]}
    limits = {"rankings": 1, "waiting": 4, "reader": 0.5, "body": 20_000_000}
    with serving(limits=limits) as address, _posted(address, "/v1/rank/stream", large):
        answer = httpx.post(f"{address}/v2/rerank", json=ASKED, timeout=20)
        until(
            lambda: 'route="/v1/rank/stream",status="499"' in httpx.get(f"{address}/metrics").text
        )
    assert answer.status_code == 200


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    limits = {"documents": 8, "body": 100_000, "deadline": 5}
    chosen = ("team", "team_size", "depth")
    # Ids may be any text, of which the usual model of these tests makes a number.
    with serving(
        settings(lambda _: '{"Score": 5}', port=0, limits=limits, per_request=chosen)
    ) as at:
        yield at


@pytest.fixture(scope="module")
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30) as found:
        yield found


DEEP = b'{"query":"q","documents":' + b"[" * 900 + b"]" * 900 + b"}"
NESTED_BODY = b'{"query":"q","documents":[' + b'{"a":' * 100 + b"1" + b"}" * 100 + b"]}"


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        NESTED_BODY,
        b'{"query":"q","documents":["\\ud800"]}',
        b'{"query":"q","documents":["a"],"top_n":99999999999999999999}',
        b'{"query":"q","documents":["a"],"timeout":5e-324}',
        b'{"query":"q","documents":["a"],"query":"\\u0000"}',
        b'{"query":"q","documents":[{"text":"a","id":"\\n"}, {"text":"b","id":"\\n"}]}',
        b"\xef\xbb\xbf{}",
        b"{" * 50_000,
    ],
)
@pytest.mark.parametrize("route", ["/rerank", "/v1/rank/stream"])
def test_bodies_known_for_trouble(http: httpx.Client, route: str, body: bytes) -> None:
    answer = http.post(route, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in IN_ORDER | {504}, answer.text
    assert not any(secret in answer.text for secret in SECRETS), answer.text
    assert http.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b" + b"\0" * 100),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"query=q"),
        ({}, b"{}"),
    ],
)
async def test_only_plain_json_is_read(headers: dict[str, str], content: bytes) -> None:
    async with client() as http:
        charset = {"Content-Type": "Application/JSON; charset=utf-8"}
        assert (await http.post("/v2/rerank", json=ASKED, headers=charset)).status_code == 200
        answer = await http.post("/v2/rerank", content=content, headers=headers)
    assert answer.status_code == 415
    assert "Content-" in answer.json()["message"]


def test_idle_connections_do_not_shut_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_IDLE", 600.0)
    with serving(limits={"connections": 20}) as address, _connected(address, 60) as idle:
        assert httpx.get(f"{address}/healthz").status_code == 200
        for _ in range(5):
            answer = httpx.post(f"{address}/v2/rerank", json=ASKED)
            assert answer.status_code == 200
        # The oldest are closed, so that files for others remain.
        assert idle[0].recv(1) == b""


def test_half_a_body_does_not_delay_the_end() -> None:
    with ExitStack() as kept:
        with serving(limits={"stop": 0}) as address:
            half = kept.enter_context(_connected(address, 1))[0]
            half.sendall(HEAD + b"Content-Length: 900\r\n\r\n{")
            httpx.get(f"{address}/healthz")
            began = time.monotonic()
        # Neither the 30 seconds that a body may take, nor the 5 that are left for answers.
        assert time.monotonic() - began < 4
        answer = half.recv(2_000)
    assert answer.startswith(b"HTTP/1.1 503 ")


@contextmanager
def _connected(address: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent nothing yet."""
    host, port = address.removeprefix("http://").split(":")
    with ExitStack() as kept:
        yield [
            kept.enter_context(socket.create_connection((host, int(port)), timeout=20))
            for _ in range(count)
        ]


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
