"""System One: typed questions about a state at ``POST /v1/systemone``.

TypeSafe's Jev answers them, and vLLM, Ollama, llama.cpp, Databricks' gateway and LiteLLM at
addresses of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcranker.errors import UnsupportedCapability
from mcranker.llm.chat import Answer, Capabilities, ChatReply, ChatRequest
from mcranker.llm.provider import Provider
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.endpoint import checked_url, find_key, url_in
from mcranker.llm.providers.http_chat import Exchange
from mcranker.llm.providers.http_errors import Service, reported_model, unreadable
from mcranker.llm.providers.token_counts import usage_in
from mcranker.llm.typed_answers import (
    OddAnswer,
    choice,
    level_score,
    missing,
    read_answer,
    yes_no,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcranker.llm.chat import ChatModel, Question

DEFAULT_URL = "https://api.typesafe.ai/v1"
KEY_VARIABLE = "TYPESAFE_API_KEY"
URL_VARIABLE = "TYPESAFE_BASE_URL"

LIMITS = Capabilities(
    max_questions=64,
    max_levels=10,
    max_choices=255,
    max_state_tokens=32_000,
    max_request_tokens=64_000,
    prompts=False,
)
"""Jev's, as far as they are published, and vLLM's 64 questions."""

_TYPES = {"yes_no": "noul", "score": "score", "choice": "choice"}


def only_typed(model: str, request: ChatRequest) -> UnsupportedCapability:
    """The error for a prompt that a model of typed questions is given."""
    stage = request.tag.stage
    role = {"recruit": "recruiter", "assess": "assessor"}.get(stage, stage)
    return UnsupportedCapability(
        f"{model} answers typed questions only, not the prompts of the stage {stage!r}; "
        f"give another {role}_model=",
        model=model,
    )


def systemone_body(request: ChatRequest, model: str) -> dict[str, Any]:
    """The JSON body: the task and the state as one object, and the questions by name.

    Without a state, the messages are it.
    """
    words = "\n\n".join(each.content for each in request.messages if each.role != "assistant")
    state: str | dict[str, Any] = words
    if request.state is not None:
        state = {"task": words, **request.state.to_dict()} if words else request.state.to_dict()
    return {
        "model": model,
        "state": state,
        "questions": {question.name: _question(question) for question in request.questions},
    }


def systemone_reply(
    data: Mapping[str, Any], request: ChatRequest, *, service: Service
) -> ChatReply:
    """Return a service's answer to each question.

    Raises:
        ServerFailed: there are no answers, or none to any of the questions.
    """
    answers = data.get("answers")
    if not isinstance(answers, dict):
        raise unreadable("no answers in it", service)
    if not any(question.name in answers for question in request.questions):
        raise unreadable(f"none of the {len(request.questions)} questions is answered", service)
    return ChatReply(
        text="",
        usage=usage_in(data, service),
        model=reported_model(data),
        answers=tuple(_answer(answers.get(each.name), each) for each in request.questions),
    )


def _connect(
    name: str, /, *, base_url: str | None = None, api_key: str | None = None, **options: Any
) -> ChatModel:
    """A decision model, at TypeSafe's address or that of another service, which needs no key."""
    full = f"systemone:{name}"
    if base_url is None:
        url = url_in(URL_VARIABLE) or DEFAULT_URL
        url = url if url.endswith("/v1") else f"{url}/v1"  # TypeSafe's library wants it without
    else:
        url = checked_url(base_url)
    find_key(api_key, KEY_VARIABLE, model=full, required=url == DEFAULT_URL)

    def body(request: ChatRequest, model: str) -> dict[str, Any]:
        if not request.questions:
            raise only_typed(full, request)
        return systemone_body(request, model)

    return CompatibleChat(
        name,
        name=full,
        base_url=url,
        api_key=api_key,
        key_variable=KEY_VARIABLE,
        capabilities=LIMITS,
        questions=Exchange("systemone", body, systemone_reply),
        **options,
    )


SYSTEM_ONE = Provider(
    connect=_connect,
    note="a decision model of TypeSafe; with base_url= of another server",
    key_variable=KEY_VARIABLE,
    url_variable=URL_VARIABLE,
    # Output is free; as reported in November 2026.
    price=lambda name, usage: 0.04e-6 * usage.input_tokens if name.startswith("jev") else None,
)


def _question(question: Question) -> dict[str, Any]:
    form: dict[str, Any] = {"type": _TYPES[question.kind], "instructions": question.text}
    if question.kind == "choice":
        form["criteria"] = {each.name: each.description or None for each in question.options}
    elif question.kind == "score":
        form["criteria"] = [
            f"{each.name}: {each.description}" if each.description else each.name
            for each in question.levels
        ]
    elif question.options:
        yes, no = (each.description or each.name for each in question.options)
        form["criteria"] = {"true": yes, "false": no}
    return form


def _answer(answer: Any, question: Question) -> Answer:
    if answer is None:
        return missing("no answer to this question")

    def read(answer: Mapping[str, Any]) -> Answer:
        confidence, listed = answer.get("confidence"), answer.get("probabilities")
        if question.kind == "yes_no":
            return yes_no(question, answer.get("noul"), confidence)
        if listed is not None and not isinstance(listed, dict):
            raise OddAnswer("its probabilities are no object")
        if question.kind == "choice":
            return choice(question, answer.get("choice"), listed, confidence)
        places = {str(place): place for place in range(len(question.levels))}
        by_place = {places.get(key, key): p for key, p in (listed or {}).items()}
        return level_score(question, answer.get("score"), by_place, confidence)

    return read_answer(answer, _TYPES[question.kind], read)
