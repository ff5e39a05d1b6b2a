"""Collects the requests that wait at the same moment, and has them answered by batches.

There is no background task: of the callers that wait for a reply, one does the work for all
of them, and hands it on when it has its own reply or is cancelled.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace

from mcranker.errors import ModelError
from mcranker.llm.batch.in_progress import Flight
from mcranker.llm.batch.notes import BatchGroup, BatchNote
from mcranker.llm.batch.protocol import Writer
from mcranker.llm.batch.request import Order, Tools
from mcranker.llm.chat import ChatReply, ChatRequest, Stage
from mcranker.llm.masking import shown_url
from mcranker.logs import safe_logger

__all__ = ["BatchDesk"]

logger = safe_logger("mcranker.llm")


class BatchDesk:
    """The requests and the batches of one event loop.

    Args:
        tools: the service, the notes and all else.
        sleep: waits so many seconds.
    """

    def __init__(self, tools: Tools, *, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._tools = tools
        self._service = tools.service
        self._chat = tools.service.chat
        self._sleep = sleep
        self._orders: dict[str, Order] = {}  # those that are not settled
        self._gathered: dict[str, Order] = {}  # of those, the ones in no batch yet
        self._first_came = self._last_came = 0.0
        self._flights: list[Flight] = []
        self._busy = False
        self._heir: Order | None = None  # called to go on with the work

    async def answer(self, key: str, request: ChatRequest) -> ChatReply:
        """The reply to a request; equal ones share it.

        Args:
            key: 64 hexadecimal digits, which name the request.
            request: what to ask.

        Raises:
            ModelError: the request failed for good, or its batch did.
            LedgerError: the notes or the ledger cannot be used.
        """
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = Order(key, request, self._orders)
            self._gather(order)
        order.waiting += 1
        try:
            while not order.settled:
                if self._busy:
                    await order.wait()
                else:
                    await self._work(order)
            return order.take()
        finally:
            order.waiting -= 1
            if not order.waiting and not order.settled:
                self._abandon(order)
            if order is self._heir and not self._busy:
                self._call_heir()

    async def _work(self, order: Order) -> None:
        self._busy, self._heir = True, None
        try:
            while not order.settled:
                if not await self._progress():
                    # In short steps: a request may come that is due before all else.
                    await self._sleep(min(self._tools.pace.linger, self._wait()))
        finally:
            self._busy = False
            self._call_heir()

    def _call_heir(self) -> None:
        self._heir = next(iter(self._orders.values()), None)
        if self._heir is not None:
            self._heir.called.set()

    def _abandon(self, order: Order) -> None:
        order.leave()
        if self._gathered.get(order.key) is order:
            del self._gathered[order.key]
        if self._orders:
            return
        for flight in self._flights:
            if flight.note.batch is not None:
                logger.info(
                    "batch %s goes on, though nobody waits for it now; its answers are fetched "
                    "when they are asked for again",
                    flight.note.batch,
                )

    async def _progress(self) -> bool:
        """Do one thing that is due; False if nothing is."""
        now = self._tools.clock()
        if self._gathered and self._gathered_due() <= now:
            self._assign(now)
            return True
        flight = next((flight for flight in self._flights if flight.due <= now), None)
        if flight is None:
            return False
        await flight.advance()
        if flight.landed:
            self._flights.remove(flight)
            for order in flight.again:
                if order.waiting and not order.settled:
                    self._gather(order)
        return True

    def _wait(self) -> float:
        """Seconds until something is due."""
        due = [flight.due for flight in self._flights]
        if self._gathered:
            due.append(self._gathered_due())
        return max(0.0, min(due) - self._tools.clock())

    def _gathered_due(self) -> float:
        pace = self._tools.pace
        return min(self._last_came + pace.linger, self._first_came + pace.longest_linger)

    def _gather(self, order: Order) -> None:
        self._last_came = self._tools.clock()
        if not self._gathered:
            self._first_came = self._last_came
        self._gathered[order.key] = order

    def _assign(self, now: float) -> None:
        """Bring every request that was gathered to a batch under way, or into a new one."""
        self._adopt()
        ledger, fresh = self._tools.ledger, list[Order]()
        for key, order in self._gathered.items():
            # Another process may have finished a batch since the ledger was asked.
            kept = ledger.find(bytes.fromhex(key)) if ledger is not None else None
            if kept is not None:
                order.settle(replace(kept, reused=True))
            elif flight := next((flight for flight in self._flights if key in flight), None):
                flight.board(order)
            else:
                fresh.append(order)
        self._gathered = {}
        self._flights += self._packed(fresh, now)

    def _adopt(self) -> None:
        """Find the batches of other runs that answer what was gathered."""
        known = {flight.note.mark for flight in self._flights}
        for note in self._tools.notes.of(self._chat.name, self._chat.endpoint):
            if note.mark not in known and not self._gathered.keys().isdisjoint(note.keys):
                batch = note.batch or note.mark
                logger.info("batch %s was sent before, with what is asked now", batch)
                self._flights.append(Flight(self._tools, note, write=self._chat.writer()))

    def _packed(self, orders: Iterable[Order], now: float) -> Iterator[Flight]:
        """New batches, as large as the provider takes them."""
        write, service = self._chat.writer(), self._service
        inside: dict[str, Order] = {}
        lines: list[bytes] = []
        size = 0
        for order in orders:
            try:
                line = service.line(order.key, write(order.request))
            except ModelError as error:
                order.settle(error)
                continue
            full = len(lines) == service.most_requests
            if lines and (full or size + len(line) > service.most_bytes):
                yield self._flight(inside, lines, write, now)
                inside, lines, size = {}, [], 0
            inside[order.key] = order
            lines.append(line)
            size += len(line) + 1  # what stands between the lines
        if lines:
            yield self._flight(inside, lines, write, now)

    def _flight(
        self, inside: dict[str, Order], lines: list[bytes], write: Writer, now: float
    ) -> Flight:
        groups: dict[tuple[Stage, tuple[str, ...]], list[str]] = {}
        for key, order in inside.items():
            kind = (order.request.tag.stage, order.request.labels)
            groups.setdefault(kind, []).append(key)
        note = BatchNote(
            model=self._chat.name,
            endpoint=shown_url(self._chat.endpoint),
            mark=uuid.uuid4().hex,
            created=now,
            groups=tuple(
                BatchGroup(stage=stage, labels=labels, keys=tuple(keys))
                for (stage, labels), keys in groups.items()
            ),
        )
        flight = Flight(self._tools, note, write=write, lines=lines)
        for order in inside.values():
            flight.board(order)
        return flight
