"""Access to the service: keys, the names by which it is addressed, and what browsers may do."""

from __future__ import annotations

import base64

import httpx
import pytest

from mcranker import ConfigError
from mcranker.serve import Settings, create_app, hash_key, new_key
from mcranker.serve.server import check_exposure
from mcranker.serve.settings import holder_of
from tests.support.serving import KEY, client, settings

ASKED = {"query": "q", "documents": ["a"]}
KEYS = {"search": hash_key(KEY), "other": hash_key("mcr_another-key-0123456789")}


def test_a_key_is_known_by_its_hash() -> None:
    key = new_key()
    keys = {"a": hash_key(KEY), "b": hash_key(key)}
    assert len(key) > 40
    assert holder_of(f"Bearer {key}", keys) == "b"
    assert holder_of(f"bearer  {KEY} ", keys) == "a"
    basic = base64.b64encode(f"any:{KEY}".encode()).decode()
    assert holder_of(f"Basic {basic}", keys) == "a"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Bearer {KEY}x", f"Digest {KEY}", KEY, "Basic ä", "Basic AAAA"],
)
def test_nothing_else_is_a_key(header: str) -> None:
    assert holder_of(header, {"a": hash_key(KEY)}) is None


@pytest.mark.parametrize(
    "key", ["short", "k" * 501, "k" * 20 + " k", "schlüssel-schlüssel-schlüssel"]
)
def test_keys_that_headers_cannot_carry_or_that_can_be_guessed_are_refused(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hash_key(key)
    assert key not in str(caught.value)


def test_a_key_in_place_of_its_hash_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="no hash of a key") as caught:
        Settings(keys={"a": KEY})
    assert KEY not in str(caught.value)


POSTED = ("/v2/rerank", "/v1/rerank", "/rerank", "/v1/rank", "/v1/rank/stream")
GOT = ("/v1/models", "/v1/explain/x", "/metrics", "/", "/playground.json")


async def test_every_route_needs_a_key_where_there_are_keys() -> None:
    async with client(settings(keys=KEYS)) as http:
        for path in (*POSTED, *GOT):
            method = "POST" if path in POSTED else "GET"
            without = await http.request(method, path, content=b"not even JSON")
            wrong = await http.request(method, path, headers={"Authorization": f"Bearer {KEY}x"})
            right = await http.request(method, path, headers={"Authorization": f"Bearer {KEY}"})
            assert without.status_code == wrong.status_code == 401, path
            assert "authenticate" in str(without.headers)
            assert right.status_code != 401


async def test_the_routes_of_an_orchestrator_need_none() -> None:
    async with client(settings(keys=KEYS, open_metrics=True)) as http:
        assert (await http.get("/metrics")).status_code == 200


async def test_the_service_is_not_ready_once_it_stops() -> None:
    app = create_app(settings())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        before = await http.get("/readyz")
        async with app.router.lifespan_context(app):
            during = await http.get("/readyz")
        after = await http.get("/readyz")
    assert [each.status_code for each in (before, during, after)] == [503, 200, 503]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8080", 200),
        ("[::1]:8080", 200),
        ("[::1]", 200),
        ("evil.example.com:8080", 403),
        ("127.0.0.1.evil.example.com", 403),
    ],
)
async def test_a_page_whose_name_leads_here_is_refused(host: str, status: int) -> None:
    async with client() as http:
        answer = await http.post("/v2/rerank", json=ASKED, headers={"Host": host})
        listed = await http.get("/v1/models", headers={"Host": host})
    assert answer.status_code == listed.status_code == status


async def test_no_page_of_another_site_may_ask() -> None:
    headers = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
    async with client() as http:
        before = await http.options("/v1/rank", headers=headers)
        simple = await http.post(
            "/v1/rank", content=b"{}", headers={**headers, "Content-Type": "text/plain"}
        )
    assert (before.status_code, simple.status_code) == (405, 415)
    for answer in (before, simple):
        assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "rerank.example.com"])
def test_others_are_not_let_in_without_keys_by_accident(host: str) -> None:
    with pytest.raises(ConfigError, match="--allow-no-keys"):
        check_exposure(settings(host=host), allow_no_keys=False)
    check_exposure(settings(host=host), allow_no_keys=True)
    check_exposure(settings(host=host, keys=KEYS), allow_no_keys=False)
