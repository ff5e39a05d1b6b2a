"""Messages of the Model Context Protocol, checked before the SDK validates them.

Over HTTP, the bodies of requests. Over standard input and output, lines: the SDK's own transport
reads them at any length, leaves those that it cannot read without an answer, and waits for its
input in a thread that the end of the process waits for.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcranker.errors import ConfigError
from mcranker.runtime.bridge import apart, task_group
from mcranker.serve.bodies import (
    STATUS,
    ClientDisconnected,
    Problem,
    bounded,
    json_object,
    read_body,
)
from mcranker.serve.settings import Limits
from personas.io.lines import megabytes

_EDGE = 200  # bytes at both ends of a line in which a request's id is looked for
_NAMED = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{1,80}"\s*,\s*'
_ID = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,80}")\s*'
_ID_AT_ITS_BEGINNING = re.compile(rb"\{\s*(?:" + _NAMED + rb"){0,2}" + _ID + rb"[,}]")
_ID_AT_ITS_END = re.compile(_NAMED + _ID + rb"\}\s*\Z")

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def stdio(limits: Limits) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Open standard input and output for messages alone."""
    with _descriptors() as (stdin, stdout):
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            # The server closes its end when it is cancelled, maybe before this task is.
            with suppress(anyio.BrokenResourceError):
                async with to_server, outgoing.clone() as answers:
                    while line := await apart(_next_line, stdin, limits.body):
                        match _checked(line, limits):
                            case JSONRPCError() as refusal:
                                await answers.send(SessionMessage(refusal))
                            case SessionMessage() as message:
                                await to_server.send(message)

        async def write() -> None:
            async with to_client:
                async for each in to_client:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    try:
                        await apart(_write_whole, stdout, f"{text}\n".encode())
                    except OSError:
                        group.cancel_scope.cancel()

        async with task_group() as group:
            group.start_soon(read)
            group.start_soon(write)
            async with incoming, outgoing:
                yield incoming, outgoing


class CheckedBodies:
    """Limits an app's bodies, with errors in JSON-RPC's form."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        limits, request_id = self._limits, None
        try:
            found = await read_body(Request(scope, receive), limits, dict)
            request_id = _request_id(found)
            bounded(found, "the message", limits.values)
        except ClientDisconnected:
            return None
        except Problem as problem:
            answer = _refusal(problem, request_id).model_dump(by_alias=True, exclude_unset=True)
            refused = JSONResponse(answer, STATUS[problem.kind], problem.headers)
            return await refused(scope, receive, send)
        unread = iter([orjson.dumps(found)])

        async def replayed() -> Message:
            body = next(unread, None)
            return await receive() if body is None else {"type": "http.request", "body": body}

        return await self._app(scope, replayed, send)


@contextmanager
def _descriptors() -> Iterator[tuple[BinaryIO, int]]:
    """Take over standard input and output; no other code reads or prints there."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise ConfigError(
            "standard input or output is closed; MCP clients keep both open, or use --http"
        )
    kept = os.dup(0), os.dup(1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        # Never closed: a thread may still read there, and the number would be another file's.
        yield os.fdopen(kept[0], "rb", closefd=False), kept[1]
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)


def _next_line(file: BinaryIO, longest: int) -> bytes:
    """Return the next line, empty at the end of the file. A too long one keeps both its ends."""
    line = file.readline(longest + 1)
    if len(line) <= longest:
        return line
    end = line
    while not end.endswith(b"\n") and (piece := file.readline(longest)):
        end = end[-_EDGE:] + piece
    return line + end[-_EDGE:]


def _write_whole(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _checked(line: bytes, limits: Limits) -> SessionMessage | JSONRPCError | None:
    """Return the message in a line, or the error that answers it; None for an empty line."""
    if not line.strip():
        return None
    # Of a line that may be no JSON.
    begun = _ID_AT_ITS_BEGINNING.match(line[:_EDGE].lstrip())
    seen = begun or _ID_AT_ITS_END.search(line[-_EDGE:])
    request_id: RequestId | None = orjson.loads(seen[1]) if seen else None
    try:
        if len(line) > limits.body:
            said = f"the message is larger than {megabytes(limits.body)}; send less at once"
            raise Problem("too_large", said)
        found = json_object(line, limits.values)
        request_id = _request_id(found)
        bounded(found, "the message", limits.values)
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError:
        problem = Problem("invalid", "invalid request: this is no message of JSON-RPC 2.0")
    except Problem as error:
        problem = error
    return _refusal(problem, request_id)


def _request_id(message: dict[str, Any]) -> RequestId | None:
    found = message.get("id")
    return found if type(found) in (str, int) and "method" in message else None


def _refusal(problem: Problem, request_id: RequestId | None) -> JSONRPCError:
    no_json = isinstance(problem.__cause__, ValueError)
    error = ErrorData(code=PARSE_ERROR if no_json else INVALID_REQUEST, message=problem.message)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
