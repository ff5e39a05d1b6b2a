"""Errors of requests, in words that name no path, address or key of the service."""

from __future__ import annotations

import math
from typing import Literal

from mcranker.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ConfigError,
    ConnectionFailed,
    ContentRefused,
    ContextTooLong,
    InputError,
    MCRankerError,
    MissingScoreError,
    ModelTimeout,
    RateLimited,
    ReplyError,
    RequestRejected,
    ServerFailed,
)
from personas import PersonasError

Kind = Literal[
    "invalid",
    "empty",
    "too_large",
    "no_key",
    "forbidden",
    "not_found",
    "method",
    "media_type",
    "slow_body",
    "overloaded",
    "unavailable",
    "misconfigured",
    "upstream",
    "timeout",
    "internal",
]

STATUS: dict[Kind, int] = {
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


class Problem(Exception):
    """A request that cannot be served.

    Attributes:
        kind: what is wrong.
        message: what happened and what to do, for the client.
        retry_after: seconds after which trying again makes sense; None if that is not known.
        ours: whether the service or its models failed, and not the request.
    """

    def __init__(self, kind: Kind, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.retry_after = retry_after

    @property
    def ours(self) -> bool:
        return STATUS[self.kind] >= 500

    @property
    def retryable(self) -> bool:
        """True if the same request may be served later."""
        return self.kind in _RETRYABLE

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers that go with it."""
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.kind == "no_key":
            headers["WWW-Authenticate"] = "Bearer"
        return headers


def problem_of(error: Exception) -> Problem:
    """Convert an exception to an error response.

    Only problems of the request keep their message; those about models may name addresses and
    files.
    """
    match error:
        case Problem():
            return error
        case InputError():
            return Problem("invalid", str(error))
        case ContextTooLong():
            return Problem(
                "invalid", "the model's context is too short for a prompt; shorten the passages"
            )
        case ContentRefused():
            return Problem("invalid", "the model declines to answer for this query")
        case RateLimited():
            return Problem(
                "overloaded",
                "the model's provider asks to slow down",
                retry_after=error.retry_after or 1.0,
            )
        case ModelTimeout():
            return Problem("timeout", "the model did not answer in time", retry_after=1.0)
        case ConnectionFailed() | ServerFailed():
            return Problem(
                "upstream", f"the model cannot be reached or failed; {_LOG}", retry_after=1.0
            )
        case ReplyError() | RequestRejected():
            return Problem("upstream", f"the model gave no usable answer; {_LOG}")
        case MissingScoreError():
            return Problem(
                "upstream", f"a score is missing, and the ranker does without none; {_LOG}"
            )
        case BudgetExceeded():
            return Problem(
                "misconfigured", "the ranker has spent what it may; ask who runs the service"
            )
        case AuthenticationFailed():
            return Problem("misconfigured", f"the provider refuses the ranker's key; {_LOG}")
        case ConfigError() | MCRankerError() | PersonasError():
            return Problem("misconfigured", f"the ranker cannot work as it is set up; {_LOG}")
    return Problem("internal", f"the service failed; {_LOG}")
