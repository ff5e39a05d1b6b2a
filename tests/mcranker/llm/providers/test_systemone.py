"""System One over the wire: every field of the published types, refusals, and odd answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.errors import (
    AuthenticationFailed,
    ConfigError,
    RequestRejected,
    UnsupportedCapability,
)
from mcranker.llm.chat import Answer, ChatRequest, Message, Option, Question, State, Tag
from mcranker.llm.connect import connect
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.systemone import LIMITS, systemone_body, systemone_reply
from tests.support.loopback import Body, clean_environment, serve
from tests.support.systemone_server import answered, refusals, service

SERVICE = Service("systemone:m", "there", "", "", "", 1.0)
LEVELS = (Option("0", "no use"), Option("1"), Option("2", "of use"))
SCORE = Question("s1", "How far?", 10, "score", LEVELS, "passage_1")
YES_NO = Question("y1", "Is it?", kind="yes_no", options=(Option("Yes", "It is."), Option("No")))
CHOICE = Question("c1", "Which?", kind="choice", options=(Option("red", "warm"), Option("blue")))
REQUEST = ChatRequest(
    (Message("user", "Judge."),),
    Tag("score"),
    questions=(SCORE, YES_NO, CHOICE),
    state=State("Hé?", {"passage_1": "one", "passage_2": "two"}, {"judge_1": "Nurse"}),
)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


@pytest.mark.anyio
async def test_what_goes_over_the_wire_and_comes_back() -> None:
    async with serve(service(lambda name, question: 0.75)) as server:
        model = connect("systemone:jev-latest", base_url=server.url, api_key="k-secret")
        reply = await model.complete(REQUEST)
        await model.aclose()
    (sent,) = server.requests
    assert sent.path == "/v1/systemone"
    assert sent.headers["authorization"] == "Bearer k-secret"
    assert sent.body == {
        "model": "jev-latest",
        "state": {
            "task": "Judge.",
            "query": "Hé?",
            "judges": {"judge_1": "Nurse"},
            "passages": {"passage_1": "one", "passage_2": "two"},
        },
        "questions": {
            "s1": {
                "type": "score",
                "instructions": "How far?",
                "criteria": ["0: no use", "1", "2: of use"],
            },
            "y1": {
                "type": "noul",
                "instructions": "Is it?",
                "criteria": {"true": "It is.", "false": "No"},
            },
            "c1": {
                "type": "choice",
                "instructions": "Which?",
                "criteria": {"red": "warm", "blue": None},
            },
        },
    }
    # 0.75 · level 2 of 2, on a scale to 10: 7.5
    assert reply.answers == (
        Answer(7.5, 0.9, (0.25, 0.0, 0.75)),
        Answer(0.75, None, (0.25, 0.75)),
        Answer(1.0, 0.9, (0.25, 0.75)),
    )
    assert (reply.model, reply.usage.input_tokens, reply.usage.output_tokens) == (
        "jev-latest",
        120,
        3,
    )


def test_without_a_state_the_messages_are_it_and_a_plain_scale_has_its_numbers() -> None:
    request = replace(REQUEST, state=None, questions=(Question("a", "?", 2),))
    body = systemone_body(request, "m")
    assert body["state"] == "Judge."
    assert body["questions"]["a"]["criteria"] == ["0", "1", "2"]
    assert refusals(body) == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question("q", "?", 10), "levels of question 'q': 11, and 10 is the limit"),
        (
            Question(
                "q", "?", kind="choice", options=tuple(Option(str(each)) for each in range(256))
            ),
            "options of question 'q': 256, and 255 is the limit",
        ),
    ],
)
async def test_what_is_beyond_the_limits_is_not_sent(question: Question, said: str) -> None:
    async with serve(service()) as server:
        model = connect("systemone:m", base_url=server.url)
        with pytest.raises(RequestRejected, match=said):
            await model.complete(replace(REQUEST, questions=(question,)))
        many = tuple(replace(YES_NO, name=f"y{number}") for number in range(65))
        with pytest.raises(RequestRejected, match="questions of a request: 65, and 64 is"):
            await model.complete(replace(REQUEST, questions=many))
        await model.aclose()
    assert server.requests == []


def read(answer: Any, question: Question = SCORE) -> Answer:
    request = replace(REQUEST, questions=(question, replace(YES_NO, name="other")))
    answers = {"other": {"type": "noul", "noul": 0.5}, **({} if answer is None else answer)}
    reply = systemone_reply({"answers": answers}, request, service=SERVICE)
    assert reply.answers is not None
    assert reply.answers[1].value == 0.5  # what is odd beside it leaves it as it is
    return reply.answers[0]


def score(**fields: Any) -> Body:
    return {"s1": answered({"type": "score", "criteria": ["a", "b", "c"]}, 0.5) | fields}


ODD = [
    (None, SCORE, "no answer to this question"),
    ({"s1": None}, SCORE, "no answer to this question"),
    ({"s1": 7}, SCORE, "no 'score'"),
    ({"s1": {"type": "noul", "noul": 0.5}}, SCORE, "no 'score'"),
    ({"s1": {"score": 1}}, SCORE, "no 'score'"),
    (score(probabilities={"0": 0.5, "1": 0.3}), SCORE, "sum to 0.8, not to 1"),
    (score(probabilities={"0": 0.9, "1": 0.3}), SCORE, "sum to 1.2, not to 1"),
    (score(probabilities={"0": 0.5, "3": 0.5}), SCORE, "a probability to '3'"),
    (score(probabilities={"0": "much"}), SCORE, "probability of 0 is 'much'"),
    (score(probabilities={"0": -0.1, "1": 1.1}), SCORE, "is -0.1, not a number from 0 to 1"),
    (score(probabilities={"0": math.nan, "1": 1.0}), SCORE, "is nan, not a number"),
    (score(probabilities=[1.0]), SCORE, "no object"),
    (score(confidence=7), SCORE, "its confidence is 7"),
    (score(probabilities=None, score=2.5), SCORE, "score 2.5 is not on the levels 0 to 2"),
    (score(probabilities={}, score=True), SCORE, "score True is not on the levels"),
    (score(probabilities={}, score=10**400), SCORE, "a huge number"),
    ({"y1": {"type": "noul", "noul": "yes"}}, YES_NO, "its probability is 'yes'"),
    ({"y1": {"type": "noul"}}, YES_NO, "its probability is None"),
    ({"c1": {"type": "choice", "choice": "green"}}, CHOICE, "choice 'green' is none of the 2"),
    (
        {"c1": {"type": "choice", "choice": "red", "probabilities": {"red": 1, "green": 0}}},
        CHOICE,
        "a probability to 'green'",
    ),
]


@pytest.mark.parametrize(("answer", "question", "said"), ODD)
def test_an_odd_answer_has_no_value_and_says_why(
    answer: Any, question: Question, said: str
) -> None:
    found = read(answer, question)
    assert found.value is None
    assert said in found.problem


def test_rounded_probabilities_and_unknown_fields_are_no_problem() -> None:
    found = read(score(probabilities={"0": 0.333, "1": 0.333, "2": 0.333}, later="field"))
    assert found.value == pytest.approx(5.0)
    assert sum(found.probabilities or ()) == pytest.approx(1.0)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["0", "1", "2", "red", "type"]), inner, max_size=3)
    ),
    max_leaves=6,
)
any_answers = st.fixed_dictionaries(
    {"type": st.sampled_from(["score", "noul", "choice"])},
    optional=dict.fromkeys(["score", "noul", "choice", "probabilities", "confidence"], json_values),
)


@given(any_answers | json_values, st.sampled_from([SCORE, YES_NO, CHOICE]))
def test_whatever_comes_is_an_answer_on_its_scale_or_a_problem(
    answer: Any, question: Question
) -> None:
    found = read({question.name: answer}, question)
    top = {"score": 10, "yes_no": 1, "choice": 1}[question.kind]
    assert (found.value is None) == bool(found.problem)
    assert found.value is None or 0 <= found.value <= top
    if found.probabilities is not None:
        assert math.fsum(found.probabilities) == pytest.approx(1.0)
    assert found.confidence is None or 0 <= found.confidence <= 1


@pytest.mark.anyio
async def test_a_prompt_is_refused_with_the_role_that_needs_another_model() -> None:
    model = connect("systemone:m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UnsupportedCapability, match="recruiter_model="):
        await model.complete(ChatRequest((Message("user", "Who?"),), Tag("recruit")))


def test_the_address_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationFailed, match="set TYPESAFE_API_KEY"):
        connect("systemone:jev-latest")
    monkeypatch.setenv("TYPESAFE_API_KEY", "k")
    chat = connect("systemone:jev-latest")
    assert isinstance(chat, CompatibleChat)
    assert chat.name == "systemone:jev-latest"
    assert chat.endpoint == "https://api.typesafe.ai/v1"
    assert chat.capabilities == LIMITS
    # TypeSafe's own library wants the address without /v1.
    monkeypatch.setenv("TYPESAFE_BASE_URL", "http://localhost:8000")
    assert connect("systemone:m").endpoint == "http://localhost:8000/v1"  # type: ignore[attr-defined]
    monkeypatch.setenv("TYPESAFE_BASE_URL", "somewhere")
    with pytest.raises(ConfigError, match="TYPESAFE_BASE_URL='somewhere' is not a URL"):
        connect("systemone:m")
    assert connect("systemone:m", base_url="http://h/v1/").endpoint == "http://h/v1"  # type: ignore[attr-defined]
