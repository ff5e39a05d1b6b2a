"""Answers in each style, on scripted models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mcranker import ChatReply
from mcranker.errors import ContextTooLong, ServerFailed
from mcranker.rag.answer import DONT_KNOW, Answer, write_answer
from mcranker.rag.citations import check_citations
from mcranker.rag.config import AnswerStage
from mcranker.rag.result import SourcePassage
from personas.untrusted import Own
from tests.mcranker.rag.asked import PAPER, Asked, rendered

QUESTION = "What is NSP?"
TEXTS = (
    "BERT has two objectives. NSP stands for next sentence prediction.",
    "RoBERTa drops NSP; it trains on more text.",
)
STYLES = ("cited", "naive", "medium", "advanced", "rebel", "rankrag")
CLAIMS = [
    {
        "Claim": "NSP is next sentence prediction.",
        "Passage": 1,
        "Quote": "NSP stands for next sentence prediction.",
    },
    {"Claim": "RoBERTa does without it.", "Passage": 2, "Quote": "RoBERTa drops NSP"},
]


def context(*texts: str) -> tuple[SourcePassage, ...]:
    return tuple(
        SourcePassage(id=f"d#{number}", document="d", text=text, number=number)
        for number, text in enumerate(texts, 1)
    )


def stage(style: str = "naive", **values: Any) -> AnswerStage:
    return AnswerStage.model_validate({"style": style, **values})


def claims(*entries: dict[str, Any]) -> str:
    return json.dumps({"Claims": entries})


async def answered(
    reply: str | ChatReply | Exception, style: str = "naive", *texts: str, **values: Any
) -> Answer:
    asked = Asked([reply], stage="answer")
    return await write_answer(
        QUESTION, context(*(texts or TEXTS)), stage(style, **values), asked.by
    )


def in_markers(text: str) -> str:
    return PAPER.passage(text, query=QUESTION)


@pytest.mark.parametrize("style", STYLES)
async def test_each_style_asks_its_prompt_once(style: str) -> None:
    asked = Asked([claims(*CLAIMS) if style == "cited" else "It is short."], stage="answer")
    answer = await write_answer(QUESTION, context(*TEXTS), stage(style, max_tokens=77), asked.by)
    first, second = TEXTS
    shown = {
        "rankrag": f"Passage 1: {first}\nPassage 2: {second}",
        "cited": f"[1]\n{in_markers(first)}\n\n[2]\n{in_markers(second)}",
    }.get(style, f"Document [1] {in_markers(first)}\n\nDocument [2] {in_markers(second)}")
    assert asked.shown == [rendered(f"rag_answer_{style}", question=QUESTION, context=Own(shown))]
    assert [each.max_tokens for each in asked.requests] == [77]
    assert (answer.kind, answer.failure, answer.seen) == ("answer", "", 2)


async def test_claims_become_the_answer() -> None:
    answer = await answered(claims(*CLAIMS, CLAIMS[0] | {"Passage": [2, "7"]}), "cited")
    first, second = (each["Claim"] for each in CLAIMS)
    assert answer.text == f"{first} {second}"
    assert answer.sentences == (first, second)
    assert [(each.text, each.passage) for each in answer.claims] == [
        (first, 1), (second, 2), (first, 2), (first, 7),
    ]  # fmt: skip
    verdicts = [each.verdict for each in check_citations(answer.claims, context(*TEXTS))]
    assert verdicts == ["found", "found", "misattributed", "misattributed"]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("I don't know", "abstained"),
        ("I do not know. The documents do not say it.", "abstained"),
        ("Sorry, I don\u2019t know.", "abstained"),
        ("I don't know for sure, but BERT has it.", "answer"),
        ("They say 'I don't know'.", "answer"),
        ("I don't know. " + "word " * 40, "answer"),
    ],
)
async def test_not_knowing_is_abstaining(reply: str, kind: str) -> None:
    assert (await answered(reply)).kind == kind


@pytest.mark.parametrize("style", [*STYLES, "extract"])
async def test_an_empty_context_abstains_without_a_call(style: str) -> None:
    asked = Asked([], stage="answer")
    answer = await write_answer(QUESTION, (), stage(style), asked.by)
    assert (answer.kind, answer.text, asked.requests) == ("abstained", DONT_KNOW, [])


async def test_a_long_answer_is_shortened_once() -> None:
    asked = Asked(["one two three four five.", "one two three four."], stage="answer")
    answer = await write_answer(QUESTION, context(*TEXTS), stage(max_words=3), asked.by)
    assert asked.shown[1] == rendered(
        "rag_shorten", question=QUESTION, draft="one two three four five.", words="3"
    )
    assert answer.text == "one two three four."
    assert answer.notes == ("The answer was shortened from 5 to 4 words.",)
    asked = Asked(["one two three."], stage="answer")
    await write_answer(QUESTION, context(*TEXTS), stage(max_words=3), asked.by)
    assert len(asked.requests) == 1


@pytest.mark.parametrize("style", ["naive", "cited"])
async def test_a_model_that_fails_leaves_a_failure(style: str) -> None:
    answer = await answered(ServerFailed("down"), style)
    assert (answer.kind, answer.text, answer.failure) == ("none", "", "down")


async def test_a_prompt_that_is_too_long_takes_half_of_the_passages() -> None:
    asked = Asked([ContextTooLong("4,000 tokens")] * 2 + ["Short."], stage="answer")
    texts = [f"Text number {number}." for number in range(5)]
    answer = await write_answer(QUESTION, context(*texts), stage(), asked.by)
    assert [each[-1][1].count("Document [") for each in asked.shown] == [5, 2, 1]
    assert answer.seen == 1
    assert answer.notes[0].startswith("The writer saw the first 1 of 5 passages")
    assert (await answered(ContextTooLong("long"), "naive", "a")).failure == "long"


# Replies in claims that are not as they should be


@pytest.mark.parametrize(
    "reply",
    [
        '{"Claims": 7}',
        '{"Claims": ["a", "b"]}',
        '{"Claims": [{"Passage": 1}]}',
        '{"Claims": [{"Claim": "", "Passage": 1}]}',
        '{"Claims": [{"Claim": "\u2026", "Passage": 1, "Quote": "\u2026"}]}',
        '{"Claims": [{"Claim": "a", "Passage": 1',
        '{"Claims": []} {"Claims": [{"Claim": "a"}]}',
        "[" * 100_000,
        "{" * 100_000,
        "x" * 1_000_000,
    ],
)
async def test_a_broken_form_is_asked_for_again(reply: str) -> None:
    asked = Asked([reply, claims(*CLAIMS)], stage="answer")
    answer = await write_answer(QUESTION, context(*TEXTS), stage("cited"), asked.by)
    assert (len(asked.requests), len(answer.claims)) == (2, 2)
    answer = await write_answer(
        QUESTION, context(*TEXTS), stage("cited"), Asked([reply] * 2, stage="answer").by
    )
    assert (answer.kind, answer.text) == ("none", "")


async def test_prose_instead_of_claims_is_an_answer_without_sources() -> None:
    asked = Asked(["It is a task [1].", "It is a task [1]."], stage="answer")
    answer = await write_answer(QUESTION, context(*TEXTS), stage("cited"), asked.by)
    assert (answer.kind, answer.text) == ("answer", "It is a task [1].")
    assert len(answer.notes) == 1


async def test_a_reply_that_was_cut_gives_its_whole_claims() -> None:
    reply = claims(*CLAIMS)
    cut = ChatReply(reply[: reply.index("RoBERTa drops")], finish_reason="length")
    answer = await answered(cut, "cited")
    assert [each.text for each in answer.claims] == [CLAIMS[0]["Claim"]]
    assert "cut" in answer.notes[0]
    answer = await answered(ChatReply("One two", finish_reason="length"), max_tokens=9)
    assert answer.notes == ("The answer was cut at 9 tokens.",)


# Extracts


async def test_extracts_are_the_sentences_with_the_rarest_words_of_the_question() -> None:
    asked = Asked([], stage="answer")
    # "NSP" is in two of three sentences, "stand" in none, so order decides; the first says neither.
    answer = await write_answer(QUESTION, context(*TEXTS), stage("extract"), asked.by)
    assert answer.kind == "extract"
    assert [(each.passage, each.quote) for each in answer.claims] == [
        (1, "NSP stands for next sentence prediction."),
        (2, TEXTS[1]),
    ]
    assert {each.verdict for each in check_citations(answer.claims, context(*TEXTS))} == {"found"}
    answer = await write_answer("penguins?", context(*TEXTS), stage("extract"), None)
    assert answer.kind == "abstained"


class Embedder:
    name = mark = "letters"
    dimensions = max_tokens = 3

    async def embed_queries(self, texts: Sequence[str], usage: object = None) -> Any:
        return np.array([[each.count(letter) for letter in "xyz"] for each in texts], np.float32)

    async def embed_passages(self, texts: Sequence[str], usage: object = None) -> Any:
        return await self.embed_queries(texts) / 4

    async def aclose(self) -> None: ...


async def test_extracts_by_an_embedder_are_the_nearest() -> None:
    found = context("One two yes. One two xx. One  two xx. One two xxx.", "w " * 100 + "x x x x")
    answer = await write_answer("x?", found, stage("extract"), None, Embedder())
    # 4, 3 and 2 times x; the long sentence of 104 words is quoted in parts of 60 and 44.
    assert [each.quote for each in answer.claims] == [
        "w " * 40 + "x x x x",
        "One two xxx.",
        "One two xx.",
    ]
    far = context("One two x.", "One two y.")
    assert (await write_answer("z?", far, stage("extract"), None, Embedder())).kind == "abstained"
    short = await write_answer("x?", found, stage("extract", max_words=45), None, Embedder())
    assert len(short.claims) == 1
