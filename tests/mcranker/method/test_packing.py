"""Typed questions about several passages in one call: who is asked what, in which order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker import (
    Answer,
    Capabilities,
    ChatReply,
    ChatRequest,
    ConfigError,
    ContentRefused,
    ContextTooLong,
    DirectRanker,
    Judge,
    MCRanker,
    Member,
    ModelError,
    Persona,
    Question,
    RankerConfig,
    Ranking,
    Rubric,
    ScriptedChat,
    ServerFailed,
    Team,
    UnsupportedCapability,
)
from personas import PromptSet, library
from tests.support.scripted import scripted

TYPED = Capabilities(max_questions=64, max_levels=10, prompts=False)


def member(name: str, *weights: float) -> Member:
    criteria = [
        {"name": f"{name} {place}", "weight": weight, "description": f"How {name} {place}."}
        for place, weight in enumerate(weights, start=1)
    ]
    rubric = Rubric.model_validate({"criteria": criteria}) if weights else None
    return Member(persona=Persona(name=name, description=f"{name}, described."), rubric=rubric)


TEAM = Team(members=(member("Nurse", 75, 25), member("Parent", 100), member("Vet", 60, 40)))
LEVELS = PromptSet.load("paper")["typed_levels"].render({})[0].text.splitlines()
DOCS = {f"d{number}": f"text {number}" for number in range(20)}

Judgement = Callable[[str, Question], Answer]
"""A passage's text and a question about it -> its answer."""


def by_number(text: str, question: Question) -> Answer:
    """The passage's number, on a scale to 20; more for a later judge."""
    judge = ["Nurse", "Parent", "Vet"].index(question.judge.name) if question.judge else 0
    return Answer((int(text.split()[1]) + judge / 4) * question.top / 20, 0.5)


class Judging:
    """A model of typed questions that keeps what it was asked."""

    def __init__(
        self,
        judge: Judgement = by_number,
        *,
        fail: Callable[[ChatRequest], ModelError | None] = lambda request: None,
        capabilities: Capabilities = TYPED,
    ) -> None:
        self.asked: list[ChatRequest] = []
        self._judge = judge
        self._fail = fail
        self.model = ScriptedChat(self._answer, capabilities=capabilities)

    def _answer(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        if error := self._fail(request):
            raise error
        assert request.state is not None
        texts = request.state.passages
        answers = (self._judge(texts[each.passage], each) for each in request.questions)
        return ChatReply("", answers=tuple(answers))

    def rank(self, docs: Any = DOCS, **options: Any) -> Ranking:
        ranker = MCRanker(team=options.pop("team", TEAM), model=self.model, **options)
        return ranker.rank(options.pop("query", "masks"), docs)

    @property
    def passages(self) -> list[list[str]]:
        """The texts of each call, in the order in which it has them."""
        return [list(each.state.passages.values()) for each in self.asked if each.state]


def expected_sum(number: int) -> float:
    # Scale 10 over 20 passages: number / 2 for each of three, and 1/8 and 1/4 for the later two.
    return 3 * number / 2 + 0.125 + 0.25


@pytest.mark.parametrize(("n", "calls"), [(1, 20), (3, 7), (10, 2), (20, 1), (100, 1)])
def test_every_passage_is_judged_once_by_everybody(n: int, calls: int) -> None:
    judging = Judging()
    ranking = judging.rank(passages_per_call=n)
    assert len(judging.asked) == calls
    assert Counter(text for call in judging.passages for text in call) == Counter(DOCS.values())
    assert ranking.ids == list(reversed(DOCS))
    assert [hit.score for hit in ranking] == pytest.approx(
        [expected_sum(number) for number in reversed(range(20))]
    )
    assert not ranking.missing


def test_one_passage_and_its_questions_hold_all_that_is_needed() -> None:
    judging = Judging()
    judging.rank({"d": "text 1"})
    (request,) = judging.asked
    assert request.state is not None
    assert request.state.to_dict() == {"query": "masks", "passages": {"passage_1": "text 1"}}
    first = request.questions[0]
    assert first.name == "passage_1_judge_1"
    assert "Judge as Nurse\n1. Nurse 1 (weight 75%)" in first.text
    assert "2. Nurse 2 (weight 25%): How Nurse 2." in first.text
    assert "Parent" not in first.text
    assert first.judge == Judge("Nurse", "Nurse, described.")
    assert [level.name for level in first.levels] == LEVELS
    assert first.top == 10


def test_integer_scoring_asks_for_the_numbers_of_the_scale() -> None:
    judging = Judging()
    judging.rank({"d": "text 1"}, scoring="integer")
    levels = judging.asked[0].questions[0].levels
    assert [level.name for level in levels] == [str(number) for number in range(10)]
    described = {level.name: level.description for level in levels if level.description}
    assert described == dict(zip("024579", LEVELS, strict=True))


def test_several_passages_share_the_judges_in_the_state() -> None:
    judging = Judging()
    judging.rank({"d1": "text 1", "d2": "text 2"}, passages_per_call=2)
    (request,) = judging.asked
    assert request.state is not None
    assert list(request.state.judges) == ["judge_1", "judge_2", "judge_3"]
    assert "1. Parent 1 (weight 100%): How Parent 1." in request.state.judges["judge_2"]
    assert [(each.passage, each.text) for each in request.questions[:4]] == [
        ("passage_1", "How relevant is passage_1 to the query? Judge as judge_1."),
        ("passage_1", "How relevant is passage_1 to the query? Judge as judge_2."),
        ("passage_1", "How relevant is passage_1 to the query? Judge as judge_3."),
        ("passage_2", "How relevant is passage_2 to the query? Judge as judge_1."),
    ]


def test_the_order_turns_from_call_to_call_and_from_query_to_query() -> None:
    judging = Judging()
    judging.rank(passages_per_call=5, concurrency=1)
    texts = list(DOCS.values())
    packs = [texts[start::4] for start in range(4)]  # strong and weak ones in each
    turns = [pack.index(call[0]) for pack, call in zip(packs, judging.passages, strict=True)]
    for pack, call, turn in zip(packs, judging.passages, turns, strict=True):
        assert call == pack[turn:] + pack[:turn]
    # One more from call to call.
    assert [(turn - turns[0]) % 5 for turn in turns] == [0, 1, 2, 3]

    firsts = set()
    for number in range(30):
        one = Judging()
        MCRanker(team=TEAM, model=one.model, passages_per_call=5).rank(f"query {number}", texts[:5])
        firsts.add(one.passages[0][0])
    assert firsts == set(texts[:5])


@pytest.mark.parametrize("error", [ContentRefused("no"), ContextTooLong("no"), ServerFailed("no")])
def test_one_passage_that_fails_costs_no_other_its_score(error: ModelError) -> None:
    def fail(request: ChatRequest) -> ModelError | None:
        assert request.state is not None
        return error if "text 7" in request.state.passages.values() else None

    judging = Judging(fail=fail)
    ranking = judging.rank(passages_per_call=10)
    assert {(each.doc_id, each.persona) for each in ranking.missing} == {
        ("d7", "Nurse"),
        ("d7", "Parent"),
        ("d7", "Vet"),
    }
    # Ten fail, then halves of five, and so on: at most 2 · 4 calls for one of ten.
    assert len(judging.asked) <= 2 + 2 * 4


def test_an_answer_that_is_missing_among_others_is_asked_for_alone() -> None:
    asked: Counter[str] = Counter()

    def judge(text: str, question: Question) -> Answer:
        asked[text] += 1
        if text == "text 3" and question.judge and question.judge.name == "Vet" and asked[text] < 4:
            return Answer(None, problem="no answer to this question")
        return by_number(text, question)

    judging = Judging(judge)
    ranking = judging.rank(passages_per_call=20)
    assert len(judging.asked) == 2
    (again,) = judging.asked[1].questions
    assert (again.judge and again.judge.name, judging.passages[1]) == ("Vet", ["text 3"])
    assert not ranking.missing
    assert next(hit.score for hit in ranking if hit.doc_id == "d3") == pytest.approx(
        expected_sum(3)
    )


def test_what_stays_without_an_answer_is_missing_and_says_why() -> None:
    def judge(text: str, question: Question) -> Answer:
        if text == "text 3":
            nurse = question.judge is not None and question.judge.name == "Nurse"
            return Answer(None, problem="declined" if nurse else "odd answer: its score is 'x'")
        return by_number(text, question)

    judging = Judging(judge)
    ranking = judging.rank(passages_per_call=20)
    assert len(judging.asked) == 2
    assert [(each.persona, each.reason) for each in ranking.missing] == [
        ("Nurse", "scripted:function declined to judge"),
        ("Parent", "scripted:function gave no score: odd answer: its score is 'x'"),
        ("Vet", "scripted:function gave no score: odd answer: its score is 'x'"),
    ]


def test_by_criterion_answers_are_combined_by_the_weights() -> None:
    def judge(text: str, question: Question) -> Answer:
        first = question.name.endswith("criterion_1")
        return Answer(8.0 if first else 4.0, 0.5 if first else 0.25)

    for n in (1, 2):
        judging = Judging(judge)
        ranking = judging.rank(
            {"d1": "text 1", "d2": "text 2"}, questions="per_criterion", passages_per_call=n
        )
        # Nurse 0.75 · 8 + 0.25 · 4, Parent 8, Vet 0.6 · 8 + 0.4 · 4
        assert ranking[0].scores == pytest.approx({"Nurse": 7.0, "Parent": 8.0, "Vet": 6.4})
        assert ranking[0].criteria["Vet"] == {"Vet 1": 8.0, "Vet 2": 4.0}
        assert ranking[0].confidence == pytest.approx({"Nurse": 0.4375, "Parent": 0.5, "Vet": 0.4})
        assert len(judging.asked) == 2 // n
        assert "by this alone" in judging.asked[0].questions[0].text


def test_confidence_and_distributions_stay_with_the_score_and_in_the_stored_ranking() -> None:
    listed = (*[0.0] * 8, 0.5, 0.5)
    judging = Judging(lambda text, question: Answer(9.4, 0.8, listed))
    ranking = judging.rank({"d": "text 1"})
    assert ranking[0].scores["Nurse"] == 9.4
    assert ranking[0].confidence == {"Nurse": 0.8, "Parent": 0.8, "Vet": 0.8}
    assert ranking[0].probabilities["Vet"] == listed
    again = Ranking.from_dict(ranking.to_dict())
    assert again[0] == ranking[0]
    plain = MCRanker(team=TEAM, model=scripted()).rank("masks", {"d": "text 1"})
    assert not {"confidence", "probabilities"} & plain.to_dict()["hits"][0].keys()


def test_a_library_team_is_recruited_by_a_choice() -> None:
    asked: list[ChatRequest] = []

    def answer(request: ChatRequest) -> ChatReply:
        asked.append(request)
        if request.tag.stage != "recruit":
            return ChatReply("", answers=tuple(Answer(5.0) for _ in request.questions))
        (question,) = request.questions
        names = [option.name for option in question.options]
        chances = dict.fromkeys(names, 0.0) | {"Geneticist": 0.7, "Clinician": 0.3}
        return ChatReply("", answers=(Answer(0.0, None, tuple(chances.values())),))

    model = ScriptedChat(answer, capabilities=Capabilities(max_questions=64, prompts=False))
    ranker = MCRanker(model=model)
    ranking = ranker.rank("masks", ["a"])
    assert ranking.team is not None
    names = [each.name for each in ranking.team.members]
    assert names == ["NLP scientist", "Geneticist", "Clinician"]
    assert ranking.team.members[1].persona.reason == "Best match for this query (70%)."
    (choice,) = asked[0].questions
    assert (choice.kind, asked[0].state and asked[0].state.query) == ("choice", "masks")
    members = [each for each in library.members() if each.origin != "fixed"]
    assert [(option.name, option.description) for option in choice.options] == [
        (each.name, ", ".join(each.persona.topics)) for each in members
    ]
    recorded = ranker.config.recorded()
    assert (recorded["recruiting"], recorded["criteria"]) == ("library", "library")
    assert (recorded["questions"], recorded["scoring"]) == ("per_persona", "expected")


# --- models that answer in text ---------------------------------------------------------------


def test_a_chat_model_answers_all_questions_in_one_reply() -> None:
    seen: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        seen.append(request)
        schema = request.schema.schema["properties"] if request.schema else {}
        return json.dumps({key: [7, 7, 7] for key in schema})

    model = ScriptedChat(answer)
    ranker = MCRanker(team=TEAM, model=model, passages_per_call=10)
    ranking = ranker.rank("masks", DOCS)
    assert len(seen) == 2
    assert all(hit.scores == {"Nurse": 7.0, "Parent": 7.0, "Vet": 7.0} for hit in ranking)
    (message,) = seen[0].messages
    assert "a list of 3 integers: the scores by Judge 1, Judge 2, Judge 3" in message.content
    assert "Judge 2: Parent\n1. Parent 1 (weight 100%)" in message.content
    assert all(f"{2 * place}: {text}\n" in message.content for place, text in enumerate(LEVELS))
    assert message.content.count(">>>") == 11  # the query, and ten passages between markers


def test_a_criterion_that_is_asked_for_alone_is_named() -> None:
    asked: list[str] = []

    def answer(request: ChatRequest) -> str:
        asked.append(request.messages[0].content)
        return '{"1": [7, 99], "2": [3, 4]}' if len(asked) == 1 else '{"1": 6}'

    team = Team(members=(TEAM.members[0],))
    ranker = MCRanker(
        team=team, model=ScriptedChat(answer), questions="per_criterion", passages_per_call=2
    )
    ranking = ranker.rank("masks", ["text 1", "text 2"])
    assert "its score by Judge 1 on criterion 2, an integer" in asked[1]
    assert {"Nurse 1": 7.0, "Nurse 2": 6.0} in [hit.criteria["Nurse"] for hit in ranking]


@pytest.mark.parametrize(("team", "passages"), [(1, 7), (3, 20), (3, 91)])
def test_packs_are_estimated_and_dealt_evenly(team: int, passages: int) -> None:
    sizes: list[int] = []

    def answer(request: ChatRequest) -> str:
        assert request.schema is not None
        numbers = request.schema.schema["properties"]
        sizes.append(len(numbers))
        return json.dumps({each: [5, 5, 5] if team == 3 else 5 for each in numbers})

    members = Team(members=TEAM.members[:team])
    options: dict[str, Any] = {"team": members, "passages_per_call": 10 if team == 3 else 3}
    docs = [f"text {number}" for number in range(passages)]
    with MCRanker(model=ScriptedChat(answer), ledger=None, **options) as ranker:
        estimate = ranker.estimate("masks", docs)
        assert not ranker.rank("masks", docs).missing
    assert estimate.calls == len(sizes) == -(-passages // options["passages_per_call"])
    assert max(sizes) - min(sizes) <= 1


def test_what_a_reply_leaves_out_is_asked_for_alone() -> None:
    calls: list[str] = []

    def answer(request: ChatRequest) -> str:
        calls.append(request.messages[0].content)
        return '{"1": [7, 99, 7], "2": [7, 7, 7]}' if len(calls) == 1 else '{"1": 7}'

    ranking = MCRanker(team=TEAM, model=ScriptedChat(answer), passages_per_call=2).rank(
        "masks", ["text 1", "text 2"]
    )
    # Asked again: one passage, and the judge without a score.
    _, second = calls
    assert "one passage" in second
    assert "Judge 2: Parent" in second
    assert "Nurse" not in second
    assert not ranking.missing


# --- criteria -------------------------------------------------------------------------------


def test_per_criterion_scoring_asks_a_model_of_many_questions_once_a_passage() -> None:
    """The others are asked persona by persona; both give 0.75 · 8 + 0.25 · 4 = 7, and 2."""
    two = Team(members=TEAM.members[:2])
    replies = {"Nurse": '{"Scores": {"1": 8, "2": 4}}', "Parent": '{"Scores": {"1": 2}}'}
    for offers, calls in ((Capabilities(max_questions=9), 3), (Capabilities(), 6)):
        seen: list[ChatRequest] = []

        def answer(request: ChatRequest, seen: list[ChatRequest] = seen) -> ChatReply:
            seen.append(request)
            if request.questions:
                return ChatReply("", answers=(Answer(8.0), Answer(4.0), Answer(2.0)))
            return ChatReply(replies[request.tag.persona])

        model = ScriptedChat(answer, capabilities=offers)
        ranking = MCRanker(team=two, model=model, scoring="per_criterion").rank(
            "q", ["a", "b", "c"]
        )
        assert len(seen) == calls
        assert all(bool(request.questions) == (calls == 3) for request in seen)
        assert all(dict(hit.scores) == {"Nurse": 7.0, "Parent": 2.0} for hit in ranking)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((Answer(9.0), Answer(None), Answer(4.0)), "declined to judge by 'Nurse 2'"),
        ((Answer(9.0), Answer(10.5), Answer(4.0)), "by 'Nurse 2': its score 10.5 is not from 0"),
        ((Answer(9.0), Answer(float("nan")), Answer(4.0)), "its score nan is not from 0 to 10"),
        ((Answer(1.0), Answer(2.0)), "it holds 2 of 3 answers"),
    ],
)
def test_an_odd_answer_leaves_only_that_persona_without_a_score(
    answers: tuple[Answer, ...], said: str
) -> None:
    two = Team(members=TEAM.members[:2])
    model = ScriptedChat(lambda _: ChatReply("", answers=answers), capabilities=TYPED)
    ranking = MCRanker(team=two, model=model, scoring="per_criterion").rank("q", ["a"])
    missing = ["Nurse"] if len(answers) == 3 else ["Nurse", "Parent"]
    assert [each.persona for each in ranking.missing] == missing
    assert said in ranking.missing[0].reason
    if len(answers) == 3:
        assert ranking[0].criteria == {"Parent": {"Parent 1": 4.0}}


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"questions": "per_query"}, "questions must be 'per_"),
        ({"passages_per_call": 0}, "passages_per_call must be at least 1"),
        ({"passages_per_call": 101}, "passages_per_call must be at most 100"),
        ({"questions": "per_persona", "scoring": "per_criterion"}, 'use questions="per_criterion"'),
        ({"questions": "per_criterion", "criteria": "none"}, 'criteria="none" has none'),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RankerConfig(**options)
    assert said in str(caught.value)


def test_what_a_model_cannot_do_is_said_before_any_call() -> None:
    typed = Judging().model
    with pytest.raises(UnsupportedCapability, match=r'without probabilities.*scoring="integer"'):
        MCRanker(model=scripted(), questions="per_persona", scoring="expected")
    with pytest.raises(ConfigError, match='questions="per_criterion" asks by each persona'):
        DirectRanker(model=typed, questions="per_criterion")


@given(
    st.integers(1, 20),
    st.integers(1, 12),
    st.integers(1, 20),
    st.sets(st.integers(0, 19), max_size=3),
)
def test_however_calls_are_divided_and_fail_each_passage_has_its_own_scores(
    passages: int, n: int, most: int, bad: set[int]
) -> None:
    spoilt = {f"text {number}" for number in bad}

    def fail(request: ChatRequest) -> ModelError | None:
        assert request.state is not None
        hit = spoilt & set(request.state.passages.values())
        return ContentRefused("no") if hit else None

    judging = Judging(fail=fail, capabilities=Capabilities(max_questions=most, prompts=False))
    docs = {f"d{number}": f"text {number}" for number in range(passages)}
    ranking = judging.rank(docs, passages_per_call=n, missing_policy="lowest")
    for hit in ranking:
        number = int(hit.doc_id[1:])
        values = [number / 2, number / 2 + 0.125, number / 2 + 0.25]
        wanted = [None] * 3 if number in bad else values
        assert list(hit.scores.values()) == wanted
