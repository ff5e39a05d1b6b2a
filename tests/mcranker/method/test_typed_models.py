"""Models that answer typed questions and no prompts, in every role."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcranker import DirectRanker, MCRanker
from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.chat import Answer, Capabilities, ChatReply, ChatRequest, Question
from mcranker.llm.scripted import ScriptedChat
from personas import Criterion, Member, Persona, Rubric

CRITERIA = (Criterion(name="Safe", weight=75), Criterion(name="Cheap", weight=25))
NURSE = Member(persona=Persona(name="Nurse"), rubric=Rubric(criteria=CRITERIA))
PARENT = Member(persona=Persona(name="Parent"))
DOCS = {"a": "first", "b": "second"}


def chance(question: Question, passage: str) -> float:
    """By the judge, and by the passage."""
    assert question.judge is not None
    likely = {"Nurse": 0.8, "Parent": 0.2, "": 0.6}.get(question.judge.name, 0.4)
    return likely if passage == "first" else likely / 2


class Typed:
    """A model that answers typed questions, and keeps the requests."""

    def __init__(self, capabilities: Capabilities | None = None) -> None:
        self.asked: list[ChatRequest] = []
        self.model = ScriptedChat(
            self._reply,
            name="typed:one",
            capabilities=capabilities or Capabilities(prompts=False, max_questions=100),
        )

    def _reply(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        assert request.state is not None
        return ChatReply("", answers=tuple(self._one(each, request) for each in request.questions))

    def _one(self, question: Question, request: ChatRequest) -> Answer:
        if question.kind == "choice":
            names = [option.name for option in question.options]
            wanted = [{"Virologist": 0.6, "Parent": 0.3}.get(name, 0.0) for name in names]
            rest = (1 - sum(wanted)) / len(names)
            return Answer(0.0, probabilities=tuple(each + rest for each in wanted))
        assert request.state is not None
        return Answer(question.top * chance(question, request.state.passages[question.passage]))


def rank(typed: Typed, **options: Any) -> Any:
    with MCRanker(model=typed.model, **{"team": [NURSE, PARENT], **options}) as ranker:
        return ranker.rank("query", DOCS)


def test_a_persona_without_a_rubric_judges_by_its_name_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "mcranker"):
        ranking = rank(Typed())
    assert "'Parent' has no rubric, and typed:one writes none; it judges by its name" in caplog.text
    assert ranking[0].scores == {"Nurse": pytest.approx(8.0), "Parent": pytest.approx(2.0)}
    assert [member.rubric is None for member in ranking.team.members] == [False, True]


def test_scores_by_criterion_need_a_rubric() -> None:
    with pytest.raises(UnsupportedCapability, match=r"'Parent' has no rubric.*criteria_model"):
        rank(Typed(), scoring="per_criterion")


def test_asked_by_criterion_a_persona_without_any_has_one_question() -> None:
    typed = Typed()
    ranking = rank(typed, questions="per_criterion")
    assert [len(request.questions) for request in typed.asked] == [3, 3]
    assert not ranking.missing
    assert [hit.criteria.keys() for hit in ranking] == [{"Nurse"}] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recruiting": "invent"}, 'as the recruiter has to; use recruiting="library"'),
        ({"criteria": "query"}, 'as the criteria role has to; use criteria="library"'),
        ({"criteria": "dataset", "dataset": "x"}, 'use criteria="library"'),
        ({"ensemble": "assessor"}, 'as the assessor has to; use ensemble="sum"'),
    ],
)
def test_what_it_cannot_do_is_refused_before_any_call(options: dict[str, Any], said: str) -> None:
    typed = Typed()
    with pytest.raises(UnsupportedCapability, match=said):
        MCRanker(model=typed.model, **options)
    assert not typed.asked


def test_an_encoder_is_asked_by_persona_and_without_the_first_stage() -> None:
    encoder = Typed(capabilities=Capabilities(prompts=False, reasons=False, max_questions=100))
    for make in (MCRanker, DirectRanker):
        with make(model=encoder.model) as ranker:
            assert ranker.config.questions == "per_persona"
            assert ranker.config.first_stage_weight == 0
    with pytest.raises(ConfigError, match="does not read criteria"):
        MCRanker(model=encoder.model, scoring="per_criterion")
