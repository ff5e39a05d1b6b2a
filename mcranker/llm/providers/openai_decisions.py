"""OpenAI's decisions: many questions about one input, each answered by a score; pure functions.

`decision_body` writes a request, `decision_reply` reads an answer.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from mcranker.llm.chat import Answer, ChatReply, ChatRequest, Usage
from mcranker.llm.providers.http_errors import Service, reported_model, unreadable
from mcranker.llm.providers.token_counts import call_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcranker.llm.chat import Question

__all__ = ["DECISION_MODELS", "MAX_QUESTIONS", "decides", "decision_body", "decision_reply"]

DECISION_MODELS = frozenset({"gpt-6-luna"})
"""The models that answer decisions; their dated snapshots do as well."""

MAX_QUESTIONS = 400  # in one request
MAX_LEVELS = 10  # of one question
ROUNDED = 1.01  # a probability, at most

_SNAPSHOT = re.compile(r"-\d{4}-?\d\d-?\d\d\Z")


def decides(model: str) -> bool:
    """Whether a model answers decisions: one of `DECISION_MODELS`, or a snapshot of one."""
    return _SNAPSHOT.sub("", model) in DECISION_MODELS


def decision_body(request: ChatRequest, model: str) -> dict[str, Any]:
    """The JSON body of a decision: the messages as its input, and the questions.

    A scale 0 to k becomes k + 1 levels, labelled by their numbers. Where those are more than
    `MAX_LEVELS`, it becomes `MAX_LEVELS` levels at equal distances, the ends included. A
    prefill (a last message of the assistant) is left out.

    Args:
        request: what to ask; with questions.
        model: the model's name as the service knows it.
    """
    messages = request.messages
    if messages and messages[-1].role == "assistant":
        messages = messages[:-1]
    return {
        "model": model,
        "input": [{"type": "message", "role": m.role, "content": m.content} for m in messages],
        "questions": [
            {
                "type": "score",
                "name": question.name,
                "instructions": question.text,
                "levels": [{"label": label} for label in _labels(question)],
            }
            for question in request.questions
        ],
    }


def decision_reply(data: Mapping[str, Any], request: ChatRequest, *, service: Service) -> ChatReply:
    """What a decision says: the expected score of each question, None for a refused one.

    Args:
        data: the answer's JSON.
        request: what was asked.
        service: who answered, for messages.

    Raises:
        ServerFailed: the answers are not as many as the questions or in another order, or
            one of them is neither a score on the question's levels nor a refusal.
    """
    answers = data.get("answers")
    if not isinstance(answers, list):
        raise unreadable("no answers in it", service)
    if len(answers) != len(request.questions):
        raise unreadable(f"{len(answers)} answers to {len(request.questions)} questions", service)
    return ChatReply(
        text="",
        usage=_usage(data.get("usage"), service),
        model=reported_model(data),
        answers=tuple(
            Answer(_answer(answer, question, service))
            for answer, question in zip(answers, request.questions, strict=True)
        ),
    )


def _labels(question: Question) -> list[str]:
    last = _last_level(question)
    return [f"{round(level * question.top / last, 1):g}" for level in range(last + 1)]


def _last_level(question: Question) -> int:
    """The place of the highest level; places count from 0."""
    return min(question.top, MAX_LEVELS - 1)


def _answer(answer: Any, question: Question, service: Service) -> float | None:
    """The answer on the question's scale, 0 to its top."""

    def bad(what: str) -> Exception:
        return unreadable(f"the answer to question {question.name!r} {what}", service)

    if not isinstance(answer, dict) or answer.get("type") not in ("score", "refusal"):
        raise bad("is neither a score nor a refusal")
    if answer.get("name") not in (None, question.name):
        raise bad("stands under another question's name")
    if answer["type"] == "refusal":
        return None
    listed = answer.get("probabilities")
    level = _expected_level(listed, question) if listed else _number(answer.get("score"))
    last = _last_level(question)
    if level is None or not 0 <= level <= last:
        raise bad(f"is no score on its levels 0 to {last}")
    return level * question.top / last


def _expected_level(listed: Any, question: Question) -> float | None:
    """The mean place of the level by the probabilities; None if they are not on the levels."""
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        return None
    labels = dict(enumerate(_labels(question)))
    masses: dict[int, float] = {}
    for entry in listed:
        place, p = entry.get("value"), _number(entry.get("probability"))
        # Taken away, so that a level listed twice counts as unknown.
        label = labels.pop(place, None) if type(place) is int else None
        if label is None or entry.get("label") not in (None, label) or p is None:
            return None
        if not 0 <= p <= ROUNDED:
            return None
        masses[place] = p
    total = math.fsum(masses.values())
    if total <= 0:
        return None
    mean = math.fsum(place * p for place, p in masses.items()) / total
    return min(mean, max(masses))  # rounding must not carry it off the levels


def _number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer that no float can hold
        return None


def _usage(usage: Any, service: Service) -> Usage:
    if not isinstance(usage, dict):
        return Usage(calls=1)
    details = usage.get("input_tokens_details")
    return call_usage(
        tokens=usage.get("input_tokens"),
        cached=details.get("cached_tokens") if isinstance(details, dict) else None,
        output=usage.get("output_tokens"),
        service=service,
    )
