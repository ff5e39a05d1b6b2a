"""OpenAI's decisions: many typed questions about one input; pure functions.

`decision_body` writes a request, `decision_reply` reads an answer.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from mcranker.llm.chat import Answer, Capabilities, ChatReply, ChatRequest
from mcranker.llm.providers.http_errors import Service, reported_model, unreadable
from mcranker.llm.providers.token_counts import call_usage
from mcranker.llm.typed_answers import (
    DECLINED,
    OddAnswer,
    choice,
    level_score,
    missing,
    read_answer,
    yes_no,
)
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcranker.llm.chat import Option, Question

DECISION_MODELS = frozenset({"gpt-6-luna"})
"""The models of OpenAI that answer decisions; their dated snapshots do as well."""

DECISIONS = Capabilities(
    max_questions=400,
    max_levels=10,
    max_choices=255,
    max_state_tokens=80_000,  # of JSON, 256 KiB
)
"""Limits of one request."""

_SNAPSHOT = re.compile(r"-\d{4}-?\d\d-?\d\d\Z")
_TYPES = {"yes_no": "predicate", "score": "score", "choice": "choice"}


def decides(model: str) -> bool:
    """True if a model answers decisions: one of `DECISION_MODELS`, or a snapshot of one."""
    return _SNAPSHOT.sub("", model) in DECISION_MODELS


def decision_body(request: ChatRequest, model: str) -> dict[str, Any]:
    """The JSON body of a decision: the messages and the state as its input, and the questions.

    A prefill (a last message of the assistant) is left out.

    Args:
        request: what to ask; with questions.
        model: the model's name as the service knows it.
    """
    messages = request.messages
    if messages and messages[-1].role == "assistant":
        messages = messages[:-1]
    entries: list[dict[str, Any]] = [
        {"type": "message", "role": m.role, "content": m.content} for m in messages
    ]
    if request.state is not None:
        part = {"type": "input_json", "data": request.state.to_dict()}
        entries.append({"type": "message", "role": "user", "content": [part]})
    return {
        "model": model,
        "input": entries,
        "questions": [_question(question) for question in request.questions],
        "prompt_cache_key": _cache_key(request),
    }


def decision_reply(data: Mapping[str, Any], request: ChatRequest, *, service: Service) -> ChatReply:
    """Return a decision's answer to each question.

    Args:
        data: the answer's JSON.
        request: what was asked.
        service: who answered, for messages.

    Raises:
        ServerFailed: the answers are not as many as the questions, or in another order.
    """
    answers = data.get("answers")
    if not isinstance(answers, list):
        raise unreadable("no answers in it", service)
    if len(answers) != len(request.questions):
        raise unreadable(f"{len(answers)} answers to {len(request.questions)} questions", service)
    pairs = list(zip(answers, request.questions, strict=True))
    for answer, question in pairs:
        name = answer.get("name") if isinstance(answer, dict) else None
        if name not in (None, question.name):
            what = f"the answer to question {question.name!r} is under another question's name"
            raise unreadable(what, service)
    return ChatReply(
        text="",
        usage=_usage(data.get("usage"), service),
        model=reported_model(data),
        answers=tuple(_answer(answer, question) for answer, question in pairs),
    )


def _question(question: Question) -> dict[str, Any]:
    kind, text = _TYPES[question.kind], question.text
    if question.kind == "yes_no" and question.options:
        yes, no = (option.description or option.name for option in question.options)
        text = f"{text}\n\nTrue: {yes}\nFalse: {no}"
    form: dict[str, Any] = {"type": kind, "name": question.name, "instructions": text}
    if question.kind == "score":
        form["levels"] = [_described("label", each) for each in question.levels]
    elif question.kind == "choice":
        form["choices"] = [_described("value", each) for each in question.options]
    return form


def _described(key: str, option: Option) -> dict[str, str]:
    form = {key: option.name}
    return {**form, "description": option.description} if option.description else form


def _cache_key(request: ChatRequest) -> str:
    """Equal for requests that begin alike: of one query, or with one beginning of the prompt."""
    beginning = [
        message.content[: message.shared] if message.shared else message.content
        for message in request.messages[:1]
    ]
    if request.state is not None:
        beginning += [request.state.query, *request.state.judges.values()]
    text = "\0".join(beginning)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _answer(answer: Any, question: Question) -> Answer:
    if isinstance(answer, dict) and answer.get("type") == "refusal":
        return missing(DECLINED)
    wanted = _TYPES[question.kind]

    def read() -> Answer:
        if not isinstance(answer, dict) or answer.get("type") != wanted:
            raise OddAnswer(f"it is no {wanted!r}, which was asked for")
        confidence = answer.get("confidence")
        if question.kind == "yes_no":
            return yes_no(question, answer.get("probability"), confidence)
        entries = answer.get("probabilities")
        if question.kind == "choice":
            return choice(question, answer.get("choice"), _listed(entries), confidence)
        labels = dict(enumerate(each.name for each in question.levels))
        for entry in entries if isinstance(entries, list) else ():
            place = entry.get("value") if isinstance(entry, dict) else None
            known = labels.get(place) if type(place) is int else None
            if isinstance(entry, dict) and entry.get("label") not in (None, known):
                raise OddAnswer("the labels of its probabilities are not those of its levels")
        return level_score(question, answer.get("score"), _listed(entries), confidence)

    return read_answer(read)


def _listed(entries: Any) -> dict[Any, Any]:
    """Value -> probability."""
    if entries is None:
        return {}
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise OddAnswer("its probabilities are no list of objects")
    listed: dict[Any, Any] = {}
    for entry in entries:
        value = entry.get("value")
        if type(value) not in (int, str) or value in listed:
            raise OddAnswer("its probabilities are not each of one value")
        listed[value] = entry.get("probability")
    return listed


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
