"""The key of a request: what it depends on, what it does not, and that it stays."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import pytest

from mcranker.llm.chat import (
    ChatRequest,
    Judge,
    Message,
    Option,
    PassageStatistics,
    Question,
    ReplySchema,
    State,
    Tag,
)
from mcranker.llm.ledger.rows import request_key
from mcranker.llm.scripted import ScriptedChat

SCHEMA = ReplySchema("score", {"type": "object", "properties": {"a": {}, "b": {}}})
REQUEST = ChatRequest(
    messages=(Message("system", "You judge."), Message("user", "Is it good?")),
    tag=Tag("score", "q1", "Nurse", "d1"),
    schema=SCHEMA,
    seed=7,
)


class Served(ScriptedChat):
    def __init__(self, name: str = "openai:m", endpoint: str = "http://a/v1") -> None:
        super().__init__(lambda request: "ok", name=name)
        self.endpoint = endpoint


def key(request: ChatRequest = REQUEST, **model: str) -> bytes:
    return request_key(Served(**model), request)


def changed(**fields: Any) -> ChatRequest:
    return dataclasses.replace(REQUEST, **fields)


DECISION = changed(schema=None, questions=(Question("a", "Is it?", 10),))
STATE = State("q", {"p1": "one", "p2": "two"}, {"j": "Nurse"})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (REQUEST, "ea7c2d7a207fa219a3176ad6ec9d7bcca0252b7b2247c4759f09aece3380d60f"),
        (DECISION, "c566436316c789189c2f944b91ac152f9761185e67075783d1e176c3460f9972"),
        (
            dataclasses.replace(DECISION, state=STATE),
            "a0c5a5d456015759a51e65d5aba820c1e78174588bb359709f662bd932369cb8",
        ),
    ],
    ids=["messages", "a plain question", "a state without statistics"],
)
def test_the_key_is_the_same_in_every_release(request_: ChatRequest, expected: str) -> None:
    assert key(request_).hex() == expected


def test_whatever_makes_a_typed_question_takes_part() -> None:
    plain = Question("a", "Is it?", 10)
    questions = [
        plain,
        dataclasses.replace(plain, kind="yes_no"),
        dataclasses.replace(plain, options=(Option("0"), Option("1"))),
        dataclasses.replace(plain, options=(Option("0", "no"), Option("1"))),
        dataclasses.replace(plain, passage="p1"),
        dataclasses.replace(plain, judge=Judge("Nurse")),
        dataclasses.replace(plain, judge=Judge("Nurse", "kind")),
        dataclasses.replace(plain, judge=Judge("Nurse", criteria=(("Safe", "", 100.0),))),
    ]
    states = [
        STATE,
        dataclasses.replace(STATE, query="r"),
        dataclasses.replace(STATE, passages={"p2": "two", "p1": "one"}),
        dataclasses.replace(STATE, judges={}),
        dataclasses.replace(STATE, statistics=PassageStatistics(2, 2, {})),
        dataclasses.replace(STATE, statistics=PassageStatistics(2, 3, {})),
        dataclasses.replace(STATE, statistics=PassageStatistics(3, 2, {})),
        dataclasses.replace(STATE, statistics=PassageStatistics(2, 2, {"q": 1})),
        None,
    ]
    keys = {key(changed(questions=(each,), state=STATE)) for each in questions}
    keys |= {key(changed(questions=(plain,), state=each)) for each in states}
    assert len(keys) == len(questions) + len(states) - 1


def test_what_a_request_is_for_takes_no_part() -> None:
    shared = (REQUEST.messages[0], Message("user", "Is it good?", shared=5))
    assert key(changed(tag=Tag("assess", "q2", "Vet", "d2", 9))) == key()
    assert key(changed(messages=shared)) == key()
    assert key(changed(schema=ReplySchema("score", MappingProxyType(SCHEMA.schema)))) == key()
    assert key(changed(temperature=0)) == key(changed(temperature=-0.0)) == key()


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": REQUEST.messages[1:]},
        {"messages": (Message("user", "You judge."), REQUEST.messages[1])},
        {"messages": (*REQUEST.messages, Message("assistant", ""))},
        {"schema": None},
        {"schema": ReplySchema("other", SCHEMA.schema)},
        {"schema": ReplySchema("score", {"type": "object", "properties": {"b": {}, "a": {}}})},
        {"labels": ("No", "Yes")},
        {"questions": (Question("a", "Is it?", 10),)},
        {"state": State("q", {})},
        {"temperature": None},
        {"temperature": 0.5},
        {"max_tokens": 1},
        {"seed": None},
        {"seed": 2**70},
        {"continuation": "who"},
    ],
)
def test_whatever_is_sent_takes_part(fields: dict[str, Any]) -> None:
    assert key(changed(**fields)) != key()


def test_who_is_asked_takes_part() -> None:
    plain = ScriptedChat(lambda request: "ok", name="openai:m")
    keys = {key(), key(name="openai:n"), key(endpoint="http://b/v1"), request_key(plain, REQUEST)}
    assert len(keys) == 4
    assert request_key(plain, REQUEST) == key(endpoint="")


@pytest.mark.parametrize("temperature", [0.0, 0.7, None])
def test_samples_differ(temperature: float | None) -> None:
    keys = {key(changed(temperature=temperature, sample=sample)) for sample in (0, 1)}
    assert len(keys) == 2


def test_lone_surrogates_have_keys_of_their_own() -> None:
    contents = ("\ud800", "\ud801", "?", r"\ud800", "\ufffd")
    keys = {key(changed(messages=(Message("user", content),))) for content in contents}
    assert len(keys) == len(contents)
