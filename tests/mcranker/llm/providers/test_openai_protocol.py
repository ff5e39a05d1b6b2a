from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.errors import (
    ContentRefused,
    ContextTooLong,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.chat import Capabilities, ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_protocol import chat_body, chat_reply, label_logprobs
from personas.ranking.usage import Usage
from tests.support.loopback import completion, position

SERVICE = Service(
    model="openai:m",
    where="here",
    key_advice="",
    model_advice="",
    connection_advice="",
    timeout=1.0,
)
ALL = Capabilities(json_schema=True, label_logprobs=True, prefill=True)
MESSAGES = (Message("system", "Be fair."), Message("user", "Score it."))
SCORES = tuple(str(n) for n in range(11))


def ask(*messages: Message, **options: Any) -> ChatRequest:
    return ChatRequest(messages=messages or MESSAGES, tag=Tag("score"), **options)


def probabilities(positions: list[dict[str, Any]], labels: tuple[str, ...]) -> dict[str, float]:
    return {k: round(math.exp(v), 9) for k, v in label_logprobs(positions, labels).items()}


def test_a_plain_request_sends_only_what_it_needs() -> None:
    body = chat_body(ask(temperature=None, max_tokens=9), "m", capabilities=ALL)
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be fair."},
            {"role": "user", "content": "Score it."},
        ],
        "max_tokens": 9,
    }


def test_a_request_with_everything() -> None:
    schema = {"type": "object", "additionalProperties": False}
    request = ask(schema=ReplySchema("score", schema), seed=3, temperature=0.0)
    body = chat_body(request, "m", capabilities=ALL, limit_name="max_completion_tokens")
    assert body["temperature"] == 0.0
    assert body["seed"] == 3
    assert body["max_completion_tokens"] == 1024
    assert "max_tokens" not in body
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "score", "strict": True, "schema": schema},
    }


def test_labels_ask_for_few_tokens_and_their_probabilities() -> None:
    body = chat_body(ask(labels=("Yes", "No")), "m", capabilities=ALL)
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 3)
    assert chat_body(ask(labels=("Yes",), max_tokens=1), "m", capabilities=ALL)["max_tokens"] == 1


def test_what_the_model_lacks_is_left_out() -> None:
    request = ask(*MESSAGES, Message("assistant", "{"), schema=ReplySchema("s", {}))
    body = chat_body(request, "m", capabilities=Capabilities())
    assert "response_format" not in body
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert chat_body(request, "m", capabilities=ALL)["messages"][-1]["content"] == "{"


def test_a_reply_with_its_usage() -> None:
    reply = chat_reply(completion("7"), ask(), service=SERVICE)
    assert reply.text == "7"
    assert reply.usage == Usage(calls=1, input_tokens=11, cached_input_tokens=4, output_tokens=3)
    assert reply.model == "served-model"
    assert reply.finish_reason == "stop"
    assert reply.label_logprobs is None


def test_cut_and_empty_replies() -> None:
    cut = chat_reply(completion("7", finish_reason="length"), ask(), service=SERVICE)
    assert cut.finish_reason == "length"
    assert chat_reply(completion(None), ask(), service=SERVICE).text == ""


def test_a_repeated_prefill_is_taken_off_only_if_one_was_sent() -> None:
    request = ask(*MESSAGES, Message("assistant", '{"Score": '))
    data = completion('{"Score": 7}')
    assert chat_reply(data, request, service=SERVICE, prefill=True).text == "7}"
    assert chat_reply(data, request, service=SERVICE).text == '{"Score": 7}'
    assert chat_reply(completion("7}"), request, service=SERVICE, prefill=True).text == "7}"


@pytest.mark.parametrize(
    "data",
    [completion("", finish_reason="content_filter"), completion(None, refusal="I will not.")],
)
def test_a_refusal_is_an_error(data: dict[str, Any]) -> None:
    with pytest.raises(ContentRefused):
        chat_reply(data, ask(), service=SERVICE)


@pytest.mark.parametrize(
    "data", [{}, {"choices": []}, {"choices": [None]}, {"choices": {}}, {"error": None}]
)
def test_an_answer_without_a_choice_is_the_servers_fault(data: dict[str, Any]) -> None:
    with pytest.raises(ServerFailed, match="no choices"):
        chat_reply(data, ask(), service=SERVICE)


def test_an_error_behind_a_good_status_is_still_that_error() -> None:
    data = {"error": {"code": 400, "message": "exceeds the available context size"}}
    with pytest.raises(ContextTooLong):
        chat_reply(data, ask(), service=SERVICE)
    with pytest.raises(ServerFailed, match="upstream died"):
        chat_reply({"error": "upstream died"}, ask(), service=SERVICE)
    with pytest.raises(ServerFailed, match="broke off"):
        chat_reply(completion("7", finish_reason="error"), ask(), service=SERVICE)


def test_labels_are_read_from_the_reply() -> None:
    content = [position("Yes", Yes=0.75, No=0.25)]
    reply = chat_reply(
        completion("Yes", logprobs={"content": content}),
        ask(labels=("Yes", "No")),
        service=SERVICE,
    )
    assert reply.label_logprobs == pytest.approx({"Yes": math.log(0.75), "No": math.log(0.25)})


def test_a_server_that_ignores_logprobs_is_reported() -> None:
    for logprobs in (None, {}, {"content": None}):
        with pytest.raises(UnsupportedCapability, match='scoring="integer"'):
            chat_reply(completion("Yes", logprobs=logprobs), ask(labels=("Yes",)), service=SERVICE)
    empty = chat_reply(completion(""), ask(labels=("Yes",)), service=SERVICE)
    assert empty.label_logprobs == {}


def test_spellings_of_a_label_add_up() -> None:
    # Yes: 0.5 + 0.2 + 0.1 = 0.8; No: 0.15; "Maybe" is no label.
    found = position("Yes", Yes=0.5, _Yes=0.2, yes=0.1, no=0.15, Maybe=0.05)
    assert probabilities([found], ("Yes", "No")) == {"Yes": 0.8, "No": 0.15}


def test_ten_of_two_tokens_shares_the_mass_of_one() -> None:
    # p(1) = 0.6; then p(0 | 1) = 0.25: p(10) = 0.6 · 0.25 = 0.15, p(1) = 0.6 · 0.75 = 0.45.
    first = position("1", **{"1": 0.6, "7": 0.4})
    second = position("<end>", **{"0": 0.25, "<end>": 0.7, "5": 0.05})
    assert probabilities([first, second], SCORES) == {"1": 0.45, "7": 0.4, "10": 0.15}


def test_without_the_path_the_mass_stays_with_the_shorter_label() -> None:
    first = position("7", **{"1": 0.4, "7": 0.6})
    second = position("0", **{"0": 0.9})  # follows "7", says nothing about "1"
    assert probabilities([first, second], SCORES) == {"1": 0.4, "7": 0.6}
    assert probabilities([first], SCORES) == {"1": 0.4, "7": 0.6}


def test_only_the_generated_spelling_is_split() -> None:
    # " 1" (0.2) was not generated and stays whole: p(1) = 0.5 · 0.5 + 0.2 = 0.45.
    first = position("1", **{"1": 0.5, " 1": 0.2, "3": 0.3})
    second = position("0", **{"0": 0.5})
    assert probabilities([first, second], SCORES) == {"1": 0.45, "3": 0.3, "10": 0.25}


def test_labels_of_many_tokens() -> None:
    labels = ("Highly relevant", "Not relevant", "Not sure")
    # "High" begins one label only; "Not" begins two, and the second token tells them apart.
    first = position("Not", High=0.3, Not=0.7)
    second = position(" sure", **{" sure": 0.5, " relevant": 0.4})
    assert probabilities([first, second], labels) == {
        "Highly relevant": 0.3,
        "Not relevant": 0.28,
        "Not sure": 0.35,
    }
    assert probabilities([first], labels) == {"Highly relevant": 0.3}


def test_white_space_before_the_label_is_skipped() -> None:
    positions = [position(" ", **{" ": 0.9, "7": 0.1}), position("3", **{"3": 0.8, "4": 0.2})]
    assert probabilities(positions, SCORES) == {"3": 0.8, "4": 0.2}


def test_no_label_listed_gives_nothing() -> None:
    assert label_logprobs([position("Well", Well=0.9)], ("Yes", "No")) == {}
    assert label_logprobs([], ("Yes",)) == {}
    assert label_logprobs([{"token": None, "top_logprobs": "?"}], ("Yes",)) == {}


def test_a_generated_token_beyond_the_listed_ones_counts() -> None:
    found = position("Yes", No=0.5) | {"logprob": math.log(0.125)}
    assert probabilities([found], ("Yes", "No")) == {"Yes": 0.125, "No": 0.5}


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(["1", " 1", "0", "10", "00", "2", "x", " ", "1\n"]),
                st.floats(0.001, 1.0),
                min_size=1,
            ),
            st.integers(0, 8),
        ),
        max_size=3,
    )
)
def test_mass_is_never_invented(tokens: list[tuple[dict[str, float], int]]) -> None:
    positions = []
    for weights, chosen in tokens:
        total = sum(weights.values())
        shares = {token: weight / total for token, weight in weights.items()}
        positions.append(position(list(shares)[chosen % len(shares)], **shares))
    found = label_logprobs(positions, (*SCORES, "100"))
    assert sum(math.exp(p) for p in found.values()) <= 1.0 + 1e-9
    assert all(p <= 0.0 for p in found.values())
