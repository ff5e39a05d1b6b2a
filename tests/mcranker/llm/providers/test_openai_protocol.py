from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.errors import (
    ContentRefused,
    ContextTooLong,
    ModelError,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.chat import Capabilities, ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.providers.label_logprobs import label_logprobs
from mcranker.llm.providers.openai_protocol import chat_body, chat_reply
from tests.support.loopback import completion, position
from tests.support.wire import SERVICE

ALL = Capabilities(json_schema=True, label_logprobs=True, prefill=True)
MESSAGES = (Message("system", "Be fair."), Message("user", "Score it."))
SCORES = tuple(str(n) for n in range(11))


def ask(*messages: Message, **options: Any) -> ChatRequest:
    return ChatRequest(messages=messages or MESSAGES, tag=Tag("score"), **options)


def test_labels_ask_for_few_tokens_and_their_probabilities() -> None:
    body = chat_body(ask(labels=("Yes", "No")), "m", capabilities=ALL)
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 8)
    assert chat_body(ask(labels=("Yes",), max_tokens=1), "m", capabilities=ALL)["max_tokens"] == 1


def test_what_the_model_lacks_is_left_out() -> None:
    request = ask(*MESSAGES, Message("assistant", "{"), schema=ReplySchema("s", {}))
    body = chat_body(request, "m", capabilities=Capabilities())
    assert "response_format" not in body
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert chat_body(request, "m", capabilities=ALL)["messages"][-1]["content"] == "{"


def test_a_repeated_prefill_is_taken_off_only_if_one_was_sent() -> None:
    request = ask(*MESSAGES, Message("assistant", '{"Score": '))
    data = completion('{"Score": 7}')
    assert chat_reply(data, request, service=SERVICE, prefill=True).text == "7}"
    assert chat_reply(data, request, service=SERVICE).text == '{"Score": 7}'
    assert chat_reply(completion("7}"), request, service=SERVICE, prefill=True).text == "7}"


ERRORS: dict[str, tuple[dict[str, Any], type[ModelError], str]] = {
    "filtered": (completion("", finish_reason="content_filter"), ContentRefused, "content filter"),
    "refused": (completion(None, refusal="I will not."), ContentRefused, "I will not"),
    "nothing": ({}, ServerFailed, "no choices"),
    "no choice": ({"choices": []}, ServerFailed, "no choices"),
    "an odd choice": ({"choices": [None]}, ServerFailed, "no choices"),
    "odd choices": ({"choices": {}}, ServerFailed, "no choices"),
    "no error": ({"error": None}, ServerFailed, "no choices"),
    "an error": (
        {"error": {"code": 400, "message": "exceeds the available context size"}},
        ContextTooLong,
        "available context size",
    ),
    "words": ({"error": "upstream died"}, ServerFailed, "upstream died"),
    "broken off": (completion("7", finish_reason="error"), ServerFailed, "broke off"),
}


@pytest.mark.parametrize(("data", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_a_good_status_may_hide_an_error(
    data: dict[str, Any], error: type[ModelError], said: str
) -> None:
    with pytest.raises(error, match=said):
        chat_reply(data, ask(), service=SERVICE)


def test_a_server_that_ignores_logprobs_is_reported() -> None:
    for logprobs in (None, {}, {"content": None}):
        with pytest.raises(UnsupportedCapability, match='scoring="integer"'):
            chat_reply(completion("Yes", logprobs=logprobs), ask(labels=("Yes",)), service=SERVICE)
    empty = chat_reply(completion(""), ask(labels=("Yes",)), service=SERVICE)
    assert empty.label_logprobs == {}


YES_NO = ("Yes", "No")
SENTENCES = ("Highly relevant", "Not relevant", "Not sure")
ONE = position("1", **{"1": 0.6, "7": 0.4})
SEVEN = position("7", **{"1": 0.4, "7": 0.6})
# "High" begins one label only; "Not" begins two, and the second token tells them apart.
NOT = position("Not", High=0.3, Not=0.7)
SURE = position(" sure", **{" sure": 0.5, " relevant": 0.4})
MASSES: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], dict[str, float]]] = {
    # Yes: 0.5 + 0.2 + 0.1 = 0.8; No: 0.15; "Maybe" is no label.
    "spellings": (
        [position("Yes", Yes=0.5, _Yes=0.2, yes=0.1, no=0.15, Maybe=0.05)],
        YES_NO,
        {"Yes": 0.8, "No": 0.15},
    ),
    # p(1) = 0.6; then p(0 | 1) = 0.25: p(10) = 0.6 · 0.25 = 0.15, p(1) = 0.6 · 0.75 = 0.45.
    "ten": (
        [ONE, position("<end>", **{"0": 0.25, "<end>": 0.7, "5": 0.05})],
        SCORES,
        {"1": 0.45, "7": 0.4, "10": 0.15},
    ),
    "no second": ([SEVEN], SCORES, {"1": 0.4, "7": 0.6}),
    # " 1" (0.2) was not generated and stays whole: p(1) = 0.5 · 0.5 + 0.2 = 0.45.
    "generated": (
        [position("1", **{"1": 0.5, " 1": 0.2, "3": 0.3}), position("0", **{"0": 0.5})],
        SCORES,
        {"1": 0.45, "3": 0.3, "10": 0.25},
    ),
    "many tokens": (
        [NOT, SURE],
        SENTENCES,
        {"Highly relevant": 0.3, "Not relevant": 0.28, "Not sure": 0.35},
    ),
    "white space": (
        [position(" ", **{" ": 0.9, "7": 0.1}), position("3", **{"3": 0.8, "4": 0.2})],
        SCORES,
        {"3": 0.8, "4": 0.2},
    ),
    "a key": (
        [position('{"'), position("score"), position('":'), position(" 7", **{" 7": 0.8})],
        SCORES,
        {"7": 0.8},
    ),
    "ten behind marks": (
        [position("**"), ONE, position("0", **{"0": 0.5})],
        SCORES,
        {"1": 0.3, "7": 0.4, "10": 0.3},
    ),
    "channels": (
        [
            *(position("<|channel|>"), position("analysis"), position("<|message|>"), ONE),
            *(position("<|channel|>"), position("final"), position("<|message|>")),
            position("3", **{"3": 0.9}),
        ],
        SCORES,
        {"3": 0.9},
    ),
    "thoughts without an end": (
        [position("<think>", **{"<think>": 0.9, "3": 1e-7}), position("7", **{"7": 0.9})],
        SCORES,
        {"3": 1e-7},
    ),
    "another number": (
        [position("Passage", Passage=0.9), position(" 1", **{" 1": 0.9})],
        SCORES,
        {},
    ),
    "a letter": (
        [position("Passage"), position(" B", **{" B": 0.7, " A": 0.2})],
        ("A", "B"),
        {"A": 0.2, "B": 0.7},
    ),
    "below zero": ([position("-"), position("1", **{"1": 0.9})], SCORES, {}),
    "forms of a character": (
        [position("7", **{"7": 0.1, "\uff17": 0.1, "\u25817": 0.1, "\u01207": 0.1, "<0x37>": 0.1})],
        SCORES,
        {"7": 0.5},
    ),
    "beyond the listed": (
        [position("Yes", No=0.5) | {"logprob": math.log(0.125)}],
        YES_NO,
        {"Yes": 0.125, "No": 0.5},
    ),
    "no label": ([position("Well", Well=0.9)], YES_NO, {}),
    "odd": ([{"token": None, "top_logprobs": "?"}], YES_NO, {}),
}


@pytest.mark.parametrize(("positions", "labels", "expected"), MASSES.values(), ids=MASSES)
def test_the_probability_of_each_label(
    positions: list[dict[str, Any]], labels: tuple[str, ...], expected: dict[str, float]
) -> None:
    found = label_logprobs(positions, labels)
    assert {label: round(math.exp(p), 9) for label, p in found.items()} == expected


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
