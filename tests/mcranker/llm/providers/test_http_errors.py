from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from mcranker.llm.providers.http_errors import (
    MESSAGE_LIMIT,
    Problem,
    Service,
    error_for,
    parse_object,
    read_problem,
    transport_error,
)

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
SERVICE = Service(
    model="openai:m",
    where="OpenAI",
    key_advice="set THE_KEY",
    model_advice="look at the list",
    connection_advice="start it",
    timeout=5.0,
    key="zz-secret-1",
)


def problem_of(status: int, body: Any, **headers: str) -> Problem:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_problem(status, raw, names, now=NOW)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (0, ServerFailed),
        (101, ServerFailed),
        (302, RequestRejected),
        (400, RequestRejected),
        (401, AuthenticationFailed),
        (402, AuthenticationFailed),
        (403, AuthenticationFailed),
        (404, ModelNotFound),
        (408, ModelTimeout),
        (409, RequestRejected),
        (413, RequestRejected),
        (418, RequestRejected),
        (422, RequestRejected),
        (429, RateLimited),
        (500, ServerFailed),
        (502, ServerFailed),
        (503, ServerFailed),
        (504, ModelTimeout),
        (529, RateLimited),
        (999, ServerFailed),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[ModelError]) -> None:
    error = error_for(Problem(status, message="went wrong"), SERVICE)
    assert type(error) is kind
    assert error.model == "openai:m"
    assert str(error).startswith(f"openai:m: HTTP {status} from OpenAI: went wrong (")


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (400, "This model's maximum context length is 8192 tokens", "", ContextTooLong),
        (400, "", "context_length_exceeded", ContextTooLong),
        (400, "the request exceeds the available context size", "", ContextTooLong),
        (500, "", "exceed_context_size_error", ContextTooLong),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "", ContextTooLong),
        (422, "`inputs` must have less than 4096 tokens", "", ContextTooLong),
        (413, "Request too large", "request_too_large", ContextTooLong),
        (500, "out of memory while growing the context size", "", ServerFailed),
        (400, "blocked by our content filter", "", ContentRefused),
        (400, "", "content_policy_violation", ContentRefused),
        (403, "your input was flagged for violence", "", ContentRefused),
        (403, "rejected as a result of our safety system", "", ContentRefused),
        (403, "your account was flagged", "", AuthenticationFailed),
        (400, "your account was flagged", "", RequestRejected),
        (400, "", "model_not_found", ModelNotFound),
        (400, "API key not valid. Please pass one", "", AuthenticationFailed),
        (400, "Your credit balance is too low", "", AuthenticationFailed),
        (429, "", "insufficient_quota", AuthenticationFailed),
        (429, "Too many tokens per minute", "rate_limit_exceeded", RateLimited),
        (404, "maximum context length", "", ModelNotFound),
    ],
)
def test_the_body_refines_the_status(
    status: int, message: str, code: str, kind: type[ModelError]
) -> None:
    assert type(error_for(Problem(status, message=message, code=code), SERVICE)) is kind


def test_advice_says_what_to_do_next() -> None:
    assert "(set THE_KEY)" in str(error_for(Problem(401), SERVICE))
    assert "(look at the list)" in str(error_for(Problem(404), SERVICE))


@pytest.mark.parametrize(
    ("body", "message", "code", "param"),
    [
        (
            {"error": {"message": "no", "type": "t", "code": "c", "param": "seed"}},
            "no",
            "c t",
            "seed",
        ),
        ({"error": {"message": "no", "code": 400, "param": None}}, "no", "", ""),
        ({"object": "error", "message": "vllm says", "type": "Bad"}, "vllm says", "Bad", ""),
        ({"error": "just words", "error_type": "validation"}, "just words", "", ""),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
            "busy",
            "overloaded_error",
            "",
        ),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
            "body.seed: Extra inputs are not permitted",
            "",
            "",
        ),
        ({"detail": "Not Found"}, "Not Found", "", ""),
        (["odd"], "odd", "", ""),
        (b"<html><h1>Bad\nGateway</h1></html>", "Bad Gateway", "", ""),
        (b"", "", "", ""),
        (b"\xff\x00", "\ufffd", "", ""),
    ],
)
def test_every_dialect_of_error_bodies_is_read(
    body: Any, message: str, code: str, param: str
) -> None:
    problem = problem_of(400, body)
    assert (problem.message, problem.code, problem.param) == (message, code, param)


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["error", "message", "detail", "msg", "loc", "code", "type", "param"]
                ),
                inner,
            )
        ),
    ).map(lambda value: json.dumps(value).encode()),
    st.integers(300, 599),
    st.text(),
)
def test_no_answer_can_break_the_reading(body: bytes, status: int, wait: str) -> None:
    error = error_for(read_problem(status, body, {"retry-after": wait}), SERVICE)
    assert str(error).isprintable()
    assert len(str(error)) < MESSAGE_LIMIT + 200


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "Mon, 04 May 2026 12:00:30 GMT"}, 30.0),
        ({"retry_after": "Mon, 04 May 2026 11:00:00 GMT"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    error = error_for(problem_of(429, {}, **headers), SERVICE)
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


def test_messages_are_short_single_lines_without_control_characters() -> None:
    body = {"error": {"message": "first\nsecond\x1b[31m" + "x" * 1000}}
    text = str(error_for(problem_of(400, body), SERVICE))
    assert text.isprintable()
    assert "first second [31mx" in text
    assert text.count("x") < MESSAGE_LIMIT
    assert "…" in text


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: zz-secret-1.",
        "bad sk-proj-abcdefgh123",
        "bad zz-se****t-1",
        "got Authorization: Bearer zz.anything",
    ],
)
def test_keys_never_reach_a_message(said: str) -> None:
    text = str(error_for(Problem(401, message=said), SERVICE))
    assert "[key]" in text
    for part in ("secret", "abcdefgh", "zz-se", "zz.any"):
        assert part not in text
    assert "zz-secret-1" not in repr(SERVICE)


def test_a_cut_never_leaves_half_a_key() -> None:
    said = "x" * (MESSAGE_LIMIT - 6) + " zz-secret-1 and more"
    assert "zz-se" not in str(error_for(Problem(401, message=said), SERVICE))


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


@pytest.mark.parametrize("content", [b'{"a": ', b"", b"<html>", b"[1]", b"null"])
def test_a_good_status_with_a_bad_body_is_the_servers_fault(content: bytes) -> None:
    with pytest.raises(ServerFailed, match="unreadable answer from OpenAI"):
        parse_object(content, SERVICE)
