"""A reply as a row of the ledger: it comes back whole, or is refused."""

from __future__ import annotations

import math
import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.llm.chat import Answer, ChatReply
from mcranker.llm.ledger.rows import Damaged, Unkeepable, reply_of, row_of
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


def test_an_answer_that_is_only_a_number_is_stored_as_that() -> None:
    plain = stored(reply(answers=(Answer(1.5), Answer(None), Answer(None, problem="odd"))))
    assert b'"answers":[1.5,null,{"problem":"odd"}]' in plain[9]
    assert b"finish_reason" not in plain[9]


def wrong(field: str, *values: Any) -> list[dict[str, Any]]:
    return [{field: value} for value in values]


def usage(*counts: Any) -> Usage:
    return Usage(*counts)


def answer(*fields: Any) -> tuple[Answer, ...]:
    return (Answer(*fields),)


WRONG = [
    *wrong("text", None, 5, b"bytes", ["a"], object()),
    *wrong("model", None, 5, b"bytes"),
    *wrong("finish_reason", None, 5),
    *wrong("usage", None, 5, usage(1, -1), usage(1, 1.5), usage(1, "7"), usage(1, None)),
    *wrong("usage", usage(1, 2**53 + 2), usage(1, 10**400), usage(1, math.nan), usage(math.inf)),
    *wrong("usage", usage(1, 1, 1, 1, None), usage(1, 1, 1, 1, math.inf), usage(1, 1, 1, 1, "7")),
    *wrong("label_logprobs", [], 5, "text", {1: 1.0}, {"a": None}, {"a": "1"}),
    *wrong("continuation_logprobs", 5, "text", {}, iter([1.0]), (None,), ("1",)),
    *wrong("answers", 5, "text", {}, iter([Answer(1.0)]), (1.0,), (None,)),
    *wrong("answers", answer("7"), answer([]), answer(10**400), answer(1.0, "7")),
    *wrong("answers", answer(1.0, None, ("1",)), answer(1.0, None, None, 5)),
]


@pytest.mark.parametrize("fields", WRONG, ids=lambda fields: next(iter(fields)))
def test_a_reply_of_a_wrong_form_has_no_row(fields: dict[str, Any]) -> None:
    given = ChatReply(**({"text": "7"} | fields))
    with pytest.raises(Unkeepable, match="a ChatReply was expected"):
        row_of(key(1), given, model=MODEL, stage="score")


@pytest.mark.parametrize("column", range(11))
def test_a_row_that_was_changed_is_damaged(column: int) -> None:
    row = list(stored(reply(label_logprobs={"a": -math.inf})))
    value = row[column]
    row[column] = value + 1 if isinstance(value, int | float) else value[:-1]
    with pytest.raises(Damaged):
        reply_of(tuple(row))
