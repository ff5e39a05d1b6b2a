"""The first stage counts only where it has scored every passage, and its order never does."""

from __future__ import annotations

import json
import math

import pytest

from mcranker import (
    Capabilities,
    ChatReply,
    ChatRequest,
    DirectRanker,
    InputError,
    Passage,
    ScriptedChat,
)

SCORES = {"a": 2, "b": 9, "c": 5}


def model(**offers: bool) -> ScriptedChat:
    def answer(request: ChatRequest) -> ChatReply:
        score = SCORES[request.tag.doc_id]
        yes = {"No": math.log(1 - score / 10), "Yes": math.log(score / 10)}
        return ChatReply(json.dumps({"Score": score}), label_logprobs=yes)

    return ScriptedChat(answer, capabilities=Capabilities(label_logprobs=True, **offers))


def docs(**scores: float | None) -> list[Passage]:
    return [Passage(name, f"text {name}", score=score) for name, score in scores.items()]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (docs(a=None, b=None, c=None), r"3 of 3 have none \(the first: 'a'\)"),
        (docs(a=1.0, b=None, c=0.0), r"1 of 3 have none \(the first: 'b'\)"),
    ],
)
def test_a_share_that_is_set_is_refused_without_scores_before_any_call(
    given: list[Passage], said: str
) -> None:
    asked = model()
    with DirectRanker(model=asked, ledger=None, first_stage_weight=0.3) as ranker:
        for refused in (ranker.rank, ranker.estimate):
            with pytest.raises(InputError, match=f"first_stage_weight=0.3 needs .*{said}"):
                refused("q", given)
        good, bad = sorted(
            ranker.rank_many([("q", docs(a=1.0, b=2.0)), ("q", given)]), key=lambda each: each.place
        )
    assert good.ranking is not None
    assert isinstance(bad.error, InputError)


def test_what_is_beyond_the_depth_needs_no_score() -> None:
    with DirectRanker(model=model(), ledger=None, first_stage_weight=1.0, depth=2) as ranker:
        assert ranker.rank("q", docs(a=2.0, b=1.0, c=None)).ids == ["a", "b", "c"]
