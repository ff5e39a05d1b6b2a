"""Anthropic's batch API: the requests in one body, and one stream of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import aclosing
from typing import Any

import orjson
from pydantic import AwareDatetime, BaseModel

from mcranker.llm.batch.notes import BatchNote
from mcranker.llm.batch.protocol import (
    MOST_PAGES,
    TRANSFER_SECONDS,
    BatchItem,
    BatchStatus,
    Fate,
    Id,
    lines_of,
    parsed,
)
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_errors import parse_object, problem_in, text_in

CLOCKS_DIFFER = 60.0  # seconds, at most, between our clock and Anthropic's

_FATES: Mapping[str, Fate] = {"expired": "expired", "canceled": "cancelled"}
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicBatches:
    """A `BatchService`."""

    most_requests = 100_000
    most_bytes = 256_000_000

    def __init__(self, chat: AnthropicMessages) -> None:
        self._chat = chat

    @property
    def chat(self) -> AnthropicMessages:
        return self._chat

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        return orjson.dumps({"custom_id": key, "params": body})

    async def upload(self, lines: Sequence[bytes], mark: str) -> bytes:
        """Nothing is sent yet: Anthropic takes the requests with the creation."""
        return b'{"requests":[' + b",".join(lines) + b"]}"

    async def create(self, source: bytes, mark: str) -> str:
        data = await self._chat.call("POST", "/v1/messages/batches", source)
        return parsed(_Batch, data, self._chat.service).id

    async def find(self, note: BatchNote, taken: Set[str]) -> str | None:
        """The first batch of as many requests that was created since; see `batch_files`.

        One that has ended already is known by its results.
        """
        earliest = note.created - CLOCKS_DIFFER
        latest = note.created + TRANSFER_SECONDS + CLOCKS_DIFFER
        found: str | None = None
        path = "/v1/messages/batches?limit=100"
        for _ in range(MOST_PAGES):  # newest first, until they are older than the note
            data = await self._chat.call("GET", path)
            page = parsed(_Page, data, self._chat.service)
            for batch in page.data:
                created = batch.created_at.timestamp()
                if created < earliest:
                    return found
                as_many = sum(batch.request_counts.values()) == len(note.keys)
                if created > latest or not as_many or batch.id in taken:
                    continue
                if batch.results_url is None:
                    found = batch.id
                elif await self._first_key(batch.id) in note.keys:
                    return batch.id
            if not page.has_more or page.last_id is None:
                return found
            path = f"/v1/messages/batches?limit=100&after_id={page.last_id}"
        return found

    async def check(self, batch: str) -> BatchStatus:
        data = await self._chat.call("GET", f"/v1/messages/batches/{batch}")
        form = parsed(_Batch, data, self._chat.service)
        told = (f", {count} {name}" for name, count in form.request_counts.items() if count)
        return BatchStatus(
            ended=form.processing_status == "ended",
            progress=form.processing_status + "".join(told),
            # The address that Anthropic gives is not used: the key goes nowhere else.
            results=(_results(batch),) if form.results_url else (),
            unanswered="cancelled" if form.cancel_initiated_at else "failed",
        )

    async def _first_key(self, batch: str) -> str | None:
        """The key of one of its requests; None if there are no results."""
        pieces = self._chat.stream(_results(batch))
        async with aclosing(pieces), aclosing(lines_of(pieces, self._chat.service)) as lines:
            async for line in lines:
                return self.item(parse_object(line, self._chat.service)).key
        return None

    def item(self, data: Mapping[str, Any]) -> BatchItem:
        key, result = text_in(data, "custom_id"), data.get("result")
        result = result if isinstance(result, dict) else {}
        kind, message, error = text_in(result, "type"), result.get("message"), result.get("error")
        if kind == "succeeded" and isinstance(message, dict):
            return BatchItem(key, "answered", message)
        if kind in _FATES:
            return BatchItem(key, _FATES[kind])
        inner = error.get("error") if isinstance(error, dict) else None
        status = _STATUS.get(text_in(inner, "type"), 500) if isinstance(inner, dict) else 500
        return BatchItem(key, "failed", problem=problem_in(status, error))


def _results(batch: str) -> str:
    return f"/v1/messages/batches/{batch}/results"


class _Batch(BaseModel):
    """The fields read from Anthropic's description of a batch."""

    id: Id
    processing_status: str
    created_at: AwareDatetime
    request_counts: dict[str, int]
    cancel_initiated_at: AwareDatetime | None = None
    results_url: str | None = None


class _Page(BaseModel):
    data: list[_Batch]
    has_more: bool = False
    last_id: Id | None = None
