"""Queries and passages in all the forms in which users have them."""

from __future__ import annotations

import math
from collections import UserString
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from mcranker.errors import InputError
from mcranker.inputs.passages import as_passages, as_query
from personas.ranking.types import Passage, Query

A, B = Passage("a", "text a"), Passage("b", "text b")


class DataFrame:
    """Iterates over its column names, as data frames do."""

    columns = ("_id", "text")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    ("docs", "passages"),
    [
        ([], ()),
        ({}, ()),
        (iter(()), ()),
        (["x", "y"], (Passage("0", "x"), Passage("1", "y"))),
        ((text for text in "xy"), (Passage("0", "x"), Passage("1", "y"))),
        ({"b": "text b", "a": "text a"}, (B, A)),
        (MappingProxyType({"a": "text a"}), (A,)),
        ({7: "x"}, (Passage("7", "x"),)),
        ({"a": {"text": "text a", "title": "T"}}, (Passage("a", "text a", "T"),)),
        ([A, B], (A, B)),
        ([Passage(7, "x")], (Passage("7", "x"),)),  # type: ignore[arg-type]  # ids as users have them
        ([A, "x", {"id": "c", "text": "y"}], (A, Passage("1", "x"), Passage("c", "y"))),
        ([{"_id": "a", "text": "text a"}], (A,)),
        *(
            ([{key: "a", text: "text a"}], (A,))
            for key, text in (("id", "contents"), ("docid", "body"), ("doc_id", "text"))
        ),
        (
            [{"_id": "a", "id": "z", "text": "text a", "body": "z"}],
            (Passage("a", "text a", metadata={"id": "z", "body": "z"}),),
        ),
        ([{"_id": 7, "text": "x"}], (Passage("7", "x"),)),
        ([{"_id": 0, "text": ""}], (Passage("0", ""),)),
        ([{"_id": "a", "text": "text a", "title": "T"}], (Passage("a", "text a", "T"),)),
        (
            [{"_id": "a", "text": "text a", "url": "kept"}],
            (Passage("a", "text a", metadata={"url": "kept"}),),
        ),
        ([{"_id": "a", "text": "t", "score": 2}], (Passage("a", "t", score=2.0),)),
        ([{"_id": "a", "text": "t", "score": None}], (Passage("a", "t"),)),
        ([Passage("a", "t", score=3)], (Passage("a", "t", score=3.0),)),
        ([{"_id": "a", "text": "t", "score": "79.25"}], (Passage("a", "t", score=79.25),)),
        ([Passage("a", "t", score=np.float32(0.5))], (Passage("a", "t", score=0.5),)),  # type: ignore[arg-type]  # as bm25s gives them
        (np.array(["x", "y"]), (Passage("0", "x"), Passage("1", "y"))),
        ({np.str_("a"): np.str_("text a")}, (A,)),
        ([{"_id": np.int32(7), "text": "x"}], (Passage("7", "x"),)),
        ([{"_id": "a", "text": "t", "score": np.float32(0.5)}], (Passage("a", "t", score=0.5),)),
        (["same", "same"], (Passage("0", "same"), Passage("1", "same"))),
    ],
)
def test_docs_that_are_taken(docs: Any, passages: tuple[Passage, ...]) -> None:
    taken = as_passages(docs)
    assert taken == passages
    assert all(type(each.score) in {float, type(None)} for each in taken)


def named(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        *((docs, f"docs is a {named(docs)}; give a list") for docs in ("a", b"a", 7, None, A)),
        *((docs, "which has no order; give a list") for docs in ({"x", "y"}, frozenset("xy"))),
        (DataFrame(), 'docs is a DataFrame; give its rows as records, as with docs.to_dict("rec'),
        *(
            ([doc], f"docs[0] is a {named(doc)}; give a string")
            for doc in (b"x", None, ["x"], UserString("x"), ("a", "x"))
        ),
        *(
            ({"a": doc}, f"docs[0] has no text; its keys are 'a' ({named(doc)})")
            for doc in (None, 7)
        ),
        *(({key: "x"}, f"the id of docs[0] is a {named(key)}; give") for key in (True, 1.0)),
        *(
            ({key: "x"}, "the id of docs[0] is empty; give every passage an id")
            for key in ("", None)
        ),
        ({"a": {"title": "x"}}, "docs[0] has no text; its keys are 'title' (str), '_id' (str)"),
        ([{"_id": " ", "text": "x"}], "the id of docs[0] is empty; give every passage an id"),
        ([{"_id": 1.5, "text": "x"}], "the id of docs[0] is a float; give a string"),
        ([{"_id": "a", "text": 7}], "its keys are '_id' (str), 'text' (int)"),
        ([{"_id": "a", "text": "x", "title": 7}], "docs[0] has a title that is a int; give a str"),
        *(
            ([{"_id": "a", "text": "x", "score": score}], f"docs[0] has the score {score!r}; give")
            for score in ("high", True, math.nan, math.inf, 1j)
        ),
        ([Passage("a", "x", score=float("nan"))], "docs[0] has the score nan; give a finite"),
        ([Passage("a", "x", score="1_0")], "docs[0] has the score '1_0'; give a finite number"),  # type: ignore[arg-type]  # wrong on purpose
        ([Passage("a", 7)], "docs[0] has a text that is a int"),  # type: ignore[arg-type]  # wrong on purpose
        ([Passage("a", "x", None)], "docs[0] has a title that is a NoneType"),  # type: ignore[arg-type]  # wrong on purpose
        ([Passage(None, "x")], "the id of docs[0] is a NoneType; give a string"),  # type: ignore[arg-type]  # wrong on purpose
        ([A, B, A], "two passages have the id 'a'; make ids unique"),
        ({1: "x", "1": "y"}, "two passages have the id '1'; make ids unique"),
        ({"\ud800": "x"}, "a passage's id holds a lone surrogate at character 0; decode"),
    ],
)
def test_docs_that_are_refused(docs: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        as_passages(docs)
    assert message in str(caught.value)


def test_halves_of_surrogate_pairs_are_replaced_and_pairs_joined(
    caplog: pytest.LogCaptureFixture,
) -> None:
    docs: list[Any] = [
        Passage("a", "ok \ud800", "\udfff", 2.0),
        {"_id": "b", "text": "\ud83d\ude00"},
        "é",
    ]
    assert as_passages(docs) == (
        Passage("a", "ok \ufffd", "\ufffd", 2.0),
        Passage("b", "\U0001f600"),
        Passage("2", "é"),
    )
    assert as_query(Query("m\udcff", "q1")) == Query("m\ufffd", "q1")
    said = [record.getMessage() for record in caplog.records]
    assert [each.split(": holds")[0] for each in said] == ["passage 'a' and 1 more", "the query"]


@pytest.mark.parametrize(
    ("query", "checked"),
    [
        ("masks", Query("masks")),
        (" masks\n", Query(" masks\n")),
        (Query("masks", "q1"), Query("masks", "q1")),
        (np.str_("masks"), Query("masks")),
    ],
)
def test_queries_that_are_taken(query: str | Query, checked: Query) -> None:
    assert as_query(query) == checked


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "the query is empty; give some text"),
        (" \n\t", "the query is empty"),
        (Query(""), "the query is empty"),
        (Query(7), "the query is empty"),  # type: ignore[arg-type]  # wrong on purpose
        (None, "the query is a NoneType; give a string or a Query"),
        (b"masks", "the query is a bytes; give a string or a Query"),
        (["masks"], "the query is a list; give a string or a Query"),
        (Query("masks", 7), "the query's id is a int; give a string"),  # type: ignore[arg-type]  # wrong on purpose
        (Query("masks", "\ud800"), "the query's id holds a lone surrogate at character 0"),
    ],
)
def test_queries_that_are_refused(query: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        as_query(query)
    assert message in str(caught.value)
