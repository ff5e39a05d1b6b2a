"""Stream ranking events to a client without blocking the ranking."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import fields
from typing import Any

import anyio
import orjson
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcranker.events import Event
from mcranker.logs import safe_logger
from mcranker.runtime.bridge import task_group

logger = safe_logger("mcranker.serve")

_KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection."""

_PIECE = 1 << 16  # bytes

_KEPT_BACK = {"query_id", "usage", "ranking", "reason"}
"""Fields of events that are not sent: a reason may name what is the operator's."""

CLIENT_GONE = 499
"""Status that counts requests of disconnected clients."""

MOST_KEPT = 1_000
"""Events that wait for a reader; then scores that were not read yet are left out, and counted."""


class EventQueue:
    """Events for one reader. Adding one never waits."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Any]] = deque()
        self._news = anyio.Event()
        self._ended = False
        self._left_out = 0
        self._begun = False
        self.refusal: Response | None = None
        """Sent to the reader instead, if there is no event at all."""

    def put(self, name: str, data: Any) -> None:
        """Add an event; `data` are JSON values."""
        if len(self._waiting) >= MOST_KEPT:
            kept = [each for each in self._waiting if not each[0].startswith("passage")]
            self._left_out += len(self._waiting) - len(kept)
            self._waiting = deque(kept)
        self._waiting.append((name, data))
        self._begun = True
        self._news.set()

    def end(self) -> None:
        """End the stream."""
        self._ended = True
        self._news.set()

    def refuse(self, refusal: Response) -> bool:
        """End with an answer instead of events; False if there was an event."""
        if self._begun:
            return False
        self.refusal = refusal
        return True

    async def first(self) -> None:
        """Wait for the first event, or for the refusal."""
        await self._news.wait()

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
    """A stream of server-sent events; starts with the first event.

    Args:
        work: fills the queue; cancelled when the reader has hung up, or paused for too long.
        stalled: seconds for which the reader may pause.
        ended: called with the status at the end.
    """

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
        self._queue = queue
        self._work = work
        self._stalled = stalled
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = CLIENT_GONE
        try:
            async with task_group() as group:

                async def watch() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    group.cancel_scope.cancel()

                group.start_soon(watch)
                group.start_soon(self._work)
                await self._queue.first()
                if refusal := self._queue.refusal:
                    await refusal(scope, receive, send)
                    status = refusal.status_code
                elif await self._sent(send):
                    status = 200
                group.cancel_scope.cancel()
        finally:
            self._ended(status)

    async def _sent(self, send: Send) -> bool:
        """Send all events; return False if the reader stalled."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for line in self._queue.lines():
                # In pieces, so that a slow reader does not count as a stopped one.
                for start in range(0, len(line), _PIECE):
                    await self._piece(send, line[start : start + _PIECE])
            await self._piece(send, b"", more=False)
        except TimeoutError:
            logger.info("a reader of events paused for %g s and is disconnected", self._stalled)
            return False
        return True

    async def _piece(self, send: Send, body: bytes, *, more: bool = True) -> None:
        with anyio.fail_after(self._stalled):
            await send({"type": "http.response.body", "body": body, "more_body": more})


def event_data(event: Event) -> tuple[str, Mapping[str, Any]]:
    """Name and data of an event; `RankingDone` has none, since the service adds its own."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
    shown = [each.name for each in fields(event) if each.name not in _KEPT_BACK]
    data = {each: getattr(event, each) for each in shown}
    if "value" in data:
        data["missing"] = data["value"] is None
    return name, data


def _sse(name: str, data: Any) -> bytes:
    # JSON has no line end of its own.
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data, default=_plain) + b"\n\n"


def _plain(record: BaseModel) -> Any:
    return record.model_dump(mode="json")
