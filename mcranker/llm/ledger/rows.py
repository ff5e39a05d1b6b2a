"""Requests and replies as rows of a ledger, and the key of a request."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import reprlib
import time
import zlib
from dataclasses import replace
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
            None if judge is None else list(dataclasses.astuple(judge)),
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


class Unkeepable(Exception):
    """A reply that breaks the form of a `ChatReply`, so that no row could restore it."""


def row_of(
    key: bytes, reply: ChatReply, *, model: str, stage: str, created: int | None = None
) -> Row:
    """Return the row for a new `reply`, from which it can be restored."""
    try:
        if not (isinstance(reply.text, str) and isinstance(reply.model, str)):
            raise Unkeepable(f"{reprlib.repr(reply)} has no text")
        usage = reply.usage
        counts = usage.calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens
        if not (all(0 <= each <= MOST for each in counts) and math.isfinite(usage.seconds)):
            raise Unkeepable(f"{reprlib.repr(usage)} has a count that is not from 0 to 2^53")
        created = int(time.time()) if created is None else created
        name = model.encode(errors="backslashreplace")
        row: Row = (key, name, stage.encode(), created, *map(int, counts), float(usage.seconds))
        row += (_encoded(reply),)
        row += (_checksum(row),)
        lists = {name: getattr(reply, name) for name in ("answers", "continuation_logprobs")}
        tuples: dict[str, Any] = {
            name: tuple(each) for name, each in lists.items() if isinstance(each, list)
        }
        restored, given = reply_of(row), replace(reply, reused=True, **tuples)
        if restored != given and repr(restored) != repr(given):  # NaN is not equal to itself
            raise Unkeepable(f"{reprlib.repr(reply)} cannot be restored")
    except (TypeError, ValueError, AttributeError, OverflowError, Damaged) as error:
        raise Unkeepable(f"{error}; a ChatReply was expected") from error
    return (key, name.decode(), stage, *row[3:9], row[9].decode(), row[10])


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


def answer_form(answer: Answer) -> Any:
    """Return an answer as it is written: a number or null where it is no more than that."""
    if answer == Answer(answer.value):
        return answer.value
    form = dataclasses.asdict(answer)
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
    content: dict[str, Any] = {"text": reply.text, "model": reply.model}
    if reply.finish_reason != "stop":
        content["finish_reason"] = reply.finish_reason
    if reply.label_logprobs is not None:
        content["label_logprobs"] = dict(reply.label_logprobs)
    if reply.continuation_logprobs is not None:
        content["continuation_logprobs"] = list(reply.continuation_logprobs)
    if reply.answers is not None:
        content["answers"] = list(map(answer_form, reply.answers))
    try:
        encoded = orjson.dumps(content, default=float)
    except orjson.JSONEncodeError:  # a lone surrogate
        encoded = b""
    # orjson writes null for an infinite number, which json can write.
    if encoded and (b"null" not in encoded or orjson.loads(encoded) == content):
        return encoded
    return json.dumps(content, separators=(",", ":"), default=float).encode()


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        decoded: dict[str, Any] = orjson.loads(content)
    except orjson.JSONDecodeError:  # infinite, or a lone surrogate
        decoded = json.loads(content)
    return decoded
