"""Rerankers in GGUF: their headers, and the engine's answers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mcranker import Passage
from mcranker.errors import ContextTooLong, ModelFileError, ModelNotFound, UnsupportedCapability
from mcranker.llm.chat import ChatRequest, Message, Question, State, Tag
from mcranker.llm.local.llama_local import LocalChat, is_reranker
from mcranker.rankers.direct import RerankRanker
from tests.support.shallow_model import shallow_model
from tests.support.tiny_reranker import WORDS, expected_logit, reranker, write_reranker

__all__ = ["reranker", "shallow_model"]

QUERY = "masks against viruses"
TEXTS = ("masks help against viruses", "bread rises in the oven", "viruses spread")


def relevance(text: str) -> float:
    """The model's logit through the logistic function."""
    return 1 / (1 + math.exp(-expected_logit(QUERY, text)))


def test_the_header_says_what_a_model_is(
    shallow_model: Path, reranker: Path, tmp_path: Path
) -> None:
    unpooled = tmp_path / "unpooled.gguf"
    write_reranker(unpooled, bert__pooling_type=0)
    models = (shallow_model, reranker, unpooled)
    assert [is_reranker(each, "m") for each in models] == [False, True, False]


@pytest.mark.parametrize("pooling", [1, 2, 3])
def test_an_encoder_neither_chats_nor_ranks(tmp_path: Path, pooling: int) -> None:
    path = tmp_path / "embeddings.gguf"
    write_reranker(path, bert__pooling_type=pooling)
    with pytest.raises(ModelFileError, match="is an encoder"):
        LocalChat(str(path))


@pytest.mark.parametrize(("content", "error"), [(b"", ModelFileError), (None, ModelNotFound)])
def test_a_file_that_is_no_model(
    tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    path = tmp_path / "odd.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=r"odd\.gguf"):
        is_reranker(path, "m")


@pytest.mark.anyio
async def test_the_engine_answers_with_the_models_own_relevance(reranker: Path) -> None:
    chat = LocalChat(str(reranker))
    names = {f"p{place}": text for place, text in enumerate(TEXTS)}
    questions = tuple(Question(name, "", passage=name) for name in names)
    request = ChatRequest((), Tag("score"), questions=questions, state=State(QUERY, names))
    reply = await chat.complete(request)
    long = State(QUERY, {**names, "p0": "masks " * 600})
    with pytest.raises(ContextTooLong, match="512 tokens"):
        await chat.complete(ChatRequest((), Tag("score"), questions=questions, state=long))
    with pytest.raises(UnsupportedCapability, match="answers no prompts"):
        await chat.complete(ChatRequest((Message("user", "Who?"),), Tag("recruit")))
    await chat.aclose()
    assert reply.answers is not None
    values = [answer.value for answer in reply.answers]
    # The engine computes in 16 bits here and there.
    assert values == pytest.approx([relevance(text) for text in TEXTS], rel=0.01)
    # [CLS] and [SEP], 3 words of the query each time, and 4, 5 and 2 of the texts.
    assert reply.usage.input_tokens == 3 * (2 + 3) + 4 + 5 + 2


def test_a_reranker_ranks(reranker: Path) -> None:
    # 105 passages: two calls.
    texts = [f"{a} {b}" for a in WORDS for b in WORDS] + list(TEXTS) + ["masks " * 600, TEXTS[0]]
    docs = [Passage(str(place), text) for place, text in enumerate(texts)]
    with RerankRanker(model=f"local:{reranker}", ledger=None) as ranker:
        ranking = ranker.rank(QUERY, docs)
    scored = [hit for hit in ranking if hit.score]
    assert [hit.score for hit in scored] == pytest.approx(
        [relevance(hit.passage.text) for hit in scored], rel=0.01
    )
    assert len(scored) == 104
    assert [hit.score for hit in scored] == sorted((h.score or 0 for h in scored), reverse=True)
    (lost,) = ranking.missing
    assert lost.doc_id == "103"
    assert "larger than the max context size" in lost.reason
    assert ranking.cost == 0.0
