"""A loopback server that answers every request after a fixed time.

    python benchmarks/fixed_latency_server.py --latency 0.2 --refused 0.05 --rate 100

It prints its port, answers ``/v1/chat/completions`` and ``/v1/messages`` with a score from 0 to 10
that depends on the body, says under ``/count`` how many it has answered, and ends when its standard
input is closed. A share of the requests by chance, and those that come faster than the rate (with a
burst of one second), are refused at once, with 429 and without Retry-After. It reads no more of a
request than path, length and a checksum, so that what is measured through it is the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_SCORES = 11


@contextmanager
def serving(latency: float, *, refused: float = 0.0, rate: float = math.inf) -> Iterator[int]:
    """Run the server as a process of its own, and give its port."""
    command = [sys.executable, str(Path(__file__)), "--latency", str(latency)]
    command += ["--refused", str(refused), "--rate", str(rate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


def answered(port: int) -> int:
    """Return the number of requests the server has answered, or will within its latency."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/count")
        return int(json.loads(connection.getresponse().read())["requests"])


class FixedLatency(asyncio.Protocol):
    """One connection: reads requests one after the other, and answers each after `latency`."""

    requests = 0

    def __init__(self, latency: float, refuses: Callable[[], bool]) -> None:
        self._latency = latency
        self._refuses = refuses
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while (end := received.find(_END_OF_HEAD)) >= 0:
            length = _LENGTH.search(received, 0, end)
            end += len(_END_OF_HEAD) + (int(length.group(1)) if length else 0)
            if len(received) < end:
                return
            path = bytes(received[: received.find(b" HTTP/")])
            body = zlib.crc32(received[received.find(_END_OF_HEAD) : end])
            del received[:end]
            self._answer(path, body)

    def _answer(self, path: bytes, body: int) -> None:
        if path.endswith(b"/count"):
            self._transport.write(_response({"requests": FixedLatency.requests}))
            return
        if self._refuses():
            self._transport.write(_REFUSED)
            return
        kind = _MESSAGES if path.endswith(b"/messages") else _COMPLETIONS
        answer = kind[body % _SCORES]
        FixedLatency.requests += 1
        self._loop.call_later(self._latency, self._transport.write, answer)


def _response(body: dict[str, Any], status: str = "200 OK") -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: "
    return f"{head}{len(content)}\r\n\r\n".encode() + content


def _completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "benchmark",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": 600,
            "completion_tokens": 6,
            "total_tokens": 606,
            "prompt_tokens_details": {"cached_tokens": 320},
        },
    }


def _message(text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "benchmark",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 280,
            "cache_read_input_tokens": 320,
            "cache_creation_input_tokens": 0,
            "output_tokens": 6,
        },
    }


_TEXTS = [json.dumps({"Score": score}) for score in range(_SCORES)]
_COMPLETIONS = [_response(_completion(text)) for text in _TEXTS]
_MESSAGES = [_response(_message(text)) for text in _TEXTS]


_REFUSED = _response({"error": {"message": "slow down"}}, "429 Too Many Requests")


class _Refuses:
    """Decide which requests are refused."""

    def __init__(self, share: float, rate: float) -> None:
        self._luck = random.Random(7)
        self._share = share
        self._rate = self._left = rate
        self._filled = time.monotonic()

    def __call__(self) -> bool:
        if self._luck.random() < self._share:
            return True
        if self._rate == math.inf:
            return False
        now = time.monotonic()
        self._left = min(self._rate, self._left + (now - self._filled) * self._rate)
        self._filled = now
        if self._left < 1.0:
            return True
        self._left -= 1.0
        return False


async def _serve(latency: float, refuses: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: FixedLatency(latency, refuses), "127.0.0.1", 0, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer every request after a fixed time.")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds")
    parser.add_argument("--refused", type=float, default=0.0, help="share, by chance")
    parser.add_argument("--rate", type=float, default=math.inf, help="requests a second")
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.latency, _Refuses(arguments.refused, arguments.rate)))


if __name__ == "__main__":
    main()
