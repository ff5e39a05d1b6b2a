"""Bodies of requests: read within bounds of bytes, time and values, as one JSON object."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import orjson
from anyio.abc import TaskGroup
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from mcranker import errors
from mcranker.logs import safe_logger
from mcranker.runtime.bridge import task_group
from mcranker.serve.settings import Limits
from personas import PersonasError
from personas.io.lines import megabytes

STATUS: Mapping[str, int] = {
    "invalid": 400,
    "empty": 400,
    "too_large": 413,
    "no_key": 401,
    "forbidden": 403,
    "not_found": 404,
    "method": 405,
    "media_type": 415,
    "slow_body": 408,
    "overloaded": 429,
    "unavailable": 503,
    "misconfigured": 503,
    "upstream": 502,
    "timeout": 504,
    "internal": 500,
}
"""Kind of problem -> HTTP status, unless a dialect has another."""
_RETRYABLE = {"slow_body", "overloaded", "unavailable", "upstream", "timeout"}
_LOG = "the service's log says more"
_UNREACHED = (errors.ConnectionFailed, errors.ServerFailed)
_SOON = (errors.RateLimited, errors.ModelTimeout, *_UNREACHED)
_UNUSABLE = (errors.ReplyError, errors.RequestRejected)
_TOO_LONG = "the model's context is too short for a prompt; shorten the passages"
_SPENT = "the ranker has spent what it may; ask who runs the service"
_NO_SCORE = f"a score is missing, and the ranker does without none; {_LOG}"
_NOT_SET_UP = f"the ranker cannot work as it is set up; {_LOG}"
_Types = type[Exception] | tuple[type[Exception], ...]
_CAUSES: tuple[tuple[_Types, str, str], ...] = (
    (errors.ContextTooLong, "invalid", _TOO_LONG),
    (errors.ContentRefused, "invalid", "the model declines to answer for this query"),
    (errors.RateLimited, "overloaded", "the model's provider asks to slow down"),
    (errors.ModelTimeout, "timeout", "the model did not answer in time"),
    (_UNREACHED, "upstream", f"the model cannot be reached or failed; {_LOG}"),
    (_UNUSABLE, "upstream", f"the model gave no usable answer; {_LOG}"),
    (errors.MissingScoreError, "upstream", _NO_SCORE),
    (errors.BudgetExceeded, "misconfigured", _SPENT),
    (
        errors.AuthenticationFailed,
        "misconfigured",
        f"the provider refuses the ranker's key; {_LOG}",
    ),
    ((errors.MCRankerError, PersonasError), "misconfigured", _NOT_SET_UP),
)
"""Error -> kind of problem, and what the client reads; the first that fits counts."""
T = TypeVar("T")
logger = safe_logger("mcranker.serve")
_SMALL = 1 << 14  # bytes of a body that is read on the event loop: a thread would take longer
_DEEPEST = 50


class Problem(Exception):
    """A request that cannot be served."""

    def __init__(self, kind: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after = retry_after
        self.ours = STATUS[kind] >= 500
        self.retryable = kind in _RETRYABLE

    @property
    def headers(self) -> dict[str, str]:
        headers = {"WWW-Authenticate": "Bearer"} if self.kind == "no_key" else {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return headers


def problem_of(error: Exception, asked: str) -> Problem:
    """Convert an exception to an error response; the log has what its client may not read."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.InputError):
        return Problem("invalid", str(error))
    for types, kind, message in _CAUSES:
        if isinstance(error, types):
            seconds = getattr(error, "retry_after", None) or 1.0
            after = seconds if isinstance(error, _SOON) else None
            problem = Problem(kind, message, retry_after=after)
            if problem.ours:
                logger.warning("%s: %s: %s", asked, type(error).__name__, error)
            return problem
    logger.error("%s: unexpected %r", asked, error, exc_info=error)
    return Problem("internal", f"the service failed; {_LOG}")


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
        return read(_json_object(bytes(body)))

    return work() if len(body) <= _SMALL else await anyio.to_thread.run_sync(work)


def _json_object(body: bytes) -> dict[str, Any]:
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
