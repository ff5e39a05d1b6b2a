"""Clients of other services, pointed at this one: Cohere's own SDK, and plain HTTP clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import cohere
import httpx
import pytest

from mcranker.serve import hash_key
from tests.support.serving import KEY, serving, settings

DOCUMENTS = ["cloth", "surgical", "N95"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(settings(port=0, keys={"tests": hash_key(KEY)})) as found:
        yield found


def test_cohere_v2(address: str) -> None:
    with cohere.ClientV2(KEY, base_url=address) as client:
        found = client.rerank(
            model="rerank-v3.5", query="masks", documents=DOCUMENTS, top_n=2, max_tokens_per_doc=100
        )
    assert [(each.index, each.relevance_score) for each in found.results] == [
        (2, pytest.approx(0.3)),
        (1, pytest.approx(0.2)),
    ]
    assert len(found.id) == 32
    assert found.meta.api_version.version == "2"


def test_cohere_v2_without_blocking(address: str) -> None:
    async def rerank() -> list[int]:
        async with cohere.AsyncClientV2(KEY, base_url=address) as client:
            found = await client.rerank(model="m", query="masks", documents=DOCUMENTS)
            return [each.index for each in found.results]

    assert asyncio.run(rerank()) == [2, 1, 0]


@pytest.mark.parametrize("rank_fields", [None, ["title", "text"]])
def test_cohere_v1(address: str, rank_fields: list[str] | None) -> None:
    documents = [{"title": each, "text": f"{each} masks"} for each in DOCUMENTS]
    asked = {} if rank_fields is None else {"rank_fields": rank_fields}
    with cohere.Client(KEY, base_url=address) as client:
        found = client.rerank(
            model="m", query="masks", documents=documents, return_documents=True, top_n=1, **asked
        )
        bare = client.rerank(model="m", query="masks", documents=DOCUMENTS)
        models = client.models.list()
    (best,) = found.results
    assert (best.index, best.relevance_score) == (2, pytest.approx(0.3))
    assert best.document.text == "N95 masks"
    assert [each.document for each in bare.results] == [None] * 3
    assert [each.name for each in models.models] == ["team"]


def test_cohere_is_told_of_errors_by_its_own_exceptions(address: str) -> None:
    with cohere.ClientV2(KEY, base_url=address) as client:
        with pytest.raises(cohere.BadRequestError) as empty:
            client.rerank(model="m", query="masks", documents=[])
        with pytest.raises(cohere.BadRequestError, match="top_n"):
            client.rerank(model="m", query="masks", documents=DOCUMENTS, top_n=0)
    assert empty.value.body == {"message": "invalid request: list of documents must not be empty"}
    with (
        cohere.ClientV2("mcr_wrong-key-0123456789", base_url=address) as stranger,
        pytest.raises(cohere.UnauthorizedError),
    ):
        stranger.rerank(model="m", query="masks", documents=DOCUMENTS)


def test_a_generic_client(address: str) -> None:
    answer = httpx.post(
        f"{address}/v1/rerank",
        headers={"Authorization": f"Bearer {KEY}"},
        json={"model": "m", "query": "masks", "documents": DOCUMENTS, "top_n": 3},
    )
    scores = {each["index"]: each["relevance_score"] for each in answer.json()["results"]}
    assert scores == {0: pytest.approx(0.1), 1: pytest.approx(0.2), 2: pytest.approx(0.3)}
    assert answer.json()["usage"]["total_tokens"] == 1365


def test_a_client_of_tei(address: str) -> None:
    answer = httpx.post(
        f"{address}/rerank",
        headers={"Authorization": f"Bearer {KEY}"},
        json={"query": "masks", "texts": DOCUMENTS, "raw_scores": False, "truncate": True},
    )
    assert [(each["index"], each["score"]) for each in answer.json()] == [
        (2, pytest.approx(0.3)),
        (1, pytest.approx(0.2)),
        (0, pytest.approx(0.1)),
    ]
