"""Query transforms: calls, their order and content, and what is made of replies."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker import (
    AuthenticationFailed,
    BudgetExceeded,
    Capabilities,
    ChatReply,
    ConfigError,
    ConnectionFailed,
    UnsupportedCapability,
)
from mcranker.rag.config import QueryStage
from mcranker.rag.passages import Queries, queries_for

from .asked import Asked, rendered

pytestmark = pytest.mark.anyio

QUESTION = "How do BERT and GPT differ, and who made them?"
LONGER = "In which ways do the models BERT and GPT differ, and which firms made them?"


async def queries(asked: Asked, question: str = QUESTION, **stage: Any) -> Queries:
    return await queries_for(question, QueryStage(**stage), asked.by)


def sent(found: Queries) -> list[tuple[str, str]]:
    return [(each.text, each.origin) for each in found.queries]


async def variants(reply: str | ChatReply, **stage: Any) -> tuple[list[str], tuple[str, ...]]:
    """Texts behind the question, and notes, of a reply that one repair turn does not change."""
    found = await queries(Asked([reply, reply]), transform="variants", **stage)
    assert sent(found)[0] == (QUESTION, "question")
    return [text for text, _ in sent(found)[1:]], found.notes


async def test_hyde_sends_the_question_then_the_hypothetical_answer() -> None:
    asked = Asked(["BERT reads both ways;\n GPT writes. "])
    found = await queries(asked, transform="hyde")
    assert sent(found) == [
        (QUESTION, "question"),
        ("BERT reads both ways; GPT writes.", "hypothetical answer"),
    ]
    assert asked.shown == [rendered("rag_hyde", question=QUESTION)]
    assert asked.shown[0][1] == ("user", QUESTION)
    assert asked.by.usage.total.calls == 1
    assert {key[0] for key in asked.by.usage} == {"transform"}


@pytest.mark.parametrize("wording", ["naive", "medium", "advanced"])
async def test_variants_are_asked_for_in_three_wordings(wording: str) -> None:
    asked = Asked(["query: bert gpt difference\nquery: makers of bert and gpt"])
    found = await queries(asked, transform="variants", wording=wording, variants=2)
    assert sent(found) == [
        (QUESTION, "question"),
        ("bert gpt difference", "variant"),
        ("makers of bert and gpt", "variant"),
    ]
    assert found.notes == ()
    assert asked.shown == [rendered(f"rag_variants_{wording}", question=QUESTION, count="2")]
    assert 'begins with "query:"' in asked.shown[0][0][1]


DECOMPOSED = ["1. BERT [model]\n2. GPT [model]", LONGER]
FIRST_THREE = [
    rendered("rag_components", question=QUESTION),
    rendered("rag_rephrase", question=QUESTION, components=DECOMPOSED[0]),
    rendered("rag_complexity", question=QUESTION),  # of the question as asked, not the longer one
]


async def test_a_composite_question_becomes_queries_of_the_longer_one() -> None:
    asked = Asked([*DECOMPOSED, "COMPOSITE", "query: bert gpt differ\nquery: who made bert, gpt"])
    found = await queries(asked, transform="decomposition")
    assert asked.shown == [*FIRST_THREE, rendered("rag_subqueries", question=LONGER)]
    assert sent(found) == [
        (QUESTION, "question"),
        ("bert gpt differ", "sub-query"),
        ("who made bert, gpt", "sub-query"),
    ]
    assert found.rephrased == LONGER
    assert found.notes == ()


async def test_a_simple_question_becomes_variants_of_the_question_as_asked() -> None:
    asked = Asked([*DECOMPOSED, "**Simple**.", "query: bert vs gpt"])
    found = await queries(asked, transform="decomposition", wording="medium", variants=1)
    variants = rendered("rag_variants_medium", question=QUESTION, count="1")
    assert asked.shown == [*FIRST_THREE, variants]
    assert sent(found) == [(QUESTION, "question"), ("bert vs gpt", "variant")]
    assert found.rephrased == LONGER


async def test_what_is_neither_simple_nor_composite_is_taken_as_simple_and_noted() -> None:
    asked = Asked([*DECOMPOSED, "SIMPLE or COMPOSITE", "Hm.", "query: bert vs gpt"])
    found = await queries(asked, transform="decomposition", variants=1)
    assert sent(found)[1:] == [("bert vs gpt", "variant")]
    assert [note[:36] for note in found.notes] == ["The question was taken as a simple o"]


@pytest.mark.parametrize(
    "reply",
    [
        "query: a b\nquery: c",
        "Here you are:\n\n1. query: a b\n\n2) Query: c\n\nGood luck!",
        '- query: "a b"\n* **query:** c\n',
        "QUERY 1: a b\r\nquery #2: `c`",
        "<think>query: no</think>query: a b\n> query:c",
        "query: a  b\nquery: A B?\nquery: c",  # the same twice
        "query: a b\nquery:\nquery: \nquery: c",
        f"query: {QUESTION}\nquery: a b\nquery: c",  # the question is there already
    ],
)
async def test_queries_are_read_from_replies_of_many_forms(reply: str) -> None:
    found, _ = await variants(reply)
    assert found == ["a b", "c"]


async def test_too_few_and_too_many_variants_are_noted() -> None:
    found, notes = await variants("query: a\nquery: b\nquery: c", variants=2)
    assert found == ["a", "b"]
    assert notes == ("Queries asked for: 2; written by the model: 3.",)
    assert await variants("query: a", variants=2) == (
        ["a"],
        ("Queries asked for: 2; written by the model: 1.",),
    )


@pytest.mark.parametrize("reply", ["", "  \n", "bert vs gpt", "the query: no", "<think>query: a"])
async def test_a_reply_without_queries_leaves_the_question_and_says_so(reply: str) -> None:
    asked = Asked([reply, reply])  # with the one repair turn
    found = await queries(asked, transform="variants", keep_question=False)
    assert sent(found) == [(QUESTION, "question")]
    assert found.notes[0].startswith("The query transform broke off: scripted:function gave an")
    assert len(asked.requests) == 2


async def test_what_was_found_before_a_failure_stays() -> None:
    asked = Asked([*DECOMPOSED, ConnectionFailed("no server")])
    found = await queries(asked, transform="decomposition")
    assert sent(found) == [(QUESTION, "question")]
    assert found.rephrased == LONGER
    assert found.notes == ("The query transform broke off: no server",)


@pytest.mark.parametrize("error", [AuthenticationFailed("no key"), BudgetExceeded("spent")])
async def test_errors_that_other_calls_would_meet_too_are_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        await queries(Asked([error]), transform="hyde")


async def test_a_model_without_prompts_is_refused_with_what_to_name() -> None:
    for stage, option in (("transform", "query_model="), ("answer", "answer_model=")):
        with pytest.raises(UnsupportedCapability, match=option):
            Asked([], capabilities=Capabilities(prompts=False), stage=stage)
    with pytest.raises(ConfigError, match="query_model="):
        await queries_for("q", QueryStage(transform="hyde"), None)
