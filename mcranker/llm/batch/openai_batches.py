"""OpenAI's batch API: a file of requests, a batch, and one or two files of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeGuard

import orjson
from pydantic import BaseModel

from mcranker.llm.batch.notes import BatchNote
from mcranker.llm.batch.protocol import (
    MOST_PAGES,
    BatchItem,
    BatchStatus,
    Fate,
    Id,
    parsed,
)
from mcranker.llm.providers.http_errors import problem_in, text_in
from mcranker.llm.providers.openai_chat import OpenAIChat

MARK = "mcranker_mark"  # a batch's metadata under this name say which note is its
CLOCKS_DIFFER = 3600.0  # seconds, at most, between our clock and OpenAI's

_ENDED: Mapping[str, Fate] = {
    "completed": "failed",
    "expired": "expired",
    "cancelled": "cancelled",
}
_FATES: Mapping[str, Fate] = {"batch_expired": "expired", "batch_cancelled": "cancelled"}


class OpenAIBatches:
    """A `BatchService`. It takes chat completions; decisions have no batches."""

    most_requests = 50_000
    most_bytes = 200_000_000

    def __init__(self, chat: OpenAIChat) -> None:
        self._chat = chat

    @property
    def chat(self) -> OpenAIChat:
        return self._chat

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        return orjson.dumps(
            {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        )

    async def upload(self, lines: Sequence[bytes], mark: str) -> bytes:
        data = await self._chat.upload(f"mcranker-{mark}.jsonl", b"\n".join(lines))
        return parsed(_File, data, self._chat.service).id.encode()

    async def create(self, source: bytes, mark: str) -> str:
        content = {
            "input_file_id": source.decode(),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {MARK: mark},
        }
        data = await self._chat.call("POST", "/batches", orjson.dumps(content))
        return parsed(_Batch, data, self._chat.service).id

    async def find(self, note: BatchNote, taken: Set[str]) -> str | None:
        path = "/batches?limit=100"
        for _ in range(MOST_PAGES):  # newest first, until they are older than the note
            data = await self._chat.call("GET", path)
            page = parsed(_Page, data, self._chat.service)
            for batch in page.data:
                if batch.metadata and batch.metadata.get(MARK) == note.mark:
                    return batch.id
                if batch.created_at < note.created - CLOCKS_DIFFER:
                    return None
            if not page.has_more or not page.data:
                return None
            path = f"/batches?limit=100&after={page.data[-1].id}"
        return None

    async def check(self, batch: str) -> BatchStatus:
        data = await self._chat.call("GET", f"/batches/{batch}")
        form = parsed(_Batch, data, self._chat.service)
        counts = form.request_counts or _Counts()
        files = (form.output_file_id, form.error_file_id)
        return BatchStatus(
            ended=form.status in _ENDED,
            progress=f"{form.status}, {counts.completed} of {counts.total} answered, "
            f"{counts.failed} failed",
            results=tuple(f"/files/{file}/content" for file in files if file),
            unanswered=_ENDED.get(form.status, "failed"),
            refusal=_reasons(form) if form.status == "failed" else "",
        )

    def item(self, data: Mapping[str, Any]) -> BatchItem:
        key = text_in(data, "custom_id")
        response, error = data.get("response"), data.get("error")
        if isinstance(response, dict):
            status, body = response.get("status_code"), response.get("body")
            if status == 200 and isinstance(body, dict):
                return BatchItem(key, "answered", body)
            problem = problem_in(status if _is_failure(status) else 500, body)
            return BatchItem(key, "failed", problem=problem)
        code = text_in(error, "code") if isinstance(error, dict) else ""
        problem = problem_in(500, {"error": error})
        return BatchItem(key, _FATES.get(code, "failed"), problem=problem)


class _Counts(BaseModel):
    completed: int = 0
    failed: int = 0
    total: int = 0


class _Error(BaseModel):
    code: str | None = None
    line: int | None = None
    message: str | None = None


class _Errors(BaseModel):
    data: list[_Error] | None = None


class _Batch(BaseModel):
    """The fields read from OpenAI's description of a batch."""

    id: Id
    status: str
    created_at: float
    metadata: dict[str, str] | None = None
    request_counts: _Counts | None = None
    output_file_id: Id | None = None
    error_file_id: Id | None = None
    errors: _Errors | None = None


class _File(BaseModel):
    id: Id


class _Page(BaseModel):
    data: list[_Batch]
    has_more: bool = False


def _is_failure(status: object) -> TypeGuard[int]:
    return isinstance(status, int) and 400 <= status < 600


def _reasons(batch: _Batch) -> str:
    """Return the first three reasons OpenAI gives for refusing a batch."""
    errors = (batch.errors and batch.errors.data) or []
    said = [
        ("" if error.line is None else f"line {error.line}: ")
        + (error.message or error.code or "no reason given")
        for error in errors[:3]
    ]
    return "; ".join(said) or "no reason given"
