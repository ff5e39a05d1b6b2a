"""Rerank services over the wire: each form's fields, refusals, and odd answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConfigError,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.chat import Answer, ChatRequest, Judge, Message, Option, Question, State, Tag
from mcranker.llm.connect import connect
from mcranker.llm.providers import rerank
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.rerank import rerank_reply
from tests.support.loopback import Answer as LoopbackAnswer
from tests.support.loopback import Body, clean_environment, serve
from tests.support.rerank_servers import cohere, jina, tei

SERVICE = Service("rerank:m", "there", "", "", "", 1.0)
TEXTS = {"p1": "masks help", "p2": "bread", "p3": "masks"}
QUESTIONS = tuple(Question(f"q_{name}", "", passage=name) for name in TEXTS)
REQUEST = ChatRequest((), Tag("score"), questions=QUESTIONS, state=State("Hé?", TEXTS))


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


def by_length(query: str, text: str) -> float:
    """0.10 for 10 letters: p1 0.10, p2 0.05, p3 0.05."""
    return len(text) / 100


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "service", "path", "field", "tokens"),
    [
        ("rerank", cohere, "/v1/rerank", "documents", 0),
        ("rerank", jina, "/v1/rerank", "documents", 21),
        ("rerank-tei", tei, "/v1/rerank", "texts", 0),
        ("rerank-logits", jina, "/v1/rerank", "documents", 21),
    ],
)
async def test_what_goes_over_the_wire_and_comes_back(
    kind: str, service: Any, path: str, field: str, tokens: int
) -> None:
    async with serve(service(by_length)) as server:
        model = connect(f"{kind}:m", base_url=server.url, api_key="k-secret")
        reply = await model.complete(REQUEST)
        await model.aclose()
    (sent,) = server.requests
    assert (sent.path, sent.headers["authorization"]) == (path, "Bearer k-secret")
    named = {} if kind == "rerank-tei" else {"model": "m"}
    assert sent.body == {**named, "query": "Hé?", field: list(TEXTS.values())}
    values = [answer.value for answer in reply.answers or ()]
    # Of logits, 1 / (1 + e^-0.1) = 0.52498 and 1 / (1 + e^-0.05) = 0.51250
    expected = [0.52498, 0.5125, 0.5125] if kind == "rerank-logits" else [0.10, 0.05, 0.05]
    assert values == pytest.approx(expected, abs=1e-5)
    assert (reply.usage.calls, reply.usage.input_tokens) == (1, tokens)
    assert model.name == f"{kind}:m"


def read(results: Any, *, logits: bool = False) -> tuple[Answer, ...]:
    answers = rerank_reply({"results": results}, REQUEST, logits=logits, service=SERVICE).answers
    assert answers is not None
    return answers


def scored(*scores: Any) -> list[Body]:
    return [{"index": place, "relevance_score": score} for place, score in enumerate(scores)]


def test_logits_go_through_the_logistic_function() -> None:
    # 1 / (1 + e^-s): 0 gives 1/2, ln 3 gives 3/4, -ln 3 gives 1/4.
    answers = read(scored(0, math.log(3), -math.log(3)), logits=True)
    assert [each.value for each in answers] == pytest.approx([0.5, 0.75, 0.25])
    ends = read(scored(1e300, -1e300, 40), logits=True)
    assert [each.value for each in ends] == pytest.approx([1.0, 0.0, 1.0])


TWICE = {"index": 1, "relevance_score": 0.1}
ODD: dict[str, tuple[list[Any], str]] = {
    **{
        f"score {odd!r:.9}": ([0.25, odd, 0.5], f"its score is {said}")
        for odd, said in (
            (None, "None, not a finite number"),
            ("0.5", "'0.5'"),
            (True, "True"),
            (math.nan, "nan"),
            (math.inf, "inf"),
            ([], "list"),
            (-(16**400), "a huge number"),
        )
    },
    "no item": ([0.25, "none", 0.5], "no score for this passage"),
    "two items": ([0.25, 0.1, 0.5, TWICE], "2 scores for this passage"),
}


@pytest.mark.parametrize(("scores", "problem"), ODD.values(), ids=ODD)
@pytest.mark.parametrize("logits", [True, False])
def test_an_odd_score_is_missing_and_the_others_are_not(
    scores: list[Any], problem: str, *, logits: bool
) -> None:
    results = [*scored(*scores[:3]), *scores[3:]]
    if scores[1] == "none":
        del results[1]
    first, odd, last = read(results, logits=logits)
    assert odd.value is None
    assert problem in odd.problem
    # Of logits, 1 / (1 + e^-0.25) and 1 / (1 + e^-0.5)
    expected = [0.56218, 0.62246] if logits else [0.25, 0.5]
    assert [first.value, last.value] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("index", [3, -1, 2**70, None, "3", "-1", 0.5, math.nan, True, []])
def test_an_index_of_no_passage_makes_the_whole_answer_unreadable(index: Any) -> None:
    # A service that counts from 1 would have all scores shifted by one.
    with pytest.raises(ServerFailed, match=r"a result with the index .+, of passages 0 to 2"):
        read([*scored(0.2, 0.1), {"index": index, "relevance_score": 0.3}])


@pytest.mark.parametrize(
    "data", [{}, {"results": None}, {"results": {"0": 1}}, {"results": [0.3]}, {"results": []}]
)
def test_an_answer_without_results_is_an_error(data: Body) -> None:
    with pytest.raises(ServerFailed, match=r"results in it|the index None|none of the 3"):
        rerank_reply(data, REQUEST, logits=False, service=SERVICE)


def test_voyages_list_is_read_too() -> None:
    data = {"object": "list", "data": scored(0.2, 0.1, 0.3), "usage": {"total_tokens": 26}}
    reply = rerank_reply(data, REQUEST, logits=False, service=SERVICE)
    assert reply.answers == (Answer(0.2), Answer(0.1), Answer(0.3))
    assert reply.usage.input_tokens == 26


@pytest.mark.parametrize("score", [7.25, -3.0, 1.02, 10**30])
def test_logits_where_none_are_expected_are_said(score: float) -> None:
    with pytest.raises(UnsupportedCapability, match="name the model 'rerank-logits:m'"):
        read(scored(0.5, score, 0.5))


def question(**fields: Any) -> ChatRequest:
    asked = Question(**{"name": "q", "text": "", "passage": "p1", **fields})
    return ChatRequest((), Tag("score"), questions=(asked,), state=State("q", TEXTS))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (ChatRequest((Message("user", "Who?"),), Tag("recruit")), "as the stage 'recruit' has"),
        (question(passage="p9"), "cannot answer the question 'q'"),
        (question(passage=""), "cannot answer the question 'q'"),
        (question(kind="choice", options=(Option("a"), Option("b"))), "cannot answer"),
        (question(judge=Judge("Nurse")), "by no persona's view"),
        (question(judge=Judge("", criteria=2)), "by no persona's view"),
    ],
)
async def test_what_a_relevance_does_not_answer_is_refused(
    request_: ChatRequest, problem: str
) -> None:
    model = connect("rerank:m", base_url="http://127.0.0.1:9")
    with pytest.raises(UnsupportedCapability, match=problem):
        await model.complete(request_)


@pytest.mark.anyio
async def test_a_server_of_the_other_form_is_told() -> None:
    async with serve(tei(by_length)) as server:
        model = connect("rerank:bge", base_url=server.url)
        with pytest.raises(UnsupportedCapability, match="name the model 'rerank-tei:bge'"):
            await model.complete(REQUEST)
        await model.aclose()


def test_names_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, form in rerank.FORMS.items():
        with pytest.raises(ConfigError, match="needs base_url=, the address before /rerank"):
            connect(f"{kind}:m")
        chat = connect(f"{kind}:org/m", base_url="http://localhost:1/v1/")
        assert chat.name == f"{kind}:org/m"
        assert chat.capabilities.max_questions == form.most == (32 if "tei" in kind else 100)
        assert getattr(chat, "endpoint", "") == "http://localhost:1/v1"
    monkeypatch.setenv("RERANK_API_KEY", "two words")
    with pytest.raises(AuthenticationFailed, match="set RERANK_API_KEY"):
        connect("rerank:m", base_url="http://localhost:1")


def test_an_instruction_is_sent_where_the_protocol_has_one() -> None:
    asked = question(judge=Judge("", instruction="Prefer reviews."))
    body = rerank.rerank_body(asked, "m", rerank.FORMS["rerank"], "rerank:m")
    assert body["instruction"] == "Prefer reviews."
    assert "instruction" not in rerank.rerank_body(REQUEST, "m", rerank.FORMS["rerank"], "rerank:m")
    for kind, request in (("rerank-logits", asked), ("rerank", replace(asked, state=None))):
        with pytest.raises(UnsupportedCapability):
            rerank.rerank_body(request, "m", rerank.FORMS[kind], f"{kind}:m")


@pytest.mark.parametrize("prefix", ["rerank", "rerank-tei", "rerank-logits"])
async def test_a_bare_list_is_read(prefix: str) -> None:
    results = [{"index": str(place), "score": 0.5} for place in range(3)]
    async with serve(lambda _: LoopbackAnswer(body=results)) as server:
        model = connect(f"{prefix}:m", base_url=server.url)
        answers = (await model.complete(REQUEST)).answers
        assert answers is not None
        assert all(each.value for each in answers)
        await model.aclose()
