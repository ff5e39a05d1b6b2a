"""Documents that no judge scored, and rankers that compare, before clients that need numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import ChatRequest, ConfigError, RequestRejected, ScriptedChat, ServerFailed
from mcranker.serve import RankerSettings, Settings
from mcranker.serve.settings import load_settings
from tests.support.comparing import comparing
from tests.support.comparing_team import TEAM, by_orders, comparing_team
from tests.support.serving import by_place, client, model

ASKED = {"query": "best masks", "documents": ["mask a", "mask b", "mask c"]}
Numbers = list[float | None]


def one(
    chat: ScriptedChat, ranker: str = "rankgpt", *, unscored: Any = "falling", **options: Any
) -> Settings:
    chosen = {"model": chat, "ledger": None, **options}
    return Settings(rankers=(RankerSettings("r", ranker, chosen, ("*",), unscored=unscored),))


async def asked(service: Settings, **more: Any) -> tuple[list[int], Numbers, dict[str, Any], Any]:
    """Places and numbers of the documents, the meta, and the answer."""
    async with client(service) as http:
        answer = await http.post("/v2/rerank", json={**ASKED, **more})
    body = answer.json()
    results = body.get("results", [])
    places = [each["index"] for each in results]
    return places, [each["relevance_score"] for each in results], body.get("meta", {}), answer


def down(_: ChatRequest) -> str:
    raise ServerFailed("http://10.0.0.7:8000 is down", model="openai:m")


async def slow_for_two(request: ChatRequest) -> str:
    """Scores the first document alone."""
    if request.tag.doc_id != "0":
        await anyio.sleep_forever()
    return by_place(request)


async def never(_: ChatRequest) -> str:
    await anyio.sleep_forever()
    return ""


# Nothing was judged


async def test_a_failed_ranking_gives_small_numbers_in_the_order_as_given() -> None:
    service = one(model(down), "mcranker", on_failure="keep_order")
    places, numbers, meta, answer = await asked(service)
    assert places == [0, 1, 2]
    # 0.01 * 3/3, 2/3, 1/3
    assert numbers == pytest.approx([0.01, 0.02 / 3, 0.01 / 3])
    assert (meta["relevance"], meta["unscored"]) == ("input_order", 3)
    assert meta["warnings"] == [
        "the model failed: the order is the one that was given",
        "no document was scored: scores fall from 0.01 in the order as given",
    ]
    assert answer.headers["x-unscored"] == "3"
    assert "no document was scored" in answer.headers["x-notes"]
    assert "10.0.0.7" not in answer.text


@pytest.mark.parametrize("ranker", ["mcranker", "rankgpt"])
async def test_so_does_one_that_comes_too_late(ranker: str) -> None:
    service = one(ScriptedChat(never), ranker)
    _, numbers, meta, answer = await asked(service, timeout=0.05)
    assert numbers == pytest.approx([0.01, 0.02 / 3, 0.01 / 3])
    assert meta["relevance"] == "input_order"
    assert answer.headers["x-partial"] == "deadline"


async def test_where_no_reply_can_be_read_there_is_no_order_either() -> None:
    _, numbers, meta, _ = await asked(one(model(lambda _: "?"), "mcranker"))
    assert meta["relevance"] != "by_rank"
    assert max(each for each in numbers if each is not None) <= 0.01


async def test_null_is_left_to_clients_that_can_read_it() -> None:
    service = one(model(down), "mcranker", on_failure="keep_order", unscored="null")
    places, numbers, meta, _ = await asked(service)
    assert (places, numbers) == ([0, 1, 2], [None] * 3)
    assert meta["warnings"][1] == "no document was scored: null"


async def test_or_the_request_fails() -> None:
    service = one(model(down), "mcranker", on_failure="keep_order", unscored="error")
    *_, answer = await asked(service)
    assert answer.status_code == 503
    assert answer.json()["error"]["retryable"]
    assert answer.headers["retry-after"] == "1"


# Some were not judged


@pytest.mark.parametrize(
    ("unscored", "expected"), [("falling", [0.1, 0.1, 0.1]), ("null", [0.1, None, None])]
)
async def test_unscored_documents_among_others(unscored: str, expected: Numbers) -> None:
    service = one(model(slow_for_two), "mcranker", unscored=unscored)
    places, numbers, meta, answer = await asked(service, timeout=0.3)
    assert places == [0, 1, 2]
    assert numbers == [each and pytest.approx(each) for each in expected]
    assert (meta["relevance"], meta["unscored"]) == ("absolute", 2)
    assert meta["warnings"][0] == "partial: the deadline came before all scores"
    assert "2 documents were not scored" in meta["warnings"][-1]
    assert answer.headers["x-unscored"] == "2"
    async with client(service) as http:
        whole = await http.post("/v1/rank", json={**ASKED, "timeout": 0.3})
    assert whole.headers["x-unscored"] == "2"
    hits = whole.json()["ranking"]["hits"]
    assert [hit["score"] is None for hit in hits] == [False, True, True]


async def test_what_top_k_left_out_keeps_its_place_in_the_order() -> None:
    """Clients that sort by the number have the order of the ranking."""
    service = one(model(), "mcranker", top_k=1)
    documents = [f"text {number}" for number in range(8)]
    places, numbers, meta, _ = await asked(service, documents=documents)
    assert meta["unscored"] > 0
    known = [each for each in numbers if each is not None]
    assert len(known) == len(documents)
    assert known == sorted(known, reverse=True)
    assert places[0] == 7


# Rankers that compare


async def test_an_order_is_answered_by_numbers_that_fall_with_the_rank() -> None:
    service = one(comparing(lambda _: "[3] > [1] > [2]")[0])
    places, numbers, meta, answer = await asked(service)
    assert places == [2, 0, 1]
    assert numbers == pytest.approx([1, 2 / 3, 1 / 3])
    assert (meta["relevance"], meta["unscored"]) == ("by_rank", 0)
    assert "scores are by rank" in meta["warnings"][0]
    assert "scores are by rank" in answer.headers["x-notes"]


async def test_a_team_that_compares_has_no_absolute_relevance_either() -> None:
    orders = by_orders(dict(zip(TEAM, ("bac", "bac", "bca"), strict=True)))
    service = one(comparing_team(orders)[0], team_size=3)
    places, numbers, meta, _ = await asked(service)
    assert places == [1, 0, 2]
    assert numbers == pytest.approx([1, 2 / 3, 1 / 3])
    assert meta["relevance"] == "by_rank"


async def test_documents_beyond_the_depth_get_the_lowest() -> None:
    service = one(comparing(lambda _: "[2] > [1]")[0], depth=2)
    places, numbers, meta, _ = await asked(service)
    assert (places, numbers) == ([1, 0, 2], [1, 0.5, 0.5])
    assert meta["unscored"] == 1
    assert "1 document was not scored: the lowest score is used" in meta["warnings"]


@pytest.mark.parametrize("route", ["/v2/rerank", "/v1/rerank", "/rerank"])
async def test_the_operator_may_refuse_to_make_numbers_up(route: str) -> None:
    chat, seen = comparing(lambda _: "[3] > [1] > [2]")
    body = {"query": "q", "texts": ["a", "b"]} if route == "/rerank" else ASKED
    async with client(one(chat, unscored="error")) as http:
        answer = await http.post(route, json=body)
        whole = await http.post("/v1/rank", json=ASKED)
    assert answer.status_code == (422 if route == "/rerank" else 400)
    assert "gives an order without scores" in answer.text
    assert "unscored = 'falling'" in answer.text
    assert whole.json()["returned"] == ["2", "0", "1"]
    assert len(seen) == 1


async def test_reasons_of_failed_comparisons_name_no_address() -> None:
    def odd(request: ChatRequest) -> str:
        if request.tag.persona == TEAM[2]:
            raise RequestRejected("http://10.0.0.7:8000 does not want this")
        return by_orders(dict.fromkeys(TEAM, "bac"))(request)

    chat, _ = comparing_team(odd)
    async with client(one(chat, team_size=3)) as http:
        answer = await http.post("/v1/rank", json=ASKED)
        page = await http.get(f"/v1/explain/{answer.json()['id']}")
    ranking = answer.json()["ranking"]
    assert answer.json()["meta"]["warnings"] == ["1 of 3 judges gave no order and were left out"]
    assert ranking["orders"][TEAM[2]]["left_out"] == "[address] does not want this"
    assert ranking["comparisons"]["reason"] == "[address] does not want this"
    assert "10.0.0.7" not in answer.text + page.text
    assert "gave no order" in page.text


# Who judged


@pytest.mark.local_model
async def test_a_weak_judge_is_named() -> None:
    ranker = RankerSettings(
        "r", options={"model": "local:minilm", "ledger": None, "team": "clinician"}
    )
    async with client(Settings(rankers=(ranker,))) as http:
        answer = await http.post("/v1/rerank", json=ASKED)
        own = await http.post("/v1/rank", json=ASKED)
    for meta in (answer.json()["meta"], own.json()["meta"]):
        assert meta["judged_by"] == ["local:minilm"]
        assert meta["warnings"] == [
            "Judged by local:minilm, an encoder: compares meaning, does not reason"
        ]
    assert "does not reason" in answer.headers["x-notes"]


def test_the_file_says_what_unscored_documents_get(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('[rankers.list]\nranker = "rankgpt"\nunscored = "null"\n')
    assert load_settings(file).rankers[0].unscored == "null"
    file.write_text('[rankers.list]\nranker = "rankgpt"\nunscored = "zero"\n')
    with pytest.raises(ConfigError, match="unscored"):
        load_settings(file)
