"""Stream ranking events to a client without blocking the ranking."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import fields
from typing import Any

import anyio
import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcranker.logs import safe_logger
from mcranker.rag.result import RAGEvent, StageDone
from mcranker.serve.bodies import ClientDisconnected, until_gone
from mcranker.serve.results import discreetly

logger = safe_logger("mcranker.serve")

_KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection."""

_PIECE = 1 << 16  # bytes

_KEPT_BACK = {"query_id", "usage", "ranking", "reason"}
"""Fields of events that are not sent: a reason may name what is the operator's."""

CLIENT_GONE = 499  # status that counts requests of disconnected clients

MOST_KEPT = 1_000
"""Events that wait for a reader; then scores that were not read yet are left out, and counted."""


class EventQueue:
    """Events for one reader. Adding one never waits."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Any]] = deque()
        self._news = anyio.Event()
        self._ended = False
        self._left_out = 0

    def put(self, name: str, data: Any) -> None:
        """Add an event; `data` are JSON values."""
        if len(self._waiting) >= MOST_KEPT:
            kept = [each for each in self._waiting if not each[0].startswith("passage")]
            self._left_out += len(self._waiting) - len(kept)
            self._waiting = deque(kept)
        self._waiting.append((name, data))
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """The events in the form of server-sent events."""
        while True:
            while self._waiting:
                if self._left_out:
                    yield _sse("left_out", {"events": self._left_out})
                    self._left_out = 0
                yield _sse(*self._waiting.popleft())
            if self._ended:
                return
            self._news = anyio.Event()
            with anyio.move_on_after(_KEEP_ALIVE) as scope:
                await self._news.wait()
            if scope.cancelled_caught:
                yield b": still at work\n\n"


class EventStream(Response):
    """A stream of server-sent events."""

    media_type = "text/event-stream"

    def __init__(
        self,
        queue: EventQueue,
        work: Callable[[], Coroutine[Any, Any, None]],
        *,
        stalled: float,
        ended: Callable[[int], None],
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._queue, self._work = queue, work
        self._stalled, self._ended = stalled, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = CLIENT_GONE
        try:
            async with until_gone(receive) as group:
                group.start_soon(self._work)
                await self._send(send)
                status = 200
        except ClientDisconnected:
            pass
        except TimeoutError:
            logger.info("a reader of events paused for %g s and is disconnected", self._stalled)
        finally:
            self._ended(status)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        message = {"type": "http.response.body", "more_body": True}
        async for line in self._queue.lines():
            # In pieces, so that a slow reader does not count as a stopped one.
            for start in range(0, len(line), _PIECE):
                with anyio.fail_after(self._stalled):
                    await send({**message, "body": line[start : start + _PIECE]})
        with anyio.fail_after(self._stalled):
            await send({**message, "more_body": False})


def event_data(event: RAGEvent) -> tuple[str, Mapping[str, Any]]:
    """Name and data of an event."""
    if isinstance(event, StageDone):
        return "stage_done", discreetly(event.stage.model_dump(mode="json"))
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
    shown = [each.name for each in fields(event) if each.name not in _KEPT_BACK]
    data = {each: getattr(event, each) for each in shown}
    if "value" in data:
        data["missing"] = data["value"] is None
    return name, data


def _sse(name: str, data: Any) -> bytes:
    # JSON has no line end of its own.
    json = orjson.dumps(data, default=lambda record: record.model_dump(mode="json"))
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json)
