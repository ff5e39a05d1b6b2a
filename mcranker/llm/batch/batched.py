"""A chat model asked through its provider's batch API: half the price, a reply within hours.

The requests that wait at the same moment are collected. There is no background task: of the
callers that wait for a reply in an event loop, one does the work for all of them, and hands it on
when it has its own reply or is cancelled.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import anyio

from mcranker.errors import (
    ConfigError,
    ConnectionFailed,
    LedgerError,
    MCRankerError,
    ModelError,
    ModelNotFound,
    RateLimited,
    UnsupportedCapability,
)
from mcranker.llm.batch.notes import BatchNote, BatchNotes
from mcranker.llm.batch.services import (
    AnthropicBatches,
    BatchItem,
    BatchService,
    OpenAIBatches,
)
from mcranker.llm.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Tag
from mcranker.llm.ledger.rows import request_key
from mcranker.llm.ledger.store import MOST_KEYS
from mcranker.llm.masking import shown_url
from mcranker.llm.prices import BATCH_SUFFIX
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_chat import MOST_RESULTS, TRANSFER_SECONDS, Writer
from mcranker.llm.providers.http_errors import Problem, parse_object, said_by
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.llm.providers.parameters import NEEDED, refused_parameter
from mcranker.logs import safe_logger

if TYPE_CHECKING:
    from mcranker.llm.ledger.ledger import Ledger

MOST_BATCHES = 3  # that a request goes with, where the provider fails it
SLOWER = 1.5  # factor from one wait between looks at a batch to the next

logger = safe_logger("mcranker.llm")


@dataclass(frozen=True, slots=True)
class BatchTimings:
    """Intervals and limits of batches, in seconds."""

    linger: float = 2.0  # without a further request, before those that wait are sent
    longest_linger: float = 30.0  # that the first of them waits for others, at most
    first_poll: float = 5.0  # from sending a batch to the first look at it; the waits then grow
    longest_poll: float = 60.0  # between two looks, at most
    patience: float = 3600.0  # that a service may fail without interruption
    settle: float = 900.0  # for which a note without a batch counts as about to be sent


@dataclass(eq=False)
class Batched:
    """A chat model whose requests travel in batches."""

    service: BatchService
    notes: BatchNotes  # of batches under way, of this run and others
    ledger: Ledger  # where answers are kept
    timings: BatchTimings = field(default_factory=BatchTimings)
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep  # tests replace it, and the clock
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.chat = self.service.chat
        self.reached = False  # the service has answered before
        self._collectors: WeakKeyDictionary[asyncio.AbstractEventLoop, _Collector] = (
            WeakKeyDictionary()
        )

    @property
    def name(self) -> str:
        return f"{self.chat.name}{BATCH_SUFFIX}"

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        return self.chat.endpoint

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.chat.capabilities, max_questions=0)

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.questions:
            raise UnsupportedCapability(
                f"{self.name}: batches have no decisions; leave out questions=", model=self.name
            )
        collector = self._collectors.setdefault(asyncio.get_running_loop(), _Collector(self))
        return await collector.answer(request_key(self.chat, request).hex(), request)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; batches under way go on."""
        await self.chat.aclose()


def batched(model: ChatModel, folder: Path, ledger: Ledger) -> Batched:
    """The model, asked through its provider's batch API."""
    if isinstance(model, OpenAIChat):
        return Batched(OpenAIBatches(model), BatchNotes(folder), ledger)
    if isinstance(model, AnthropicMessages):
        return Batched(AnthropicBatches(model), BatchNotes(folder), ledger)
    raise ConfigError(
        f"batch=True does not go with {model.name!r}: only OpenAI's and Anthropic's own services "
        "have batches; leave batch out, or use 'openai:NAME' or 'anthropic:NAME' without base_url="
    )


@dataclass(eq=False, slots=True)
class _Entry:
    """A request, shared by all its callers."""

    key: str
    request: ChatRequest
    waiting: int = 0  # callers
    failures: int = 0  # batches that have failed it
    outcome: ChatReply | MCRankerError | None = None  # once it is settled
    # Set when it is settled, and when one who waits is to go on with the work.
    called: anyio.Event = field(default_factory=anyio.Event)


class _Collector:
    """The requests and the batches of one event loop."""

    def __init__(self, owner: Batched) -> None:
        self.owner = owner
        self._entries: dict[str, _Entry] = {}  # those that are not settled
        self._gathered: dict[str, _Entry] = {}  # of those, the ones in no batch yet
        self._first_came = self._last_came = 0.0
        self._batches: list[_Batch] = []
        self._busy = False
        self._heir: _Entry | None = None  # called to go on with the work

    async def answer(self, key: str, request: ChatRequest) -> ChatReply:
        """The reply to a request; equal ones share it, and only the first caller is charged."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, request)
            self._gather(entry)
        entry.waiting += 1
        try:
            while entry.outcome is None:
                if not self._busy:
                    await self._work(entry)
                    continue
                if entry.called.is_set():
                    entry.called = anyio.Event()
                await entry.called.wait()
        finally:
            entry.waiting -= 1
            if not entry.waiting and entry.outcome is None:
                self._forget(entry)
            if entry is self._heir and not self._busy:
                self._call_heir()
        reply = entry.outcome
        if isinstance(reply, MCRankerError):
            raise reply.with_traceback(None)
        entry.outcome = replace(reply, reused=True)
        return reply

    def settle(self, entry: _Entry, outcome: ChatReply | MCRankerError) -> None:
        """Set the result and wake the waiting callers."""
        entry.outcome = outcome
        self._forget(entry)
        entry.called.set()

    def _forget(self, entry: _Entry) -> None:
        for entries in (self._entries, self._gathered):
            if entries.get(entry.key) is entry:
                del entries[entry.key]

    async def _work(self, entry: _Entry) -> None:
        self._busy, self._heir = True, None
        try:
            while entry.outcome is None:
                if not await self._progress():
                    # In short steps: a request may come that is due before all else.
                    due = [*(batch.due for batch in self._batches), self._gathered_due()]
                    wait = max(0.0, min(due) - self.owner.clock())
                    await self.owner.sleep(min(self.owner.timings.linger, wait))
        finally:
            self._busy = False
            self._call_heir()

    def _call_heir(self) -> None:
        self._heir = next(iter(self._entries.values()), None)
        if self._heir is not None:
            self._heir.called.set()

    async def _progress(self) -> bool:
        """Do one thing that is due; False if nothing is."""
        now = self.owner.clock()
        if self._gathered_due() <= now:
            await self._assign(now)
            return True
        batch = next((batch for batch in self._batches if batch.due <= now), None)
        if batch is None:
            return False
        await batch.advance()
        if batch.done:
            self._batches.remove(batch)
            for entry in batch.again:
                if entry.waiting and entry.outcome is None:
                    self._gather(entry)
        return True

    def _gathered_due(self) -> float:
        timings = self.owner.timings
        due = min(self._last_came + timings.linger, self._first_came + timings.longest_linger)
        return due if self._gathered else float("inf")

    def _gather(self, entry: _Entry) -> None:
        self._last_came = self.owner.clock()
        if not self._gathered:
            self._first_came = self._last_came
        self._gathered[entry.key] = entry

    async def _assign(self, now: float) -> None:
        """Assign every gathered request to a batch under way, or to a new one."""
        wanted, kept = list(self._gathered), dict[bytes, ChatReply]()
        self._adopt()
        # Another process may have finished a batch since the ledger was asked.
        keys = list(map(bytes.fromhex, wanted))
        for start in range(0, len(keys), MOST_KEYS):
            kept |= await self.owner.ledger.store.get_many(keys[start : start + MOST_KEYS])
        fresh = list[_Entry]()
        for key in wanted:
            entry = self._gathered.pop(key, None)
            if entry is None:
                continue  # its caller went away in the meantime
            if (reply := kept.get(bytes.fromhex(key))) is not None:
                self.settle(entry, reply)
            elif batch := next((batch for batch in self._batches if key in batch.left), None):
                batch.entries[key] = entry
            else:
                fresh.append(entry)
        self._batches += self._packed(fresh, now)

    def _adopt(self) -> None:
        """Find batches of other runs that answer gathered requests."""
        owner, known = self.owner, {batch.note.mark for batch in self._batches}
        for note in owner.notes.of(owner.chat.name, owner.endpoint):
            if note.mark not in known and not self._gathered.keys().isdisjoint(note.requests):
                name = note.batch or note.mark
                logger.info("batch %s was sent before, with what is asked now", name)
                self._batches.append(_Batch(self, note, owner.chat.writer(), {}))

    def _packed(self, entries: Iterable[_Entry], now: float) -> list[_Batch]:
        """New batches, as large as the provider takes them."""
        service, write = self.owner.service, self.owner.chat.writer()
        packs: list[tuple[dict[str, _Entry], list[bytes]]] = []
        size = 0
        for entry in entries:
            try:
                line = service.line(entry.key, write(entry.request))
            except ModelError as error:
                self.settle(entry, error)
                continue
            full = not packs or len(packs[-1][1]) == service.most_requests
            if full or size + len(line) > service.most_bytes:
                packs.append(({}, []))
                size = 0
            inside, lines = packs[-1]
            inside[entry.key] = entry
            lines.append(line)
            size += len(line) + 1  # what stands between the lines
        return [_Batch(self, self._note(each, now), write, each, lines) for each, lines in packs]

    def _note(self, inside: dict[str, _Entry], now: float) -> BatchNote:
        return BatchNote(
            model=self.owner.chat.name,
            endpoint=shown_url(self.owner.endpoint),
            mark=uuid.uuid4().hex,
            created=now,
            requests={
                key: (each.request.tag.stage, each.request.labels) for key, each in inside.items()
            },
        )


class _Batch:
    """A batch, and the requests that wait for its results."""

    def __init__(
        self,
        collector: _Collector,
        note: BatchNote,
        write: Writer,
        entries: dict[str, _Entry],
        lines: Iterable[bytes] = (),
    ) -> None:
        self.note = note
        self.entries = entries
        self.left = dict(note.requests)  # those for which a result may still come
        self.due = collector.owner.clock()  # when `advance` is to be called
        self.done = False
        self.again: list[_Entry] = []  # to be sent with another batch, once it is done
        self._collector = collector
        self._owner = collector.owner
        self._chat = collector.owner.chat
        self._write = write
        self._lines = list(lines)
        self._source: bytes | None = None  # the lines, where the provider finds them
        self._step: Callable[[], Awaitable[None]] = self._send if self._lines else self._look_for
        if note.batch is not None:
            self._step = partial(self._follow, note.batch)
        self._begun = False  # a creation may have reached the provider
        self._interval = self._owner.timings.first_poll
        self._failing_since: float | None = None
        self._progress = ""

    async def advance(self) -> None:
        """Take the next due steps. Errors go to waiting requests; a failed batch is done."""
        timings, now = self._owner.timings, self._owner.clock()
        self.due = now + self._interval
        self._interval = min(self._interval * SLOWER, timings.longest_poll)
        try:
            await self._step()
        except ModelError as error:
            self._failing_since = now if self._failing_since is None else self._failing_since
            wait = (error.retry_after if isinstance(error, RateLimited) else None) or 0.0
            # A server that was never there will not be there in a minute.
            unreached = isinstance(error, ConnectionFailed) and not self._owner.reached
            too_long = max(now - self._failing_since, wait) > timings.patience
            if unreached or too_long or not error.retryable:
                self._fail(error)
            else:
                self.due = max(self.due, now + wait)
                logger.info("batch %s: again in %.0f s: %s", self._id, self.due - now, error)
        except LedgerError as error:
            self._fail(error)
        else:
            self._failing_since, self._owner.reached = None, True

    async def _send(self) -> None:
        batch = await self._owner.service.find(self.note) if self._begun else None
        if batch is None and not any(entry.waiting for entry in self.entries.values()):
            self.done = True
            return
        batch = batch or await self._create()
        if batch is not None:
            self._created(batch)

    async def _create(self) -> str | None:
        """The id of the new batch; None if another process is about to send the same."""
        mark, service = self.note.mark, self._owner.service
        if self._source is None:
            self._source = await service.upload(self._lines, mark)
            self._lines = []
        self.note = self.note.model_copy(update={"created": self._owner.clock()})
        if not await self._noted():
            return None
        first, self._begun = not self._begun, True
        try:
            # It is paid for once it has reached the provider, so its id must not get lost.
            with anyio.CancelScope(shield=True):
                batch = await service.create(self._source, mark)
        except ModelError as error:
            if first and not error.retryable:
                self._owner.notes.remove(mark)
            raise
        return batch

    async def _noted(self) -> bool:
        """Write the note, unless one of another process has come since the orders were gathered."""
        owner = self._owner
        async with owner.ledger.alone(f"batches {self._chat.name} {self._chat.endpoint}"):
            for other in owner.notes.of(self.note.model, self.note.endpoint):
                if other.mark != self.note.mark and self.left.keys() & other.requests.keys():
                    self._send_again()
                    return False
            owner.notes.write(self.note)
        return True

    async def _look_for(self) -> None:
        """Find the batch of a note without an id."""
        notes, mark = self._owner.notes, self.note.mark
        current = notes.read(mark)
        if current is None:
            self._send_again()  # its writer has finished it
        elif current.batch is not None:
            self._created(current.batch)
        elif batch := await self._owner.service.find(self.note):
            self._created(batch)
        elif self._owner.clock() - current.created > self._owner.timings.settle:
            notes.remove(mark)
            self._send_again()

    def _created(self, batch: str) -> None:
        self._source = None
        self._interval = self._owner.timings.first_poll
        self.due = self._owner.clock() + self._interval
        self._step = partial(self._follow, batch)
        self.note = self.note.model_copy(update={"batch": batch})
        self._owner.notes.write(self.note)
        where = self._chat.service.where
        logger.info("batch %s: %d requests are with %s", batch, len(self.left), where)

    async def _follow(self, batch: str) -> None:
        notes, service, batches = self._owner.notes, self._chat.service, self._owner.service
        try:
            status = await batches.check(batch)
            if status.progress != self._progress:
                self._progress = status.progress
                logger.info("batch %s: %s", batch, said_by(service, status.progress))
            for path in status.results if status.ended else ():
                found = await self._chat.fetch(
                    "get", path, seconds=TRANSFER_SECONDS, most=MOST_RESULTS
                )
                for line in filter(None, map(bytes.strip, found.splitlines())):
                    await self._take(batches.item(parse_object(line, service)))
        except ModelNotFound as error:
            raise ModelNotFound(
                f"{service.model}: batch {batch} or its results are not there: deleted, or "
                "made with another account's key; to send its requests again, delete "
                f"{str(notes.path(self.note.mark))!r}",
                model=service.model,
            ) from error
        if status.refusal:
            notes.remove(self.note.mark)
            said = said_by(service, status.refusal)
            message = f"{service.model}: batch {batch} was not accepted: {said}"
            self._fail(ModelError(message, model=service.model))
        elif status.ended:
            for key in self.left:
                self._not_answered(self._waiting(key), BatchItem(key, status.unanswered))
            notes.remove(self.note.mark)
            self.done = True

    async def _take(self, item: BatchItem) -> None:
        if item.key not in self.left:
            return
        stage, labels = self.left[item.key]
        entry = self._waiting(item.key)
        if item.body is None:
            self._not_answered(entry, item)
        else:
            # Of a request that no caller holds any more, what its reply is read by is known.
            request = entry.request if entry else ChatRequest((), Tag(stage), labels=labels)
            try:
                reply = self._chat.read(item.body, request)
            except ModelError as error:
                self._failed(entry, error)
            else:
                key, name = bytes.fromhex(item.key), self._owner.name
                await self._owner.ledger.keep(key, reply, model=name, stage=stage)
                if (entry := self._waiting(item.key)) is not None:
                    self._collector.settle(entry, reply)
        del self.left[item.key]

    def _waiting(self, key: str) -> _Entry | None:
        entry = self.entries.get(key)
        return entry if entry and entry.waiting else None

    def _not_answered(self, entry: _Entry | None, item: BatchItem) -> None:
        if entry is None:
            return
        try:
            learnt = item.fate == "failed" and self._learns(item.problem, entry.request)
        except ModelError as error:
            self._collector.settle(entry, error)
            return
        if learnt:
            self.again.append(entry)
        else:
            self._failed(entry, item.error(self._id, self._chat.service))

    def _learns(self, problem: Problem, request: ChatRequest) -> bool:
        """True if the same request will be written differently from now on."""
        sent = self._write(request)
        refused = refused_parameter(problem, sent)
        if refused is None:
            return False
        # The first refusal of a batch teaches; the others only confirm it.
        if refused not in NEEDED and sent != self._chat.writer()(request):
            return True
        return self._chat.memory.learn(problem, sent)

    def _failed(self, entry: _Entry | None, error: ModelError) -> None:
        if entry is None:
            return
        entry.failures += 1
        if error.retryable and entry.failures < (2 if error.shape else MOST_BATCHES):
            self.again.append(entry)
        else:
            self._collector.settle(entry, error)

    def _fail(self, error: MCRankerError) -> None:
        if isinstance(error, ModelError):
            error.others_answered = False
        for entry in self.entries.values():
            if entry.outcome is None:
                self._collector.settle(entry, error)
        self.done, self.again = True, []

    def _send_again(self) -> None:
        """End without results."""
        self.done, self.again = True, list(self.entries.values())

    @property
    def _id(self) -> str:
        return self.note.batch or self.note.mark
