"""Decision models in GGUF: which they are, and what the engine answers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mcranker import MCRanker
from mcranker.errors import ModelFileError, UnsupportedCapability
from mcranker.llm.chat import ChatRequest, Message, Option, Question, State, Tag
from mcranker.llm.local.gguf_header import is_decision_model
from mcranker.llm.local.llama_local import LocalChat
from tests.support.shallow_model import decision_model, shallow_model

__all__ = ["decision_model", "shallow_model"]

LEVELS = (Option("none"), Option("some"), Option("all"))


def test_the_header_says_what_a_model_is(shallow_model: Path, decision_model: Path) -> None:
    assert is_decision_model(decision_model, "m")
    assert not is_decision_model(shallow_model, "m")


@pytest.mark.parametrize("kept", [4, 20, 30, 200, 5000])
def test_a_header_that_is_cut_short_is_said(shallow_model: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(shallow_model.read_bytes()[:kept])
    with pytest.raises(ModelFileError, match=r"cut\.gguf' is cut short, or no GGUF file"):
        is_decision_model(path, "m")


@pytest.mark.anyio
async def test_it_answers_every_type_of_question(decision_model: Path) -> None:
    chat = LocalChat.open(str(decision_model))
    assert not chat.capabilities.prompts
    request = ChatRequest(
        (Message("user", "Judge."),),
        Tag("score"),
        questions=(
            Question("s", "How far does passage_1 say it?", 10, options=LEVELS),
            Question("y", "Does it say so?", kind="yes_no"),
            Question("c", "Which?", kind="choice", options=(Option("red", "warm"), Option("blue"))),
        ),
        state=State("masks", {"passage_1": "Masks help."}),
    )
    reply = await chat.complete(request)
    with pytest.raises(UnsupportedCapability, match="answers typed questions only"):
        await chat.complete(ChatRequest((Message("user", "Who?"),), Tag("recruit")))
    await chat.aclose()
    assert reply.answers is not None
    score, yes_no, choice = reply.answers
    assert score.value is not None
    assert score.probabilities is not None
    # Level 1 of 2 counts 5 on the scale to 10.
    assert score.value == pytest.approx(5 * score.probabilities[1] + 10 * score.probabilities[2])
    assert yes_no.value is not None
    assert 0 < yes_no.value < 1
    assert choice.probabilities is not None
    assert math.fsum(choice.probabilities) == pytest.approx(1.0)
    assert choice.value == choice.probabilities.index(max(choice.probabilities))
    assert reply.usage.input_tokens > 0


def test_it_ranks_with_a_team_of_the_library(decision_model: Path) -> None:
    with MCRanker(model=f"local:{decision_model}", passages_per_call=2, ledger=None) as ranker:
        ranking = ranker.rank("masks", ["Masks help.", "Bread rises.", "Viruses spread."])
    assert not ranking.missing
    assert ranking.team is not None
    assert len(ranking.team.members) == 3
    assert ranking.calls.by("stage")["score"].calls == 2
    assert len(ranking[0].probabilities) == 3
