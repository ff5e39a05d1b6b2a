"""Bodies of requests: read within bounds of bytes and time, as one JSON object."""

from __future__ import annotations

from typing import Any

import anyio
import orjson
from starlette.requests import ClientDisconnect, Request

from mcranker.bounded_lines import megabytes
from mcranker.serve.problems import Problem


class ClientDisconnected(Exception):
    """The client has hung up; nothing is answered."""


async def read_object(request: Request, *, most: int, seconds: float) -> dict[str, Any]:
    """The JSON object of a request's body.

    Args:
        request: of which nothing was read yet.
        most: bytes.
        seconds: until it is here.

    Raises:
        Problem: it is too large, too slow, of another type, or no JSON object.
        ClientDisconnected: the client has hung up.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Browsers send other types to any site, without asking it first.
        raise Problem("media_type", "send JSON with the header Content-Type: application/json")
    try:
        with anyio.fail_after(seconds):
            body = await _read(request, most)
    except TimeoutError:
        raise Problem("slow_body", f"the body took longer than {seconds:g} seconds") from None
    except ClientDisconnect:
        raise ClientDisconnected from None
    return json_object(body)


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is.

    Raises:
        Problem: it is none.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem("invalid", f"invalid request: the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem("invalid", "invalid request: the body is no JSON object")
    return found


async def _read(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) > most:
        raise _too_large(most)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def _too_large(most: int) -> Problem:
    return Problem("too_large", f"the body is larger than {megabytes(most)}; send less at once")
