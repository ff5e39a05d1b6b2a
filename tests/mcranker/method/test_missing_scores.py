"""Scores that cannot be had: asked for again, then missing with the reason, never made up."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest, MCRanker, MissingScoreError, ReplyError, ScriptedChat
from tests.support.scripted import RUBRIC, scripted

DOCS = {"p1": "one", "p2": "two", "p3": "three", "p4": "four", "p5": "five"}
SCIENTIST = "NLP scientist"


def test_an_unreadable_score_is_asked_for_once_more_then_missing_with_its_reason() -> None:
    calls: list[ChatRequest] = []

    def score(request: ChatRequest) -> str:
        if request.tag.doc_id != "p2":
            return '{"Score": 6}'
        calls.append(request)
        return "I would say quite relevant"

    ranking = MCRanker(team_size=1, model=scripted(score)).rank("q", DOCS)

    assert len(calls) == 2
    roles = [message.role for message in calls[1].messages]
    assert roles == ["user", "assistant", "user"]
    assert calls[1].messages[1].content == "I would say quite relevant"
    (missing,) = ranking.missing
    assert (missing.doc_id, missing.persona) == ("p2", SCIENTIST)
    assert "quite relevant" in missing.reason
    hit = next(hit for hit in ranking if hit.doc_id == "p2")
    assert hit.scores == {SCIENTIST: None}
    assert (hit.score, hit.rank) == (None, len(DOCS))


def test_the_repair_turn_can_save_a_score() -> None:
    def score(request: ChatRequest) -> str:
        return '{"Score": 8}' if len(request.messages) > 1 else "eight"

    ranking = MCRanker(team_size=1, model=scripted(score)).rank("q", ["a"])
    assert ranking[0].score == 8.0
    assert not ranking.missing
    assert ranking.usage.calls == 1 + 2


def test_missing_policies() -> None:
    def score(request: ChatRequest) -> str:
        if request.tag.persona == SCIENTIST and request.tag.doc_id == "p1":
            return "?"
        return '{"Score": 6}'

    def first(**options: Any) -> float | None:
        ranking = MCRanker(team_size=3, model=scripted(score), repair_attempts=0, **options).rank(
            "q", DOCS
        )
        return next(hit.score for hit in ranking if hit.doc_id == "p1")

    assert first() == 6 + 6 + 6  # the mean of the team's other scores stands in
    assert first(missing_policy="lowest") == 0 + 6 + 6
    assert first(missing_policy="constant", missing_constant=5) == 5 + 6 + 6
    with pytest.raises(MissingScoreError, match="1 of 15 scores"):
        first(missing_policy="fail")


class Naming:
    """A model whose recruiter names these, one list after the other, and the last for ever."""

    def __init__(self, *named: Sequence[str]) -> None:
        self.named = named
        self.asked: list[ChatRequest] = []
        self.model = ScriptedChat(self._answer)

    def _answer(self, request: ChatRequest) -> str:
        match request.tag.stage:
            case "recruit":
                self.asked.append(request)
                names = self.named[min(len(self.asked), len(self.named)) - 1]
                return json.dumps({"Identities": list(names), "Reason": ""})
            case "criteria":
                return RUBRIC
            case _:
                return '{"Score": 5}'


def test_who_lacks_is_asked_for_once_more() -> None:
    naming = Naming(["Nurse"], ["Nurse", "Teacher"])
    ranking = MCRanker(model=naming.model, ledger=None).rank("masks", ["a", "b"])
    assert ranking.personas[1:] == ("Nurse", "Teacher")
    assert ranking.unfilled == 0
    first, second = (request.messages[0].content for request in naming.asked)
    assert "Name at most 2 of them" in first
    assert "Name at most 1 of them" in second
    assert second.count("so name none of them: NLP scientist; Nurse.") == 1


def test_a_team_that_stays_short_is_told(caplog: pytest.LogCaptureFixture) -> None:
    naming = Naming(["Nurse"])
    with caplog.at_level(logging.WARNING, logger="mcranker"):
        ranking = MCRanker(model=naming.model, ledger=None).rank("masks", ["a", "b"])
    assert ranking.personas[1:] == ("Nurse",)
    assert ranking.unfilled == 1
    assert "1 recruits too few" in repr(ranking)
    assert "asked for 2 recruits, got 1" in caplog.text


@pytest.mark.parametrize("kept", [True, False])
def test_a_recruiter_that_cannot_be_read_says_how_to_ask_it_again(
    tmp_path: Path, *, kept: bool
) -> None:
    model = ScriptedChat(lambda _: "nobody")
    ledger = tmp_path / "ledger.sqlite" if kept else None
    with MCRanker(model=model, ledger=ledger) as ranker, pytest.raises(ReplyError) as caught:
        ranker.rank("masks", ["a", "b"])
    assert ("run 'mcranker ledger --remove --unusable'" in str(caught.value)) is kept
