"""OpenAI's decisions: many typed questions about one input, at ``POST /decisions``."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from mcranker.llm.chat import Answer, ChatReply, ChatRequest
from mcranker.llm.providers.http_chat import Exchange, usage_in
from mcranker.llm.providers.http_errors import Service, reported_model, unreadable
from mcranker.llm.providers.openai_protocol import without_prefill
from mcranker.llm.typed_answers import (
    DECLINED,
    OddAnswer,
    choice,
    level_score,
    missing,
    read_answer,
    yes_no,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcranker.llm.chat import Option, Question

_TYPES = {"yes_no": "predicate", "score": "score", "choice": "choice"}


def decision_body(request: ChatRequest, model: str) -> dict[str, Any]:
    """The JSON body: messages and state as the input, without a prefill, and the questions."""
    entries: list[dict[str, Any]] = [
        {"type": "message", "role": m.role, "content": m.content} for m in without_prefill(request)
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
    """Return a decision's answer to each question."""
    answers = data.get("answers")
    if not isinstance(answers, list):
        raise unreadable("no answers in it", service)
    if len(answers) != len(request.questions):
        raise unreadable(f"{len(answers)} answers to {len(request.questions)} questions", service)
    for answer, question in zip(answers, request.questions, strict=True):
        name = answer.get("name") if isinstance(answer, dict) else None
        if name not in (None, question.name):
            what = f"the answer to question {question.name!r} is under another question's name"
            raise unreadable(what, service)
    return ChatReply(
        text="",
        usage=usage_in(data, service),
        model=reported_model(data),
        answers=tuple(map(_answer, answers, request.questions)),
    )


DECISION = Exchange("decisions", decision_body, decision_reply)


def _question(question: Question) -> dict[str, Any]:
    text = question.text
    if question.kind == "yes_no" and question.options:
        yes, no = (option.description or option.name for option in question.options)
        text = f"{text}\n\nTrue: {yes}\nFalse: {no}"
    form = {"type": _TYPES[question.kind], "name": question.name, "instructions": text}
    if question.kind == "score":
        return {**form, "levels": [_described("label", each) for each in question.levels]}
    if question.kind == "choice":
        return {**form, "choices": [_described("value", each) for each in question.options]}
    return form


def _described(key: str, option: Option) -> dict[str, str]:
    form = {key: option.name}
    return {**form, "description": option.description} if option.description else form


def _cache_key(request: ChatRequest) -> str:
    """Equal for requests that begin alike: of one query, or with one beginning of the prompt."""
    beginning = [m.content[: m.shared or None] for m in request.messages[:1]]
    if request.state is not None:
        beginning += [request.state.query, *request.state.judges.values()]
    text = "\0".join(beginning)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _answer(answer: Any, question: Question) -> Answer:
    if isinstance(answer, dict) and answer.get("type") == "refusal":
        return missing(DECLINED)

    def read(answer: Mapping[str, Any]) -> Answer:
        confidence, entries = answer.get("confidence"), answer.get("probabilities")
        if question.kind == "yes_no":
            return yes_no(question, answer.get("probability"), confidence)
        if question.kind == "choice":
            return choice(question, answer.get("choice"), _listed(entries), confidence)
        labels = dict(enumerate(each.name for each in question.levels))
        for entry in entries if isinstance(entries, list) else ():
            place = entry.get("value") if isinstance(entry, dict) else None
            known = labels.get(place) if type(place) is int else None
            if isinstance(entry, dict) and entry.get("label") not in (None, known):
                raise OddAnswer("the labels of its probabilities are not those of its levels")
        return level_score(question, answer.get("score"), _listed(entries), confidence)

    return read_answer(answer, _TYPES[question.kind], read)


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
