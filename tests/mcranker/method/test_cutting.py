"""Passages that are cut before models see them, and the notes about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcranker import ChatRequest, DirectRanker, MCRanker, Ranking, ScriptedChat
from mcranker.errors import UnsupportedCapability
from mcranker.llm.local.llama_local import beginning
from tests.support.scripted import RECRUITS, RUBRIC

DOCS = ["one two three four", "five", "one two three four", "six seven eight"]


class Tokenizing(ScriptedChat):
    """A model whose tokens are letters and blanks."""

    def __init__(self) -> None:
        super().__init__(self.reply)
        self.prompts: list[str] = []
        self.cuts: list[tuple[str, int]] = []

    def reply(self, request: ChatRequest) -> str:
        self.prompts.append(request.messages[-1].content)
        texts = {"recruit": RECRUITS, "criteria": RUBRIC}
        return texts.get(request.tag.stage, json.dumps({"Score": 5}))

    async def cut(self, text: str, tokens: int) -> str:
        self.cuts.append((text, tokens))
        return text[:tokens]


def test_by_tokens_of_the_scoring_model() -> None:
    model = Tokenizing()
    with MCRanker(model=model, ledger=None, max_passage_tokens=7) as ranker:
        ranking = ranker.rank("q", DOCS)
        assert ranker.estimate("q", DOCS).calls == 1 + 3 + 9
    assert [hit.cut for hit in ranking] == [11, 0, 11, 8]
    assert not any("two three" in prompt or "seven" in prompt for prompt in model.prompts)
    assert sum("one two …" in prompt for prompt in model.prompts) == 3
    # Each text is cut once, in the ranking and in the estimate.
    assert model.cuts == [(text, 7) for text in dict.fromkeys(DOCS)] * 2
    assert ranking[0].passage.text == DOCS[0]
    again = Ranking.from_dict(ranking.to_dict())
    assert [hit.cut for hit in again] == [11, 0, 11, 8]


def test_words_are_cut_first() -> None:
    model = Tokenizing()
    with DirectRanker(model=model, max_passage_words=2, max_passage_tokens=100) as ranker:
        assert [hit.cut for hit in ranker.rank("q", DOCS)] == [11, 0, 11, 6]
    assert model.cuts[0] == ("one two", 100)


@pytest.mark.parametrize("kind", [MCRanker, DirectRanker])
def test_a_model_without_a_tokenizer_is_refused(kind: Any) -> None:
    said = (
        "scripted:function has a tokenizer that is not known here, which max_passage_tokens=7 needs"
    )
    with pytest.raises(UnsupportedCapability, match=said):
        kind(model=ScriptedChat(lambda _: ""), max_passage_tokens=7)


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("one two", ["one", " t"], "one t"),
        ("one two", [" one", " t"], "one t"),  # a blank before the first word
        (" one", [" one"], " one"),
        ("naïve", ["na", [0xC3, 0xAF]], "naï"),
        ("naïve", ["na", [0xC3]], "na"),  # half a character
        ("one", [], ""),
    ],
)
def test_the_beginning_that_tokens_write(
    text: str, pieces: list[str | list[int]], expected: str
) -> None:
    assert beginning(text, pieces) == expected
