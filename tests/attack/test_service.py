"""Requests made to stop the service, which answers others meanwhile and takes little memory."""

from __future__ import annotations

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
from tests.attack.hostile_bodies import KINDS, body
from tests.support.serving import client, serving, settings, until

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
STALL = 0.2
"""Seconds of processor time; a free machine takes less than a tenth."""
MEMORY = 100_000_000  # bytes


@pytest.mark.parametrize("kind", KINDS)
async def test_no_body_holds_up_other_requests_or_takes_much_memory(kind: str) -> None:
    path, content, status = KINDS[kind]
    assert len(content) < 4_000_000
    chosen = settings(
        lambda _: '{"Score": 5}', per_request=("team",), options={"team": "clinician"}
    )
    async with client(chosen) as http:
        await http.post(path, json={"query": "q", "documents": ["a"]})
        stalls = []
        for _ in range(3):  # others at work on the machine can make processor time longer
            async with _watched() as turns:
                answer = await http.post(path, content=content, headers=JSON)
            assert answer.status_code == status, answer.text[:500]
            stalls.append(max(turns))
            if stalls[-1] < STALL:
                break
        assert min(stalls) < STALL
        if status == 200:
            return
        assert len(answer.content) < 1_500
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await http.post(path, content=content, headers=JSON)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak - before < MEMORY


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
