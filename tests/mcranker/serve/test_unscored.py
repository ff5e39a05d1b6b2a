"""Documents that no judge scored, and rankers that compare, before clients that need numbers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcranker import ChatRequest, RequestRejected, ScriptedChat, ServerFailed
from mcranker.serve import RankerSettings, Settings
from tests.support.comparing import comparing, shown_in
from tests.support.serving import by_place, client, model

ASKED = {"query": "best masks", "documents": ["mask a", "mask b", "mask c"]}
Numbers = list[float | None]


def one(
    chat: ScriptedChat,
    ranker: str = "rankgpt",
    *,
    unscored: Any = "falling",
    fail_open: float | None = None,
    **options: Any,
) -> Settings:
    chosen = {"model": chat, "ledger": None, **options}
    return Settings(
        rankers=(
            RankerSettings(
                name="r",
                ranker=ranker,
                options=chosen,
                names=("*",),
                unscored=unscored,
                fail_open=fail_open,
            ),
        )
    )


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


SMALL = [0.01, 0.02 / 3, 0.01 / 3]  # 0.01 * 3/3, 2/3, 1/3
BY_RANK: Numbers = [1, 2 / 3, 1 / 3]
FAILED = "the model failed: input order kept"
LATE = "partial: the deadline came before all scores"
KEPT: dict[str, Any] = {"on_failure": "keep_order"}
MADE_UP = "no document was scored: scores fall from 0.01 in input order"
OPEN = MADE_UP.replace("0.01", "0.9")
ORDER = "the ranker gives an order, no relevance: scores are by rank, 1 for the first"
ONE = "1 document was not scored: the lowest score is used"
TWO = "2 documents were not scored: the lowest score is used"
THIRD = comparing(lambda _: "[3] > [1] > [2]")[0]
SECOND = comparing(lambda _: "[2] > [1]")[0]


@pytest.mark.parametrize(
    ("service", "seconds", "places", "numbers", "relevance", "unscored", "said"),
    [
        (
            one(model(down), "mcranker", **KEPT),
            9,
            "012",
            SMALL,
            "input_order",
            3,
            [FAILED, MADE_UP],
        ),
        (
            one(model(down), "mcranker", unscored="null", **KEPT),
            *(9, "012", [None] * 3, "input_order", 3, [FAILED, "no document was scored: null"]),
        ),
        (
            one(model(down), "mcranker", fail_open=0.9),  # 0.9 * 3/3, 2/3, 1/3
            *(9, "012", [0.9, 0.6, 0.3], "input_order", 3, [FAILED, OPEN]),
        ),
        (one(ScriptedChat(never), "mcranker"), 0.05, "012", SMALL, "input_order", 3, [MADE_UP]),
        (one(ScriptedChat(never)), 0.05, "012", SMALL, "input_order", 3, [MADE_UP]),
        (one(model(slow_for_two), "mcranker"), 0.3, "012", [0.1] * 3, "absolute", 2, [LATE, TWO]),
        (
            one(model(slow_for_two), "mcranker", unscored="null"),
            *(0.3, "012", [0.1, None, None], "absolute", 2, [LATE]),
        ),
        # Rankers that compare.
        (one(THIRD), 9, "201", BY_RANK, "by_rank", 0, [ORDER]),
        (one(SECOND, depth=2), 9, "102", [1, 0.5, 0.5], "by_rank", 1, [ORDER, ONE]),
    ],
)
async def test_documents_without_a_score(
    service: Settings,
    seconds: float,
    places: str,
    numbers: Numbers,
    relevance: str,
    unscored: int,
    said: list[str],
) -> None:
    found, given, meta, answer = await asked(service, timeout=seconds)
    assert found == [int(each) for each in places]
    assert given == [each and pytest.approx(each) for each in numbers]
    assert (meta["relevance"], meta["unscored"]) == (relevance, unscored)
    assert [each for each in meta["warnings"] if each in said] == said
    assert all(each in answer.headers["x-notes"] for each in said)
    assert answer.headers.get("x-unscored") == (str(unscored) if unscored else None)
    assert ("x-partial" in answer.headers) == (seconds < 1)
    assert "10.0.0.7" not in answer.text


async def test_a_whole_ranking_has_no_numbers_that_are_made_up() -> None:
    async with client(one(model(slow_for_two), "mcranker")) as http:
        whole = await http.post("/v1/rank", json={**ASKED, "timeout": 0.3})
    assert whole.headers["x-unscored"] == "2"
    hits = whole.json()["ranking"]["hits"]
    assert [hit["score"] is None for hit in hits] == [False, True, True]


@pytest.mark.parametrize("route", ["/v2/rerank", "/rerank"])
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
        if "mask c" in shown_in(request).values():
            raise RequestRejected("http://10.0.0.7:8000 does not want this")
        return "[2] > [1]"

    chat, _ = comparing(odd)
    async with client(one(chat, window=2, step=1)) as http:
        answer = await http.post("/v1/rank", json=ASKED)
        page = await http.get(f"/v1/explain/{answer.json()['id']}")
    ranking = answer.json()["ranking"]
    assert ranking["comparisons"]["reason"] == "[address] does not want this"
    assert "10.0.0.7" not in answer.text + page.text


# Who judged


@pytest.mark.local_model
async def test_a_weak_judge_is_named() -> None:
    ranker = RankerSettings(
        name="r", options={"model": "local:minilm", "ledger": None, "team": "clinician"}
    )
    async with client(Settings(rankers=(ranker,))) as http:
        answer = await http.post("/v1/rerank", json=ASKED)
        own = await http.post("/v1/rank", json=ASKED)
    for meta in (answer.json()["meta"], own.json()["meta"]):
        assert meta["judged_by"] == ["local:minilm"]
        assert meta["warnings"] == [
            "Judged by local:minilm, an encoder: compares meaning, does not reason. It does not "
            "read criteria; with a model that reasons they decide"
        ]
    assert "does not reason" in answer.headers["x-notes"]
