"""OpenAI's protocol, which many servers speak: chats, echoed prompts and decisions.

Pure functions: each kind of call has one that writes its body and one that reads its reply.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal

from mcranker.errors import ReplyError, UnsupportedCapability
from mcranker.llm.chat import (
    Answer,
    Capabilities,
    ChatReply,
    ChatRequest,
    Message,
    Option,
    Question,
)
from mcranker.llm.providers.http_chat import Exchange
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    error_for,
    problem_in,
    refusal,
    said_by,
    unreadable,
)
from mcranker.llm.providers.label_logprobs import LEAST, is_logprob, label_logprobs
from mcranker.llm.providers.reply_fields import (
    finish_of,
    joined_text,
    reported_model,
    text_in,
    usage_in,
)
from mcranker.llm.typed_answers import (
    DECLINED,
    OddAnswer,
    choice,
    level_score,
    missing,
    read_answer,
    yes_no,
)

LABEL_TOKENS = 8  # a mark or a key such as {"score":, and a label of two tokens such as "1", "0"
TOP_LOGPROBS = 20  # the most that OpenAI and vLLM list

_TYPES = {"yes_no": "predicate", "score": "score", "choice": "choice"}
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
    chosen = first_choice(data, service)
    message, finish = chosen.get("message"), chosen.get("finish_reason")
    text = joined_text(message.get("content")) if isinstance(message, dict) else ""
    declined = text_in(message, "refusal")
    if finish == "content_filter" or declined:
        raise refusal(declined or "content filter", service)
    if finish == "error":
        raise error_for(Problem(500, "the server broke off"), service)
    if prefill and request.messages and request.messages[-1].role == "assistant":
        text = text.removeprefix(request.messages[-1].content)
    return ChatReply(
        text=text,
        usage=usage_in(data, service),
        model=reported_model(data),
        finish_reason=finish_of(finish),
        label_logprobs=_labels(chosen, request, text, service) if request.labels else None,
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


def _labels(
    chosen: Mapping[str, Any], request: ChatRequest, text: str, service: Service
) -> dict[str, float]:
    positions = _positions(chosen)
    if positions is not None:
        return label_logprobs([p for p in positions if isinstance(p, Mapping)], request.labels)
    if not text.strip():
        return {}
    raise UnsupportedCapability(
        f"{service.model}: {service.where} answered without log-probabilities; "
        'use scoring="integer" or another model',
        model=service.model,
    )


def _positions(chosen: Mapping[str, Any]) -> list[Any] | None:
    """Return an entry a token, of the chat form or of text completions."""
    logprobs = chosen.get("logprobs")
    listed = logprobs if isinstance(logprobs, dict) else {}
    if isinstance(content := listed.get("content"), list):
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


# Decisions: many typed questions about one input, at ``POST /decisions``.


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
