"""System One: typed questions about a state at ``POST /v1/systemone``.

TypeSafe's Jev answers them, and vLLM, Ollama, llama.cpp, Databricks' gateway and LiteLLM at
addresses of their own. `systemone_body` writes a request, `systemone_reply` reads an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcranker.errors import UnsupportedCapability
from mcranker.llm.chat import Answer, Capabilities, ChatReply, ChatRequest
from mcranker.llm.provider import Provider
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.endpoint import checked_url, find_key, url_in
from mcranker.llm.providers.http_errors import Service, reported_model, unreadable
from mcranker.llm.providers.token_counts import call_usage
from mcranker.llm.typed_answers import (
    OddAnswer,
    check_limits,
    choice,
    level_score,
    missing,
    read_answer,
    yes_no,
)
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcranker.llm.chat import Question

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


class SystemOneChat(CompatibleChat):
    """Asks a decision model by System One's protocol.

    Args:
        model: as the service names it, e.g. ``jev-latest``.
        base_url: the address before ``/systemone``; None for ``TYPESAFE_BASE_URL``, else
            TypeSafe's own.
        api_key: sent as bearer token; None for ``TYPESAFE_API_KEY``, which a service at
            `base_url` may do without.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.
        capabilities: what the model takes; None for `LIMITS`.

    Raises:
        AuthenticationFailed: there is no key, or it cannot be one.
        ConfigError: an argument that cannot be.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 64,
        capabilities: Capabilities | None = None,
    ) -> None:
        name, url = f"systemone:{model}", _chosen_url(base_url)
        find_key(api_key, KEY_VARIABLE, model=name, required=url == DEFAULT_URL)
        super().__init__(
            model,
            name=name,
            capabilities=capabilities or LIMITS,
            base_url=url,
            key_variable=KEY_VARIABLE,
            api_key=api_key,
            timeout=timeout,
            concurrency=concurrency,
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        if not request.questions:
            raise only_typed(self._name, request)
        check_limits(request, self._capabilities, self._name)
        data = await self.post("systemone", systemone_body(request, self._model))
        return systemone_reply(data, request, service=self._service)


SYSTEM_ONE = Provider(
    connect=SystemOneChat,
    note="a decision model of TypeSafe; with base_url= of another server",
    key_variable=KEY_VARIABLE,
    url_variable=URL_VARIABLE,
    # Output is free; as reported in November 2026.
    price=lambda name, usage: 0.04e-6 * usage.input_tokens if name.startswith("jev") else None,
)


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

    Args:
        request: what to ask; with questions. Without a state, the messages are it.
        model: the model's name as the service knows it.
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

    Args:
        data: the answer's JSON.
        request: what was asked.
        service: who answered, for messages.

    Raises:
        ServerFailed: there are no answers, or none to any of the questions.
    """
    answers = data.get("answers")
    if not isinstance(answers, dict):
        raise unreadable("no answers in it", service)
    if not any(question.name in answers for question in request.questions):
        raise unreadable(f"none of the {len(request.questions)} questions is answered", service)
    usage = data.get("usage")
    return ChatReply(
        text="",
        usage=_usage(usage, service),
        model=reported_model(data),
        answers=tuple(
            _answer(answers.get(question.name), question) for question in request.questions
        ),
    )


def _chosen_url(base_url: str | None) -> str:
    if base_url is not None:
        return checked_url(base_url)
    url = url_in(URL_VARIABLE) or DEFAULT_URL
    return url if url.endswith("/v1") else f"{url}/v1"  # TypeSafe's library wants it without


def _question(question: Question) -> dict[str, Any]:
    options = question.options
    if question.kind == "yes_no":
        form: dict[str, Any] = {"type": "noul", "instructions": question.text}
        if options:
            yes, no = (each.description or each.name for each in options)
            form["criteria"] = {"true": yes, "false": no}
        return form
    if question.kind == "choice":
        by_name = {each.name: each.description or None for each in options}
        return {"type": "choice", "instructions": question.text, "criteria": by_name}
    levels = [
        f"{each.name}: {each.description}" if each.description else each.name
        for each in question.levels
    ]
    return {"type": "score", "instructions": question.text, "criteria": levels}


_TYPES = {"yes_no": "noul", "score": "score", "choice": "choice"}


def _answer(answer: Any, question: Question) -> Answer:
    if answer is None:
        return missing("no answer to this question")
    wanted = _TYPES[question.kind]

    def read() -> Answer:
        if not isinstance(answer, dict) or answer.get("type") != wanted:
            raise OddAnswer(f"it is no {wanted!r}, which was asked for")
        confidence = answer.get("confidence")
        if question.kind == "yes_no":
            return yes_no(question, answer.get("noul"), confidence)
        listed = answer.get("probabilities")
        if listed is not None and not isinstance(listed, dict):
            raise OddAnswer("its probabilities are no object")
        if question.kind == "choice":
            return choice(question, answer.get("choice"), listed, confidence)
        places = {str(place): place for place in range(len(question.levels))}
        by_place = {places.get(key, key): p for key, p in (listed or {}).items()}
        return level_score(question, answer.get("score"), by_place, confidence)

    return read_answer(read)


def _usage(usage: Any, service: Service) -> Usage:
    if not isinstance(usage, dict):
        return Usage(calls=1)
    return call_usage(
        tokens=usage.get("input_tokens"),
        cached=None,
        output=usage.get("output_tokens"),
        service=service,
    )
