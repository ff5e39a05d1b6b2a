"""A scripted model that answers REBEL's calls by the numbers in passages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mcranker import ChatRequest, ScriptedChat
from tests.support.comparing import comparing, shown_in

INFERRED = {
    "Reason": "People want masks that work.",
    "Relevance": "10: it says which masks protect. 0: it is not about masks.",
    "Properties": [
        {"Property": "Tested on wearers", "Explanation": "5: trials. 0: claims.", "Weight": 0.7},
        {"Property": "Recent", "Explanation": "5: this year. 0: old.", "Weight": 0.3},
    ],
}


def scores_in(request: ChatRequest) -> dict[str, list[int]]:
    """Number of a passage -> the numbers that its text ends with, behind a colon."""
    return {
        number: [int(each) for each in text.rpartition(":")[2].split()]
        for number, text in shown_in(request).items()
    }


def entry(scores: list[int], **more: Any) -> dict[str, Any]:
    """What a reply says of a passage: relevance, then properties."""
    relevance, *properties = scores
    return {
        "Relevance": relevance,
        **{f"P{number}": score for number, score in enumerate(properties, start=1)},
        **more,
    }


def by_rote(request: ChatRequest) -> str:
    """The right reply, without sums."""
    if request.tag.stage == "criteria":
        return json.dumps(INFERRED)
    entries = {number: entry(scores) for number, scores in scores_in(request).items()}
    return json.dumps({"Passages": entries})


def rebel_model(
    answer: Callable[[ChatRequest], str] = by_rote,
) -> tuple[ScriptedChat, list[ChatRequest]]:
    """A model that answers so, and the requests that it has got."""
    return comparing(answer)


def passages(scores: Mapping[str, list[int]]) -> dict[str, str]:
    """Passages whose texts hold the scores that they are to get."""
    return {name: f"passage {name}: {' '.join(map(str, each))}" for name, each in scores.items()}
