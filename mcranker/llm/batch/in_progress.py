"""One batch in progress: sent or found by its note, followed, and read at its end."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing

import anyio

from mcranker.errors import (
    ConnectionFailed,
    LedgerError,
    MCRankerError,
    ModelError,
    ModelNotFound,
    RateLimited,
)
from mcranker.llm.batch.notes import BatchNote
from mcranker.llm.batch.protocol import (
    BATCH_SUFFIX,
    BatchItem,
    BatchStatus,
    Writer,
    item_error,
    lines_of,
)
from mcranker.llm.batch.request import BatchContext, BatchedRequest
from mcranker.llm.chat import ChatReply, ChatRequest
from mcranker.llm.providers.http_errors import Problem, parse_object, said_by
from mcranker.llm.providers.parameters import NEEDED, refused_parameter
from mcranker.logs import safe_logger
from personas.ranking.usage import Stage

MOST_BATCHES = 3  # that a request goes with, where the provider fails it
SLOWER = 1.5  # factor from one wait between looks at a batch to the next

logger = safe_logger("mcranker.llm")


class BatchInProgress:
    """A batch, and the requests that wait for its results.

    Attributes:
        note: what is known of it.
        due: when `advance` is to be called.
        done: there is nothing more to do.
        again: requests that are to be sent with another batch, once it is done.

    Args:
        context: the service and all else.
        note: as it is, or will be, on disk.
        lines: the requests; none for a batch of which only the note is known.
        write: how the lines were written, as far as is known.
    """

    def __init__(
        self, context: BatchContext, note: BatchNote, *, write: Writer, lines: Iterable[bytes] = ()
    ) -> None:
        self.note = note
        self.due = context.clock()
        self.done = False
        self.again: list[BatchedRequest] = []
        self._context = context
        self._service = context.service
        self._chat = context.service.chat
        self._write = write
        self._lines = list(lines)
        self._own = bool(self._lines)
        self._source: bytes | None = None  # the lines, where the provider finds them
        self._begun = False  # a creation may have reached the provider
        self._entries: dict[str, BatchedRequest] = {}
        self._left = note.keys  # those without a result so far
        self._unclaimed: list[str] = []
        self._interval = context.timings.first_poll
        self._failing_since: float | None = None
        self._progress = ""

    def __contains__(self, key: str) -> bool:
        """True if the result for a key may still come."""
        return key in self._left

    def add(self, entry: BatchedRequest) -> None:
        """Add a request that waits for a result."""
        entry.batches += 1
        self._entries[entry.key] = entry

    async def advance(self) -> None:
        """Take the next due steps. Errors go to waiting requests; a failed batch is done."""
        timings, now = self._context.timings, self._context.clock()
        self.due = now + self._interval
        self._interval = min(self._interval * SLOWER, timings.longest_poll)
        try:
            if self.note.batch is not None:
                await self._follow(self.note.batch)
            elif self._own:
                await self._send()
            else:
                await self._look_for()
        except ModelError as error:
            if self._is_final(error, now):
                self._fail(error)
            else:
                wait = error.retry_after if isinstance(error, RateLimited) else None
                self.due = max(self.due, now + (wait or 0.0))
                logger.info("batch %s: again in %.0f s: %s", self._id, self.due - now, error)
        except LedgerError as error:
            self._fail(error)
        else:
            self._failing_since, self._context.reached = None, True

    # From its lines to its id.

    async def _send(self) -> None:
        batch: str | None = None
        if self._begun:
            batch = await self._find()
        if batch is None and not any(entry.waiting for entry in self._entries.values()):
            self.done = True
            return
        batch = batch or await self._create()
        if batch is not None:
            self._created(batch)

    async def _create(self) -> str | None:
        """The id of the new batch; None if another process is about to send the same."""
        mark, notes = self.note.mark, self._context.notes
        if self._source is None:
            self._source = await self._service.upload(self._lines, mark)
            self._lines = []
        self.note = self.note.model_copy(update={"created": self._context.clock()})
        if not await self._noted():
            return None
        first, self._begun = not self._begun, True
        try:
            # It is paid for once it has reached the provider, so its id must not get lost.
            with anyio.CancelScope(shield=True):
                batch = await self._service.create(self._source, mark)
        except ModelError as error:
            if first and not error.retryable:
                notes.remove(mark)
            raise
        return batch

    async def _noted(self) -> bool:
        """Write the note, unless one of another process has come since the orders were gathered."""
        notes = self._context.notes
        async with self._context.alone():
            others = notes.of(self.note.model, self.note.endpoint)
            if any(
                not self._left.keys().isdisjoint(o.keys) for o in others if o.mark != self.note.mark
            ):
                for entry in self._entries.values():
                    entry.batches -= 1  # they were in none
                self._end(self._entries.values())
                return False
            notes.write(self.note)
        return True

    async def _look_for(self) -> None:
        """Find the batch of a note without an id."""
        notes, mark = self._context.notes, self.note.mark
        current = notes.read(mark)
        if current is None:
            self._end(self._entries.values())  # its writer has finished it
        elif current.batch is not None:
            self._created(current.batch)
        elif batch := await self._find():
            self._created(batch)
        elif self._context.clock() - current.created > self._context.timings.settle:
            notes.remove(mark)
            self._end(self._entries.values())

    async def _find(self) -> str | None:
        others = self._context.notes.of(self.note.model, self._chat.endpoint)
        taken = {note.batch for note in others if note.batch is not None}
        return await self._service.find(self.note, taken)

    def _created(self, batch: str) -> None:
        self._source = None
        self._interval = self._context.timings.first_poll
        self.due = self._context.clock() + self._interval
        self.note = self.note.model_copy(update={"batch": batch})
        self._context.notes.write(self.note)
        where = self._chat.service.where
        logger.info("batch %s: %d requests are with %s", batch, len(self._left), where)

    # From its id to its results.

    async def _follow(self, batch: str) -> None:
        try:
            status = await self._service.check(batch)
            if status.progress != self._progress:
                self._progress = status.progress
                logger.info("batch %s: %s", batch, said_by(self._chat.service, status.progress))
            for path in status.results if status.ended else ():
                await self._read(path)
        except ModelNotFound as error:
            raise ModelNotFound(
                f"{self._chat.name}: batch {batch} or its results are not there: deleted, or "
                "made with another account's key; to send its requests again, delete "
                f"{str(self._context.notes.path(self.note.mark))!r}",
                model=self._chat.name,
            ) from error
        if status.refusal:
            self._context.notes.remove(self.note.mark)
            said = said_by(self._chat.service, status.refusal)
            message = f"{self._chat.name}: batch {batch} was not accepted: {said}"
            self._fail(ModelError(message, model=self._chat.name))
        elif status.ended:
            self._finish(status)

    async def _read(self, path: str) -> None:
        service = self._chat.service
        async with (
            aclosing(self._chat.stream(path)) as pieces,
            aclosing(lines_of(pieces, service)) as lines,
        ):
            async for line in lines:
                await self._take(self._service.item(parse_object(line, service)))

    async def _take(self, item: BatchItem) -> None:
        group = self._left.get(item.key)
        if group is None:
            return
        entry = self._waiting(item.key)
        if item.body is None:
            self._not_answered(entry, item)
        else:
            request = entry.request if entry else group.request()
            try:
                reply = self._chat.read(item.body, request)
            except ModelError as error:
                self._failed(entry, error)
            else:
                await self._keep(item.key, reply, group.stage)
                if entry is not None:
                    entry.settle(reply)
        del self._left[item.key]

    async def _keep(self, key: str, reply: ChatReply, stage: Stage) -> None:
        ledger = self._context.ledger
        if ledger is not None:
            name = f"{self._chat.name}{BATCH_SUFFIX}"
            await ledger.keep(bytes.fromhex(key), reply, model=name, stage=stage)
        elif self._waiting(key) is None:
            self._unclaimed.append(key)

    def _finish(self, status: BatchStatus) -> None:
        for key in self._left:
            self._not_answered(self._waiting(key), BatchItem(key, status.unanswered))
        notes = self._context.notes
        if self._unclaimed:  # paid, and nowhere else to be had
            notes.write(self.note.only(self._unclaimed))
        else:
            notes.remove(self.note.mark)
        self._end(self.again)

    # What becomes of those who wait.

    def _waiting(self, key: str) -> BatchedRequest | None:
        entry = self._entries.get(key)
        return entry if entry is not None and entry.waiting else None

    def _not_answered(self, entry: BatchedRequest | None, item: BatchItem) -> None:
        if entry is None:
            return
        try:
            learnt = item.fate == "failed" and self._learns(item.problem, entry.request)
        except ModelError as error:
            entry.settle(error)
            return
        if learnt:
            self.again.append(entry)
        else:
            self._failed(entry, item_error(item, self._id, self._chat.service))

    def _learns(self, problem: Problem, request: ChatRequest) -> bool:
        """True if the same request will be written differently from now on."""
        sent = self._write(request)
        refused = refused_parameter(problem, sent)
        if refused is None:
            return False
        # The first refusal of a batch teaches; the others only confirm it.
        if refused not in NEEDED and sent != self._chat.writer()(request):
            return True
        return self._chat.learn(problem, sent)

    def _failed(self, entry: BatchedRequest | None, error: ModelError) -> None:
        if entry is None:
            return
        if error.retryable and entry.batches < MOST_BATCHES:
            self.again.append(entry)
        else:
            entry.settle(error)

    def _fail(self, error: MCRankerError) -> None:
        if isinstance(error, ModelError):
            error.others_answered = False
        for entry in self._entries.values():
            if not entry.settled:
                entry.settle(error)
        self._end(())

    def _end(self, again: Iterable[BatchedRequest]) -> None:
        self.done, self.again = True, list(again)

    def _is_final(self, error: ModelError, now: float) -> bool:
        if self._failing_since is None:
            self._failing_since = now
        # A server that was never there will not be there in a minute.
        unreached = isinstance(error, ConnectionFailed) and not self._context.reached
        patience = self._context.timings.patience
        asked = error.retry_after if isinstance(error, RateLimited) else None
        too_long = now - self._failing_since > patience or (asked or 0.0) > patience
        return unreached or too_long or not error.retryable

    @property
    def _id(self) -> str:
        return self.note.batch or self.note.mark
