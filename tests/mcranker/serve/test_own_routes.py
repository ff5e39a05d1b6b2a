"""The service's own routes: whole rankings, their events and pages, teams, options a request."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcranker import (
    Capabilities,
    ChatRequest,
    Ranking,
    ScriptedChat,
)
from mcranker.serve import RankerSettings, Settings, hash_key
from mcranker.serve.events import MOST_KEPT, EventQueue
from mcranker.serve.results import discreet
from personas import library
from tests.support.serving import KEY, by_place, client, model, settings, with_reasons

ASKED = {"query": {"text": "best masks", "id": "q1"}, "documents": ["cloth", "surgical"]}
NAMES = ("NLP scientist", "Virologist", "Worried parent")


async def rank(service: Settings | None = None, **fields: Any) -> httpx.Response:
    """The answer to a ranking with these fields."""
    async with client(service) as http:
        return await http.post("/v1/rank", json={**ASKED, **fields})


async def test_rank_returns_all_that_a_ranking_holds() -> None:
    body = (await rank()).json()
    ranking = Ranking.from_dict(body["ranking"])
    assert ranking.ids == body["returned"] == ["1", "0"]
    assert ranking.query.id == "q1"
    assert ranking.team is not None
    assert ranking.team.names == NAMES
    assert ranking[0].scores == dict.fromkeys(NAMES, 2.0)
    assert "warnings" not in body["meta"]
    assert body["meta"]["judged_by"] == ["scripted:tests"]
    assert (body["meta"]["relevance"], body["meta"]["unscored"]) == ("absolute", 0)


async def test_documents_are_what_rankers_take() -> None:
    documents = [{"_id": "3", "title": "Cloth", "text": "cloth"}, {"_id": "4", "text": "N95"}]
    given: list[Any] = [documents, {"5": "a"}, [], documents[:1] * 2]
    records, mapping, none, twice = [await rank(documents=each) for each in given]
    assert records.json()["returned"] == ["4", "3"]
    assert mapping.json()["returned"] == ["5"]
    assert none.json()["returned"] == []
    assert twice.status_code == 400
    assert "two passages have the id '3'" in twice.json()["error"]["message"]


async def test_top_n_and_min_relevance_say_what_is_returned() -> None:
    first, good = await rank(top_n=1), await rank(min_relevance=0.15)
    assert first.json()["returned"] == good.json()["returned"] == ["1"]
    assert len(first.json()["ranking"]["hits"]) == 2
    assert (await rank(min_relevance=True)).status_code == 400


async def test_reasons_are_given_where_a_request_asks_for_them() -> None:
    documents = {"query": "best masks", "documents": ["cloth", "surgical"]}
    reasons = {"text": "It names one.", "quote": "surgical", "kind": "said"}
    async with client(score=with_reasons) as http:
        whole = (await http.post("/v1/rank", json={**ASKED, "reasons": 1})).json()
        rerank = (await http.post("/v1/rerank", json={**documents, "reasons": 1})).json()
        plain = (await http.post("/v1/rerank", json=documents)).json()
        wrong = await http.post("/v1/rank", json={**ASKED, "reasons": -1})
    assert whole["ranking"]["hits"][0]["reasons"] == dict.fromkeys(NAMES, reasons)
    assert "reasons" not in whole["ranking"]["hits"][1]
    assert rerank["results"][0]["reasons"] == dict.fromkeys(NAMES, reasons)
    assert "reasons" not in rerank["results"][1]
    assert [each["relevance_score"] for each in rerank["results"]] == [
        each["relevance_score"] for each in plain["results"]
    ]
    assert "reasons" not in plain["results"][0]
    assert wrong.status_code == 400


async def test_reasons_that_fail_leave_the_ranking_and_a_warning() -> None:
    def speechless(request: ChatRequest) -> str:
        return by_place(request) if request.tag.stage == "score" else "I do not know."

    body = (await rank(settings(speechless), reasons=2)).json()
    assert body["returned"] == ["1", "0"]
    assert body["meta"]["warnings"] == ["no reason arrived"]
    typed = ScriptedChat(lambda _: "", capabilities=Capabilities(prompts=False, max_questions=9))
    ranker = RankerSettings(
        name="direct", ranker="direct", options={"model": typed, "ledger": None}
    )
    refused = await rank(Settings(rankers=(ranker,)), reasons=2)
    assert refused.status_code == 400
    assert "answers no prompts" in refused.json()["error"]["message"]


async def test_options_are_chosen_where_the_operator_lets_requests() -> None:
    team = library.team(library.team_names()[0])
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({"team_size": 1}, ["NLP scientist"]),
        ({"team_size": 1}, ["NLP scientist"]),  # the same variant
        ({"team": team.model_dump(mode="json")}, list(team.names)),
        ({"team": "clinician"}, [library.member("clinician").name]),
    ]
    async with client(settings(per_request=("team_size", "team"))) as http:
        for options, personas in expected:
            answer = await http.post("/v1/rank", json={**ASKED, "options": options})
            assert answer.json()["ranking"]["personas"] == personas


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scale": 5}, "'scale' cannot be chosen"),
        ({"team_size": 0}, "team_size must be at least 1"),
        ({"team": "/etc/passwd"}, "no team"),
        ({"team": {"members": []}}, "team.members"),
        ({"team": ["a"]}, "team"),
    ],
)
async def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    answer = await rank(settings(per_request=("team_size", "team")), options=options)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


async def test_variants_share_the_budget() -> None:
    # A recruiter, two rubrics and six scores are 9 calls; with one persona it is two scores.
    service = settings(per_request=("team_size",), options={"max_calls": 10})
    async with client(service) as http:
        first = await http.post("/v1/rank", json=ASKED)
        second = await http.post("/v1/rank", json={**ASKED, "options": {"team_size": 1}})
    assert first.status_code == 200
    assert second.status_code == 503
    assert "spent" in second.json()["error"]["message"]


async def test_events_come_while_it_is_ranked_and_then_the_ranking() -> None:
    async with client(score=with_reasons) as http:
        answer = await http.post("/v1/rank/stream", json={**ASKED, "reasons": 1})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [event async for event in _events(answer)]
    names = [name for name, _ in events]
    assert (names[0], names[-1]) == ("ranking_started", "ranking_done")
    kinds = ("rubric_written", "passage_scored", "ranking_done")
    assert [names.count(each) for each in kinds] == [3, 6, 1]
    assert events[-1][1]["returned"] == ["1", "0"]
    assert events[-1][1]["ranking"]["hits"][0]["reasons"]
    assert [data["done"] for name, data in events if name == "passage_scored"] == [1, 2, 3, 4, 5, 6]


async def test_a_stream_that_fails_says_so_at_its_end_or_by_its_status() -> None:
    def broken(_: ChatRequest) -> str:
        raise RuntimeError("secret-of-the-operator")

    async with client(settings(broken)) as http:
        late = await http.post("/v1/rank/stream", json=ASKED)
        early = await http.post("/v1/rank/stream", json={"query": "", "documents": ["a"]})
    events = [event async for event in _events(late)]
    assert events[-1][0] == "error"
    assert events[-1][1]["error"]["code"] == "internal"
    assert "secret" not in late.text
    assert early.status_code == 400


async def test_pages_are_those_of_the_key_that_asked_and_of_the_latest_rankings() -> None:
    other = "mcr_another-key-0123456789"
    keys = {"a": hash_key(KEY), "b": hash_key(other)}
    service = settings(keys=keys, limits={"explanations": 2})
    mine = {"Authorization": f"Bearer {KEY}"}
    async with client(service) as http:
        ids = [
            (await http.post("/v1/rank", json=ASKED, headers=mine)).json()["id"] for _ in range(3)
        ]
        found = [(await http.get(f"/v1/explain/{each}", headers=mine)).status_code for each in ids]
        theirs = await http.get(
            f"/v1/explain/{ids[2]}", headers={"Authorization": f"Bearer {other}"}
        )
        page = await http.get(f"/v1/explain/{ids[2]}", auth=("", KEY))
    assert found == [404, 200, 200]
    assert theirs.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "best masks" in page.text


async def test_a_ranker_is_found_by_a_pattern() -> None:
    options = {"model": model(), "ledger": None}
    rankers = (
        RankerSettings(name="team", options=options),
        RankerSettings(name="saved", options=options, names=("s-*",)),
    )
    answer = await rank(Settings(rankers=rankers), ranker="s-1")
    assert answer.json()["ranker"] == "saved"


async def test_paths_of_the_operator_are_not_in_a_ranking(tmp_path: Path) -> None:
    folder = tmp_path / "wording"
    shutil.copytree(str(resources.files("personas").joinpath("prompts", "paper")), folder)
    async with client(settings(options={"prompts": str(folder)})) as http:
        answer = await http.post("/v1/rank", json=ASKED)
        page = await http.get(f"/v1/explain/{answer.json()['id']}")
    assert answer.json()["ranking"]["config"]["prompts"] == "wording"
    assert str(tmp_path) not in answer.text + page.text


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no server at http://10.0.0.7:8000/v1; see", "no server at [address] see"),
        ("cannot connect to vllm.internal:8000", "cannot connect to [address]"),
        ("10.1.2.3 refused, [::1]:80 too", "[address] refused, [address] too"),
        ("no GPU on gpu7.corp.internal", "no GPU on [address]"),
        ("'/srv/models/a.gguf' is no model", "'[path]' is no model"),
        ("C:\\models\\a.gguf and ~/models/a", "[path] and [path]"),
        ("the score 3/10 is not 0 to 10; yes/no", "the score 3/10 is not 0 to 10; yes/no"),
        ("deadline", "deadline"),
    ],
)
def test_messages_about_models_name_no_address_and_no_path(message: str, said: str) -> None:
    assert discreet(message) == said


async def _events(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    for block in answer.text.split("\n\n"):
        if block and not block.startswith(":"):
            name, data = block.split("\n")
            yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def test_a_slow_reader_misses_scores_and_nothing_else() -> None:
    queue = EventQueue()
    queue.put("ranking_started", {})
    for number in range(MOST_KEPT):
        queue.put("passage_scored", {"done": number})
    queue.put("ranking_done", {})
    queue.end()
    lines = [line async for line in queue.lines()]
    # The last score came when the queue was full of the others, and all but it were left out.
    assert [line.split(b"\n")[0] for line in lines] == [
        b"event: left_out",
        b"event: ranking_started",
        b"event: passage_scored",
        b"event: ranking_done",
    ]
    assert b'{"events":%d}' % (MOST_KEPT - 1) in lines[0]
