"""Rankers that give an order without scores, behind the shapes of other rerankers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest, RequestRejected, ScriptedChat
from mcranker.errors import ConfigError
from mcranker.events import PassagesCompared
from mcranker.serve import RankerSettings, Settings
from mcranker.serve.events import event_data
from mcranker.serve.settings import load_settings
from tests.support.comparing import comparing
from tests.support.comparing_team import TEAM, by_orders, comparing_team
from tests.support.serving import client

ASKED = {"query": "best masks", "documents": ["mask a", "mask b", "mask c"]}


def one(model: ScriptedChat, *, rank_scores: bool = False, **options: Any) -> Settings:
    chosen = {"model": model, "ledger": None, **options}
    ranker = RankerSettings("list", "rankgpt", chosen, ("*",), rank_scores=rank_scores)
    return Settings(rankers=(ranker,))


def alone(**options: Any) -> Settings:
    return one(comparing(lambda _: "[3] > [1] > [2]")[0], **options)


@pytest.mark.parametrize("route", ["/v2/rerank", "/v1/rerank", "/rerank"])
async def test_an_order_alone_is_refused_where_scores_are_needed(
    route: str, caplog: pytest.LogCaptureFixture
) -> None:
    model, seen = comparing(lambda _: "[3] > [1] > [2]")
    asked = {"query": "q", "texts": ["a", "b"]} if route == "/rerank" else ASKED
    with caplog.at_level(logging.WARNING):
        async with client(one(model)) as http:
            answer = await http.post(route, json=asked)
            whole = await http.post("/v1/rank", json=ASKED)
    assert answer.status_code == (422 if route == "/rerank" else 400)
    assert "gives an order and no relevance" in answer.text
    assert "rank_scores = true" in answer.text
    assert "'list': it gives an order" in caplog.text
    assert whole.json()["returned"] == ["2", "0", "1"]
    assert len(seen) == 1


async def test_scores_by_rank_are_chosen_by_the_operator_and_told_to_the_client() -> None:
    async with client(alone(rank_scores=True)) as http:
        answer = await http.post("/v2/rerank", json=ASKED)
        tei = await http.post("/rerank", json={"query": "q", "texts": ["a", "b", "c"]})
    results = answer.json()["results"]
    assert [each["index"] for each in results] == [2, 0, 1]
    assert [each["relevance_score"] for each in results] == pytest.approx([1, 2 / 3, 1 / 3])
    assert "scores are by rank" in answer.json()["meta"]["warnings"][0]
    assert "scores are by rank" in tei.headers["X-Notes"]


async def test_what_was_not_compared_has_no_score() -> None:
    model, _ = comparing(lambda _: "[2] > [1]")
    async with client(one(model, rank_scores=True, depth=2)) as http:
        answer = await http.post("/v2/rerank", json=ASKED)
    assert [each["relevance_score"] for each in answer.json()["results"]] == [1, 0.5, None]
    down, _ = comparing(lambda _: "nothing")
    async with client(one(down, rank_scores=True, on_failure="first_stage")) as http:
        answer = await http.post("/v2/rerank", json=ASKED)
    assert [each["relevance_score"] for each in answer.json()["results"]] == [None] * 3


async def test_a_team_that_compares_has_scores() -> None:
    """Its scores are no relevance, so that the ranks count: 3, 2 and 1 of 3."""
    model, _ = comparing_team(by_orders(dict(zip(TEAM, ("bac", "bac", "bca"), strict=True))))
    async with client(one(model, rank_scores=True, team_size=3)) as http:
        answer = await http.post("/v2/rerank", json=ASKED)
    scores = [each["relevance_score"] for each in answer.json()["results"]]
    assert [each["index"] for each in answer.json()["results"]] == [1, 0, 2]
    assert scores == pytest.approx([1, 2 / 3, 1 / 3])
    assert "scores are by rank" in answer.json()["meta"]["warnings"][0]


async def test_reasons_of_failed_comparisons_name_no_address() -> None:
    def odd(request: ChatRequest) -> str:
        if request.tag.persona == TEAM[2]:
            raise RequestRejected("http://10.0.0.7:8000 does not want this")
        return by_orders(dict.fromkeys(TEAM, "bac"))(request)

    model, _ = comparing_team(odd)
    async with client(one(model, team_size=3)) as http:
        answer = await http.post("/v1/rank", json=ASKED)
        page = await http.get(f"/v1/explain/{answer.json()['id']}")
    ranking = answer.json()["ranking"]
    assert answer.json()["notes"] == ["left out: 1 of 3 judges gave no order"]
    assert ranking["orders"][TEAM[2]]["left_out"] == "[address] does not want this"
    assert ranking["comparisons"]["reason"] == "[address] does not want this"
    assert "10.0.0.7" not in answer.text + page.text
    assert "gave no order" in page.text


def test_events_name_the_persona() -> None:
    event = PassagesCompared("q", ("b", "a"), failed=False, done=1, total=2, persona="Nurse")
    data = {"persona": "Nurse", "doc_ids": ("b", "a"), "failed": False, "done": 1, "total": 2}
    assert event_data(event) == ("passages_compared", data)


def test_rank_scores_is_a_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('[rankers.list]\nranker = "rankgpt"\nrank_scores = true\n')
    assert load_settings(file).rankers[0].rank_scores
    file.write_text('[rankers.list]\nranker = "rankgpt"\nrank_scores = "yes"\n')
    with pytest.raises(ConfigError, match="rank_scores"):
        load_settings(file)
