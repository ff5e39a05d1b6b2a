"""The chat-completion protocol of OpenAI and the many servers that speak it: pure functions.

`chat_body` writes a request, `chat_reply` reads an answer, `label_logprobs` finds the
probability of each label in the answer's log-probabilities.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard

from mcranker.errors import UnsupportedCapability
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest, Message
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    error_for,
    problem_in,
    refusal,
    reported_model,
    unreadable,
)
from mcranker.llm.providers.token_counts import usage_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LABEL_TOKENS = 3  # a leading white space, and a label of two tokens such as "1", "0"
LEAST = -1e4  # a log-probability: of 0, and where an integer is too large for a float
ROUNDED = 0.01  # a log-probability, at most
TOP_LOGPROBS = 20  # the most that OpenAI and vLLM list


def chat_body(
    request: ChatRequest,
    model: str,
    *,
    capabilities: Capabilities,
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
) -> dict[str, Any]:
    """The JSON body of a chat completion, with `limit_name` for the limit of the reply.

    What `capabilities` lack is left out: the schema, and a prefill (a last message of the
    assistant). Log-probabilities are always asked for when the request has labels.
    """
    messages = request.messages if capabilities.prefill else without_prefill(request)
    limit = min(request.max_tokens, LABEL_TOKENS) if request.labels else request.max_tokens
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        limit_name: limit,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.seed is not None:
        body["seed"] = request.seed
    if request.labels:
        body["logprobs"] = True
        body["top_logprobs"] = TOP_LOGPROBS
    elif request.schema is not None and capabilities.json_schema:
        schema = dict(request.schema.schema)
        form = {"name": request.schema.name, "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


def without_prefill(request: ChatRequest) -> tuple[Message, ...]:
    """Return the messages without a last one of the assistant."""
    messages = request.messages
    return messages[:-1] if messages and messages[-1].role == "assistant" else messages


def chat_reply(
    data: Mapping[str, Any], request: ChatRequest, *, service: Service, prefill: bool = False
) -> ChatReply:
    """Return the reply in a chat completion.

    With `prefill` the reply's beginning was sent; it is taken off where a server repeats it.

    Raises:
        ContentRefused: the model or a filter declined.
        ServerFailed: the answer has no choice in it, or says that generating it failed.
        UnsupportedCapability: labels were asked for and the text came without
            log-probabilities.
        ModelError: the answer is an error in disguise: a good status, an error in the body.
    """
    choice = first_choice(data, service)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    finish = choice.get("finish_reason")
    declined = message.get("refusal")
    if finish == "content_filter" or (isinstance(declined, str) and declined):
        raise refusal(declined if isinstance(declined, str) else "content filter", service)
    if finish == "error":
        raise error_for(Problem(500, "the server broke off"), service)
    if prefill and request.messages and request.messages[-1].role == "assistant":
        text = text.removeprefix(request.messages[-1].content)
    return ChatReply(
        text=text,
        usage=usage_in(data, service),
        model=reported_model(data),
        finish_reason="length" if finish == "length" else "stop",
        label_logprobs=_labels(choice, request, text, service) if request.labels else None,
    )


def first_choice(data: Mapping[str, Any], service: Service) -> Mapping[str, Any]:
    """The first choice of an answer.

    Raises:
        ModelError: there is none, or the answer is an error in disguise.
    """
    choices = data.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    error = data.get("error")
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise error_for(problem_in(status, data), service)
    raise unreadable("no choices in it", service)


def label_logprobs(
    positions: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> dict[str, float]:
    """The natural logarithm of each label's probability, from the tokens the provider listed.

    Counted is the first token that is more than white space: the probabilities of all its
    listed alternatives whose text is the label are added, white space around them and case
    aside (``" Yes"`` and ``"yes"`` both count for ``"Yes"``).

    A label may be longer than a token. Where ``"1"`` is a label and also the beginning of
    ``"10"``, and the model did go on from that very token, its mass is split by the listed
    alternatives of the next one: p(10) = p(1)·p(0 | 1), p(1) = p(1)·(1 - p(0 | 1)). Where the
    model went another way the next token's alternatives are not known; the mass then stays
    with the label that equals the token, or goes to the only label that begins with it, or
    is left out if there are several.

    `positions` are the ``content`` list of the choice's ``logprobs``, one entry a token; no two
    `labels` are equal apart from case. Only labels with some probability are returned.
    """
    tokens = [_token(position) for position in positions]
    start = next((i for i, token in enumerate(tokens) if token.text.strip()), None)
    if start is None:
        return {}
    folded = {label.strip().casefold(): label for label in labels}
    mass = dict.fromkeys(folded, 0.0)
    for text, p in tokens[start].alternatives:
        sampled = text == tokens[start].text
        beginning = text.strip().casefold()
        if beginning:
            _share(beginning, p, tokens[start + 1 :] if sampled else [], mass)
    return {folded[key]: min(0.0, math.log(p)) for key, p in mass.items() if p > 0.0}


class _Token(NamedTuple):
    """The token that was generated, and the (text, probability) pairs that were listed."""

    text: str
    alternatives: list[tuple[str, float]]


def _share(beginning: str, p: float, following: list[_Token], mass: dict[str, float]) -> None:
    longer = [label for label in mass if label.startswith(beginning) and label != beginning]
    exact = beginning in mass
    if longer and following:
        taken = 0.0
        for text, q in following[0].alternatives:
            added = text.rstrip().casefold()
            if added and any(label.startswith(beginning + added) for label in longer):
                taken += q
                rest = following[1:] if text == following[0].text else []
                _share(beginning + added, p * q, rest, mass)
        p *= max(0.0, 1.0 - taken)
    elif len(longer) == 1 and not exact:
        mass[longer[0]] += p
    if exact:
        mass[beginning] += p


def _token(position: Mapping[str, Any]) -> _Token:
    listed: dict[str, float] = {}
    entries = position.get("top_logprobs")
    for entry in [*(entries if isinstance(entries, list) else []), position]:
        if not isinstance(entry, dict):
            continue
        text, logprob = entry.get("token"), entry.get("logprob")
        if not isinstance(text, str) or not is_logprob(logprob):
            continue
        # The generated token comes last, and counts only if it is not among the listed ones.
        if entry is not position or text not in listed:
            listed[text] = listed.get(text, 0.0) + math.exp(min(0.0, max(logprob, LEAST)))
    text = position.get("token")
    return _Token(text if isinstance(text, str) else "", list(listed.items()))


def is_logprob(value: Any) -> TypeGuard[float]:
    """True if a value of an answer can be a log-probability."""
    # Rounding may carry one above 0, no further; NaN is below and above nothing.
    return isinstance(value, int | float) and not isinstance(value, bool) and value <= ROUNDED


def _labels(
    choice: Mapping[str, Any], request: ChatRequest, text: str, service: Service
) -> dict[str, float]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if isinstance(content, list):
        return label_logprobs([p for p in content if isinstance(p, dict)], request.labels)
    if not text.strip():
        return {}
    raise UnsupportedCapability(
        f"{service.model}: {service.where} answered without log-probabilities; "
        'use scoring="integer" or another model',
        model=service.model,
    )
