"""The key of a request, which stays, and a reply as a row: it comes back whole, or is refused."""

from __future__ import annotations

import dataclasses
import math
import sqlite3
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.llm.chat import (
    Answer,
    ChatReply,
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
from mcranker.llm.ledger.rows import Damaged, Unkeepable, reply_of, request_key, row_of
from mcranker.llm.scripted import ScriptedChat
from personas.ranking.usage import Usage
from tests.support.ledger_support import MODEL, key, reply

texts = st.text(st.characters(codec=None))
numbers = st.floats(allow_nan=False)
lists = st.none() | st.lists(numbers, max_size=3).map(tuple)
typed = st.builds(Answer, st.none() | numbers, st.none() | numbers, lists, texts)
replies = st.builds(
    ChatReply,
    text=texts,
    usage=st.builds(Usage, *[st.integers(0, 2**53)] * 4, st.floats(0, 1e9)),
    model=texts,
    finish_reason=st.sampled_from(["stop", "length"]),
    label_logprobs=st.none() | st.dictionaries(st.text(max_size=3), numbers, max_size=3),
    continuation_logprobs=lists,
    answers=st.none() | st.lists(typed, max_size=3).map(tuple),
    reused=st.just(True),
)


def stored(given: ChatReply, model: str = MODEL) -> tuple[Any, ...]:
    """The row as SQLite gives it back."""
    row = row_of(key(1), given, model=model, stage="score")
    database = sqlite3.connect(":memory:")
    database.text_factory = bytes
    (found,) = database.execute(f"SELECT {', '.join('?' * 11)}", row).fetchall()
    database.close()
    return tuple(found)


@given(replies, texts)
def test_an_answer_comes_back_whole(given: ChatReply, model: str) -> None:
    found = reply_of(stored(given, model))
    assert found == given
    assert found.usage.seconds == given.usage.seconds


def wrong(field: str, *values: Any) -> list[dict[str, Any]]:
    return [{field: value} for value in values]


def usage(*counts: Any) -> Usage:
    return Usage(*counts)


WRONG = [
    *wrong("text", None, b"bytes", object()),
    *wrong("usage", None, 5, usage(1, -1), usage(1, 1.5), usage(1, "7"), usage(1, None)),
    *wrong("usage", usage(1, 2**53 + 2), usage(1, 10**400), usage(1, math.nan), usage(math.inf)),
    *wrong("usage", usage(1, 1, 1, 1, None), usage(1, 1, 1, 1, math.inf), usage(1, 1, 1, 1, "7")),
    *wrong("label_logprobs", 5, "text", {1: 1.0}),
    *wrong("continuation_logprobs", 5, "text", {}, iter([1.0])),
    *wrong("answers", 5, "text", {}, iter([Answer(1.0)]), (1.0,), (None,)),
]


@pytest.mark.parametrize("fields", WRONG, ids=lambda fields: next(iter(fields)))
def test_a_reply_of_a_wrong_form_has_no_row(fields: dict[str, Any]) -> None:
    given = ChatReply(**({"text": "7"} | fields))
    with pytest.raises(Unkeepable):
        row_of(key(1), given, model=MODEL, stage="score")


@pytest.mark.parametrize("column", range(11))
def test_a_row_that_was_changed_is_damaged(column: int) -> None:
    row = list(stored(reply(label_logprobs={"a": -math.inf})))
    value = row[column]
    row[column] = value + 1 if isinstance(value, int | float) else value[:-1]
    with pytest.raises(Damaged):
        reply_of(tuple(row))


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


def key_of(request: ChatRequest = REQUEST, **model: str) -> bytes:
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
    assert key_of(request_).hex() == expected


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
        dataclasses.replace(plain, judge=Judge("Nurse", instruction="Safe ones.")),
        dataclasses.replace(plain, judge=Judge("Nurse", criteria=1)),
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
    keys = {key_of(changed(questions=(each,), state=STATE)) for each in questions}
    keys |= {key_of(changed(questions=(plain,), state=each)) for each in states}
    assert len(keys) == len(questions) + len(states) - 1


def test_what_a_request_is_for_takes_no_part() -> None:
    shared = (REQUEST.messages[0], Message("user", "Is it good?", shared=5))
    assert key_of(changed(tag=Tag("assess", "q2", "Vet", "d2", 9))) == key_of()
    assert key_of(changed(messages=shared)) == key_of()
    assert key_of(changed(schema=ReplySchema("score", MappingProxyType(SCHEMA.schema)))) == key_of()
    assert key_of(changed(temperature=0)) == key_of(changed(temperature=-0.0)) == key_of()


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": REQUEST.messages[1:]},
        {"messages": (Message("user", "You judge."), REQUEST.messages[1])},
        {"schema": None},
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
    assert key_of(changed(**fields)) != key_of()


def test_who_is_asked_takes_part() -> None:
    plain = ScriptedChat(lambda request: "ok", name="openai:m")
    keys = {
        key_of(),
        key_of(name="openai:n"),
        key_of(endpoint="http://b/v1"),
        request_key(plain, REQUEST),
    }
    assert len(keys) == 4
    assert request_key(plain, REQUEST) == key_of(endpoint="")
