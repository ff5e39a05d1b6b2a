"""The limits of `mcranker.llm.providers.bodies` for the providers' libraries.

They read every body whole. So the stream of each answer is replaced by one that ends, or fails,
where the most is read; a hook of the HTTP client does that before anything of the body is read.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Any

import aiohttp

from mcranker.llm.providers.bodies import MOST_ERROR, most_of
from mcranker.llm.providers.http_errors import BodyTooLong

if TYPE_CHECKING:
    import httpx2


def http_of(client: Any) -> Any:
    """The HTTP package that a client's class is from: httpx2, or httpx for older libraries."""
    base = next(each for each in client.__mro__ if each.__module__.startswith("httpx"))
    return sys.modules[base.__module__.partition(".")[0].removesuffix("_aiohttp")]


@cache
def foreign(http: Any) -> tuple[type[Exception], ...]:
    """Errors that the libraries let through from below; `ValueError` is an impossible host name."""
    own = (http.HTTPError, http.InvalidURL, http.StreamError)
    return (*own, aiohttp.ClientError, OSError, ValueError)


class _Bounded:
    """The body of an answer, decompressed, up to `most` bytes."""

    def __init__(self, response: httpx2.Response) -> None:
        self.most = most_of(response.status_code)
        self._http = http_of(type(response))
        self._inner: Any = response.stream
        self._encoded = self._http.Headers()
        if encoding := response.headers.pop("content-encoding", ""):
            self._encoded["content-encoding"] = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                size += len(piece)
                if size <= self.most:
                    yield piece
                elif self.most == MOST_ERROR:
                    return
                else:
                    # One of the HTTP package's own, which the libraries know how to pass on.
                    raise self._http.ReadError("body too long") from BodyTooLong(self.most)

    def _pieces(self) -> AsyncGenerator[bytes, None]:
        pieces: Any = aiter(self._inner)
        if self._encoded:
            whole = self._http.Response(200, headers=self._encoded, stream=self._inner)
            pieces = whole.aiter_bytes()
        checked: AsyncGenerator[bytes, None] = pieces
        return checked

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _bounded_stream(base: Any) -> Any:
    """`_Bounded` as a stream of one HTTP package, which looks at the class."""
    return type("_BoundedStream", (_Bounded, base), {})


async def bound_body(response: httpx2.Response) -> None:
    """Limit the bytes read of a body to `most_of`."""
    response.stream = _bounded_stream(http_of(type(response)).AsyncByteStream)(response)


def widen_body(response: httpx2.Response, most: int) -> None:
    """Let more be read of one body that is read piece by piece."""
    assert isinstance(response.stream, _Bounded), "bound_body is a hook of the client"
    response.stream.most = most
