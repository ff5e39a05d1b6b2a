"""Scripted models that tests share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from mcranker import Answer, Capabilities, ChatReply, ChatRequest, ScriptedChat, Usage

RECRUITS = '{"Identities": ["Virologist", "Worried parent"], "Reason": "They differ."}'
RUBRIC = json.dumps(
    {
        "Criteria": [
            {"Criterion": "Answers the question", "Explanation": "It says so.", "Weight": 75},
            {"Criterion": "Names a source", "Explanation": "It cites.", "Weight": 25},
        ],
        "Reason": "These matter.",
    }
)


def scripted(
    score: Callable[[ChatRequest], str] | None = None,
    *,
    recruit: str = RECRUITS,
    criteria: str = RUBRIC,
    assess: Callable[[ChatRequest], str] | None = None,
    capabilities: Capabilities | None = None,
) -> ScriptedChat:
    """A model that recruits and writes rubrics by rote, and scores as told (5 by default)."""

    def answer(request: ChatRequest) -> ChatReply:
        stage = request.tag.stage
        if stage == "recruit":
            text = recruit
        elif stage == "criteria":
            text = criteria
        elif stage == "assess":
            text = assess(request) if assess else '{"Final score": 5}'
        else:
            text = score(request) if score else '{"Score": 5}'
        usage = Usage(calls=1, input_tokens=100, cached_input_tokens=60, output_tokens=5)
        return ChatReply(text, usage=usage)

    return ScriptedChat(answer, capabilities=capabilities)


def by_table(table: Mapping[str, Mapping[str, int]]) -> Callable[[ChatRequest], str]:
    """Scores from persona -> doc_id -> score."""

    def score(request: ChatRequest) -> str:
        return json.dumps({"Score": table[request.tag.persona][request.tag.doc_id]})

    return score


def answers(*values: float | None) -> tuple[Answer, ...]:
    """Answers to typed questions that say no more than their value."""
    return tuple(map(Answer, values))
