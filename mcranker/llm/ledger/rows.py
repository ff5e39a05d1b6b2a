"""Requests and replies as rows of a ledger, and the key of a request."""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
import time
import zlib
from collections.abc import Sequence
from numbers import Real
from typing import Any

import orjson

from mcranker.llm.chat import Answer, ChatModel, ChatReply, ChatRequest, Question
from personas.ranking.usage import Usage

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
    return hashlib.sha256(_canonical(form)).digest()


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


def _canonical(form: list[object]) -> bytes:
    """The form as JSON, which can be read back, so no two forms give the same bytes."""
    try:
        return orjson.dumps(form, default=dict)
    except orjson.JSONEncodeError:  # a lone surrogate, or an integer beyond 64 bits
        return json.dumps(form, default=dict).encode()


Row = tuple[Any, ...]
"""The values of `COLUMNS`; texts are bytes in a row that was read."""

COLUMNS = (
    "key, model, stage, created, calls, input_tokens, cached_input_tokens, output_tokens, "
    "seconds, reply, checksum"
)
"""Columns of a row. Of the request only its hash; no key, header or address."""

MOST = 2**53
"""The largest count that a row holds: beyond it, sums and other programs are not exact."""


class Damaged(ValueError):
    """A row is not what was written."""


class Unkeepable(ValueError):
    """A reply that breaks the form of a `ChatReply`, so that no row could restore it."""


def row_of(
    key: bytes, reply: ChatReply, *, model: str, stage: str, created: int | None = None
) -> Row:
    """Return the row for a new `reply`."""
    try:
        usage = reply.usage
        content = _encoded(reply)
        row = (
            key,
            model.encode(errors="backslashreplace"),
            stage.encode(),
            int(time.time()) if created is None else created,
            _count(usage.calls),
            _count(usage.input_tokens),
            _count(usage.cached_input_tokens),
            _count(usage.output_tokens),
            _finite(usage.seconds),
            content,
        )
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unkeepable(f"{error}; a ChatReply was expected") from error
    return (key, row[1].decode(), stage, *row[3:9], content.decode(), _checksum(row))


def reply_of(row: Row) -> ChatReply:
    """Return the reply that a row holds, with `ChatReply.reused` set."""
    try:
        if _checksum(row) != row[10]:
            raise Damaged
        content = _decoded(row[9])
        tokens, answers = content.get("continuation_logprobs"), content.get("answers")
        return ChatReply(
            content["text"],
            usage=Usage(row[4], row[5], row[6], row[7], row[8]),
            model=content["model"],
            finish_reason=content.get("finish_reason", "stop"),
            label_logprobs=content.get("label_logprobs"),
            continuation_logprobs=None if tokens is None else tuple(tokens),
            answers=None if answers is None else tuple(map(_answer, answers)),
            reused=True,
        )
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise Damaged from error


def answer_form(answer: Any) -> Any:
    """Return an answer as it is written: a number or null where it is no more than that."""
    if not isinstance(answer, Answer):
        raise TypeError(f"{reprlib.repr(answer)} is no Answer")
    value = None if answer.value is None else _number(answer.value)
    if answer == Answer(answer.value):
        return value
    form = {
        "value": value,
        "confidence": None if answer.confidence is None else _number(answer.confidence),
        "probabilities": _numbers(answer.probabilities),
        "problem": _text(answer.problem),
    }
    return {name: each for name, each in form.items() if each not in (None, "")}


def _answer(form: Any) -> Answer:
    if not isinstance(form, dict):
        return Answer(form)
    listed = form.get("probabilities")
    return Answer(
        form.get("value"),
        form.get("confidence"),
        None if listed is None else tuple(listed),
        form.get("problem", ""),
    )


def _checksum(row: Row) -> int:
    # Each text ends with a byte that it cannot contain, so none runs into the next.
    fixed = b"%b%b\xff%b\xff%d %d %d %d %d %a\xff" % row[:9]
    return zlib.crc32(row[9], zlib.crc32(fixed))


def _encoded(reply: ChatReply) -> bytes:
    content: dict[str, Any] = {"text": _text(reply.text), "model": _text(reply.model)}
    if reply.finish_reason != "stop":
        content["finish_reason"] = _text(reply.finish_reason)
    if (labels := reply.label_logprobs) is not None:
        content["label_logprobs"] = {_text(name): _number(each) for name, each in labels.items()}
    if reply.continuation_logprobs is not None:
        content["continuation_logprobs"] = _numbers(reply.continuation_logprobs)
    if reply.answers is not None:
        content["answers"] = [answer_form(answer) for answer in _tuple(reply.answers)]
    try:
        encoded = orjson.dumps(content)
    except orjson.JSONEncodeError:  # a lone surrogate
        encoded = b""
    # orjson writes null for an infinite number, which json can write.
    if encoded and (b"null" not in encoded or orjson.loads(encoded) == content):
        return encoded
    return json.dumps(content, separators=(",", ":")).encode()


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        decoded: dict[str, Any] = orjson.loads(content)
    except orjson.JSONDecodeError:  # infinite, or a lone surrogate
        decoded = json.loads(content)
    return decoded


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{reprlib.repr(value)} is no text")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, Real):
        raise TypeError(f"{reprlib.repr(value)} is no number")
    return float(value)


def _finite(value: Any) -> float:
    if not math.isfinite(number := _number(value)):
        raise ValueError(f"{value!r} is no number of seconds")
    return number


def _count(value: Any) -> int:
    number = _number(value)
    if not (0 <= number <= MOST and number.is_integer()):
        raise ValueError(f"{reprlib.repr(value)} is no count from 0 to 2^53")
    return int(value)


def _numbers(values: Any) -> list[float] | None:
    return None if values is None else list(map(_number, _tuple(values)))


def _tuple(values: Any) -> Sequence[Any]:
    if not isinstance(values, tuple | list):  # an iterator would be used up
        raise TypeError(f"{reprlib.repr(values)} is no tuple")
    return values
