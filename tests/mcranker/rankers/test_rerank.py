"""The ranker `rerank`: a whole ranking over the wire, with the ledger, limits and faults."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker import (
    MCRanker,
    MissingScoreError,
    UnsupportedCapability,
)
from mcranker.rankers import RANKERS
from mcranker.rankers.direct import RerankRanker
from tests.support.loopback import Loopback, Script, clean_environment, serve_in_thread
from tests.support.rerank_servers import cohere, jina, tei

DOCS = {f"d{n}": f"text {n}" for n in range(40)}


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


def by_number(query: str, text: str) -> float:
    """Text 7 has 0.14."""
    return int(text.split()[-1]) / 50


def ranker(server: Loopback, kind: str = "rerank", **options: Any) -> RerankRanker:
    options = {"ledger": None, **options}
    return RerankRanker(model=f"{kind}:m", base_url=server.root, **options)


@pytest.mark.parametrize(
    ("kind", "service", "sizes"),
    [("rerank", cohere, [40]), ("rerank", jina, [40]), ("rerank-tei", tei, [8, 32])],
)
def test_it_ranks_by_the_services_relevance(kind: str, service: Any, sizes: list[int]) -> None:
    with serve_in_thread(service(by_number)) as server, ranker(server, kind) as reranker:
        ranking = reranker.rank("masks", DOCS)
    field = "texts" if kind == "rerank-tei" else "documents"
    assert sorted(len(body[field]) for body in server.bodies) == sizes
    assert {request.path for request in server.requests} == {"/rerank"}
    assert ranking.ids == list(reversed(DOCS))
    assert ranking[0].score == ranking[0].relevance == pytest.approx(0.78)  # 39 / 50
    assert ranking.personas == ("RERANK",)
    assert ranking.models == {"scoring": f"{kind}:m"}
    assert ranking.calls.by("stage")["score"].calls == len(sizes)
    assert (ranking.missing, ranking.prompt_hashes) == ([], {})
    assert RANKERS.get("rerank") is RerankRanker


def test_nothing_but_query_and_passages_is_sent() -> None:
    with serve_in_thread(cohere(by_number)) as server, ranker(server) as reranker:
        reranker.rank("masks", {"d": {"title": "Title", "text": "text 3"}})
    assert server.bodies == [{"model": "m", "query": "masks", "documents": ["Title\ntext 3"]}]


def faulty(score: Any) -> Script:
    """A service that has `score` for text 5 whenever it sees it."""
    return cohere(lambda query, text: score if text == "text 5" else by_number(query, text))


def test_a_passage_without_a_score_is_asked_about_alone_and_then_missing() -> None:
    with serve_in_thread(faulty(None)) as server, ranker(server) as reranker:
        ranking = reranker.rank("masks", DOCS)
    assert [len(body["documents"]) for body in server.bodies] == [40, 1]
    (lost,) = ranking.missing
    assert (lost.doc_id, lost.persona) == ("d5", "RERANK")
    assert lost.reason == (
        "rerank:m gave no score: odd answer: its score is None, not a finite number"
    )
    hit = next(hit for hit in ranking if hit.doc_id == "d5")
    assert hit.scores == {"RERANK": None}
    assert ranking.ids[-2:] == ["d0", "d5"]  # both 0, in first-stage order
    with (
        serve_in_thread(faulty(None)) as server,
        ranker(server, missing_policy="fail") as reranker,
        pytest.raises(MissingScoreError, match="1 of 40 scores are missing"),
    ):
        reranker.rank("masks", DOCS)


def test_logits_need_their_own_name() -> None:
    logits = jina(lambda query, text: by_number(query, text) * 20 - 8)
    with serve_in_thread(logits) as server:
        with (
            ranker(server) as reranker,
            pytest.raises(UnsupportedCapability, match="'rerank-logits:m'"),
        ):
            reranker.rank("masks", DOCS)
        with ranker(server, "rerank-logits") as reranker:
            ranking = reranker.rank("masks", DOCS)
    assert ranking.ids == list(reversed(DOCS))
    middle = next(hit for hit in ranking if hit.doc_id == "d20")
    assert middle.score == 0.5  # 20 / 50 · 20 - 8 = 0


def test_a_team_cannot_judge_by_a_reranker() -> None:
    with (
        serve_in_thread(cohere(by_number)) as server,
        MCRanker(model="rerank:m", base_url=server.root, ledger=None) as team,
        pytest.raises(UnsupportedCapability, match="use ranker='rerank'"),
    ):
        team.rank("masks", DOCS)
    assert not server.requests
