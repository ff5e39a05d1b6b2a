"""The limits of `mcranker.llm.providers.bodies` for the providers' libraries, which use httpx2.

They read every body whole. So the stream of each answer is replaced by one that ends, or fails,
where the most is read; a hook of httpx2's does that before anything of the body is read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

import aiohttp
import httpx2

from mcranker.llm.providers.bodies import MOST_ERROR, most_of
from mcranker.llm.providers.http_errors import BodyTooLong

FOREIGN = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    aiohttp.ClientError,
    OSError,
    ValueError,
)
"""Lower-level errors that the libraries let through; a `ValueError` is an impossible host name."""


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, decompressed, up to `most` bytes."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream), "the clients are asynchronous"
        self.most = most_of(response.status_code)
        self._inner = response.stream
        self._encoded = httpx2.Headers()
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
                    # One of httpx2's own, which the libraries know how to pass on.
                    raise httpx2.ReadError("body too long") from BodyTooLong(self.most)

    def _pieces(self) -> AsyncGenerator[bytes, None]:
        if self._encoded:
            return httpx2.Response(200, headers=self._encoded, stream=self._inner).aiter_bytes()
        return cast("AsyncGenerator[bytes, None]", aiter(self._inner))

    async def aclose(self) -> None:
        await self._inner.aclose()


async def bound_body(response: httpx2.Response) -> None:
    """Limit the bytes read of a body to `most_of`."""
    response.stream = _Bounded(response)


def widen_body(response: httpx2.Response, most: int) -> None:
    """Let more be read of one body that is read piece by piece."""
    assert isinstance(response.stream, _Bounded), "bound_body is a hook of the client"
    response.stream.most = most
