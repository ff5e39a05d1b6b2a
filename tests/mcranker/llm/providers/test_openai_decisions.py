"""Many questions in one call: what goes to the decisions endpoint, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.decision import Decision
from openai.types.decision_create_params import DecisionCreateParams
from pydantic import TypeAdapter

from mcranker.errors import (
    AuthenticationFailed,
    ContentRefused,
    ModelError,
    ModelNotFound,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from mcranker.llm.chat import Capabilities, ChatRequest, Message, Question, Tag
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.llm.providers.openai_decisions import decides, decision_body, decision_reply
from tests.support.loopback import Answer, Body, clean_environment, completion, openai_error, serve
from tests.support.typed_answers import answers

SERVICE = Service("openai:gpt-6-luna", "OpenAI", "", "", "", 1.0)
MESSAGES = (Message("system", "Be fair."), Message("user", "Hé?"))
FIRST = Question("q1", "Is it true?", 2)
SECOND = Question("q2", "Is it new?", 10)
REQUEST = ChatRequest(messages=MESSAGES, tag=Tag("score"), questions=(FIRST, SECOND))
# Of 0 to 10, ten levels at equal distances: 10/9 = 1.11…
TEN_LABELS = ["0", "1.1", "2.2", "3.3", "4.4", "5.6", "6.7", "7.8", "8.9", "10"]


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
    score("q2", probabilities=labelled((0, "0", 0.5), (9, "10", 0.5))),
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
                "levels": [{"label": label} for label in TEN_LABELS],
            },
        ],
    }
    # 0.25 · 0 + 0.75 · 2 = 1.5; (0.5 · 0 + 0.5 · 9) levels of 10/9 = 5
    assert reply.answers == answers(1.5, 5.0)
    assert reply.model == "served-model"
    assert reply.text == ""
    usage = reply.usage
    assert (usage.calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (
        1,
        21,
        8,
        4,
    )


def test_the_librarys_own_types_agree_with_these_bodies() -> None:
    body: Any = TypeAdapter(DecisionCreateParams).validate_python(
        decision_body(REQUEST, "gpt-6-luna")
    )
    # Iterables are checked when they are read.
    assert [message["role"] for message in body["input"]] == ["system", "user"]
    assert [question["type"] for question in body["questions"]] == ["score", "score"]
    Decision.model_validate(GOOD)
    Decision.model_validate(decision({"type": "refusal", "name": "q1"}))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Answer(404, openai_error("no such endpoint")), ModelNotFound, "no such endpoint"),
        (Answer(400, openai_error("", code="model_not_found")), ModelNotFound, "HTTP 400"),
        (Answer(400, openai_error("model not supported")), RequestRejected, "not supported"),
        (Answer(400, openai_error("", code="content_filter")), ContentRefused, "HTTP 400"),
        (Answer(401, openai_error("wrong")), AuthenticationFailed, "wrong"),
        (Answer(429, openai_error("slow down")), RateLimited, "slow down"),
        (Answer(500, b"oops"), ServerFailed, "oops"),
        (Answer(200, b'{"answers": ['), ServerFailed, "not JSON"),
        (completion("7"), ServerFailed, "no answers in it"),
        (decision(score("q1", {0: 1.0})), ServerFailed, "1 answers to 2 questions"),
    ],
)
async def test_failures_are_those_of_any_call_and_nothing_is_tried_twice(
    answer: Answer | Body, kind: type[ModelError], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch)
    async with serve(lambda _: answer) as server:
        model = OpenAIChat("gpt-6-luna", api_key="k", base_url=server.url)
        with pytest.raises(kind, match=said) as caught:
            await model.complete(REQUEST)
        await model.aclose()
    assert type(caught.value) is kind
    assert caught.value.model == "openai:gpt-6-luna"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-6-luna", True),
        ("gpt-6-luna-2026-10-06", True),
        ("gpt-6-luna-20261006", True),
        ("gpt-6-luna-mini", False),
        ("gpt-6-luna-2026-10-06-mini", False),
        ("gpt-6-lunar", False),
        ("gpt-6", False),
        ("ft:gpt-6-luna", False),
    ],
)
def test_which_models_decide(model: str, expected: bool) -> None:
    assert decides(model) is expected
    assert OpenAIChat(model, api_key="k").capabilities.max_questions == (400 if expected else 0)


def test_capabilities_given_are_kept() -> None:
    given_ones = Capabilities(max_questions=7)
    assert OpenAIChat("m", api_key="k", capabilities=given_ones).capabilities == given_ones


@pytest.mark.parametrize(
    ("top", "labels"),
    [
        (1, ["0", "1"]),
        (9, [str(number) for number in range(10)]),
        (10, TEN_LABELS),
        (100, ["0", "11.1", "22.2", "33.3", "44.4", "55.6", "66.7", "77.8", "88.9", "100"]),
    ],
)
def test_levels(top: int, labels: list[str]) -> None:
    request = ChatRequest(MESSAGES, Tag("score"), questions=(Question("q", "?", top),))
    (question,) = decision_body(request, "m")["questions"]
    assert [level["label"] for level in question["levels"]] == labels


def test_a_prefill_is_left_out() -> None:
    request = ChatRequest(
        (*MESSAGES, Message("assistant", "Answer:")), Tag("score"), questions=(FIRST,)
    )
    assert [m["role"] for m in decision_body(request, "m")["input"]] == ["system", "user"]


def read(answer: Any, question: Question = FIRST) -> float | None:
    request = ChatRequest(MESSAGES, Tag("score"), questions=(question,))
    reply = decision_reply(decision(answer), request, service=SERVICE)
    assert reply.answers is not None
    return reply.answers[0].value


def test_a_refused_question_is_none_and_the_others_stand() -> None:
    both = decision({"type": "refusal", "name": "q1"}, score("q2", {9: 1.0}))
    assert decision_reply(both, REQUEST, service=SERVICE).answers == answers(None, 10.0)
    assert read({"type": "refusal"}) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (score("q1", {0: 0.2, 1: 0.2, 2: 0.4}), 1.25),  # (0.2 · 1 + 0.4 · 2) / 0.8
        (score("q1", {1: 1}), 1.0),
        (score(None, {2: 0.3}), 2.0),
        (score("q1", {2: 1.0}, score=0.5), 2.0),  # the probabilities say more
        (score("q1", score=1.25), 1.25),
        (score("q1", score=1.25, probabilities=None), 1.25),
        (score("q1", score=2), 2.0),
        (score("q1", probabilities=labelled((1, "1", 0.9))), 1.0),
    ],
)
def test_the_expected_score(answer: Any, expected: float) -> None:
    assert read(answer) == pytest.approx(expected)


def test_rounding_does_not_carry_a_score_off_the_scale() -> None:
    p = 0.12291249700793105
    assert 9 * p / p > 9
    assert read(score("q2", {9: p}), SECOND) == 10.0


def test_without_probabilities_the_mean_level_is_put_on_the_scale() -> None:
    assert read(score("q2", score=4.5), SECOND) == 5.0  # half way up ten levels


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("7", "neither a score nor a refusal"),
        ({"type": "predicate", "probability": 0.5}, "neither a score nor a refusal"),
        ({"type": ["score"]}, "neither a score nor a refusal"),
        (score("q2", {0: 1.0}), "stands under another question's name"),
        ({"type": "refusal", "name": "q2"}, "stands under another question's name"),
        (score("q1", score=2.01), "is no score on its levels 0 to 2"),
        (score("q1", score=-0.01), "is no score"),
        (score("q1", score=float("nan")), "is no score"),
        (score("q1", score=float("inf")), "is no score"),
        (score("q1", score=True), "is no score"),
        (score("q1", score="1"), "is no score"),
        (score("q1", score=None), "is no score"),
        (score("q1", {3: 1.0}), "is no score"),
        (score("q1", {-1: 1.0}), "is no score"),
        (score("q1", {0: 0.0, 1: 0.0}), "is no score"),
        (score("q1", {0: -0.1, 1: 1.1}), "is no score"),
        (score("q1", {0: float("nan"), 1: 1.0}), "is no score"),
        (score("q1", probabilities="1"), "is no score"),
        (score("q1", probabilities=[0.5, 0.5]), "is no score"),
        (score("q1", probabilities=[{"value": True, "probability": 1.0}]), "is no score"),
        (score("q1", probabilities=[{"value": 1, "probability": 0.5}] * 2), "is no score"),
        (score("q1", probabilities=labelled((1, "0", 1.0))), "is no score"),
    ],
)
def test_what_is_no_answer_is_refused(answer: Any, said: str) -> None:
    with pytest.raises(ServerFailed, match=said) as caught:
        read(answer)
    assert "'q1'" in str(caught.value)


def test_swapped_answers_are_refused() -> None:
    swapped = decision(score("q2", {0: 1.0}), score("q1", {0: 1.0}))
    with pytest.raises(ServerFailed, match="another question's name"):
        decision_reply(swapped, REQUEST, service=SERVICE)


@pytest.mark.parametrize("usage", [None, "x", {}, {"input_tokens": "many"}])
def test_usage_that_is_missing_counts_the_call(usage: Any) -> None:
    reply = decision_reply({**GOOD, "usage": usage}, REQUEST, service=SERVICE)
    assert (reply.usage.calls, reply.usage.input_tokens) == (1, 0)


@given(
    st.integers(1, 100),
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=10),
)
def test_an_expected_score_never_leaves_the_scale(top: int, masses: list[float]) -> None:
    question = Question("q", "?", top)
    masses = masses[: min(top + 1, 10)]
    answer = score("q", dict(enumerate(masses)))
    if sum(masses) == 0:
        with pytest.raises(ServerFailed):
            read(answer, question)
        return
    expected = read(answer, question)
    assert expected is not None
    assert 0 <= expected <= top
