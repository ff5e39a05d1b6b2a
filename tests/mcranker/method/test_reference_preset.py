"""The preset ``reference`` follows the authors' code where a field can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest, MCRanker, ReplyError, ScriptedChat
from mcranker.llm.ledger.rows import request_key
from tests.support.scripted import RECRUITS, RUBRIC, scripted

DOCS = ["one", "two", "three", "four"]
DBC: dict[str, Any] = {"preset": "reference", "criteria": "dataset", "dataset": "Covid papers"}


class Stumbling:
    """A model whose first answers at one stage cannot be read."""

    def __init__(self, stage: str, unreadable: int) -> None:
        self.requests: list[ChatRequest] = []
        self._stage, self._left = stage, unreadable
        self.model = ScriptedChat(self._answer)

    def _answer(self, request: ChatRequest) -> str:
        if request.tag.stage == self._stage and request.tag.persona in ("", "Virologist"):
            self.requests.append(request)
            if self._left:
                self._left -= 1
                return "I cannot say."
        return {"recruit": RECRUITS, "criteria": RUBRIC}.get(request.tag.stage, '{"Score": 5}')


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ('["Doctor/Nurse", "Worried Parent"]', ("nurse", "worried_parent")),
        ('["Doctor / Head Nurse / Aide", "Parent"]', ("head_nurse", "parent")),
        ('["Doctor/", "Parent"]', ("doctor/", "parent")),
        ('["Doctor/Nurse", "Surgeon/Nurse", "Aide"]', ("nurse", "aide")),
        ('["Chemist/NLP scientist", "Aide"]', ("aide",)),
    ],
)
def test_names_are_what_follows_a_slash(said: str, names: tuple[str, ...]) -> None:
    model = scripted(recruit=f'{{"Identities": {said}, "Reason": "x"}}')
    with MCRanker(model=model, ledger=None, preset="reference") as ranker:
        assert ranker.rank("q", DOCS).personas == ("NLP scientist", *names)


@pytest.mark.parametrize("stage", ["recruit", "criteria"])
def test_the_same_question_is_asked_again_until_it_can_be_read(stage: str) -> None:
    stumbling = Stumbling(stage, 5)
    options: Any = {"snake_case_personas": False, "preset": "reference"}
    with MCRanker(model=stumbling.model, ledger=None, **options) as ranker:
        assert not ranker.rank("q", DOCS).missing
    assert len(stumbling.requests) == 6
    assert len({request.messages for request in stumbling.requests}) == 1
    keys = {request_key(stumbling.model, request) for request in stumbling.requests}
    assert len(keys) == 6, "a ledger would give the same answer again"


def test_at_temperature_0_nothing_is_asked_again() -> None:
    stumbling = Stumbling("recruit", 1000)
    options: Any = {"preset": "reference", "temperature": 0}
    with (
        MCRanker(model=stumbling.model, ledger=None, **options) as ranker,
        pytest.raises(ReplyError),
    ):
        ranker.rank("q", DOCS)
    assert len(stumbling.requests) == 1


def test_asking_again_finds_every_answer_in_the_ledger_again(tmp_path: Path) -> None:
    for unreadable in (3, 0):
        stumbling = Stumbling("recruit", unreadable)
        with MCRanker(
            model=stumbling.model, ledger=tmp_path / "l.sqlite", preset="reference"
        ) as ranker:
            personas = ranker.rank("q", DOCS).personas
        assert personas == ("NLP scientist", "virologist", "worried_parent")
    assert stumbling.requests == []


def test_one_team_is_recruited_for_a_data_set(tmp_path: Path) -> None:
    requests: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        requests.append(request)
        return {"recruit": RECRUITS, "criteria": RUBRIC}.get(request.tag.stage, '{"Score": 5}')

    queries = [(f"query {number}", [f"{number} a", f"{number} b"]) for number in range(5)]
    with MCRanker(
        model=ScriptedChat(answer), ledger=tmp_path / "l.sqlite", query_concurrency=5, **DBC
    ) as ranker:
        rankings = list(ranker.rank_many(queries))
    assert len(rankings) == 5
    (recruit,) = [request for request in requests if request.tag.stage == "recruit"]
    text = recruit.messages[0].content
    assert "Covid papers" in text
    assert "query" not in text.partition("<<<")[2].lower()
    assert len([request for request in requests if request.tag.stage == "criteria"]) == 3


def test_the_team_stays_where_an_answer_would_differ() -> None:
    """Without a ledger, and with a model that names others each time."""
    names = iter(f'{{"Identities": ["A{n}", "B{n}"], "Reason": "x"}}' for n in range(100))

    def answer(request: ChatRequest) -> str:
        if request.tag.stage == "recruit":
            return next(names)
        return RUBRIC if request.tag.stage == "criteria" else '{"Score": 5}'

    queries = [(f"query {number}", [f"{number} a"]) for number in range(6)]
    with MCRanker(model=ScriptedChat(answer), ledger=None, query_concurrency=3, **DBC) as ranker:
        teams = {found.ranking.personas for found in ranker.rank_many(queries) if found.ranking}
    assert len(teams) == 1
