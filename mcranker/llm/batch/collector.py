"""Collects the requests that wait at the same moment, and has them answered by batches.

There is no background task: of the callers that wait for a reply, one does the work for all
of them, and hands it on when it has its own reply or is cancelled.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace

from mcranker.errors import ModelError
from mcranker.llm.batch.in_progress import BatchInProgress
from mcranker.llm.batch.notes import BatchGroup, BatchNote
from mcranker.llm.batch.protocol import Writer
from mcranker.llm.batch.request import BatchContext, BatchedRequest
from mcranker.llm.chat import ChatReply, ChatRequest, Stage
from mcranker.llm.masking import shown_url
from mcranker.logs import safe_logger

logger = safe_logger("mcranker.llm")


class BatchCollector:
    """The requests and the batches of one event loop.

    Args:
        context: the service, the notes and all else.
        sleep: waits so many seconds.
    """

    def __init__(self, context: BatchContext, *, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._context = context
        self._service = context.service
        self._chat = context.service.chat
        self._sleep = sleep
        self._entries: dict[str, BatchedRequest] = {}  # those that are not settled
        self._gathered: dict[str, BatchedRequest] = {}  # of those, the ones in no batch yet
        self._first_came = self._last_came = 0.0
        self._batches: list[BatchInProgress] = []
        self._busy = False
        self._heir: BatchedRequest | None = None  # called to go on with the work

    async def answer(self, key: str, request: ChatRequest) -> ChatReply:
        """The reply to a request; equal ones share it.

        Args:
            key: 64 hexadecimal digits, which name the request.
            request: what to ask.

        Raises:
            ModelError: the request failed for good, or its batch did.
            LedgerError: the notes or the ledger cannot be used.
        """
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = BatchedRequest(key, request, self._entries)
            self._gather(entry)
        entry.waiting += 1
        try:
            while not entry.settled:
                if self._busy:
                    await entry.wait()
                else:
                    await self._work(entry)
            return entry.take()
        finally:
            entry.waiting -= 1
            if not entry.waiting and not entry.settled:
                self._abandon(entry)
            if entry is self._heir and not self._busy:
                self._call_heir()

    async def _work(self, entry: BatchedRequest) -> None:
        self._busy, self._heir = True, None
        try:
            while not entry.settled:
                if not await self._progress():
                    # In short steps: a request may come that is due before all else.
                    await self._sleep(min(self._context.timings.linger, self._wait()))
        finally:
            self._busy = False
            self._call_heir()

    def _call_heir(self) -> None:
        self._heir = next(iter(self._entries.values()), None)
        if self._heir is not None:
            self._heir.called.set()

    def _abandon(self, entry: BatchedRequest) -> None:
        entry.leave()
        if self._gathered.get(entry.key) is entry:
            del self._gathered[entry.key]
        if self._entries:
            return
        for batch in self._batches:
            if batch.note.batch is not None:
                logger.info(
                    "batch %s goes on, though nobody waits for it now; its answers are fetched "
                    "when they are asked for again",
                    batch.note.batch,
                )

    async def _progress(self) -> bool:
        """Do one thing that is due; False if nothing is."""
        now = self._context.clock()
        if self._gathered and self._gathered_due() <= now:
            self._assign(now)
            return True
        batch = next((batch for batch in self._batches if batch.due <= now), None)
        if batch is None:
            return False
        await batch.advance()
        if batch.done:
            self._batches.remove(batch)
            for entry in batch.again:
                if entry.waiting and not entry.settled:
                    self._gather(entry)
        return True

    def _wait(self) -> float:
        """Seconds until something is due."""
        due = [batch.due for batch in self._batches]
        if self._gathered:
            due.append(self._gathered_due())
        return max(0.0, min(due) - self._context.clock())

    def _gathered_due(self) -> float:
        timings = self._context.timings
        return min(self._last_came + timings.linger, self._first_came + timings.longest_linger)

    def _gather(self, entry: BatchedRequest) -> None:
        self._last_came = self._context.clock()
        if not self._gathered:
            self._first_came = self._last_came
        self._gathered[entry.key] = entry

    def _assign(self, now: float) -> None:
        """Bring every request that was gathered to a batch under way, or into a new one."""
        self._adopt()
        ledger, fresh = self._context.ledger, list[BatchedRequest]()
        for key, entry in self._gathered.items():
            # Another process may have finished a batch since the ledger was asked.
            kept = ledger.find(bytes.fromhex(key)) if ledger is not None else None
            if kept is not None:
                entry.settle(replace(kept, reused=True))
            elif batch := next((batch for batch in self._batches if key in batch), None):
                batch.add(entry)
            else:
                fresh.append(entry)
        self._gathered = {}
        self._batches += self._packed(fresh, now)

    def _adopt(self) -> None:
        """Find the batches of other runs that answer what was gathered."""
        known = {batch.note.mark for batch in self._batches}
        for note in self._context.notes.of(self._chat.name, self._chat.endpoint):
            if note.mark not in known and not self._gathered.keys().isdisjoint(note.keys):
                name = note.batch or note.mark
                logger.info("batch %s was sent before, with what is asked now", name)
                self._batches.append(
                    BatchInProgress(self._context, note, write=self._chat.writer())
                )

    def _packed(self, entries: Iterable[BatchedRequest], now: float) -> Iterator[BatchInProgress]:
        """New batches, as large as the provider takes them."""
        write, service = self._chat.writer(), self._service
        inside: dict[str, BatchedRequest] = {}
        lines: list[bytes] = []
        size = 0
        for entry in entries:
            try:
                line = service.line(entry.key, write(entry.request))
            except ModelError as error:
                entry.settle(error)
                continue
            full = len(lines) == service.most_requests
            if lines and (full or size + len(line) > service.most_bytes):
                yield self._new_batch(inside, lines, write, now)
                inside, lines, size = {}, [], 0
            inside[entry.key] = entry
            lines.append(line)
            size += len(line) + 1  # what stands between the lines
        if lines:
            yield self._new_batch(inside, lines, write, now)

    def _new_batch(
        self, inside: dict[str, BatchedRequest], lines: list[bytes], write: Writer, now: float
    ) -> BatchInProgress:
        groups: dict[tuple[Stage, tuple[str, ...]], list[str]] = {}
        for key, entry in inside.items():
            kind = (entry.request.tag.stage, entry.request.labels)
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
        batch = BatchInProgress(self._context, note, write=write, lines=lines)
        for entry in inside.values():
            batch.add(entry)
        return batch
