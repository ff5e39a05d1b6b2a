"""Each preset on a scripted model: its searches, calls, prompts and values, stage by stage.

The numbers are those of the papers and their authors' code: REBEL (arXiv 2504.07104) ranks 10
passages in one window, drops those below a relevance of 3, and answers from 3 in two sentences of
250 characters; G-RAG (arXiv 2506.14516) fuses 100 of each search, shares 50 documents among its
queries, keeps p(Yes) of 0.5 and more, or the first 10, and fills 10,000 words, its champion
15,000; RankRAG (arXiv 2407.02485) scores 100 passages by p(True) and answers from 5.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from beir_eval.experiment.suite import load_suite
from mcranker import Capabilities, ChatReply, ChatRequest, ConnectionFailed, Query, ScriptedChat
from mcranker.errors import RateLimited, ServerFailed
from mcranker.rag import PipelineConfig, RAGPipeline, RAGResult
from mcranker.rag.config import Preset
from mcranker.rag.result import SourcePassage
from personas import PromptSet
from personas.ranking.usage import UsageTable

QUESTION = "Which masks filter best?"
WORDS = 900  # of a passage
PROMPTS = PromptSet.load("paper")


class Numbered:
    """Passages 1 to 120, two of each document, found in this order by words, and from 120 down by
    meaning."""

    def __init__(self) -> None:
        self.searches: list[tuple[tuple[str, ...], int, str]] = []

    async def search(
        self, queries: Sequence[str], k: int, by: str, usage: UsageTable | None = None
    ) -> list[list[tuple[str, float]]]:
        self.searches.append((tuple(queries), k, by))
        numbers = range(1, 121) if by == "bm25" else range(120, 0, -1)
        found = [(str(number), 1 / place) for place, number in enumerate(numbers, 2)]
        return [found[:k] for _ in queries]

    def chunk(self, name: str, /) -> SourcePassage:
        text = f"Passage {name}." + " word" * (WORDS - 2)
        document = f"document {(int(name) + 1) // 2}"
        return SourcePassage(id=name, document=document, text=text, start=0, end=len(text))

    def vectors(self, ids: Sequence[str], /) -> NDArray[np.float32]:
        # Neighbours by number are alike: a quarter circle from 1 to 120.
        turns = np.array([int(name) for name in ids]) / 120 * math.pi / 2
        return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)


class Model(ScriptedChat):
    """Answers each stage; of ten passages shown at once the third is best."""

    def __init__(self, p_yes: float = 0.9) -> None:
        self.asked: list[ChatRequest] = []
        self._p_yes = p_yes
        super().__init__(self._reply, capabilities=Capabilities(label_logprobs=True))

    def _reply(self, request: ChatRequest) -> ChatReply | str:
        self.asked.append(request)
        stage, labels = request.tag.stage, request.labels
        if labels:
            p = self._p_yes if request.tag.doc_id != "119" else 0.4
            p_of = {label: p if label in ("Yes", "True") else 1 - p for label in labels}
            logs = {label: math.log(each) for label, each in p_of.items()}
            return ChatReply("Yes", label_logprobs=logs)
        if stage == "transform":
            return "Respirators filter best."
        if stage == "recruit":
            return '{"Identities": ["Nurse", "Engineer"], "Reason": "-"}'
        if stage == "criteria":
            return json.dumps(
                {"Criteria": [{"Criterion": "a", "Explanation": "b", "Weight": 100}], "Reason": "-"}
            )
        if stage == "score" and request.tag.persona == "REBEL":
            # Five properties of 2, half a point each: 5 beside the relevance.
            rated = {f"P{each}": 2 for each in range(1, 6)}
            return json.dumps(
                {
                    "Passages": {
                        str(number): {"Relevance": relevance, **rated, "Final": relevance + 5}
                        for number, relevance in enumerate(RELEVANCE, 1)
                    }
                }
            )
        if stage == "score" and not request.tag.doc_id:
            shown = re.findall(r"Passage (\d+)\.", request.messages[-1].content)
            return json.dumps(
                {f"passage_{n}": RELEVANCE[120 - int(each)] for n, each in enumerate(shown, 1)}
            )
        if stage == "score":
            return '{"Score": 7}'
        return "Respirators are best [1]. They are tight. A third sentence is cut."

    @property
    def stages(self) -> list[str]:
        return [each.tag.stage for each in self.asked]


RELEVANCE = (5, 6, 9, 1, 2, 3, 4, 7, 8, 0)
"""Of the ten passages of a call, in the order of retrieval: 120, 119 and so on."""


def answered(preset: str, model: Model, **changes: Any) -> tuple[RAGResult, Numbered]:
    index = Numbered()
    with RAGPipeline(index, preset, model=model, ledger=None, **changes) as pipeline:
        return pipeline.answer(QUESTION), index


def numbers(result: RAGResult) -> list[int]:
    """The passages that the writer saw, by their names, in its order."""
    return [int(each.id) for each in result.context]


def test_every_preset_is_tested_here() -> None:
    tested = {"naive", "hyde", "mmr", "rebel", "llm_rerank"}
    assert {*get_args(Preset)} == tested | {"g_rag", "g_rag_champion", "rankrag", "team"}


def test_naive_shows_the_first_three_by_meaning() -> None:
    model = Model()
    result, index = answered("naive", model)
    assert index.searches == [((QUESTION,), 3, "dense")]
    assert (model.stages, numbers(result)) == (["answer"], [120, 119, 118])
    (turn,) = [each for each in model.asked[0].messages if each.role == "user"]
    assert turn.content.index("Passage 120.") < turn.content.index("Passage 119.")
    assert QUESTION in turn.content


def test_hyde_searches_with_the_question_and_an_answer() -> None:
    model = Model()
    result, index = answered("hyde", model)
    # 4 passages of two queries: 2 of each, which are the same two here.
    assert index.searches == [((QUESTION, "Respirators filter best."), 2, "dense")]
    assert (model.stages, numbers(result)) == (["transform", "answer"], [120, 119])


def test_mmr_chooses_three_of_the_first_twenty() -> None:
    model = Model()
    result, index = answered("mmr", model)
    assert index.searches == [((QUESTION,), 20, "dense")]
    # The first is the most relevant. Then 0.5 · relevance - 0.5 · cosine with what was chosen:
    # relevance 1/(place + 1) falls slowly at the end of the twenty, and 101 is least like 120:
    # 0.5 · (1/21 - cos(19/120 · 90°)) = 0.5 · (0.048 - 0.969) = -0.461 against, for 119,
    # 0.5 · (1/3 - cos(0.75°)) = -0.333, for 118 0.5 · (1/4 - cos(1.5°)) = -0.375.
    assert (model.stages, numbers(result)) == (["answer"], [120, 119, 118])


def test_llm_rerank_asks_once_for_ten_passages() -> None:
    model = Model()
    result, index = answered("llm_rerank", model)
    assert index.searches == [((QUESTION,), 10, "dense")]
    assert (model.stages, numbers(result)) == (["score", "answer"], [118, 112, 113])
    shown = model.asked[0].messages[-1].content
    assert all(f"Passage {number}." in shown for number in range(111, 121))


def test_rebel_drops_and_sums_and_keeps_three() -> None:
    model = Model()
    result, index = answered("rebel", model, rerank={"options": {"variant": "one_turn"}})
    assert index.searches == [((QUESTION,), 10, "dense")]
    assert model.stages == ["score", "answer"]
    # 4, 5 and 10 are below a relevance of 3; of the others the third, ninth and eighth are best.
    dropped = {int(each.id) for each in result.passages if each.dropped}
    assert numbers(result) == [118, 112, 113]
    assert dropped == {120, 119, 117, 116, 115, 114, 111}
    assert PipelineConfig.load("rebel").rerank.options == {
        "variant": "two_turn", "window": 10, "min_relevance_score": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "kept", "failed"),
    [
        ('{"Passages": {}}', [], False),
        ('{"Passages": {"4": {"Relevance": 1}}}', [], False),
        ("They are all about masks.", [120, 119, 118], True),
        (ServerFailed("down"), [120, 119, 118], True),
        (ConnectionFailed("no answer"), [120, 119, 118], True),
        (RateLimited("later"), [120, 119, 118], True),
    ],
)
@pytest.mark.parametrize("on_failure", ["error", "keep_order"])
def test_rebel_shows_three_at_most_whatever_fails(
    reply: Any, kept: list[int], failed: bool, on_failure: str
) -> None:
    class Broken(Model):
        def _reply(self, request: ChatRequest) -> ChatReply | str:
            if request.tag.stage != "score":
                return super()._reply(request)
            if isinstance(reply, Exception):
                raise reply
            return str(reply)

    options = {"variant": "one_turn", "on_failure": on_failure}
    result, _ = answered("rebel", Broken(), rerank={"options": options})
    assert numbers(result) == kept
    assert (result.without == ["rerank"]) == failed
    assert result.kind == ("answer" if kept else "abstained")


@pytest.mark.parametrize(
    ("transform", "sent"), [("none", [QUESTION]), ("variants", ["one", "two"])]
)
def test_the_grid_of_g_rag_sends_the_written_queries_alone(transform: str, sent: list[str]) -> None:
    class Writer(Model):
        def _reply(self, request: ChatRequest) -> ChatReply | str:
            if request.tag.stage == "transform":
                return "query: one\nquery: two"
            return super()._reply(request)

    config, *_ = (
        each.stages()[0]
        for each in load_suite("g_rag").pipelines
        if each.note and each.note.point["augmentation"] == transform
    )
    with RAGPipeline(index := Numbered(), config, model=Writer(), ledger=None) as pipeline:
        pipeline.answer(QUESTION)
    assert list(index.searches[0][0]) == sent


@pytest.mark.parametrize(
    ("preset", "queries", "documents", "shown"),
    [("g_rag", 2, 13, 11), ("g_rag_champion", 1, 26, 16)],
)
def test_g_rag_fuses_shares_filters_and_fills_the_context(
    preset: str, queries: int, documents: int, shown: int
) -> None:
    model = Model()
    result, index = answered(preset, model)
    texts = (QUESTION, "Respirators filter best.")[:queries]
    assert index.searches == [(texts, 100, "bm25"), (texts, 100, "dense")]
    # Found by both: 21 to 100. RRF of 60: rank r by words and 121 - r by meaning sum up to most
    # at the ends: 1/81 + 1/160 for 21 and 100, 1/82 + 1/159 for 22 and 99, and so on inwards.
    # Each pair of neighbours such as (21, 22) is one document. Of 25 passages for each of two
    # queries, which are the same, 21 to 33 are 7 documents, and 100 down to 89 are 6; of 50 for
    # one query, 21 to 45 are 13, and 100 down to 76 are 13.
    found = [int(each.id) for each in result.passages]
    assert found[:4] == [21, 100, 23, 98]
    assert len(found) == documents == len({each.document for each in result.passages})
    scored = [each for each in model.asked if each.tag.stage == "score"]
    assert len(scored) == len(found)
    assert model.stages.count("transform") == queries - 1
    assert model.stages.count("answer") == 1
    # 11 · 900 words are below 10,000, and 16 · 900 below 15,000; one more would not be.
    assert len(result.context) == shown


def test_g_rag_drops_below_a_half_and_falls_back_to_the_first_ten() -> None:
    model = Model(p_yes=0.3)
    result, _ = answered("g_rag_champion", model)
    assert numbers(result) == [int(each.id) for each in result.passages[:10]]
    assert any("left no passage" in note for stage in result.stages for note in stage.notes)


def test_rankrag_scores_a_hundred_and_answers_from_five() -> None:
    model = Model()
    result, index = answered("rankrag", model)
    assert index.searches == [((QUESTION,), 100, "dense")]
    assert model.stages == ["score"] * 100 + ["answer"]
    # 119 has the lowest probability; the others are in the order of retrieval.
    assert numbers(result) == [120, 118, 117, 116, 115]
    assert model.asked[-1].max_tokens == 32


def test_team_recruits_scores_fifty_and_cites_within_4000_words() -> None:
    model = Model()
    result, index = answered("team", model)
    assert [each[1:] for each in index.searches] == [(100, "bm25"), (100, "dense")]
    assert len(result.passages) == 50
    assert model.stages.count("recruit") == 1
    assert model.stages.count("score") == 3 * 50
    assert len(result.context) == 4  # of the 10 that went on: 4 · 900 words are below 4,000


TURNS = (("user", "Who makes masks?"), ("assistant", "Many do."))


def test_rankrag_puts_earlier_turns_before_the_question() -> None:
    """As appendix D has it: Passage, User, Assistant, User, Assistant."""
    model, index = Model(), Numbered()
    with RAGPipeline(index, "rankrag", model=model, ledger=None) as pipeline:
        result = pipeline.answer(Query("And who sells them?", turns=TURNS))
    assert index.searches[0][0] == ("Who makes masks? Many do. And who sells them?",)
    turns = "\n\nUser: Who makes masks?\n\nAssistant: Many do.\n\nUser: "
    score, answer = model.asked[0].messages[-1].content, model.asked[-1].messages[-1].content
    asked = "For the question And who sells them?, access whether the passage is relevant"
    assert f"{turns}{asked}" in score
    assert answer.endswith(f"{turns}And who sells them?\n\nAssistant:")
    assert result.question == "User: Who makes masks? Assistant: Many do. User: And who sells them?"


@pytest.mark.parametrize("preset", ["naive", "hyde", "rebel", "g_rag", "team"])
def test_earlier_turns_are_in_every_request_of_every_preset(preset: str) -> None:
    model, index = Model(), Numbered()
    with RAGPipeline(index, preset, model=model, ledger=None) as pipeline:
        pipeline.estimate(Query("And who sells them?", turns=TURNS))
        pipeline.answer(Query("And who sells them?", turns=TURNS))
    assert "Who makes masks?" in index.searches[-1][0][0]
    for request in model.asked:
        shown = str(request.messages)
        assert ("Who makes masks?" in shown) == ("And who sells them?" in shown)
    assert "Many do." in str(model.asked[-1].messages)


def test_a_claim_is_verified_in_the_words_of_appendix_d() -> None:
    model = Model()
    options: Any = {"rerank": {"options": {"claims": True}}, "answer": {"style": "rankrag_claim"}}
    with RAGPipeline(Numbered(), "rankrag", model=model, ledger=None, **options) as pipeline:
        pipeline.answer("Cloth masks filter best.")
    score, answer = model.asked[0].messages[-1].content, model.asked[-1].messages[-1].content
    assert (
        "User: For the claim Cloth masks filter best., access whether the passage is relevant to "
        "the claim. Return True if relevant, otherwise False." in score
    )
    assert re.match(r"Passage 1: Passage \d+\.", answer)
    assert "with True or False. Is the claim 'Cloth masks filter best.' correct?" in answer
