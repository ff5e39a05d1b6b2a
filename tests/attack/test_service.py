"""Requests made to stop the service, which answers others meanwhile and takes little memory."""

from __future__ import annotations

import json
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import anyio
import anyio.lowlevel
import httpx
import pytest

from mcranker.serve import create_app, server
from mcranker.serve.server import Server, listen
from tests.support.serving import client, serving, settings, until

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MANY = 1_300_000
STALL = 0.2
"""Seconds of processor time; a free machine takes less than a tenth."""
MEMORY = 100_000_000  # bytes

NUMBERS = b"[" + b"1," * MANY + b"1]"
KEYS = b",".join(b'"%06x":1' % number for number in range(330_000))
FEW = b",".join(b'"%06x":1' % number for number in range(49_000))


def body(**fields: object) -> bytes:
    """JSON of which values can be given as bytes."""
    asked: dict[str, object] = {"query": "q", "documents": ["a"], **fields}
    values = (
        (name, value if isinstance(value, bytes) else json.dumps(value).encode())
        for name, value in asked.items()
        if value is not None
    )
    return b"{" + b",".join(b'"' + name.encode() + b'":' + value for name, value in values) + b"}"


def texts(count: int, each: str) -> list[str]:
    """Different texts, 4 MB in all."""
    return [f"{number} " + each * (3_900_000 // count // len(each)) for number in range(count)]


LISTS = {
    f"{route} {name}": (route, body(**{"documents": None, name: NUMBERS}), 413)
    for route, names in {
        "/v2/rerank": ("documents", "texts", "passages", "input", "text_2", "items", "data_2"),
        "/v1/rank": ("documents", "query"),
        "/v1/rank/stream": ("documents",),
    }.items()
    for name in names
}
KINDS = {
    **LISTS,
    "lists": ("/v2/rerank", body(documents=b"[" + b"[]," * MANY + b"[]]"), 413),
    "objects": ("/v2/rerank", body(documents=b"[" + b"{}," * MANY + b"{}]"), 413),
    "keys": ("/v2/rerank", body()[:-1] + b"," + KEYS + b"}", 413),
    "keys of options": ("/v1/rank", body(options=b"{" + KEYS + b"}"), 413),
    "keys of a document": ("/v2/rerank", body(documents=b"[{" + KEYS + b"}]"), 413),
    "the same key": ("/v2/rerank", b"{" + b'"query":"q",' * 300_000 + b'"documents":["a"]}', 413),
    "documents by id": ("/v1/rank", body(documents=b"{" + KEYS + b"}"), 413),
    "rank_fields": ("/v2/rerank", body(rank_fields=NUMBERS), 413),
    "members": ("/v1/rank", body(options=b'{"team":{"members":' + NUMBERS + b"}}"), 413),
    "fewer members": ("/v1/rank", body(options={"team": {"members": [1] * 24_000}}), 400),
    "fewer keys": ("/v2/rerank", body()[:-1] + b"," + FEW + b"}", 200),
    "fewer keys of a document": ("/v2/rerank", body(documents=b"[{" + FEW + b"}]"), 200),
    "rank_fields of documents": (
        "/v2/rerank",
        body(
            rank_fields=[f"f{number}" for number in range(100)],
            documents=[{f"f{number}": "x" for number in range(45)}] * 1_000,
        ),
        200,
    ),
    "1,000 levels": ("/v1/rank", body(options=b'{"a":' * 1_000 + b"1" + b"}" * 1_000), 400),
    "100,000 levels": ("/v1/rank", body(documents=b"[" * 100_000 + b"]" * 100_000), 413),
    "30,000 levels": ("/v1/rank", body(documents=b"[" * 30_000 + b"]" * 30_000), 400),
    "open levels": ("/v1/rank", b"[" * 3_900_000, 413),
    "a long number": ("/v2/rerank", body(top_n=b"1" * 3_900_000), 400),
    "a long text": ("/v2/rerank", body(documents=texts(1, "word, ")), 200),
    "many texts": ("/v2/rerank", body(documents=texts(1_000, "word, ")), 200),
    "all that is known": ("/v1/rank", body(documents=texts(1_000, "word, ")), 200),
    "texts of separators": ("/v2/rerank", body(documents=texts(10, ",[{")), 200),
    "escapes": ("/v2/rerank", body(documents=b'["' + rb"\",\\" * 700_000 + b'"]'), 200),
    "lone surrogates": ("/v2/rerank", body(documents=b'["' + rb"\ud800" * 600_000 + b'"]'), 400),
    "NaN": ("/v2/rerank", body(timeout=b"NaN"), 400),
    "Infinity": ("/v2/rerank", body(timeout=b"1e999"), 400),
    "no end": ("/v2/rerank", b'{"query":"' + b"a" * 3_900_000, 400),
    "no Unicode": ("/v2/rerank", body(query=b'"' + b"\xff" * 3_900_000 + b'"'), 400),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_no_body_holds_up_other_requests_or_takes_much_memory(kind: str) -> None:
    path, content, status = KINDS[kind]
    assert len(content) < 4_000_000
    chosen = settings(
        lambda _: '{"Score": 5}', per_request=("team",), options={"team": "clinician"}
    )
    async with client(chosen) as http:
        await http.post(path, json={"query": "q", "documents": ["a"]})
        async with _watched() as stalls:
            answer = await http.post(path, content=content, headers=JSON)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await http.post(path, content=content, headers=JSON)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.status_code == status, answer.text[:500]
    assert max(stalls) < STALL
    assert peak - before < MEMORY
    if status != 200:
        assert len(answer.content) < 1_500


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b" + b"\0" * 100),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x--"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"query=q"),
    ],
)
async def test_only_plain_json_is_read(headers: dict[str, str], content: bytes) -> None:
    async with client() as http:
        answer = await http.post("/v2/rerank", content=content, headers=headers)
    assert answer.status_code == 415
    assert "Content-" in answer.json()["message"]


async def test_chunks_of_one_byte_hold_up_nothing() -> None:
    service = settings(port=0)
    text = body(documents=["a" * 90_000])
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in text) + b"0\r\n\r\n"
    with listen(service) as bound:
        ready = anyio.Event()
        host, port = bound.getsockname()
        running = Server(create_app(service), service.limits, ready.set)
        async with anyio.create_task_group() as group:
            group.start_soon(running.serve, [bound])
            await ready.wait()
            async with await anyio.connect_tcp(host, port) as stream, _watched() as stalls:
                await stream.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
                answer = await stream.receive()
            running.should_exit = True
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert max(stalls) < STALL


def test_idle_connections_do_not_shut_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_IDLE", 600.0)
    with serving(limits={"connections": 20}) as address, _connected(address, 60) as idle:
        assert httpx.get(f"{address}/healthz").status_code == 200
        for _ in range(5):
            answer = httpx.post(f"{address}/v2/rerank", content=body(), headers=JSON)
            assert answer.status_code == 200
        # The oldest are closed, so that files for others remain.
        assert idle[0].recv(1) == b""


def test_a_connection_that_sends_no_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_IDLE", 0.2)
    with serving() as address, _connected(address, 2) as (silent, slow):
        slow.sendall(b"GET /healthz HT")
        assert silent.recv(1) == slow.recv(1) == b""


def test_requests_beyond_the_limit_get_an_answer_in_their_shape() -> None:
    limits = {"connections": 2}
    with serving(limits=limits) as address, _connected(address, 2) as connections:
        for each in connections:
            each.sendall(HEAD + b"Content-Length: 9\r\n\r\n{")

        def asked() -> httpx.Response:
            return httpx.post(f"{address}/tei/rerank", json={"query": "q", "texts": ["a"]})

        until(lambda: asked().status_code == 503)
        assert asked().json()["error_type"] == "Unhealthy"
        assert httpx.get(f"{address}/healthz").status_code == 200


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


@asynccontextmanager
async def _watched() -> AsyncIterator[list[float]]:
    """Seconds of this process's processor time between turns of the event loop."""
    turns = [0.0]

    async def turn() -> None:
        last = time.process_time()
        while True:
            await anyio.sleep(0.001)
            now = time.process_time()
            turns.append(now - last)
            last = now

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        await anyio.lowlevel.checkpoint()
        yield turns
        await anyio.sleep(0.002)
        group.cancel_scope.cancel()
