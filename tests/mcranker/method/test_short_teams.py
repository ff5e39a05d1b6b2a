"""Fewer recruits than asked for: asked for once more, then told."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcranker import ChatRequest, MCRanker, ReplyError, ScriptedChat
from tests.support.scripted import RUBRIC


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


def test_without_asking_again_nobody_is_asked_again() -> None:
    naming = Naming(["Nurse"], ["Teacher"])
    with MCRanker(model=naming.model, ledger=None, repair_attempts=0) as ranker:
        assert ranker.rank("masks", ["a", "b"]).unfilled == 1
    assert len(naming.asked) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_recruiter_that_cannot_be_read_says_how_to_ask_it_again(
    tmp_path: Path, *, kept: bool
) -> None:
    model = ScriptedChat(lambda _: "nobody")
    ledger = tmp_path / "ledger.sqlite" if kept else None
    with MCRanker(model=model, ledger=ledger) as ranker, pytest.raises(ReplyError) as caught:
        ranker.rank("masks", ["a", "b"])
    assert ("run 'mcranker ledger --remove --unusable'" in str(caught.value)) is kept
