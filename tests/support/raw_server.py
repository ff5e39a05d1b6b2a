"""A server on the loopback device that writes raw bytes, so that it can break HTTP itself.

For each request a function gets what was asked and a `Wire` to write to; then the connection is
closed. Each client gets at most `MOST` bytes, so that a client that never stops reading is found
out and not fed for ever.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

MOST = 2**29  # bytes

_LAST = b"\r\nConnection: close\r\n"


@dataclass
class Asked:
    """One request: its first line, its headers as they came, and its body."""

    line: str
    headers: str
    body: bytes


class Wire:
    """The way back to one client; `send` raises once it has hung up."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.sent = 0  # bytes

    async def send(self, data: bytes) -> None:
        self.sent += len(data)
        if self.sent > MOST:
            raise ConnectionError("fed enough")
        self._writer.write(data)
        await self._writer.drain()


Script = Callable[[Asked, Wire], Awaitable[None]]


@dataclass
class RawServer:
    """The running server: its port, what it was asked, and how many bytes it sent in all."""

    script: Script
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    sent: int = 0
    running: set[asyncio.Task[None]] = field(default_factory=set)
    handlers: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self.handlers.add(handler)
        wire = Wire(writer)
        answer = asyncio.create_task(self._answer(reader, wire))
        self.running.add(answer)
        await asyncio.wait([answer])
        self.running.discard(answer)
        self.sent += wire.sent
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.handlers.discard(handler)

    async def _answer(self, reader: asyncio.StreamReader, wire: Wire) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, _, headers = head.partition("\r\n")
            length = next(
                (
                    int(each.partition(":")[2])
                    for each in headers.splitlines()
                    if each.lower().startswith("content-length:")
                ),
                0,
            )
            self.asked.append(Asked(line, headers, await reader.readexactly(length)))
            await self.script(self.asked[-1], wire)


@asynccontextmanager
async def serve_raw(script: Script) -> AsyncIterator[RawServer]:
    """Run the server in this event loop."""
    raw = RawServer(script)
    server = await asyncio.start_server(raw.handle, "127.0.0.1", 0)
    raw.port = server.sockets[0].getsockname()[1]
    try:
        yield raw
    finally:
        server.close()
        for answer in raw.running:
            answer.cancel()
        if raw.handlers:
            await asyncio.wait(raw.handlers)


def sends(*parts: bytes) -> Script:
    """These bytes, and no more; where they begin as HTTP does, they say so."""

    async def script(_: Asked, wire: Wire) -> None:
        for place, part in enumerate(parts):
            ends = place == 0 and part.startswith(b"HTTP/")
            await wire.send(part.replace(b"\r\n", _LAST, 1) if ends else part)

    return script


def repeats(head: bytes, piece: bytes) -> Script:
    """`head`, and then `piece` without end."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.send(head)
        while True:
            await wire.send(piece)

    return script


def endless(status: bytes = b"200 OK", piece: bytes = b" " * 2**16) -> Script:
    """A body without end, until the client hangs up."""
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n"
    return repeats(head + b"Connection: close\r\n\r\n", piece)


def bomb(encoding: str = "gzip", mib: int = 2048, status: bytes = b"200 OK") -> Script:
    """A compressed body that is so many MiB of spaces."""
    head = b"HTTP/1.1 %s\r\nContent-Encoding: %s\r\nConnection: close\r\n\r\n"
    return sends(head % (status, encoding.encode()), packed(encoding, mib))


def packed(encoding: str, mib: int) -> bytes:
    """So many MiB of spaces in gzip or deflate: one block again and again, and no end."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    begin = b"\x1f\x8b\x08" + bytes(6) + b"\xff" if encoding == "gzip" else b"\x78\x9c"
    return begin + block * mib
