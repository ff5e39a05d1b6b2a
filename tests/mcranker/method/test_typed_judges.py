"""Models that answer typed questions and no prompts, in every role."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from mcranker import DirectRanker, MCRanker
from mcranker.errors import ReplyError, UnsupportedCapability
from mcranker.llm.chat import Answer, Capabilities, ChatReply, ChatRequest, Question
from mcranker.llm.scripted import ScriptedChat
from personas import Criterion, Member, Persona, Rubric, library

CRITERIA = (Criterion(name="Safe", weight=75), Criterion(name="Cheap", weight=25))
NURSE = Member(persona=Persona(name="Nurse"), rubric=Rubric(criteria=CRITERIA))
PARENT = Member(persona=Persona(name="Parent"))
DOCS = {"a": "first", "b": "second"}


def chance(question: Question, passage: str) -> float | None:
    """By the judge's last criterion, and by the passage."""
    judge = question.judge
    key = judge.criteria[-1][0] if judge and judge.criteria else judge.name if judge else ""
    likely = {"Safe": 0.8, "Cheap": 0.4, "Parent": 0.2, "": 0.6}[key]
    return likely if passage == "first" else likely / 2


class Typed:
    """A model that answers typed questions, and keeps the requests."""

    def __init__(
        self,
        answer: Callable[[Question, str], float | None] = chance,
        capabilities: Capabilities | None = None,
    ) -> None:
        self.asked: list[ChatRequest] = []
        self._answer = answer
        self.model = ScriptedChat(
            self._reply,
            name="typed:one",
            capabilities=capabilities or Capabilities(prompts=False, max_questions=100),
        )

    def _reply(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        assert request.state is not None
        assert not request.messages
        return ChatReply("", answers=tuple(self._one(each, request) for each in request.questions))

    def _one(self, question: Question, request: ChatRequest) -> Answer:
        if question.kind == "choice":
            names = [option.name for option in question.options]
            wanted = [{"Virologist": 0.6, "Parent": 0.3}.get(name, 0.0) for name in names]
            rest = (1 - sum(wanted)) / len(names)
            return Answer(0.0, probabilities=tuple(each + rest for each in wanted))
        assert request.state is not None
        value = self._answer(question, request.state.passages[question.passage])
        return Answer(value, problem="" if value is not None else "declined")


def rank(typed: Typed, **options: Any) -> Any:
    with MCRanker(model=typed.model, **{"team": [NURSE, PARENT], **options}) as ranker:
        return ranker.rank("query", DOCS)


def test_one_request_a_passage_asks_all_personas_and_scores_stand_on_the_scale() -> None:
    typed = Typed()
    ranking = rank(typed)
    assert [len(request.questions) for request in typed.asked] == [2, 2]
    first = ranking[0]
    assert first.doc_id == "a"
    # The last of the nurse's criteria is "Cheap": 0.4 of 10; the parent has none: 0.2 of 10.
    assert first.scores == {"Nurse": pytest.approx(4.0), "Parent": pytest.approx(2.0)}
    assert ranking.usage.calls == 2


def test_labels_are_a_scale_as_well() -> None:
    ranking = rank(Typed(), scoring="expected", labels=("No", "Perhaps", "Yes"))
    assert ranking[0].scores["Nurse"] == pytest.approx(0.8)


def test_each_criterion_by_itself_is_combined_by_the_weights() -> None:
    typed = Typed()
    ranking = rank(typed, team=[NURSE], scoring="per_criterion")
    assert [len(request.questions) for request in typed.asked] == [2, 2]
    # 0.75 · 8 + 0.25 · 4
    assert ranking[0].scores["Nurse"] == pytest.approx(7.0)


def test_a_persona_without_a_rubric_judges_by_its_name_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        ranking = rank(Typed())
    assert "'Parent' has no rubric, and typed:one writes none; it judges by its name" in caplog.text
    assert [member.rubric is None for member in ranking.team.members] == [False, True]


def test_scores_by_criterion_need_a_rubric() -> None:
    with pytest.raises(UnsupportedCapability, match=r"'Parent' has no rubric.*criteria_model"):
        rank(Typed(), scoring="per_criterion")


def test_an_answer_that_is_declined_is_a_missing_score() -> None:
    def declining(question: Question, passage: str) -> float | None:
        known = chance(question, passage)
        return None if question.judge and question.judge.name == "Parent" else known

    ranking = rank(Typed(declining))
    assert len(ranking.missing) == 2
    assert {each.reason for each in ranking.missing} == {"declined"}


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan")])
def test_an_answer_off_the_scale_is_a_missing_score(value: float) -> None:
    ranking = rank(Typed(lambda question, passage: value), team=[NURSE])
    assert len(ranking.missing) == 2
    assert "not all of its answers are from 0 to 1" in ranking.missing[0].reason


def test_a_reply_with_other_answers_than_asked_is_a_missing_score() -> None:
    model = ScriptedChat(
        lambda request: ChatReply("", answers=(Answer(0.5),) * 5),
        name="typed:odd",
        capabilities=Capabilities(prompts=False, max_questions=100),
    )
    with MCRanker(model=model, team=[NURSE]) as ranker:
        ranking = ranker.rank("query", DOCS)
    assert "it holds 5 answers" in ranking.missing[0].reason


def test_recruits_are_the_likeliest_of_the_library() -> None:
    typed = Typed(lambda question, passage: 0.5)
    with MCRanker(model=typed.model) as ranker:
        team = ranker.recruit_team("How do viruses spread?")
    assert [member.name for member in team.members] == ["NLP scientist", "Virologist", "Parent"]
    assert all(member.rubric is not None for member in team.members)
    (request,) = typed.asked
    (question,) = request.questions
    members = [each for each in library.members() if each.origin != "fixed"]
    assert [(option.name, option.description) for option in question.options] == [
        (each.name, ", ".join(each.persona.topics)) for each in members
    ]


def test_recruits_without_probabilities_are_an_error() -> None:
    model = ScriptedChat(
        lambda request: ChatReply("", answers=(Answer(0.0),)),
        name="typed:odd",
        capabilities=Capabilities(prompts=False, max_questions=100),
    )
    with MCRanker(model=model) as ranker, pytest.raises(ReplyError, match="no probabilities"):
        ranker.recruit_team("query")


def test_nobody_forbidden_is_recruited() -> None:
    with MCRanker(model=Typed().model, forbid=("virologist",), team_size=2) as ranker:
        team = ranker.recruit_team("How do viruses spread?")
    assert [member.name for member in team.members] == ["NLP scientist", "Parent"]


def test_direct_asks_one_question_that_is_nobodys() -> None:
    typed = Typed()
    with DirectRanker(model=typed.model) as ranker:
        ranking = ranker.rank("query", DOCS)
    assert [request.questions[0].judge for request in typed.asked] == [None, None]
    assert ranking[0].score == pytest.approx(6.0)


def test_calls_are_known_before() -> None:
    with MCRanker(model=Typed().model) as ranker:
        estimate = ranker.estimate("query", DOCS)
    assert estimate.calls == 3
    assert estimate.table.total.input_tokens > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recruiting": "invent"}, 'invent personas; use recruiting="library"'),
        ({"criteria": "query"}, 'write criteria; use criteria="library"'),
        ({"criteria": "dataset", "dataset": "x"}, 'write criteria; use criteria="library"'),
        ({"ensemble": "assessor"}, 'combine scores; use ensemble="sum"'),
        ({"preset": "reference"}, "invent personas"),
    ],
)
def test_what_it_cannot_do_is_refused_before_any_call(options: dict[str, Any], said: str) -> None:
    typed = Typed()
    with pytest.raises(UnsupportedCapability, match=said):
        MCRanker(model=typed.model, **options)
    assert not typed.asked


def test_other_roles_may_be_played_by_models_that_can() -> None:
    chat = ScriptedChat(lambda request: "", name="chat:one")
    with MCRanker(
        model=Typed().model, recruiter_model=chat, criteria_model=chat, assessor_model=chat
    ) as ranker:
        assert ranker.config.recruiting == "invent"
        assert ranker.config.criteria == "query"


def test_the_models_own_share_of_the_first_stage_is_the_default() -> None:
    sharing = Capabilities(prompts=False, max_questions=100, first_stage_weight=0.3)
    for options, weight in (
        ({}, 0.3),
        ({"first_stage_weight": 0.0}, 0.0),
        ({"top_k": 1}, 0.0),  # it would need every score
    ):
        with MCRanker(model=Typed(capabilities=sharing).model, **options) as ranker:
            assert ranker.config.first_stage_weight == weight
