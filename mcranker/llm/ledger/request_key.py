"""Key of a request, 32 bytes. Equal requests have equal keys."""

from __future__ import annotations

import hashlib
import json

import orjson

from mcranker.llm.chat import ChatModel, ChatRequest, Question

_FORMAT = 1  # another number, and no answer of former versions is found any more


def request_key(model: ChatModel, request: ChatRequest) -> bytes:
    """SHA-256 of everything that the answer depends on: who is asked, and what."""
    schema, temperature = request.schema, request.temperature
    form: list[object] = [
        _FORMAT,
        model.name,
        getattr(model, "endpoint", ""),
        [[message.role, message.content] for message in request.messages],
        # The order of a schema's keys stays: models write the keys of a reply in that order.
        None if schema is None else [schema.name, schema.schema],
        request.labels,
        [_question(question) for question in request.questions],
        None if temperature is None else float(temperature) + 0.0,  # -0.0 is 0.0
        request.max_tokens,
        request.seed,
        request.sample,
    ]
    if request.state is not None:
        state = request.state
        # Pairs, because the order in which passages are shown counts.
        form.append([state.query, [*state.passages.items()], [*state.judges.items()]])
        if state.statistics is not None:
            counts = state.statistics
            form.append([counts.passages, counts.terms, [*counts.frequencies.items()]])
    if request.continuation:
        form.append(request.continuation)
    return hashlib.sha256(_encoded(form)).digest()


def _question(question: Question) -> list[object]:
    form: list[object] = [question.name, question.text, question.top]
    plain = Question(question.name, question.text, question.top)
    if question != plain:  # what a question was at first keeps its key
        judge = question.judge
        form += [
            question.kind,
            [[option.name, option.description] for option in question.options],
            question.passage,
            None if judge is None else [judge.name, judge.description, judge.criteria],
        ]
    return form


def _encoded(form: list[object]) -> bytes:
    """The form as JSON, which can be read back, so no two forms give the same bytes."""
    try:
        return orjson.dumps(form, default=dict)
    except orjson.JSONEncodeError:  # a lone surrogate, or an integer beyond 64 bits
        return json.dumps(form, default=dict).encode()
