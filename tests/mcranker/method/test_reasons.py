"""Reasons on demand: a sentence and a quote for each score, asked for after the ranking."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import (
    ChatRequest,
    DirectRanker,
    MCRanker,
    Ranking,
    ScriptedChat,
)
from mcranker.errors import RequestRejected
from mcranker.method.reasons import LONGEST_QUOTE, quoted
from tests.support.scripted import scripted

pytestmark = pytest.mark.anyio

TEAM = ["clinician", "Worried parent"]
NAMES = ["Clinician", "Worried parent"]
DOCS = [
    "N95 masks filter  95% of\nparticles.",
    "The trial found “a small effect”. It had 143 families.",
    "Shares fell on Friday.",
]
Say = Callable[[ChatRequest, int], Any]


def shown(request: ChatRequest) -> int:
    """How many passages a request shows."""
    return len(re.findall(r"^\[\d+\]$", request.messages[-1].content, re.MULTILINE))


def said(*entries: tuple[str, str]) -> dict[str, Any]:
    """A reply's entry for each passage, as quote and reason."""
    return {str(n): {"Quote": q, "Reason": r} for n, (q, r) in enumerate(entries, start=1)}


def of_all(request: ChatRequest, count: int) -> dict[str, Any]:
    return said(*[("", f"{request.tag.persona} on {n} of {count}") for n in range(1, count + 1)])


def model(say: Say = of_all, asked: list[ChatRequest] | None = None) -> ScriptedChat:
    """Scores 9, 8, 7 … in the order given, and says `say` when asked for reasons."""

    def answer(request: ChatRequest) -> str:
        if request.tag.stage != "explain":
            return json.dumps({"Score": 9 - int(request.tag.doc_id)})
        if asked is not None:
            asked.append(request)
        return json.dumps({"Passages": say(request, shown(request))})

    return scripted(answer)


def team(chat: ScriptedChat, **options: Any) -> MCRanker:
    return MCRanker(model=chat, ledger=None, team=TEAM, criteria="library", **options)


async def test_each_persona_gives_a_sentence_and_a_quote_of_the_passage() -> None:
    asked: list[ChatRequest] = []

    def say(request: ChatRequest, count: int) -> dict[str, Any]:
        return said(
            ("filter 95% of particles", "It names\n the filter."),
            ("\"found 'a small effect'.\"", "It reports a trial."),
            ("Shares rose", "It is off topic."),
        )

    async with team(model(say, asked)) as ranker:
        ranking = await ranker.arank("do masks help", DOCS)
        explained = await ranker.aexplain(ranking)
    first, second, third = explained
    assert list(first.reasons) == NAMES
    # The passage's own letters and white space, whatever the model made of them.
    assert first.reasons["Clinician"].text == "It names the filter."
    assert first.reasons["Clinician"].quote == "filter  95% of\nparticles"
    assert second.reasons["Clinician"].quote == "found “a small effect”."
    # What is not in the passage is dropped; the sentence is not.
    assert third.reasons["Clinician"].quote == ""
    assert third.reasons["Clinician"].text == "It is off topic."
    assert explained.false_quotes == 2  # one of each persona
    # One call a persona, with the scores that it gave.
    assert [request.tag.persona for request in asked] == NAMES
    assert "[1] 9 of 10\n[2] 8 of 10\n[3] 7 of 10" in asked[0].messages[-1].content
    # Order and scores stay, and so does the ranking that was given.
    assert explained.ids == ranking.ids
    assert [hit.scores for hit in explained] == [hit.scores for hit in ranking]
    assert not ranking.reasons
    assert explained.usage.calls == ranking.usage.calls + 2
    read = Ranking.from_dict(json.loads(explained.to_json()))
    assert read.reasons == explained.reasons
    assert read.false_quotes == 2
    assert read.to_dict() == explained.to_dict()


async def test_ten_passages_a_call_and_only_those_that_were_scored() -> None:
    asked: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        if request.tag.stage == "explain":
            asked.append(request)
            return json.dumps({"Passages": of_all(request, shown(request))})
        lost = (request.tag.persona, request.tag.doc_id) == ("Clinician", "0")
        return "none" if lost else '{"Score": 5}'

    docs = [f"passage {n}" for n in range(14)]
    async with team(scripted(answer), repair_attempts=0) as ranker:
        ranking = await ranker.arank("q", [*docs, docs[3]])
        explained = await ranker.aexplain(ranking, 13)
        counts: dict[str, list[int]] = {name: [] for name in NAMES}
        for request in asked:
            counts[request.tag.persona].append(shown(request))
    # Of 13 hits (ties are in first-stage order) two say the same: passages 0 to 12, or one less.
    distinct = len({hit.text for hit in ranking[:13]})
    assert {name: sum(each) for name, each in counts.items()} == {
        "Clinician": distinct - ("passage 0" in {hit.text for hit in ranking[:13]}),
        "Worried parent": distinct,
    }
    assert all(max(each) == 10 and len(each) == 2 for each in counts.values())
    scored = [(hit.index, name) for hit in ranking[:13] for name in NAMES if hit.scores[name]]
    assert sorted(explained.reasons) == sorted(scored)


async def test_what_a_reply_leaves_out_is_asked_for_once_more() -> None:
    asked: list[ChatRequest] = []

    def say(request: ChatRequest, count: int) -> dict[str, Any]:
        entries = of_all(request, count)
        return {"1": entries["1"], "7": entries["1"]} if count > 1 else entries

    async with DirectRanker(model=model(say, asked), ledger=None) as ranker:
        explained = await ranker.aexplain(await ranker.arank("q", DOCS[:2]))
    assert [shown(request) for request in asked] == [2, 1]
    assert [hit.reasons["DIRECT"].text for hit in explained] == [
        "DIRECT on 1 of 2",
        "DIRECT on 1 of 1",
    ]


async def test_a_call_that_fails_is_made_again_in_halves() -> None:
    asked: list[int] = []

    def say(request: ChatRequest, count: int) -> dict[str, Any]:
        asked.append(count)
        if count > 1:
            raise RequestRejected("too long", model="m")
        return of_all(request, count)

    async with DirectRanker(model=model(say), ledger=None) as ranker:
        explained = await ranker.aexplain(await ranker.arank("q", DOCS))
    assert asked == [3, 2, 1, 1, 1]
    assert len(explained.reasons) == 3


async def test_the_estimate_counts_the_calls_and_asking_again_is_free(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    options: Mapping[str, Any] = {"team": TEAM, "criteria": "library", "ledger": ledger}
    async with MCRanker(model=model(), **options) as ranker:
        ranking = await ranker.arank("q", DOCS)
        explained = await ranker.aexplain(ranking)
        assert (explained.usage.calls, explained.reused.calls) == (9, 0)
        again = await ranker.aexplain(explained)
        after = await ranker.aestimate("q", DOCS, reasons=3)
        assert (after.calls, after.reused) == (0, 9)
    assert again.reasons == explained.reasons
    assert again.usage.calls == explained.usage.calls
    # The parent's rubric, 3 passages · 2 personas, and a call a persona for the reasons.
    async with MCRanker(model=model(), **{**options, "ledger": None}) as ranker:
        whole = await ranker.aestimate_many([("q", DOCS)], reasons=3)
    assert whole.calls == 1 + 3 * 2 + 2


async def test_the_deadline_ends_it() -> None:
    async def answer(request: ChatRequest) -> str:
        if request.tag.stage == "explain":
            await anyio.sleep_forever()
        return '{"Score": 5}'

    async with DirectRanker(model=ScriptedChat(answer), ledger=None) as ranker:
        ranking = await ranker.arank("q", DOCS)
        explained = await ranker.aexplain(ranking, deadline=0.05)
    assert explained.ids == ranking.ids
    assert not explained.reasons


def test_a_stored_ranking_is_explained_by_the_model_that_it_is_given() -> None:
    with team(model()) as ranker:
        stored = ranker.explain(ranker.rank("q", DOCS)).to_json()
    ranking = Ranking.from_dict(json.loads(stored))
    with DirectRanker(model=model(), ledger=None) as other:
        explained = other.explain(ranking, top=1)
    assert {name: each.text for name, each in explained[0].reasons.items()} == {
        name: f"{name} on 1 of 1" for name in NAMES
    }
    assert len(explained.reasons) == 2  # of the first passage; those that it had are replaced
    assert explained.ids == ranking.ids
    # What was stored is no price of calls that have become more.
    assert {stage for stage, _, _ in ranking.calls.costs} == {"criteria", "score", "explain"}
    assert {stage for stage, _, _ in explained.calls.costs} == {"criteria", "score"}


def test_quotes() -> None:
    assert quoted("b c", "a b\n c d") == "b\n c"
    assert quoted("... b c…", "a b c d") == "b c"
    assert quoted("B c", "a b c d") is None
    assert quoted("b ... d", "a b c d") is None
    assert quoted(" ", "a b c d") == ""
    assert quoted("a.c", "abc") is None
    long = "word " * 100
    assert quoted(long, long) == ("word " * 60).strip()
    assert len(("word " * 60).strip()) == LONGEST_QUOTE - 1
