"""Whatever is sent, the service answers in order, says nothing of itself, and goes on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.attack.scale import scaled
from tests.support.serving import serving, settings

ROUTES = ("/v2/rerank", "/v1/rerank", "/rerank", "/v1/rank", "/v1/rank/stream")
IN_ORDER = {200, 400, 404, 413, 415, 422}
SECRETS = (str(Path(__file__).parents[3]), str(Path.home()), "Traceback", 'File "', "site-packages")
FIELDS = [
    "query",
    "documents",
    "texts",
    "model",
    "top_n",
    "return_documents",
    "max_tokens_per_doc",
    "rank_fields",
    "priority",
    "max_chunks_per_doc",
    "relevant_spans",
    "truncate_prompt_tokens",
    "use_activation",
    "return_embeddings",
    "raw_scores",
    "return_text",
    "truncate",
    "timeout",
    "ranker",
    "options",
    "min_relevance",
    "instruction",
]

_TEXT = st.text(max_size=20) | st.sampled_from(
    ["", " ", "\x00", "\u202e", "q", "1e999", "../../etc"]
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_DOCUMENTS = st.lists(
    _TEXT
    | st.dictionaries(st.sampled_from(["text", "id", "title", "score", "x"]), _VALUES, max_size=4),
    max_size=4,
)
_GOOD = st.fixed_dictionaries(
    {"query": _TEXT | st.just("q"), "documents": _DOCUMENTS},
    optional={name: _VALUES for name in FIELDS if name not in ("query", "documents", "texts")},
)
_BODIES = _GOOD | st.dictionaries(st.sampled_from(FIELDS) | _TEXT, _VALUES, max_size=6)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    limits = {"documents": 8, "body": 100_000, "deadline": 5}
    chosen = ("team", "team_size", "top_k")
    # Ids may be any text, of which the usual model of these tests makes a number.
    with serving(
        settings(lambda _: '{"Score": 5}', port=0, limits=limits, per_request=chosen)
    ) as at:
        yield at


@pytest.fixture(scope="module")
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30) as found:
        yield found


def _check(http: httpx.Client, answer: httpx.Response) -> None:
    assert answer.status_code in IN_ORDER, answer.text
    assert not any(secret in answer.text for secret in SECRETS), answer.text
    if not answer.headers["content-type"].startswith("text/event-stream"):
        orjson.loads(answer.content)
    elif answer.status_code == 200:
        assert "event: ranking_done" in answer.text, answer.text


_MANY = hypothesis_settings(
    max_examples=scaled(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@_MANY
@given(route=st.sampled_from(ROUTES), body=_BODIES)
def test_odd_fields(http: httpx.Client, route: str, body: dict[str, object]) -> None:
    try:
        content = orjson.dumps(body)
    except TypeError:  # a whole number of more than 64 bits
        import json

        content = json.dumps(body).encode()
    answer = http.post(route, content=content, headers={"Content-Type": "application/json"})
    _check(http, answer)


@_MANY
@given(route=st.sampled_from(ROUTES), body=st.binary(max_size=60))
def test_odd_bytes(http: httpx.Client, route: str, body: bytes) -> None:
    answer = http.post(route, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    _check(http, answer)


DEEP = b'{"query":"q","documents":' + b"[" * 900 + b"]" * 900 + b"}"
NESTED = b'{"query":"q","documents":[' + b'{"a":' * 100 + b"1" + b"}" * 100 + b"]}"


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        NESTED,
        b'{"query":"q","documents":["\\ud800"]}',
        b'{"query":"q","documents":[1e400]}',
        b'{"query":"q","documents":["a"],"top_n":99999999999999999999}',
        b'{"query":"q","documents":["a"],"top_n":9223372036854775807}',
        b'{"query":"q","documents":["a"],"timeout":1e308}',
        b'{"query":"q","documents":["a"],"timeout":5e-324}',
        b'{"query":"q","documents":["a"],"query":"\\u0000"}',
        b'{"query":"q","documents":[{"text":"a","id":"\\n"}, {"text":"b","id":"\\n"}]}',
        b"[]",
        b'"q"',
        b"",
        b"\xef\xbb\xbf{}",
        b"{" * 50_000,
    ],
)
@pytest.mark.parametrize("route", ROUTES)
def test_bodies_known_for_trouble(http: httpx.Client, route: str, body: bytes) -> None:
    answer = http.post(route, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in IN_ORDER | {504}, answer.text
    assert not any(secret in answer.text for secret in SECRETS), answer.text
    assert http.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /v1/explain/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/explain/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_odd_connections(address: str, http: httpx.Client, sent: bytes) -> None:
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        said = connection.recv(10_000)
    assert b" 500 " not in said
    assert b"root:" not in said
    assert http.get("/healthz").status_code == 200
