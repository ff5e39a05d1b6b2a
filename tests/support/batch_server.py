"""A server on the loopback device that plays the batch APIs of OpenAI and Anthropic.

It keeps every batch that was created, and ends each at its `polls`-th check with what a function
makes of every request's body: a body (answered), an `Answer` (failed), or one of the words
``"expired"``, ``"cancelled"`` and ``"missing"`` (no line in the results).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
from aiohttp import web

from tests.support.loopback import (
    Answer,
    Body,
    Drop,
    anthropic_message,
    completion,
    listening,
    respond,
)

Outcome = Body | Answer | str
Script = Callable[[Body], Outcome]


class FakeTime:
    """A clock that only sleeping moves, and never during a call; `at` says what else happens."""

    def __init__(self) -> None:
        self.now = self.start = 1_800_000_000.0
        self._calls = 0
        self._idle = anyio.Event()
        self.slept: list[float] = []
        self.at: dict[float, Callable[[], object]] = {}

    def clock(self) -> float:
        return self.now

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop the clock: one run's call to the server takes no time of another run."""
        if not self._calls:
            self._idle = anyio.Event()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        assert len(self.slept) < 100_000, "nothing comes of it"
        await _let_others_go_on()
        while self._calls:
            await self._idle.wait()
        self.now += seconds
        for moment in [moment for moment in self.at if self.now >= self.start + moment]:
            self.at.pop(moment)()
        await _let_others_go_on()


async def _let_others_go_on() -> None:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


@dataclass
class Job:
    """A batch as the server has it."""

    id: str
    created: float
    requests: list[Body]
    metadata: dict[str, str] = field(default_factory=dict)
    checks: int = 0

    @property
    def keys(self) -> list[str]:
        return [request["custom_id"] for request in self.requests]


@dataclass
class Fault:
    """What the next request of a method and a path that holds `part` gets instead."""

    method: str
    part: str
    reply: Answer | Drop
    after: bool = False  # the server does its work first


class BatchServer:
    """The running server: its address, what it was asked, and what it has made of it."""

    def __init__(self, provider: str, script: Script, time: FakeTime) -> None:
        self.provider = provider
        self.script = script
        self.time = time
        self.port = 0
        self.polls = 2
        self.status = "completed"  # in which OpenAI's batches end
        self.errors: list[Body] = []  # of an OpenAI batch that ends as "failed"
        self.jobs: list[Job] = []
        self.files: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.seen: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.created: list[Body] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}" + ("/v1" if self.provider == "openai" else "")

    def count(self, method: str, part: str) -> int:
        return sum(seen[0] == method and part in seen[1] for seen in self.seen)

    def fail(
        self, method: str, part: str, reply: Answer | Drop, *, times: int = 1, after: bool = False
    ) -> None:
        self.faults += [Fault(method, part, reply, after) for _ in range(times)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        fault = next(
            (f for f in self.faults if f.method == request.method and f.part in request.path), None
        )
        if fault is None or fault.after:
            play = self._openai if self.provider == "openai" else self._anthropic
            response = await play(request)
        if fault is None:
            return response
        self.faults.remove(fault)
        return await respond(request, fault.reply)

    async def _openai(self, request: web.Request) -> web.Response:
        match request.method, request.path.removeprefix("/v1/").split("/"):
            case "POST", ["files"]:
                form = await request.post()
                assert form["purpose"] == "batch"
                file = form["file"]
                assert isinstance(file, web.FileField)
                name = f"file-{len(self.files)}"
                self.files[name] = file.file.read()
                return _json({"id": name, "object": "file", "filename": file.filename})
            case "POST", ["batches"]:
                body = await request.json()
                self.created.append(body)
                lines = self.files[body["input_file_id"]].splitlines()
                job = self._new([json.loads(line) for line in lines], body["metadata"])
                return _json(self._openai_batch(job))
            case "GET", ["batches"]:
                page, more = self._page(request.query.get("after"), request)
                return _json({"data": [self._openai_batch(j) for j in page], "has_more": more})
            case "GET", ["batches", name]:
                job = self._checked(name)
                if self._ended(job) and self.status != "failed":
                    self._openai_results(job)
                return _json(self._openai_batch(job))
            case "GET", ["files", name, "content"]:
                return web.Response(body=self.files[name])
        return _json({"error": {"message": "no such path"}}, 404)

    async def _anthropic(self, request: web.Request) -> web.Response:
        match request.method, request.path.removeprefix("/v1/messages/").split("/"):
            case "POST", ["batches"]:
                body = await request.json()
                self.created.append(body)
                return _json(self._anthropic_batch(self._new(body["requests"], {})))
            case "GET", ["batches"]:
                page, more = self._page(request.query.get("after_id"), request)
                data = [self._anthropic_batch(job) for job in page]
                return _json(
                    {"data": data, "has_more": more, "last_id": page[-1].id if page else None}
                )
            case "GET", ["batches", name]:
                return _json(self._anthropic_batch(self._checked(name)))
            case "GET", ["batches", name, "results"]:
                job = next(job for job in self.jobs if job.id == name)
                lines = [_anthropic_line(r, self.script(r["params"])) for r in job.requests]
                # In another order than they were asked, as the documentation warns.
                return web.Response(body=b"\n".join(line for line in lines[::-1] if line))
        return _json({"error": {"message": "no such path"}}, 404)

    def _new(self, requests: list[Body], metadata: dict[str, str]) -> Job:
        job = Job(f"batch_{len(self.jobs)}", self.time.now, requests, metadata)
        self.jobs.append(job)
        return job

    def _checked(self, name: str) -> Job:
        job = next((job for job in self.jobs if job.id == name), None)
        if job is None:
            raise web.HTTPNotFound(text='{"error": {"message": "no such batch"}}')
        job.checks += 1
        return job

    def _ended(self, job: Job) -> bool:
        return job.checks >= self.polls

    def _page(self, after: str | None, request: web.Request) -> tuple[list[Job], bool]:
        limit = min(int(request.query["limit"]), 2)  # small pages, so that there are some
        jobs = self.jobs[::-1]
        names = [job.id for job in jobs]
        start = names.index(after) + 1 if after else 0
        return jobs[start : start + limit], len(jobs) > start + limit

    def _openai_batch(self, job: Job) -> Body:
        total = len(job.requests)
        ended = self._ended(job)
        batch: Body = {
            "id": job.id,
            "object": "batch",
            "status": self.status if ended else "in_progress",
            "created_at": int(job.created),
            "metadata": job.metadata,
            "request_counts": {"total": total, "completed": total * ended, "failed": 0},
        }
        for kind in ("output", "error"):
            name = f"{job.id}-{kind}"
            batch[f"{kind}_file_id"] = name if name in self.files else None
        if ended and self.errors:
            batch["errors"] = {"object": "list", "data": self.errors}
        return batch

    def _openai_results(self, job: Job) -> None:
        lines: dict[str, list[bytes]] = {"output": [], "error": []}
        for request in job.requests:
            outcome = self.script(request["body"])
            line: Body = {"id": "x", "custom_id": request["custom_id"], "error": None}
            if isinstance(outcome, str):
                if outcome == "missing":
                    continue
                error = {"code": f"batch_{outcome}", "message": f"This request is {outcome}."}
                line |= {"response": None, "error": error}
            elif isinstance(outcome, Answer):
                line["response"] = {"status_code": outcome.status, "body": outcome.body}
            else:
                line["response"] = {"status_code": 200, "body": outcome}
            failed = isinstance(outcome, str | Answer)
            raw = json.dumps(line, ensure_ascii=False).encode()
            lines["error" if failed else "output"].append(raw)
        for kind, found in lines.items():
            if found:
                self.files[f"{job.id}-{kind}"] = b"\n".join(found) + b"\n"

    def _anthropic_batch(self, job: Job) -> Body:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        counts["succeeded" if self._ended(job) else "processing"] = len(job.requests)
        results = f"https://elsewhere.example/{job.id}" if self._ended(job) else None
        created = datetime.fromtimestamp(job.created, UTC).isoformat().replace("+00:00", "Z")
        return {
            "id": job.id,
            "type": "message_batch",
            "processing_status": "ended" if self._ended(job) else "in_progress",
            "created_at": created,
            "request_counts": counts,
            "results_url": results,
            "cancel_initiated_at": created if self.status == "cancelled" else None,
        }


def _anthropic_line(request: Body, outcome: Outcome) -> bytes:
    result: Body
    if outcome == "missing":
        return b""
    if isinstance(outcome, str):
        result = {"type": "canceled" if outcome == "cancelled" else outcome}
    elif isinstance(outcome, Answer):
        result = {"type": "errored", "error": outcome.body}
    else:
        result = {"type": "succeeded", "message": outcome}
    line = {"custom_id": request["custom_id"], "result": result}
    return json.dumps(line, ensure_ascii=False).encode()


@asynccontextmanager
async def serve_batches(
    provider: str, script: Script | None = None, time: FakeTime | None = None
) -> AsyncIterator[BatchServer]:
    """Run the server in this event loop; without a script it repeats the question."""
    repeat = repeated_openai if provider == "openai" else repeated_anthropic
    server = BatchServer(provider, script or repeat, time or FakeTime())
    async with listening(server.handle) as server.port:
        yield server


def repeated_openai(body: Body) -> Body:
    return completion(f"re: {body['messages'][-1]['content']}")


def repeated_anthropic(body: Body) -> Body:
    return anthropic_message(f"re: {body['messages'][-1]['content']}")


def failure(provider: str, status: int, message: str = "no") -> Answer:
    """An item's failure as the provider writes it, from its HTTP status."""
    if provider == "openai":
        return Answer(status, {"error": {"message": message, "type": "x", "code": None}})
    kinds = {400: "invalid_request_error", 429: "rate_limit_error", 500: "api_error"}
    error = {"type": kinds[status], "message": message}
    return Answer(status, {"type": "error", "error": error, "request_id": "r"})


def _json(body: Any, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)
