"""Metrics in the form of Prometheus."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from mcranker import ChatRequest
from tests.support.serving import by_place, client, settings

ASKED = {"query": "q", "documents": ["a", "b"]}
OF_A_CALL = {"ranker": "team", "model": "scripted:tests"}


def _values(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_calls_tokens_and_ledger_hits_are_counted(tmp_path: Path) -> None:
    async with client(settings(options={"ledger": str(tmp_path / "ledger")})) as http:
        await http.post("/v1/rank", json=ASKED)
        await http.post("/v1/rank", json=ASKED)
        found = _values((await http.get("/metrics")).text)

    def value(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    score = {**OF_A_CALL, "stage": "score"}
    # Two passages by three personas, once asked and once taken from the ledger.
    assert value("mcranker_calls_total", **score) == 6
    assert value("mcranker_ledger_hits_total", **score) == 6
    assert value("mcranker_tokens_total", kind="input", **score) == 600
    assert value("mcranker_tokens_total", kind="output", **score) == 30
    assert value("mcranker_cost_dollars_total", **score) == 0
    assert value("mcranker_calls_total", stage="recruit", **OF_A_CALL) == 1
    assert value("mcranker_calls_total", stage="criteria", **OF_A_CALL) == 3
    assert value("mcranker_rankings_total", ranker="team", outcome="complete") == 2
    assert value("mcranker_passages_total", ranker="team") == 4
    assert value("mcranker_stage_seconds_count", ranker="team", stage="total") == 2
    assert value("mcranker_stage_seconds_count", ranker="team", stage="score") == 2
    assert value("mcranker_requests_total", route="/v1/rank", status="200") == 2
    assert value("mcranker_rankings_in_progress", ranker="team") == 0


async def test_missing_scores_and_failures_are_counted() -> None:
    def odd(request: ChatRequest) -> str:
        if request.tag.doc_id == "1":
            return "no score at all"
        return by_place(request)

    def broken(_: ChatRequest) -> str:
        raise ValueError("broken")

    async with client(settings(odd)) as http:
        answer = await http.post("/v2/rerank", json=ASKED)
        text = (await http.get("/metrics")).text
    assert answer.headers["x-missing-scores"] == "3"
    assert answer.json()["meta"]["warnings"][0] == "3 of 6 scores are missing"
    assert 'mcranker_missing_scores_total{ranker="team"} 3.0' in text
    assert 'mcranker_rankings_total{outcome="missing",ranker="team"} 1.0' in text
    async with client(settings(broken)) as http:
        failed = await http.post("/v2/rerank", json=ASKED)
        text = (await http.get("/metrics")).text
    assert failed.status_code == 500
    assert "broken" not in failed.text
    assert 'mcranker_rankings_total{outcome="failed",ranker="team"} 1.0' in text
    assert 'error="ValueError"' in text
