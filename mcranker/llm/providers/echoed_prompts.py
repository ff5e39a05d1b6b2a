"""Likelihood of a given text, from a server that echoes prompts with log-probabilities.

``POST /completions`` with ``echo`` and ``logprobs``, as vLLM and SGLang serve it: the prompt is the
messages and the text behind them, as they are, without a chat template.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcranker.errors import ReplyError, UnsupportedCapability
from mcranker.llm.chat import ChatReply, ChatRequest
from mcranker.llm.providers.http_chat import Exchange
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    reported_model,
    said_by,
    unreadable,
)
from mcranker.llm.providers.openai_protocol import LEAST, first_choice, is_logprob
from mcranker.llm.providers.token_counts import usage_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMPARED = re.compile(r"[^!-~]+")
_NAMED = re.compile(r"\b(echo|logprobs?)\b", re.IGNORECASE)
_NO_SUCH_PATH = (404, 405, 501)


def echo_body(request: ChatRequest, model: str) -> dict[str, Any]:
    """The JSON body: one token is asked for, since many servers want to write at least one."""
    prompt = "\n\n".join(message.content for message in request.messages).rstrip()
    return {
        "model": model,
        "prompt": f"{prompt} {request.continuation}",
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }


def echo_reply(data: Mapping[str, Any], request: ChatRequest, *, service: Service) -> ChatReply:
    """Return the log-probabilities of the continuation's tokens."""
    logprobs = first_choice(data, service).get("logprobs")
    listed = logprobs if isinstance(logprobs, dict) else {}
    tokens, values = listed.get("tokens"), listed.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or len(tokens) <= 1:
        raise _no_echo(service)
    if len(tokens) != len(values) or not all(isinstance(token, str) for token in tokens):
        raise unreadable("tokens and log-probabilities that do not belong together", service)
    usage = usage_in(data, service)
    # Without a count, the one token that was asked for comes behind the prompt's.
    end = usage.input_tokens if 0 < usage.input_tokens <= len(tokens) else len(tokens) - 1
    start = _first_token(tokens[:end], request.continuation)
    if start is None:
        raise ReplyError(
            f"{service.model}: {service.where} has no token that begins where "
            f"{request.continuation[:80]!r} does, so its log-probability is not known; "
            "use another model, or ranker='rg_yn'",
            reply="",
            model=service.model,
        )
    if not all(is_logprob(value) for value in values[start:end]):
        raise unreadable("log-probabilities that are none", service)
    return ChatReply(
        text="",
        usage=usage,
        model=reported_model(data),
        continuation_logprobs=tuple(min(0.0, max(value, LEAST)) for value in values[start:end]),
    )


def _explain(problem: Problem, service: Service) -> UnsupportedCapability | None:
    """The error if the server does not echo prompts with log-probabilities."""
    said = f"{problem.message} {problem.param}"
    refused = problem.status in (400, 422) and _NAMED.search(said) is not None
    if refused or problem.status in _NO_SUCH_PATH:
        return _no_echo(service, problem.message)
    return None


ECHO = Exchange("completions", echo_body, echo_reply, _explain)


def _first_token(tokens: Sequence[str], text: str) -> int | None:
    """Return the place of the token with which `text` begins, if `tokens` end with it."""
    left = _COMPARED.sub("", text)
    for place in reversed(range(len(tokens))):
        token = _COMPARED.sub("", tokens[place])
        if token and not left:
            return place + 1 if place + 1 < len(tokens) else None
        if not left.endswith(token):
            return None
        left = left.removesuffix(token)
    return None


def _no_echo(service: Service, said: str = "") -> UnsupportedCapability:
    reason = f" ({said_by(service, said)})" if said else ""
    return UnsupportedCapability(
        f"{service.model}: {service.where} gives no log-probabilities of a prompt{reason}; take "
        "a server whose /completions has echo with logprobs, such as vLLM, check the model's name "
        "there, or use ranker='rg_yn'",
        model=service.model,
    )
