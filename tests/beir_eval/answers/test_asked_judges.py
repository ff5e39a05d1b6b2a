"""Judges that ask a model, on scripted replies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from beir_eval.answers.judges import JUDGES, Answered, AnswerJudge
from beir_eval.answers.judging import judges_of
from beir_eval.answers.questions import Question
from mcranker import AuthenticationFailed, ConnectionFailed
from personas.ranking.usage import UsageTable
from tests.mcranker.rag.asked import Asked
from tests.support.scripted import scripted

ANSWER = Answered(
    Question("q", "What is NSP?", ("Next sentence prediction.",)),
    "A task of BERT.",
    passages=("NSP is a task.", "Bananas are yellow."),
)


def judge(name: str, replies: Iterable[Any]) -> AnswerJudge:
    return replace(JUDGES[name], by=Asked(replies, stage="judge").by)


@pytest.mark.parametrize(
    ("reply", "value"), [("4", 4), ("3.5", 3.5), (" 0. ", 0), ('{"similarity": 4.5}', 4.5)]
)
async def test_similarity_is_a_number_from_0_to_5(reply: str, value: float) -> None:
    assert (await judge("answer_similarity", [reply]).judge(ANSWER)).value == value


@pytest.mark.parametrize("reply", ["6", "-1", "", "4/5", "nan", "4 or 5", '{"similarity": true}'])
async def test_what_is_no_such_number_is_missing_and_never_a_value(reply: str) -> None:
    found = await judge("answer_similarity", [reply, reply]).judge(ANSWER)
    assert (found.value, found.undefined) == (None, False)
    assert found.why


async def test_precision_asks_for_each_passage() -> None:
    asked = Asked(['{"relevant": true}', "False."], stage="judge")
    found = await replace(JUDGES["retrieval_precision"], by=asked.by).judge(ANSWER)
    assert (found.value, found.parts) == (0.5, {"passages": [True, False]})
    texts = ["".join(text for _, text in each) for each in asked.shown]
    assert ["NSP is a task." in each for each in texts] == [True, False]


async def test_one_missing_verdict_and_precision_is_missing() -> None:
    failing = judge("retrieval_precision", ["true", ConnectionFailed("no server")])
    found = await failing.judge(ANSWER)
    assert (found.value, found.parts) == (None, {"passages": [True, None]})
    assert "1 of 2 verdicts are missing: no server" in found.why


async def test_an_error_that_all_would_meet_is_raised() -> None:
    with pytest.raises(AuthenticationFailed):
        await judge("answer_similarity", [AuthenticationFailed("wrong key")]).judge(ANSWER)


@pytest.mark.parametrize(
    ("name", "grade", "value"),
    [("relevance", -1, -1), ("relevance", 2, 2), ("faithfulness", 0, 0), ("faithfulness", 1, 1)],
)
async def test_grades_come_with_notes(name: str, grade: int, value: float) -> None:
    reply = json.dumps({"evaluation_notes": "So it is.", f"{name}_score": grade})
    found = await judge(name, [reply]).judge(ANSWER)
    assert (found.value, found.notes) == (value, "So it is.")


@pytest.mark.parametrize("grade", [3, -2, 1.5, True, "2", None])
async def test_a_grade_out_of_its_scale_is_missing(grade: Any) -> None:
    reply = json.dumps({"evaluation_notes": "", "relevance_score": grade})
    assert (await judge("relevance", [reply, reply]).judge(ANSWER)).value is None


async def test_nuggets_take_two_calls() -> None:
    listed = {"next": "vital", "half": "vital", "none": "vital", "two": "okay"}
    facts = {"Nuggets": [{"Nugget": each, "Importance": listed[each]} for each in listed]}
    support = {"Support": {"1": "support", "2": "partial", "3": "no", "4": "support"}}
    found = await judge("nuggets", [json.dumps(facts), json.dumps(support)]).judge(ANSWER)
    assert found.value == pytest.approx(1 / 3)  # in full, of the vital ones
    assert found.parts["nuggets"][3] == {"nugget": "two", "vital": False, "support": "support"}


async def test_a_team_judges_by_criteria_for_the_question_and_its_calls_are_counted() -> None:
    model, usage = scripted(lambda request: '{"Score": 7}'), UsageTable()
    async with judges_of(["team"], model=model, ledger=None, usage=usage) as judges:
        found = await judges["team"].judge(ANSWER)
    assert found.value == pytest.approx(0.7)
    assert len(found.parts) == 3
    assert usage.total.calls > 0
