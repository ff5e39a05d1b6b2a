"""The chat-completion protocol of OpenAI and the many servers that speak it: pure functions.

`chat_body` writes a request, `chat_reply` reads an answer, `label_logprobs` finds the
probability of each label in the answer's log-probabilities.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, TypeAlias, TypeGuard

from mcranker.errors import ReplyError, UnsupportedCapability
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest, Message
from mcranker.llm.providers.http_chat import Exchange, usage_in
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    error_for,
    problem_in,
    refusal,
    reported_model,
    said_by,
    unreadable,
)

LABEL_TOKENS = 8  # a mark or a key such as {"score":, and a label of two tokens such as "1", "0"
LEAST = -1e4  # a log-probability: of 0, and where an integer is too large for a float
ROUNDED = 0.01  # a log-probability, at most
TOP_LOGPROBS = 20  # the most that OpenAI and vLLM list

_MOST_TOKENS = 1000  # in which a label is looked for: thoughts may come before it
_BYTE = re.compile(r"<0x([0-7][0-9A-F])>", re.IGNORECASE)
_BLANKS = re.compile("\\A[\u2581\u0120\u010a\ufeff\u200b]+")  # as tokenizers write them
_OPENING = "*_`#\"'\u201c\u2018()[]{}<>:="  # marks around a label
_CLOSING = _OPENING + ".,;!\u201d\u2019"
_THOUGHTS = re.compile(r"(?s)\A.*(?:</think(?:ing)?>|\[/think\]|<\|channel\|>final<\|message\|>)")
_THINKING = re.compile(r"<think(?:ing)?>|\[think\]|<\|channel\|>")
_ANSWER = re.compile(  # the text before a label, and its first character
    r"(?s)\A(?:[\W_]*|\D*[:=>{*#|](?:[^\w:=>{*#|]|_)*"
    r"|\D*\b(?:answer|score|rating|relevance|label|grade|choice|letter)(?:\s+is)?[\W_]*"
    r"|\D*\b(?:passage|document|text|option)[\W_]*(?=\D\Z))(?<![-\u2212.])."
)
_LONGEST_LEAD = 100  # characters before a label

_Token: TypeAlias = tuple[str, list[tuple[str, float]]]
"""The token that was generated, and the (text, probability) pairs that were listed."""
_COMPARED = re.compile(r"[^!-~]+")
_NAMED = re.compile(r"\b(echo|logprobs?)\b", re.IGNORECASE)
_NO_SUCH_PATH = (404, 405, 501)


def chat_body(
    request: ChatRequest,
    model: str,
    *,
    capabilities: Capabilities,
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
) -> dict[str, Any]:
    """The JSON body of a chat completion, with `limit_name` for the limit of the reply."""
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
    """Return the reply in a chat completion."""
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
        label_logprobs=_labels(data, choice, request, text, service) if request.labels else None,
    )


def first_choice(data: Mapping[str, Any], service: Service) -> Mapping[str, Any]:
    """The first choice of an answer."""
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
    """The natural logarithm of each label's probability, from the tokens the provider listed."""
    tokens = [_token(position) for position in positions[:_MOST_TOKENS]]
    known = {_plain(label).strip(): label for label in labels}
    start = _place_of_label(tokens, known)
    if start is None:
        return {}
    mass = dict.fromkeys(known, 0.0)
    sampled, alternatives = tokens[start]
    for text, p in alternatives:
        if beginning := _part_of_label(text, known):
            _share(beginning, p, tokens[start + 1 :] if text == sampled else [], mass)
    return {known[key]: min(0.0, math.log(p)) for key, p in mass.items() if p > 0.0}


def _place_of_label(tokens: Sequence[_Token], labels: Iterable[str]) -> int | None:
    before, first = "", None
    for place, (token, _) in enumerate(tokens):
        text = _plain(token)
        first = place if first is None and text.strip() else first
        if part := _part_of_label(token, labels):
            said = _THOUGHTS.sub("", before)
            lead = said + text[: len(text) - len(text.lstrip())]
            thinking = len(lead) > _LONGEST_LEAD or _THINKING.search(said)
            if not thinking and _ANSWER.fullmatch(lead + part[0]):
                return place
        before += text
    return first


def _plain(text: str) -> str:
    """Return a token's text, or a label, in the form in which they are compared."""
    text = _BYTE.sub(lambda byte: chr(int(byte[1], 16)), text)
    return unicodedata.normalize("NFKC", _BLANKS.sub(" ", text)).casefold()


def _part_of_label(text: str, labels: Iterable[str], before: str = "") -> str:
    """Return what a token adds to the part of a label `before` it; nothing if no label goes on."""
    plain = _plain(text).rstrip() if before else _plain(text).strip()
    bare = plain.rstrip(_CLOSING) if before else plain.lstrip(_OPENING).rstrip(_CLOSING).strip()
    goes_on = (each for each in (plain, bare) if any(x.startswith(before + each) for x in labels))
    return next(goes_on, "")


def _share(beginning: str, p: float, following: list[_Token], mass: dict[str, float]) -> None:
    longer = [label for label in mass if label.startswith(beginning) and label != beginning]
    exact = beginning in mass
    if longer and following:
        taken = 0.0
        sampled, alternatives = following[0]
        for text, q in alternatives:
            if added := _part_of_label(text, longer, beginning):
                taken += q
                rest = following[1:] if text == sampled else []
                _share(beginning + added, p * q, rest, mass)
        p *= max(0.0, 1.0 - taken)
    elif len(longer) == 1 and not exact:
        mass[longer[0]] += p
    if exact:
        mass[beginning] += p


def _token(position: Mapping[str, Any]) -> _Token:
    listed: dict[str, float] = {}
    names = ("top_logprobs", "top_probs", "probs")  # the last two are of llama.cpp's server
    entries: Any = next((position[name] for name in names if position.get(name)), [])
    if isinstance(entries, Mapping):
        entries = [{"token": text, "logprob": value} for text, value in entries.items()]
    for entry in [*(entries if isinstance(entries, list) else []), position]:
        if not isinstance(entry, Mapping):
            continue
        text, p = _text(entry), _probability(entry)
        # The generated token comes last, and counts only if it is not among the listed ones.
        if text is not None and p is not None and (entry is not position or text not in listed):
            listed[text] = listed.get(text, 0.0) + p
    return _text(position) or "", list(listed.items())


def _text(entry: Mapping[str, Any]) -> str | None:
    given = entry.get("bytes")
    if isinstance(given, list) and given:
        try:
            return bytes(given).decode()
        except (TypeError, ValueError):
            pass  # of a part of a character, or odd
    names = ("token", "tok_str", "content")  # the last two are of llama.cpp's server
    return next((entry[name] for name in names if isinstance(entry.get(name), str)), None)


def _probability(entry: Mapping[str, Any]) -> float | None:
    logprob, p = entry.get("logprob"), entry.get("prob")
    if is_logprob(logprob):
        return math.exp(min(0.0, max(logprob, LEAST)))
    if isinstance(p, int | float) and not isinstance(p, bool) and 0 <= p <= 1 + ROUNDED:
        return min(p, 1.0)
    return None


def is_logprob(value: Any) -> TypeGuard[float]:
    """True if a value of an answer can be a log-probability."""
    # Rounding may carry one above 0, no further; NaN is below and above nothing.
    return isinstance(value, int | float) and not isinstance(value, bool) and value <= ROUNDED


def _labels(
    data: Mapping[str, Any],
    choice: Mapping[str, Any],
    request: ChatRequest,
    text: str,
    service: Service,
) -> dict[str, float]:
    positions = _positions(data, choice)
    if positions is not None:
        return label_logprobs([p for p in positions if isinstance(p, Mapping)], request.labels)
    if not text.strip():
        return {}
    raise UnsupportedCapability(
        f"{service.model}: {service.where} answered without log-probabilities; "
        'use scoring="integer" or another model',
        model=service.model,
    )


def _positions(data: Mapping[str, Any], choice: Mapping[str, Any]) -> list[Any] | None:
    """Return an entry a token, of the chat form, of llama.cpp's own, or of text completions."""
    logprobs = choice.get("logprobs")
    listed = logprobs if isinstance(logprobs, dict) else {}
    name = "completion_probabilities"
    for content in (listed.get("content"), choice.get(name), data.get(name)):
        if isinstance(content, list):
            return content
    names = ("tokens", "token_logprobs", "top_logprobs")
    columns = [each if isinstance(each := listed.get(name), list) else [] for name in names]
    rows = zip_longest(*columns)
    entries = [{"token": t, "logprob": value, "top_logprobs": top} for t, value, top in rows]
    return entries if columns[0] else None


# Likelihood of a given text, from a server that echoes prompts with log-probabilities: ``POST
# /completions``, as vLLM and SGLang serve it. The prompt is the messages and the text behind them,
# without a chat template.


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
