"""What an HTTP status and an error body mean, said in this package's own errors.

| status | error | note |
|---|---|---|
| 401, 403, and 400 about the key | `AuthenticationFailed` | |
| 404, and 400 with code `model_not_found` | `ModelNotFound` | |
| 400, 413, 422 and the rest | `RequestRejected` | `ContextTooLong`, `ContentRefused` by the body |
| 402, and 429 about quota or billing | `AuthenticationFailed` | the account, not the request |
| 408, 504 | `ModelTimeout` | |
| 429, 529 | `RateLimited` | with the seconds to wait, if the provider says them |
| other 5xx | `ServerFailed` | |

Every message is one line: who was asked, what the provider said (shortened, without any
API key), and what to do next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from mcranker.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContentRefused,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Problem",
    "Service",
    "StatusError",
    "connection_failed",
    "error_for",
    "parse_object",
    "read_problem",
    "refusal",
    "timed_out",
    "transport_error",
    "unreadable",
]

MESSAGE_LIMIT = 300
KEY_MARK = "[key]"

_TOO_LONG = re.compile(
    r"context[_ ](length|size|window)|too many (input |prompt )?tokens|prompt is too long|"
    r"(input|prompt|request)\b.{0,40}\b(too long|too large)|exceed\w*\b.{0,60}\bcontext|"
    r"maximum (input|prompt) length|must have less than \d+ tokens",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[_ ](filter|policy|management)|safety system|responsible ?ai", re.IGNORECASE
)
_UNPAID = re.compile(
    r"insufficient[_ ](quota|balance|credit)|credit balance|exceeded your current quota|billing",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(invalid|incorrect|missing)[_ ](x-)?api[_ -]?key|api key not valid", re.IGNORECASE
)
# What looks like a key, or like one that the provider has half hidden already.
_KEY_SHAPES = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf)[-_][\w*.-]{6,}|\S*\*{3,}\S*|Bearer\s+\S+")
_SECONDS = re.compile(r"-?\d{1,9}(\.\d*)?", re.ASCII)
_TAG = re.compile(r"<[^>]{0,200}>")


@dataclass(frozen=True, slots=True)
class Problem:
    """What a provider answered instead of a reply.

    `message`, `code` and `param` are the provider's own words, empty where it gives none;
    `retry_after` is in seconds, None where it gives none.
    """

    status: int
    message: str = ""
    code: str = ""
    param: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """Who was asked, in the words that errors need.

    Attributes:
        model: the model as the user names it.
        where: the provider's name or the server's address.
        key_advice: what to do about a missing or wrong key.
        model_advice: what to do about a model that is not there.
        connection_advice: what to do when nobody answers.
        timeout: seconds allowed to one call.
        key: the API key, to be taken out of every message; never shown.
    """

    model: str
    where: str
    key_advice: str
    model_advice: str
    connection_advice: str
    timeout: float
    key: str = field(default="", repr=False)


class StatusError(Exception):
    """An HTTP answer that is not a success; stays inside the back-ends."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"HTTP {problem.status}")
        self.problem = problem


def read_problem(
    status: int, body: bytes, headers: Mapping[str, str], *, now: datetime | None = None
) -> Problem:
    """What an error answer says; never fails, whatever the body is.

    Args:
        status: the HTTP status.
        body: the body as it came: any provider's JSON, an HTML page, or nothing.
        headers: the answer's headers; a mapping that ignores case.
        now: the present time, for a Retry-After that is a date; None for the clock.
    """
    retry_after = _retry_after(headers, now or datetime.now(UTC))
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = _TAG.sub(" ", body.decode("utf-8", errors="replace"))
        return Problem(status, message=_one_line(text), retry_after=retry_after)
    error = content.get("error", content) if isinstance(content, dict) else content
    if not isinstance(error, dict):
        return Problem(status, message=_one_line(_words(error)), retry_after=retry_after)
    said = error.get("message") or error.get("detail") or error.get("msg") or ""
    return Problem(
        status,
        message=_one_line(_words(said)),
        code=" ".join(str(error[k]) for k in ("code", "type") if isinstance(error.get(k), str)),
        param=error["param"] if isinstance(error.get("param"), str) else "",
        retry_after=retry_after,
    )


def error_for(problem: Problem, service: Service) -> ModelError:
    """The error that an HTTP answer stands for."""
    status, said = problem.status, f"{problem.code} {problem.message}"

    def message(advice: str) -> str:
        return _message(service, f"HTTP {status}", problem.message, advice)

    if status in (401, 403) or (status == 400 and _BAD_KEY.search(said)):
        return AuthenticationFailed(message(service.key_advice), model=service.model)
    if status == 404 or (status == 400 and "model_not_found" in problem.code):
        return ModelNotFound(message(service.model_advice), model=service.model)
    if status == 402 or (status in (400, 429) and _UNPAID.search(said)):
        advice = "check the account's credit and limits with the provider"
        return AuthenticationFailed(message(advice), model=service.model)
    if status in (429, 529):
        advice = "try again later, or lower the concurrency"
        return RateLimited(message(advice), model=service.model, retry_after=problem.retry_after)
    if status in (408, 504):
        advice = "try again, or lower the concurrency"
        return ModelTimeout(message(advice), model=service.model)
    if _TOO_LONG.search(problem.code if status >= 500 else said):
        advice = "cut the passages shorter or use a model with a longer context"
        return ContextTooLong(message(advice), model=service.model)
    if status >= 500:
        return ServerFailed(message("try again later"), model=service.model)
    if status < 400:
        return RequestRejected(
            message("the server redirects; set base_url= to where it really is"),
            model=service.model,
        )
    if _FILTERED.search(said):
        return ContentRefused(message("leave this passage out"), model=service.model)
    return RequestRejected(
        message("change the request; sending it again does not help"), model=service.model
    )


def connection_failed(error: BaseException, service: Service) -> ConnectionFailed:
    """The error for a connection that could not be made, or was lost."""
    said = _one_line(str(error)) or type(error).__name__
    return ConnectionFailed(
        _message(service, "no answer", said, service.connection_advice), model=service.model
    )


def timed_out(service: Service) -> ModelTimeout:
    """The error for an answer that was not complete within `Service.timeout` seconds."""
    advice = "try again later, or lower the concurrency"
    said = f"no complete answer within {service.timeout:g} s"
    return ModelTimeout(_message(service, said, "", advice), model=service.model)


def transport_error(error: BaseException, service: Service) -> ModelError:
    """The error for a failure below HTTP, told by what caused it in the end.

    The libraries name some lost connections timeouts, so their own classes cannot be relied on.
    """
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if isinstance(root, TimeoutError) or "Timeout" in type(root).__name__:
        return timed_out(service)
    return connection_failed(root, service)


def unreadable(what: str, service: Service) -> ServerFailed:
    """The error for an answer with a good status whose body makes no sense."""
    return ServerFailed(
        _message(service, "unreadable answer", what, "try again; if it persists, check the URL"),
        model=service.model,
    )


def parse_object(content: bytes, service: Service) -> dict[str, Any]:
    """The JSON object in the body of an answer with a good status.

    Raises:
        ServerFailed: it is cut off, or not JSON, or not an object.
    """
    try:
        data = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        shown = content[:80].decode("utf-8", errors="replace")
        raise unreadable(f"not JSON: {shown!r}", service) from error
    if not isinstance(data, dict):
        raise unreadable(f"a JSON {type(data).__name__}, not an object", service)
    return data


def refusal(said: str, service: Service) -> ContentRefused:
    """The error for an answer in which the model or its filter declines."""
    return ContentRefused(
        _message(service, "refused to answer", said, "leave this passage out"), model=service.model
    )


def _message(service: Service, event: str, said: str, advice: str) -> str:
    said = _without_keys(_one_line(said), service.key)
    if len(said) > MESSAGE_LIMIT:
        said = said[: MESSAGE_LIMIT - 1].rstrip() + "…"
    quoted = f": {said}" if said else ""
    return f"{service.model}: {event} from {service.where}{quoted} ({advice})"


def _without_keys(text: str, key: str) -> str:
    if key:
        text = text.replace(key, KEY_MARK)
    return _KEY_SHAPES.sub(KEY_MARK, text)


def _one_line(text: str) -> str:
    # Terminal escapes and other control characters must not reach a log.
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):  # FastAPI's list of {"loc": [...], "msg": "..."}
        return "; ".join(_words(item) for item in value)
    if isinstance(value, dict) and "msg" in value:
        place = value.get("loc")
        path = ".".join(str(part) for part in place) if isinstance(place, list) else ""
        return f"{path}: {value['msg']}" if path else str(value["msg"])
    return "" if value is None else orjson.dumps(value).decode()


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if _SECONDS.fullmatch(value := headers.get(name, "").strip()):
            return max(0.0, float(value) * unit)
    from email.utils import parsedate_to_datetime  # slow to import

    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())
