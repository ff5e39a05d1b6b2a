"""Bodies of answers: how much of one is read, at most.

| what | bytes, once decompressed | beyond that |
|---|---|---|
| an answer with a good status | `MOST_REPLY` | `ServerFailed` |
| an answer with an error status | `MOST_ERROR` | the rest is left unread |
| the results of a batch | `MOST_RESULTS` in all, `MOST_REPLY` a line | `ServerFailed` |

Servers are asked not to compress: replies are a few kilobytes. Those that do it all the same are
understood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcranker.llm.providers.http_errors import BodyTooLong

if TYPE_CHECKING:
    import aiohttp

MOST_REPLY = 8 * 2**20
"""The longest replies, with all thoughts of a model, take less than one of these MiB."""

MOST_ERROR = 2**20
MOST_RESULTS = 16 * 2**30

PLAIN = {"Accept-Encoding": "identity"}
"""Headers that ask for bodies as they are."""


def most_of(status: int) -> int:
    """Return the most bytes to read of an answer with this status."""
    return MOST_REPLY if 200 <= status < 300 else MOST_ERROR


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """The whole body of an answer, or the beginning of it if the status is an error.

    Raises:
        BodyTooLong: the status is good, and there is more than `MOST_REPLY`.
    """
    most = most_of(response.status)
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
