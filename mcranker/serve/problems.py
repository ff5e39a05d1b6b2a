"""Errors of requests, in words that name no path, address or key of the service."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mcranker import errors
from personas import PersonasError

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
        """HTTP headers that go with it."""
        headers = {"WWW-Authenticate": "Bearer"} if self.kind == "no_key" else {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return headers


def problem_of(error: Exception) -> Problem:
    """Convert an exception to an error response."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.InputError):
        return Problem("invalid", str(error))
    for types, kind, message in _CAUSES:
        if isinstance(error, types):
            seconds = getattr(error, "retry_after", None) or 1.0
            return Problem(kind, message, retry_after=seconds if isinstance(error, _SOON) else None)
    return Problem("internal", f"the service failed; {_LOG}")


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
