"""Bodies of requests: read within bounds of bytes, time and values, as one JSON object."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import orjson
from anyio.abc import TaskGroup
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from mcranker.runtime.bridge import task_group
from mcranker.serve.problems import Problem
from mcranker.serve.settings import Limits
from personas.io.lines import megabytes

T = TypeVar("T")

_SMALL = 1 << 14
"""Bytes of a body that is read on the event loop: a thread would take longer."""

_DEEPEST = 50
_MARK = re.compile(rb'[,[{]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""The mark of a value, or a string, whose marks are none."""


class ClientDisconnected(Exception):
    """The client has disconnected; nothing is answered."""


@asynccontextmanager
async def until_gone(receive: Receive) -> AsyncIterator[TaskGroup]:
    """Open a task group that ends with the block, and is cancelled if the client disconnects."""
    gone = False
    async with task_group() as group:

        async def watch() -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass
            gone = True
            group.cancel_scope.cancel()

        group.start_soon(watch)
        yield group
        group.cancel_scope.cancel()
    if gone:
        raise ClientDisconnected


async def read_body(request: Request, limits: Limits, read: Callable[[dict[str, Any]], T]) -> T:
    """Read a request's body, a JSON object, and make the result of it; in a thread if large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Browsers send other types to any site, without asking it first.
        raise Problem("media_type", "send JSON with the header Content-Type: application/json")
    if (coding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise Problem("media_type", f"Content-Encoding {coding[:100]!r} is not read; send it plain")
    length = request.headers.get("content-length", "")
    announced = int(length) if length.isdecimal() and len(length) < 20 else 0
    body = bytearray()
    try:
        with anyio.fail_after(limits.body_seconds):
            pieces = request.stream()
            while max(len(body), announced) <= limits.body:
                if not (piece := await anext(pieces, None)):
                    break
                body += piece
    except TimeoutError:
        said = f"the body took longer than {limits.body_seconds:g} seconds"
        raise Problem("slow_body", said) from None
    except ClientDisconnect:
        raise ClientDisconnected from None
    if max(len(body), announced) > limits.body:
        said = f"the body is larger than {megabytes(limits.body)}; send less at once"
        raise Problem("too_large", said)

    def work() -> T:
        return read(json_object(bytes(body), limits.values))

    return work() if len(body) <= _SMALL else await anyio.to_thread.run_sync(work)


def json_object(body: bytes, most: int) -> dict[str, Any]:
    """Parse a JSON object."""
    # No other thread runs while JSON is parsed, so the number of its values is bounded first.
    marks = (1 for found in _MARK.finditer(body) if found[0][:1] != b'"')
    if sum(map(body.count, (b",", b"[", b"{"))) > most < sum(islice(marks, most + 1)):
        said = f"the body holds over {most} values: documents, fields, options; send fewer"
        raise Problem("too_large", said)
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem("invalid", f"invalid request: the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem("invalid", "invalid request: the body is no JSON object")
    return found


def bounded(value: list[Any] | dict[str, Any], name: str, most: int) -> None:
    """Refuse values of too many parts or levels, whatever they are."""
    level: list[Any] = [value]
    count = 0
    for _ in range(_DEEPEST):
        count += sum(map(len, level))
        if count > most:
            raise Problem("too_large", f"{name} holds over {most} values; send fewer")
        inner = [each for one in level for each in (one.values() if isinstance(one, dict) else one)]
        level = [each for each in inner if isinstance(each, dict | list)]
    if level:
        raise Problem("invalid", f"invalid request: {name} nests deeper than {_DEEPEST} levels")
