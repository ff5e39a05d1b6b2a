"""Bodies of requests: read within bounds of bytes, time and values, as one JSON object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import numpy as np
import orjson
from starlette.requests import ClientDisconnect, Request

from mcranker.serve.problems import Problem
from mcranker.serve.settings import Limits
from personas.io.lines import megabytes

T = TypeVar("T")

_SMALL = 1 << 14
"""Bytes of a body that is read on the event loop: a thread would take longer."""

_PIECE = 1 << 20  # bytes that are scanned at once


class ClientDisconnected(Exception):
    """The client has disconnected; nothing is answered."""


async def read_body(request: Request, limits: Limits, read: Callable[[dict[str, Any]], T]) -> T:
    """Read a request's body, a JSON object, and make the result of it; in a thread if large.

    Raises:
        Problem: the body is too large, too slow, of another type, or no JSON object.
        ClientDisconnected: the client has hung up.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Browsers send other types to any site, without asking it first.
        raise Problem("media_type", "send JSON with the header Content-Type: application/json")
    if (coding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise Problem("media_type", f"Content-Encoding {coding[:100]!r} is not read; send it plain")
    try:
        with anyio.fail_after(limits.body_seconds):
            body = await _arrived(request, limits.body)
    except TimeoutError:
        raise Problem(
            "slow_body", f"the body took longer than {limits.body_seconds:g} seconds"
        ) from None
    except ClientDisconnect:
        raise ClientDisconnected from None

    def work() -> T:
        return read(json_object(body, limits.values))

    return work() if len(body) <= _SMALL else await anyio.to_thread.run_sync(work)


def json_object(body: bytes, most: int) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        Problem: it holds over `most` values, or is no JSON object.
    """
    # No other thread runs while JSON is parsed, so the number of its values is bounded first.
    if _marks(body) > most and _marks(_outside_strings(body)) > most:
        raise Problem(
            "too_large",
            f"the body holds over {most} values: documents, fields, options; send fewer",
        )
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem("invalid", f"invalid request: the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem("invalid", "invalid request: the body is no JSON object")
    return found


async def _arrived(request: Request, most: int) -> bytes:
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


def _marks(json: bytes) -> int:
    """Return at least the number of values; marks within strings count too."""
    return sum(map(json.count, (b",", b"[", b"{")))


def _outside_strings(json: bytes) -> bytes:
    """The parts of JSON that are not in strings, with the quote that ends each."""
    plain = json.replace(rb"\\", b"").replace(rb"\"", b"")
    pieces, inside = [], np.False_
    for start in range(0, len(plain), _PIECE):
        codes = np.frombuffer(plain, np.uint8, min(_PIECE, len(plain) - start), start)
        in_string = np.logical_xor.accumulate(codes == ord('"')) ^ inside
        pieces.append(codes[~in_string].tobytes())
        inside = in_string[-1]
    return b"".join(pieces)
