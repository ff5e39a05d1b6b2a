"""The batch APIs of OpenAI and Anthropic: many requests at once, answered within 24 hours.

| | OpenAI | Anthropic |
|---|---|---|
| requests | a file | the body of the creation |
| results | one or two files | a stream |
| a batch whose id was lost | found by the mark in its metadata | not found |
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import AwareDatetime, BaseModel, StringConstraints, ValidationError

from mcranker.errors import ModelError, ModelTimeout
from mcranker.llm.batch.notes import BatchNote
from mcranker.llm.providers.http_chat import TRANSFER_SECONDS, HostedChat
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    error_for,
    problem_in,
    unreadable,
)
from mcranker.llm.providers.reply_fields import text_in
from personas.errors import fault

MARK = "mcranker_mark"  # an OpenAI batch's metadata under this name say which note is its
MOST_PAGES = 1000  # of a list of batches, so that an endless list ends
CLOCKS_DIFFER = 3600.0  # seconds, at most, between our clock and OpenAI's
NO_RESULT = Problem(500, "the batch ended without a result for this request")

Id = Annotated[str, StringConstraints(pattern=r"^[\w.:-]{1,200}$")]
"""An id that the provider gives; it becomes part of a path."""

Form = TypeVar("Form", bound=BaseModel)
Fate = Literal["answered", "failed", "expired", "cancelled"]


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch; `results` and `unanswered` count once it has ended."""

    ended: bool
    progress: str  # the provider's word for it and its counts, for the log
    results: tuple[str, ...] = ()  # paths of what there is to read
    unanswered: Fate = "failed"  # what became of requests that have no result
    refusal: str = ""  # why the provider did not take the batch; empty if it did


@dataclass(frozen=True, slots=True)
class BatchItem:
    """The result of one request: a body if it was answered, a problem if it failed."""

    key: str
    fate: Fate
    body: dict[str, Any] | None = None
    problem: Problem = NO_RESULT

    def error(self, batch: str, service: Service) -> ModelError:
        """Return the error of a request that was not answered."""
        name = service.model
        if self.fate == "expired":
            said = "ended before this request was answered; try again later"
            return ModelTimeout(f"{name}: batch {batch} {said}", model=name)
        if self.fate == "cancelled":
            said = f"was cancelled at {service.where}, not by this program; what it had answered "
            said += "is kept, run again to send the rest"
            return ModelError(f"{name}: batch {batch} {said}", model=name)
        return error_for(self.problem, service)


class _Batches:
    """A provider's batch API; its calls raise `ModelError` as `HttpChat.call` does."""

    def __init__(self, chat: HostedChat) -> None:
        self.chat = chat

    async def _call(self, form: type[Form], *args: Any, **options: Any) -> Form:
        """An answer in its form; a `ServerFailed` is raised if it has another one."""
        data = await self.chat.call(*args, **options, seconds=TRANSFER_SECONDS)
        try:
            return form.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise unreadable(fault(first, place), self.chat.service) from None


class OpenAIBatches(_Batches):
    """OpenAI's. It takes chat completions; decisions have no batches."""

    most_requests = 50_000
    most_bytes = 200_000_000

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One request of a batch; `key` comes back with its result."""
        return orjson.dumps(
            {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        )

    async def upload(self, lines: Sequence[bytes], mark: str) -> bytes:
        """Send the requests ahead, where that is free, and return what `create` needs to know."""
        import aiohttp

        form = aiohttp.FormData({"purpose": "batch"})
        name, content = f"mcranker-{mark}.jsonl", io.BytesIO(b"\n".join(lines))
        form.add_field("file", content, filename=name, content_type="application/jsonl")
        parts = form()
        file = await self._call(_Named, "post", "files", parts, headers=parts.headers)
        return file.id.encode()

    async def create(self, source: bytes, mark: str) -> str:
        """Create a batch, which will be charged, and return its id."""
        content = {
            "input_file_id": source.decode(),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {MARK: mark},
        }
        return (await self._call(_Named, "post", "batches", orjson.dumps(content))).id

    async def find(self, note: BatchNote) -> str | None:
        """The id of the batch with a note's mark; None if there is none."""
        path = "batches?limit=100"
        for _ in range(MOST_PAGES):  # newest first, until they are older than the note
            page = await self._call(_Page, "get", path)
            for batch in page.data:
                if batch.metadata and batch.metadata.get(MARK) == note.mark:
                    return batch.id
                if batch.created_at < note.created - CLOCKS_DIFFER:
                    return None
            if not page.has_more or not page.data:
                return None
            path = f"batches?limit=100&after={page.data[-1].id}"
        return None

    async def check(self, batch: str) -> BatchStatus:
        form = await self._call(_OpenAIBatch, "get", f"batches/{batch}")
        counts = defaultdict(int, form.request_counts or {})
        files = (form.output_file_id, form.error_file_id)
        return BatchStatus(
            ended=form.status in ("completed", "failed", "expired", "cancelled"),
            progress=f"{form.status}, {counts['completed']} of {counts['total']} answered, "
            f"{counts['failed']} failed",
            results=tuple(f"files/{file}/content" for file in files if file),
            unanswered=_FATES.get(form.status, "failed"),
            refusal=_reasons(form) if form.status == "failed" else "",
        )

    def item(self, data: Mapping[str, Any]) -> BatchItem:
        key = text_in(data, "custom_id")
        response, error = data.get("response"), data.get("error")
        if isinstance(response, dict):
            status, body = response.get("status_code"), response.get("body")
            if status == 200 and isinstance(body, dict):
                return BatchItem(key, "answered", body)
            status = status if isinstance(status, int) and 400 <= status < 600 else 500
            return BatchItem(key, "failed", problem=problem_in(status, body))
        code = text_in(error, "code") if isinstance(error, dict) else ""
        fate = _FATES.get(code.removeprefix("batch_"), "failed")
        return BatchItem(key, fate, problem=problem_in(500, {"error": error}))


class AnthropicBatches(_Batches):
    """Anthropic's, which keeps no mark: a batch whose id was lost is not found again."""

    most_requests = 100_000
    most_bytes = 256_000_000

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        return orjson.dumps({"custom_id": key, "params": body})

    async def upload(self, lines: Sequence[bytes], mark: str) -> bytes:
        return b'{"requests":[' + b",".join(lines) + b"]}"

    async def create(self, source: bytes, mark: str) -> str:
        return (await self._call(_Named, "post", "v1/messages/batches", source)).id

    async def find(self, note: BatchNote) -> str | None:
        return None

    async def check(self, batch: str) -> BatchStatus:
        path = f"v1/messages/batches/{batch}"
        form = await self._call(_AnthropicBatch, "get", path)
        counts = (f", {count} {name}" for name, count in form.request_counts.items() if count)
        return BatchStatus(
            ended=form.processing_status == "ended",
            progress=form.processing_status + "".join(counts),
            # The address that Anthropic gives is not used: the key goes nowhere else.
            results=(f"{path}/results",) if form.results_url else (),
            unanswered="cancelled" if form.cancel_initiated_at else "failed",
        )

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


BatchService = OpenAIBatches | AnthropicBatches

_FATES: dict[str, Fate] = {"expired": "expired", "cancelled": "cancelled", "canceled": "cancelled"}
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


class _Named(BaseModel):
    id: Id


class _OpenAIBatch(_Named):
    status: str
    created_at: float
    metadata: dict[str, str] | None = None
    request_counts: dict[str, int] | None = None
    output_file_id: Id | None = None
    error_file_id: Id | None = None
    errors: dict[str, Any] | None = None


class _Page(BaseModel):
    data: list[_OpenAIBatch]
    has_more: bool = False


class _AnthropicBatch(_Named):
    processing_status: str
    request_counts: dict[str, int]
    cancel_initiated_at: AwareDatetime | None = None
    results_url: str | None = None


def _reasons(batch: _OpenAIBatch) -> str:
    """Return the first three reasons OpenAI gives for refusing a batch."""
    listed = (batch.errors or {}).get("data")
    said = [
        (f"line {each['line']}: " if type(each.get("line")) is int else "")
        + (text_in(each, "message") or text_in(each, "code") or "no reason given")
        for each in (listed[:3] if isinstance(listed, list) else ())
        if isinstance(each, dict)
    ]
    return "; ".join(said) or "no reason given"
