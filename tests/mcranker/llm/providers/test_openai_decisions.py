from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

from mcranker.errors import RequestRejected, ServerFailed
from mcranker.llm.chat import Answer, ChatRequest, Message, Option, Question, State, Tag
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.llm.providers.openai_protocol import decision_body, decision_reply
from personas.ranking.usage import Usage
from tests.support.loopback import Body, clean_environment, serve

if find_spec("openai.types.decision") is None:
    pytest.skip("decisions came with openai 3", allow_module_level=True)


SERVICE = Service("openai:gpt-6-luna", "OpenAI", "", "", "", 1.0)
MESSAGES = (Message("system", "Be fair."), Message("user", "Hé?"))
FIRST = Question("q1", "Is it true?", 2)
# Ten levels on a scale of 0 to 10
TEN = tuple(Option(str(number), "never" if number == 0 else "") for number in range(10))
SECOND = Question("q2", "Is it new?", 10, options=TEN)
REQUEST = ChatRequest(messages=MESSAGES, tag=Tag("score"), questions=(FIRST, SECOND))


def score(
    name: str | None, by_level: dict[int, float] | None = None, **fields: Any
) -> dict[str, Any]:
    """An answer with the probabilities of some levels."""
    listed = [{"value": place, "probability": p} for place, p in (by_level or {}).items()]
    answer = {"type": "score", "name": name, "score": 0.0, "confidence": 0.5}
    return answer | {"probabilities": listed} | fields


def decision(*answers: Any) -> Body:
    """A decision as OpenAI sends it."""
    return {
        "model": "served-model",
        "answers": list(answers),
        "usage": {
            "input_tokens": 21,
            "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 25,
        },
    }


def labelled(*levels: tuple[int, str, float]) -> list[dict[str, Any]]:
    return [{"value": place, "label": label, "probability": p} for place, label, p in levels]


GOOD = decision(
    score("q1", probabilities=labelled((0, "0", 0.25), (1, "1", 0.0), (2, "2", 0.75))),
    score("q2", probabilities=labelled((0, "0", 0.5), (9, "9", 0.5))),
)


@pytest.mark.anyio
async def test_what_goes_over_the_wire_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)
    async with serve(lambda _: GOOD) as server:
        model = OpenAIChat("gpt-6-luna", api_key="k-secret", base_url=server.url)
        reply = await model.complete(REQUEST)
        await model.aclose()
    (sent,) = server.requests
    assert sent.path == "/v1/decisions"
    assert sent.headers["authorization"] == "Bearer k-secret"
    assert sent.headers["content-type"] == "application/json"
    key = sent.body.pop("prompt_cache_key")
    assert re.fullmatch("[0-9a-f]{32}", key)
    assert sent.body == {
        "model": "gpt-6-luna",
        "input": [
            {"type": "message", "role": "system", "content": "Be fair."},
            {"type": "message", "role": "user", "content": "Hé?"},
        ],
        "questions": [
            {
                "type": "score",
                "name": "q1",
                "instructions": "Is it true?",
                "levels": [{"label": "0"}, {"label": "1"}, {"label": "2"}],
            },
            {
                "type": "score",
                "name": "q2",
                "instructions": "Is it new?",
                "levels": [
                    {"label": "0", "description": "never"},
                    *({"label": str(number)} for number in range(1, 10)),
                ],
            },
        ],
    }
    # 0.25 · 0 + 0.75 · 2 = 1.5; (0.5 · 0 + 0.5 · 9) levels of 10/9 = 5
    assert reply.answers == (
        Answer(1.5, 0.5, (0.25, 0.0, 0.75)),
        Answer(5.0, 0.5, (0.5, *[0.0] * 8, 0.5)),
    )
    assert reply.model == "served-model"
    assert reply.text == ""
    assert reply.usage == Usage(calls=1, input_tokens=21, cached_input_tokens=8, output_tokens=4)


@pytest.mark.anyio
async def test_more_levels_than_there_may_be_are_not_sent() -> None:
    async with serve(lambda _: GOOD) as server:
        model = OpenAIChat("gpt-6-luna", api_key="k", base_url=server.url)
        with pytest.raises(RequestRejected, match="levels of question 'q': 11, and 10 is"):
            await model.complete(replace(REQUEST, questions=(Question("q", "?", 10),)))
        await model.aclose()
    assert server.requests == []


TYPED = ChatRequest(
    (Message("user", "Judge."),),
    Tag("score"),
    questions=(
        Question("y", "Is it?", kind="yes_no", options=(Option("Yes", "It is."), Option("No"))),
        Question("c", "Which?", kind="choice", options=(Option("red", "warm"), Option("blue"))),
    ),
    state=State("Hé?", {"passage_1": "one"}, {"judge_1": "Nurse"}),
)


@pytest.mark.anyio
async def test_a_state_goes_as_json() -> None:
    said = decision(
        {"type": "predicate", "name": "y", "probability": 0.25},
        {
            "type": "choice",
            "name": "c",
            "choice": "blue",
            "confidence": 0.5,
            "probabilities": [
                {"value": "blue", "probability": 0.75},
                {"value": "red", "probability": 0.25},
            ],
        },
    )
    async with serve(lambda _: said) as server:
        model = OpenAIChat("gpt-6-luna", api_key="k", base_url=server.url)
        reply = await model.complete(TYPED)
        await model.aclose()
    assert model.name == "openai:gpt-6-luna"
    assert model.capabilities.max_questions == 400
    (sent,) = server.requests
    assert sent.path == "/v1/decisions"
    assert sent.body["input"] == [
        {"type": "message", "role": "user", "content": "Judge."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {
                    "type": "input_json",
                    "data": {
                        "query": "Hé?",
                        "judges": {"judge_1": "Nurse"},
                        "passages": {"passage_1": "one"},
                    },
                }
            ],
        },
    ]
    assert sent.body["questions"] == [
        {"type": "predicate", "name": "y", "instructions": "Is it?\n\nTrue: It is.\nFalse: No"},
        {
            "type": "choice",
            "name": "c",
            "instructions": "Which?",
            "choices": [{"value": "red", "description": "warm"}, {"value": "blue"}],
        },
    ]
    assert reply.answers == (Answer(0.25, None, (0.75, 0.25)), Answer(1.0, 0.5, (0.25, 0.75)))


def test_the_cache_key_is_one_for_the_passages_of_a_query() -> None:
    assert TYPED.state is not None

    def key(state: State) -> str:
        return str(decision_body(replace(TYPED, state=state), "m")["prompt_cache_key"])

    other_passage = replace(TYPED.state, passages={"passage_1": "two"})
    assert key(TYPED.state) == key(other_passage) != key(replace(TYPED.state, query="else"))


def read(answer: Any, question: Question = FIRST) -> Answer:
    request = ChatRequest(MESSAGES, Tag("score"), questions=(question,))
    reply = decision_reply(decision(answer), request, service=SERVICE)
    assert reply.answers is not None
    return reply.answers[0]


def test_a_refused_question_is_declined_and_the_others_stand() -> None:
    both = decision({"type": "refusal", "name": "q1"}, score("q2", {9: 1.0}))
    found = decision_reply(both, REQUEST, service=SERVICE).answers
    assert found == (Answer(None, problem="declined"), Answer(10.0, 0.5, (*[0.0] * 9, 1.0)))
    assert read({"type": "refusal"}) == Answer(None, problem="declined")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (score("q1", {0: 0.2, 1: 0.2, 2: 0.6}), 1.4),  # 0.2 · 1 + 0.6 · 2
        (score("q1", {1: 1}), 1.0),
        (score("q1", {2: 1.0}, score=0.5), 2.0),  # the probabilities say more
        (score("q1", score=1.25), 1.25),
        (score("q1", score=1.25, probabilities=None), 1.25),
        (score("q1", score=2), 2.0),
        (score(None, probabilities=labelled((1, "1", 0.99))), 1.0),
    ],
)
def test_the_expected_score(answer: Any, expected: float) -> None:
    assert read(answer).value == pytest.approx(expected)


def test_without_probabilities_the_mean_level_is_put_on_the_scale() -> None:
    assert read(score("q2", score=4.5), SECOND).value == 5.0  # half way up ten levels


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("7", "no 'score', which was asked for"),
        ({"type": "predicate", "probability": 0.5}, "no 'score'"),
        ({"type": ["score"]}, "no 'score'"),
        (score("q1", score=2.01), "score 2.01 is not on the levels 0 to 2"),
        (score("q1", probabilities="1"), "no list of objects"),
        (score("q1", probabilities=[0.5, 0.5]), "no list of objects"),
        (score("q1", probabilities=[{"value": True, "probability": 1.0}]), "each of one value"),
        (score("q1", probabilities=[{"value": 1, "probability": 0.5}] * 2), "each of one value"),
        (score("q1", probabilities=labelled((1, "0", 1.0))), "not those of its levels"),
    ],
)
def test_what_is_no_answer_has_no_value(answer: Any, said: str) -> None:
    found = read(answer)
    assert found.value is None
    assert said in found.problem


@pytest.mark.parametrize("answer", [score("q2", {0: 1.0}), {"type": "refusal", "name": "q2"}])
def test_an_answer_under_another_name_spoils_the_reply(answer: Any) -> None:
    with pytest.raises(ServerFailed, match="'q1' is under another question's name"):
        read(answer)
