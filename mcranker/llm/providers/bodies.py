"""Bodies of answers: how much of one is read, at most.

| what | bytes, once decompressed | beyond that |
|---|---|---|
| an answer with a good status | `MOST_REPLY` | `ServerFailed` |
| an answer with an error status | `MOST_ERROR` | the rest is left unread |
| the results of a batch | `MOST_RESULTS` in all, `MOST_REPLY` a line | `ServerFailed` |

Servers are asked not to compress: replies are a few kilobytes. Those that do it all the same are
understood. The providers' libraries read every body whole; so a hook of their HTTP client, which
is httpx2, or httpx in older versions, replaces the stream of each answer by `_Bounded`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Any

from mcranker.llm.providers.http_errors import BodyTooLong

if TYPE_CHECKING:
    import aiohttp
    import httpx2

MOST_REPLY = 8 * 2**20
"""The longest replies, with all thoughts of a model, take less than one of these MiB."""

MOST_ERROR = 2**20
MOST_RESULTS = 16 * 2**30

PLAIN = {"Accept-Encoding": "identity"}
"""Headers that ask for bodies as they are."""


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """The whole body of an answer, or the beginning of it if the status is an error."""
    most = _most_of(response.status)
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            if most == MOST_ERROR:
                break
            raise BodyTooLong(most)
    return b"".join(pieces)


def http_of(client: Any) -> Any:
    """The HTTP package that a client's class is from: httpx2, or httpx for older libraries."""
    base = next(each for each in client.__mro__ if each.__module__.startswith("httpx"))
    return sys.modules[base.__module__.partition(".")[0].removesuffix("_aiohttp")]


async def bound_body(response: httpx2.Response) -> None:
    """Limit the bytes read of a body, before anything of it is read."""
    response.stream = _bounded_stream(http_of(type(response)).AsyncByteStream)(response)


def widen_body(response: httpx2.Response, most: int) -> None:
    """Let more be read of one body that is read piece by piece."""
    assert isinstance(response.stream, _Bounded), "bound_body is a hook of the client"
    response.stream.most = most


class _Bounded:
    """The body of an answer, decompressed, up to `most` bytes."""

    def __init__(self, response: httpx2.Response) -> None:
        self.most = _most_of(response.status_code)
        self._http = http_of(type(response))
        self._inner: Any = response.stream
        self._encoded = self._http.Headers()
        if encoding := response.headers.pop("content-encoding", ""):
            self._encoded["content-encoding"] = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: AsyncGenerator[bytes, None] = aiter(self._inner)
        if self._encoded:
            whole = self._http.Response(200, headers=self._encoded, stream=self._inner)
            pieces = whole.aiter_bytes()
        size = 0
        async with aclosing(pieces):
            async for piece in pieces:
                size += len(piece)
                if size <= self.most:
                    yield piece
                elif self.most == MOST_ERROR:
                    return
                else:
                    # One of the HTTP package's own, which the libraries know how to pass on.
                    raise self._http.ReadError("body too long") from BodyTooLong(self.most)

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _bounded_stream(base: Any) -> Any:
    """`_Bounded` as a stream of one HTTP package, which looks at the class."""
    return type("_BoundedStream", (_Bounded, base), {})


def _most_of(status: int) -> int:
    return MOST_REPLY if 200 <= status < 300 else MOST_ERROR
