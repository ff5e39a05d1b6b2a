from __future__ import annotations

import json
import random
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest

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
from mcranker.llm import masking
from mcranker.llm.providers import http_chat, http_errors, openai_protocol, parameters
from mcranker.llm.providers.http_errors import (
    MESSAGE_LIMIT,
    READ_LIMIT,
    Problem,
    error_for,
    read_problem,
    transport_error,
)
from tests.support.wire import SERVICE

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


def problem_of(status: int, body: Any, **headers: str) -> Problem:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_problem(status, raw, names, now=NOW)


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (101, ServerFailed, "if it persists, check the URL"),
        (401, AuthenticationFailed, "set THE_KEY"),
        (404, ModelNotFound, "look"),
        (418, RequestRejected, "sending it again does not help"),
    ],
)
def test_an_error_says_who_answered_what_and_what_to_do_next(
    status: int, kind: type[ModelError], advice: str
) -> None:
    error = error_for(Problem(status, message="went wrong"), SERVICE)
    assert type(error) is kind
    assert str(error).startswith(f"openai:m: HTTP {status} from OpenAI: went wrong (")
    assert advice in str(error)


FLAGGED = (
    "This model requires moderation and your input was flagged for violence.",
    "rejected as a result of our safety system.",
)
NOT_FLAGGED = (
    "Your account has been flagged for suspicious activity",
    "Country, region, or territory not supported",
    "",
)
OVERSIZED = (
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, "
    "Requested 90000. The input or output tokens must be reduced in order to run successfully.",
    "tokens per min (TPM): Limit 30,000, Requested 90,000. Please try again in 6s",
    "input (700 tokens) is too large to process",
    "the request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
)


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (400, "This model's maximum context length is 8192 tokens", "", ContextTooLong),
        (400, "", "context_length_exceeded", ContextTooLong),
        (400, "the request exceeds the available context size", "", ContextTooLong),
        (500, "", "exceed_context_size_error", ContextTooLong),
        (422, "`inputs` must have less than 4096 tokens", "", ContextTooLong),
        (413, "Request too large", "request_too_large", ContextTooLong),
        (500, "out of memory while growing the context size", "", ServerFailed),
        *((status, said, "", ContentRefused) for said in FLAGGED for status in (400, 403)),
        *((403, said, "", AuthenticationFailed) for said in NOT_FLAGGED),
        (403, "", "content_filter", ContentRefused),
        (400, "", "content_policy_violation", ContentRefused),
        (400, "your account was flagged", "", RequestRejected),
        (400, "", "model_not_found", ModelNotFound),
        (400, "API key not valid. Please pass one", "", AuthenticationFailed),
        (400, "Your credit balance is too low", "", AuthenticationFailed),
        (429, "", "insufficient_quota", AuthenticationFailed),
        (429, "Too many tokens per minute", "rate_limit_exceeded", RateLimited),
        *((status, said, "", ContextTooLong) for said in OVERSIZED for status in (429, 500)),
        (413, OVERSIZED[0], "rate_limit_exceeded", ContextTooLong),
        (429, "tokens per min (TPM): Limit 30,000, Requested 9,000", "", RateLimited),
    ],
)
def test_the_body_refines_the_status(
    status: int, message: str, code: str, kind: type[ModelError]
) -> None:
    assert type(error_for(Problem(status, message=message, code=code), SERVICE)) is kind


DIALECTS: dict[str, tuple[Any, tuple[str, str, str]]] = {
    "openai": ({"error": {"message": "no", "type": "t", "code": "c", "param": "seed"}},
               ("no", "c t", "seed")),
    "numbers": ({"error": {"message": "no", "code": 400, "param": None}}, ("no", "", "")),
    "vllm": ({"object": "error", "message": "no", "type": "Bad"}, ("no", "Bad", "")),
    "words": ({"error": "just words", "error_type": "validation"}, ("just words", "", "")),
    "anthropic": ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
                  ("busy", "overloaded_error", "")),
    "pydantic": ({"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
                 ("body.seed: Extra inputs are not permitted", "", "")),
    "fastapi": ({"detail": "Not Found"}, ("Not Found", "", "")),
    "list": (["odd"], ("odd", "", "")),
    "page": (b"<html><h1>Bad\nGateway</h1></html>", ("Bad Gateway", "", "")),
    "nothing": (b"", ("", "", "")),
    "bytes": (b"\xff\x00", ("\ufffd", "", "")),
}  # fmt: skip


@pytest.mark.parametrize(("body", "read"), DIALECTS.values(), ids=DIALECTS)
def test_every_dialect_of_error_bodies_is_read(body: Any, read: tuple[str, str, str]) -> None:
    problem = problem_of(400, body)
    assert (problem.message, problem.code, problem.param) == read


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "Mon, 04 May 2026 12:00:30 GMT"}, 30.0),
        ({"retry_after": "soon"}, None),
    ],
)
def test_retry_after_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    error = error_for(problem_of(429, {}, **headers), SERVICE)
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


QUOTA = "You exceeded your current quota, please check your plan and billing details."


def google(**details: Any) -> dict[str, Any]:
    said = {"code": 429, "message": QUOTA, "status": "RESOURCE_EXHAUSTED"}
    return {"error": said | {"details": [details]}}


@pytest.mark.parametrize(
    ("said", "headers", "seconds"),
    [
        (f"{QUOTA} Please retry in 1.203608125s.", {}, 1.203608125),
        (google(retryDelay="38s"), {}, 38.0),
        (google(quotaId="GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), {}, None),
        ([google(retryDelay="38s")], {}, 38.0),
        ("tokens per day (TPD): Limit 9, Used 8, Requested 2. Please try again in 7m12s. "
         "See settings/billing", {}, 432.0),
        ("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, "
         "Requested 5000. Please try again in 547ms.", {}, 0.547),
        (f"{QUOTA} Limit: 3 RPM", {}, None),
        ("insufficient_quota: 100 requests per 60 seconds", {}, None),
        ("billing. Try again in 2 hours and 30 minutes", {}, 9000.0),
        (f"{QUOTA} wait 20 seconds", {"retry_after": "7"}, 7.0),
        (QUOTA, {"retry_after": "20"}, 20.0),
        (QUOTA, {"x_ratelimit_reset_tokens": "6m0s"}, 360.0),
        ("slow down", {"x_ratelimit_reset_tokens": "6m0s", "x_ratelimit_remaining_tokens": "9",
                       "x_ratelimit_reset_requests": "2s"}, 2.0),
        ("", {"x_ratelimit_reset": f"{NOW.timestamp() + 30:.0f}"}, 30.0),
        ("", {"anthropic_ratelimit_tokens_reset": "2026-05-04T12:00:45Z"}, 45.0),
        ({"message": QUOTA, "retry_after_ms": 1500}, {}, 1.5),
    ],
)  # fmt: skip
def test_a_limit_by_the_minute_is_no_lack_of_money(
    said: Any, headers: dict[str, str], seconds: float | None
) -> None:
    body = {"error": {"message": said}} if isinstance(said, str) else said
    error = error_for(problem_of(429, body, **headers), SERVICE)
    assert isinstance(error, RateLimited)
    assert error.retry_after == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (QUOTA, "insufficient_quota"),
        ("", "billing_hard_limit_reached"),
        ("Your prepayment credits are depleted. Go to AI Studio to manage your billing.", ""),
        ("Insufficient balance or no resource package. Please recharge.", "1113"),
    ],
)
def test_an_account_without_money_is_final(message: str, code: str) -> None:
    error = error_for(problem_of(429, {"error": {"message": message, "code": code}}), SERVICE)
    assert type(error) is AuthenticationFailed


def test_no_wait_is_endless() -> None:
    odd = random.Random(3)
    letters = "0123456789 ,:+-().MonTueJanDecGMTUTCZ\x00é"
    texts = ["".join(odd.choices(letters, k=odd.randint(0, 40))) for _ in range(1000)]
    dates = ("Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 -99999999999999")
    for text in ("1" + "0" * 400, "9" * 10, "٣", *dates, "a" * 8000, "(" * 100, *texts):
        for name in ("retry-after", "retry-after-ms"):
            wait = read_problem(429, b"", {name: text}).retry_after
            assert wait is None or 0.0 <= wait <= 1e9, text
    assert read_problem(429, b"", {"retry-after": "1" + "0" * 400}).retry_after is None


def test_messages_are_short_single_lines_without_control_characters() -> None:
    body = {"error": {"message": "first\nsecond\x1b[31m" + "x" * 1000}}
    text = str(error_for(problem_of(400, body), SERVICE))
    assert text.isprintable()
    assert "first second [31mx" in text
    assert text.count("x") < MESSAGE_LIMIT
    assert "…" in text


def test_transport_errors_are_told_by_their_root() -> None:
    class SaysTimeoutError(Exception):
        pass

    lost, late = SaysTimeoutError("timed out"), SaysTimeoutError("timed out")
    lost.__cause__ = ConnectionResetError("peer went away")
    late.__cause__ = TimeoutError()
    assert type(transport_error(lost, SERVICE)) is ConnectionFailed
    assert "peer went away (start it)" in str(transport_error(lost, SERVICE))
    assert type(transport_error(late, SERVICE)) is ModelTimeout
    assert type(transport_error(SaysTimeoutError(), SERVICE)) is ModelTimeout


FILLERS = (
    "a", "a*", "*", "<", "<a", "<a>", "</", " ", "\n", "1", "exceed", "exceed ", "prompt ",
    "sk-", "Bearer ", "eyJ", "http://", "https://a@", "@", "%41", "=", "/", "?&", "flagged ",
    "account ", "context_", "-", "é", "\x00", "(", ".", "_", "****a",
)  # fmt: skip


def test_no_pattern_takes_long_on_what_it_is_given() -> None:
    patterns = {
        (module.__name__, name): pattern
        for module in (http_errors, masking, parameters, http_chat, openai_protocol)
        for name, pattern in vars(module).items()
        if isinstance(pattern, re.Pattern)
    }
    assert len(patterns) > 15
    for place, pattern in patterns.items():
        for filler in FILLERS:
            text = (filler * READ_LIMIT)[:READ_LIMIT]
            assert _seconds(pattern, text) < 0.010, (place, filler)
            # Ten times the text takes ten times as long, not a hundred times.
            assert _seconds(pattern, text * 10) < 0.100, (place, filler)


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    """Of this thread alone, so that no other process counts."""
    start = time.thread_time()
    pattern.search(text)
    return time.thread_time() - start
