"""Read answers over HTTP, and convert statuses and error bodies to this package's errors.

Every message is one line: who was asked, what the provider said (shortened, without any
API key), and what to do next. Of what the provider said, the first `READ_LIMIT` characters count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
from mcranker.llm.masking import masked, shown_url, url_secrets, without_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

MESSAGE_LIMIT = 300
SHOWN = 200  # characters of an answer that cannot be read
READ_LIMIT = 2000  # characters of what a provider says that are looked at
PAGE_LIMIT = 2**16  # bytes of a page in which its text, or a wait, is looked for
CODE_LIMIT, MOST_ITEMS = 200, 20  # characters of a code, and problems of a list
LEAVE_OUT = "leave this passage out"
AGAIN = "try again; if it persists, check the URL"
SHORTER = "cut the passages shorter, or use a model with a longer context or higher limits"
LATER = "try again later, or lower the concurrency"

# Each takes linear time, on texts of `READ_LIMIT` characters (`_TAG`: `PAGE_LIMIT`).
_TOO_LONG = re.compile(
    r"context[_ ](length|size|window)|too many (input |prompt )?tokens|prompt is too long|"
    r"\b(input|prompt|request)\b.{0,40}\b(too long|too large)|"
    r"\bexceed\w{0,6}\b.{0,60}\bcontext|"
    r"token count\b.{0,40}\bexceed|"
    r"maximum (input|prompt) length|must have less than \d{1,9} tokens",
    re.IGNORECASE,
)
# Said of this very request also where the status is a rate limit's or a failure's.
_OVERSIZED = re.compile(
    r"\b(input|prompt|request)( \([^()]{0,40}\))? (is |was )?too (large|long|big)\b|"
    r"\bexceed(s|ed)? (the )?(available |maximum )?context\b|"
    r"\bcontext (size|length|window) (has been |was |is )?exceeded|"
    r"\binput is larger than\b|exceed_context_size|context_length_exceeded",
    re.IGNORECASE,
)
_REQUESTED = re.compile(
    r"\blimit\W{0,3}(\d[\d,_]{0,15})\D{1,40}\brequested\W{0,3}(\d[\d,_]{0,15})", re.IGNORECASE
)
_FILTERED = re.compile(
    r"content[_ ](filter|policy|management)|safety system|responsible ?ai|\bflagged\b",
    re.IGNORECASE,
)
_ACCOUNT_FLAGGED = re.compile(
    r"\b(account|organi[sz]ation|project|subscription|api[ _-]?key|ip address)\b.{0,40}\bflagged\b",
    re.IGNORECASE,
)
_UNPAID = re.compile(
    r"(?=[bceinou])(?:insufficient[_ ](\w{1,10}[_ ])?(quota|balance|credit|fund)|credit balance|"
    r"billing[_ ](hard[_ ]limit|not[_ ]active)|exceeded your current quota|check your billing|"
    r"\b(?:credits?\b(?:(?!\bcredits?\b).){0,30}?\b(exhausted|depleted|used up)|"
    r"(out of|no|no more) credits\b|"
    r"(exhausted|used)( all)?( of)?( your| the)?( available)? credits))",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(invalid|incorrect|missing)[_ ](x-)?api[_ -]?key|api key not valid", re.IGNORECASE
)
_LIMITED = (429, 529)
_ID = re.compile(r"\b[^\W\d]*+\d\w*+")
_TAG = re.compile(r"</?[a-z!][^<>]*>", re.IGNORECASE)
LONGEST = 1e9  # seconds; larger numbers are times since 1970
HEADER = 200  # characters of a header that are read

# Each takes linear time.
_SECONDS = re.compile(r"-?\d{1,13}(\.\d{0,9})?", re.ASCII)
_WINDOW = re.compile(
    r"per[ _-]?+(?:second|minute|hour|day)|\b(?:daily|hourly|(?:[io]?t|r|q)p[smhd])\b|"
    r"(?:/|per|\b(?:each|every|last|past|(?:request|token|call)s?(?: in| within| over)?))[ _-]?+"
    r"(?:an? |one |\d{1,6}+[ -]?+)?(?:sec(?:ond)?|min(?:ute)?|h(?:ou)?r|day)s?(?![a-z])"
)
_WAIT = re.compile(
    r"(?=[artw])(?:\b(?:(?:re)?try\b[^.\n]{0,40}?\b(?:in|after)|wait( for)?( at least)?|"
    r"(?:resets?|available|renewed|replenished|refills?)\b[^.\n]{0,20}?\b(?:in|after))|"
    r"(?:retry|resets?)[_-]?(after|delay|in)[_-]?(?P<ms>ms|millis)?((in_?)?s(ec(ond)?s?)?)?)"
    r"\W{1,5}+((about|another|the next) |seconds\W{1,4}+)?(?=\d)",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?:, ?| and | )?(\d{1,9}+(?:\.\d{0,15}+)?)(?: ?(m(?:illi)?s(?:ec(?:ond)?s?)?|d(?:ays?)?|"
    r"h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])|(?![\w:-]))",
    re.IGNORECASE | re.ASCII,
)
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answered instead of a reply, in the provider's own words."""

    status: int
    message: str = ""
    code: str = ""
    param: str = ""
    retry_after: float | None = None  # seconds, if it gives any
    window: bool = False  # it names the time that a limit is for, such as a minute
    location: str = ""  # where it redirects to


@dataclass(frozen=True, slots=True)
class Service:
    """Provider details used in error messages."""

    model: str
    where: str
    key_advice: str
    model_advice: str
    connection_advice: str
    timeout: float
    key: str = field(default="", repr=False)
    url: str = field(default="", repr=False)


class StatusError(Exception):
    """An HTTP answer that is not a success; stays inside the back-ends."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"HTTP {problem.status}")
        self.problem = problem


class BodyTooLong(Exception):
    """The body of an answer goes on beyond the most that is read; stays inside the back-ends."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most:,} bytes")


def read_problem(
    status: int, body: bytes, headers: Mapping[str, str], *, now: datetime | None = None
) -> Problem:
    """Read an error answer; never fails, whatever the body is."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = _TAG.sub(" ", body[:PAGE_LIMIT].decode("utf-8", errors="replace"))
    problem = problem_in(status, content)
    wait = wait_of(headers, problem.retry_after, now or datetime.now(UTC))
    return replace(problem, retry_after=wait, location=headers.get("location", "")[:READ_LIMIT])


def problem_in(status: int, content: Any) -> Problem:
    """Read an error already parsed as JSON; never fails, whatever it is."""
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0] if "error" in content[0] else content  # Google's, in OpenAI's protocol
    text = _json(content)[:PAGE_LIMIT] if status in _LIMITED else ""
    wait, window = wait_in(text), bool(_WINDOW.search(text.lower()))
    error = content.get("error", content) if isinstance(content, dict) else content
    code = param = ""
    if isinstance(error, dict):
        texts = {name: each for name, each in error.items() if isinstance(each, str)}
        code = " ".join(texts[name][:CODE_LIMIT] for name in ("code", "type") if name in texts)
        param = texts.get("param", "")[:CODE_LIMIT]
        error = error.get("message") or error.get("detail") or error.get("msg") or ""
    message = one_line(_clipped(_words(error)))
    return Problem(status, message, code, param, retry_after=wait, window=window)


def error_for(problem: Problem, service: Service) -> ModelError:
    """The error of an HTTP answer: the first row that applies."""
    status, said = problem.status, f"{problem.code} {problem.message}"
    filtered = bool(_FILTERED.search(said)) and not _ACCOUNT_FLAGGED.search(said)
    timed = status == 429 and (problem.window or problem.retry_after is not None)
    unpaid = status in (400, 429) and not timed and bool(_UNPAID.search(said))
    bad_key = status in (401, 403) or (status == 400 and bool(_BAD_KEY.search(said)))
    no_model = status == 404 or (status == 400 and "model_not_found" in problem.code)
    oversized = _oversized(said)
    too_long = status < 500 and bool(_TOO_LONG.search(said))
    moved = f"it redirects{_target(problem.location, service)}, and prompts are not sent on; if"
    rows: tuple[tuple[bool, type[ModelError], str], ...] = (
        (status < 300, ServerFailed, f"that ends no request; {AGAIN}"),
        (status < 400, RequestRejected, f"{moved} you trust that, set base_url= to it"),
        (status == 403 and filtered, ContentRefused, LEAVE_OUT),
        (oversized and (status == 429 or status >= 500), ContextTooLong, SHORTER),
        (bad_key, AuthenticationFailed, service.key_advice),
        (no_model, ModelNotFound, service.model_advice),
        (
            unpaid or status == 402,
            AuthenticationFailed,
            "check the account's credit and limits with the provider",
        ),
        (status in _LIMITED, RateLimited, LATER),
        (status in (408, 504), ModelTimeout, LATER),
        (oversized or too_long, ContextTooLong, SHORTER),
        (status >= 500, ServerFailed, "try again later"),
        (filtered, ContentRefused, LEAVE_OUT),
        (True, RequestRejected, "change the request; sending it again does not help"),
    )
    kind, advice = next((kind, advice) for applies, kind, advice in rows if applies)
    message = _message(service, f"HTTP {status}", problem.message, advice)
    if kind is RateLimited:
        return RateLimited(message, model=service.model, retry_after=problem.retry_after)
    return kind(message, model=service.model)


def timed_out(service: Service) -> ModelTimeout:
    """The error for an answer that was not complete within `Service.timeout` seconds."""
    said = f"no complete answer within {service.timeout:g} s"
    return ModelTimeout(_message(service, said, "", LATER), model=service.model)


def transport_error(error: BaseException, service: Service) -> ModelError:
    """Convert a transport failure to an error by its root cause."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    root = chain[-1]
    if isinstance(root, BodyTooLong):
        return unreadable(str(root), service)
    if any(type(each).__name__ == "ContentEncodingError" for each in chain):
        return unreadable("its compressed body cannot be unpacked", service)
    if isinstance(root, TimeoutError) or "Timeout" in type(root).__name__:
        return timed_out(service)
    said = one_line(_clipped(str(root))) or type(root).__name__
    message = _message(service, "no answer", said, service.connection_advice)
    return ConnectionFailed(message, model=service.model)


def unreadable(what: str, service: Service) -> ServerFailed:
    """Return the error for an answer with a good status and an unreadable body."""
    error = ServerFailed(_message(service, "unreadable answer", what, AGAIN), model=service.model)
    error.shape = what
    return error


@contextmanager
def reading(content: bytes, service: Service) -> Iterator[None]:
    """Add to the error of an answer that cannot be read how that begins, and its shape."""
    try:
        yield
    except ServerFailed as error:
        if not error.shape:
            raise  # it can be read, and says that the server failed
        text = said_by(service, content[:READ_LIMIT].decode("utf-8", errors="replace"))[:SHOWN]
        begun = f"it begins: {text}" if text else "it is empty"
        told = ServerFailed(f"{error}; {begun}", model=error.model)
        # The keys, or the beginning without ids and times.
        told.shape = f"{error.shape}: {re.sub(_ID, '0', text)}"
        with suppress(orjson.JSONDecodeError, TypeError):
            told.shape = f"{error.shape}: {sorted({**orjson.loads(content)})}"
        raise told from error


def json_bytes(body: Mapping[str, Any], service: Service) -> bytes:
    """The body of a request."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise RequestRejected(
            f"{service.model}: the request cannot be sent ({error}); clean the texts and the "
            "options that it is made of",
            model=service.model,
        ) from error


def parse_object(content: bytes, service: Service, *, list_as: str = "") -> dict[str, Any]:
    """The JSON object in the body of an answer with a good status."""
    with reading(content, service):
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise unreadable("not JSON", service) from error
        if list_as and isinstance(data, list):
            return {list_as: data}
        if not isinstance(data, dict):
            raise unreadable(f"a JSON {type(data).__name__}, not an object", service)
        return data


def said_by(service: Service, text: str) -> str:
    """Return a provider's message fit to show: one line, shortened, without secrets."""
    said = _without_secrets(one_line(_clipped(text)), service)
    said = without_hosts(said, [urlsplit(service.url).hostname or ""])
    return said if len(said) <= MESSAGE_LIMIT else said[: MESSAGE_LIMIT - 1].rstrip() + "…"


def refusal(said: str, service: Service) -> ContentRefused:
    """Return the error for an answer in which the model or its filter declines."""
    message = _message(service, "refused to answer", said, LEAVE_OUT)
    return ContentRefused(message, model=service.model)


def _message(service: Service, event: str, said: str, advice: str) -> str:
    quoted = f": {shown}" if (shown := said_by(service, said)) else ""
    return f"{service.model}: {event} from {service.where}{quoted} ({advice})"


def _target(location: str, service: Service) -> str:
    host = re.match(r"https?://[^/?#]{1,300}", location)
    shown = _without_secrets(one_line(shown_url(host[0])), service) if host else ""
    return f" to {shown!r}" if shown else ""


def _without_secrets(text: str, service: Service) -> str:
    return masked(text, (service.key, *url_secrets(service.url)))


def _clipped(text: str) -> str:
    """The beginning of a text; what the cut leaves of a word goes too, as it may be half a key."""
    if len(text) <= READ_LIMIT:
        return text
    whole, space, rest = text[:READ_LIMIT].rpartition(" ")
    return whole if space and len(rest) <= CODE_LIMIT else text[:READ_LIMIT]


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters."""
    # Terminal escapes and other control characters must not reach a log.
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _words(value: Any) -> str:
    if isinstance(value, list):  # FastAPI's list of {"loc": [...], "msg": "..."}
        return "; ".join(map(_word, value[:MOST_ITEMS]))
    return _word(value)


def _word(value: Any) -> str:
    if isinstance(value, dict) and isinstance(value.get("msg"), str):
        parts = value["loc"][:MOST_ITEMS] if isinstance(value.get("loc"), list) else []
        path = ".".join(str(part) for part in parts if isinstance(part, str | int))
        return f"{path}: {value['msg']}" if path else str(value["msg"])
    return "" if value is None else _json(value)


def _json(value: Any) -> str:
    try:
        return value if isinstance(value, str) else orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # nested too deeply
        return ""


def _oversized(said: str) -> bool:
    """True if a request is more than is ever allowed at once."""
    if found := _REQUESTED.search(said):
        limit, requested = (int(re.sub("[,_]", "", number)) for number in found.groups())
        return requested > limit
    return bool(_OVERSIZED.search(said))


# Seconds that a provider asks to wait: in a header, in a sentence, or in a field of its JSON.


def wait_in(text: str) -> float | None:
    """Seconds that a text, or JSON, asks to wait; None if it does not say."""
    for found in _WAIT.finditer(text):
        wait = _duration(text, found.end(), 0.001 if found["ms"] else 1.0)
        if wait is not None and wait <= LONGEST:
            return wait
    return None


def wait_of(headers: Mapping[str, str], said: float | None, now: datetime) -> float | None:
    """Seconds to wait by Retry-After, as the body `said`, or until a used up limit resets."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (wait := _until(headers.get(name, ""), now, unit)) is not None:
            return wait
    if said is not None:
        return said
    waits = [
        _until(value, now)
        for name, value in headers.items()
        if re.search(r"\A(?>.*?rate-?limit).*reset", name, re.IGNORECASE)
        and headers.get(name.lower().replace("reset", "remaining"), "0").strip() == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _until(value: str, now: datetime, unit: float = 1.0) -> float | None:
    """Seconds until a time: "30", of `unit`, "6m0s", seconds since 1970, or a date."""
    from email.utils import parsedate_to_datetime  # slow to import

    value = value.strip()
    if not 0 < len(value) <= HEADER:
        return None
    try:
        if _SECONDS.fullmatch(value):
            wait = float(value) * unit
            if wait >= LONGEST:
                wait = (wait if wait < 100 * LONGEST else wait / 1000) - now.timestamp()
        elif value[-1] in "smh" and value[0].isdigit():
            return _duration(value)
        else:
            read = datetime.fromisoformat if value[:4].isdigit() else parsedate_to_datetime
            when = read(value)
            wait = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return max(0.0, wait) if wait <= LONGEST else None


def _duration(text: str, place: int = 0, unit: float = 1.0) -> float | None:
    """Seconds of "7m12s", "1.5 seconds", or a number of `unit`; None if there is none."""
    total: float | None = None
    while found := _PART.match(text, place):
        number, name = float(found[1]), (found[2] or "").lower()
        if not name:
            return number * unit if total is None else total
        size = _UNITS["ms" if name.startswith(("ms", "mil")) else name[0]]
        total, place = (total or 0.0) + number * size, found.end()
    return total
