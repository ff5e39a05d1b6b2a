"""A reply as a row of the ledger, and back; a checksum tells what has been damaged since."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Iterable
from typing import Any

import orjson

from mcranker.llm.chat import ChatReply, Usage

__all__ = ["COLUMNS", "Damaged", "Row", "reply_of", "row_of"]

Row = tuple[Any, ...]
"""The values of `COLUMNS`; texts are bytes in a row that was read."""

COLUMNS = (
    "key, model, stage, created, calls, input_tokens, cached_input_tokens, output_tokens, "
    "seconds, reply, checksum"
)
"""What a row holds. Nothing of the request but its hash; no key, header or address."""


class Damaged(ValueError):
    """A row is not what was written."""


def row_of(key: bytes, reply: ChatReply, *, model: str, stage: str) -> Row:
    """What is written for `reply`, given now."""
    content: dict[str, Any] = {"text": reply.text, "model": reply.model}
    if reply.finish_reason != "stop":
        content["finish_reason"] = reply.finish_reason
    if reply.label_logprobs is not None:
        content["label_logprobs"] = dict(reply.label_logprobs)
    if reply.answers is not None:
        content["answers"] = reply.answers
    usage = reply.usage
    row = (
        key,
        model.encode(errors="backslashreplace"),
        stage.encode(),
        int(time.time()),
        usage.calls,
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.output_tokens,
        float(usage.seconds),
        _encoded(content, reply),
    )
    return (key, row[1].decode(), stage, *row[3:9], row[9].decode(), _checksum(row))


def reply_of(row: Row) -> ChatReply:
    """The reply that a row holds, with `ChatReply.reused` set.

    Raises:
        Damaged: the row is not what was written.
    """
    try:
        if _checksum(row) != row[10]:
            raise Damaged
        content = _decoded(row[9])
        answers = content.get("answers")
        return ChatReply(
            content["text"],
            usage=Usage(row[4], row[5], row[6], row[7], row[8]),
            model=content["model"],
            finish_reason=content.get("finish_reason", "stop"),
            label_logprobs=content.get("label_logprobs"),
            answers=None if answers is None else tuple(answers),
            reused=True,
        )
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise Damaged from error


def _checksum(row: Row) -> int:
    # Each text ends with a byte that it cannot contain, so none runs into the next.
    fixed = b"%b%b\xff%b\xff%d %d %d %d %d %a\xff" % row[:9]
    return zlib.crc32(row[9], zlib.crc32(fixed))


def _encoded(content: dict[str, Any], reply: ChatReply) -> bytes:
    numbers: Iterable[float | None] = (
        *(reply.label_logprobs or {}).values(),
        *(reply.answers or ()),
    )
    if all(number is None or math.isfinite(number) for number in numbers):
        try:
            return orjson.dumps(content)
        except orjson.JSONEncodeError:  # a lone surrogate
            pass
    return json.dumps(content, separators=(",", ":")).encode()


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        decoded: dict[str, Any] = orjson.loads(content)
    except orjson.JSONDecodeError:  # infinite, or a lone surrogate
        decoded = json.loads(content)
    return decoded
