"""A chat model asked through its provider's batch API: half the price, a reply within hours.

The requests that wait at the same moment are collected. There is no background task: of the
callers that wait for a reply, one does the work for all of them, and hands it on when it has its
own reply or is cancelled.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import anyio

from mcranker.errors import ConfigError, ModelError, UnsupportedCapability
from mcranker.llm.batch.anthropic_batches import AnthropicBatches
from mcranker.llm.batch.in_progress import BatchInProgress
from mcranker.llm.batch.notes import BatchGroup, BatchNote, BatchNotes
from mcranker.llm.batch.openai_batches import OpenAIBatches
from mcranker.llm.batch.protocol import BATCH_SUFFIX, BatchService, Writer
from mcranker.llm.batch.request import AnswerStore, BatchContext, BatchedRequest, BatchTimings
from mcranker.llm.chat import Capabilities, ChatModel, ChatReply, ChatRequest
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.logs import safe_logger
from personas.ranking.usage import Stage

logger = safe_logger("mcranker.llm")


class Batched:
    """A chat model whose requests travel in batches.

    The requests that wait at the same moment become one batch, or several where it would be
    larger than the provider takes. A request that the provider fails or lets expire goes with
    another batch, three in all. Every answer is written to the ledger, also one that no caller
    waits for any more.

    A batch is noted on disk before it is created. A request for something that is in a noted
    batch waits for that batch, in this process or in a later one; so a run that was stopped is
    simply started again. Stopping a run does not cancel its batches: they are paid for.

    There are no decisions (`ChatRequest.questions`): no batch API has them.

    Args:
        service: the provider's batch API.
        notes: the folder for the notes.
        ledger: where answers are kept; None to hand them out only.
        timings: when things happen.
        sleep: waits a number of seconds; tests replace it.
        clock: seconds since 1970; tests replace it.
    """

    def __init__(
        self,
        service: BatchService,
        notes: Path,
        *,
        ledger: AnswerStore | None = None,
        timings: BatchTimings | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._chat = service.chat
        self._context = BatchContext(
            service, BatchNotes(notes), ledger, timings or BatchTimings(), clock
        )
        self._sleep = sleep
        self._collectors: WeakKeyDictionary[asyncio.AbstractEventLoop, BatchCollector] = (
            WeakKeyDictionary()
        )

    @property
    def name(self) -> str:
        return f"{self._chat.name}{BATCH_SUFFIX}"

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        return self._chat.endpoint

    @property
    def capabilities(self) -> Capabilities:
        return replace(self._chat.capabilities, max_questions=0)

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.questions:
            raise UnsupportedCapability(
                f"{self.name}: batches have no decisions; use batch_criteria=False", model=self.name
            )
        key = request_key(self._chat, request).hex()
        return await self._collector().answer(key, request)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; batches under way go on."""
        await self._chat.aclose()

    def _collector(self) -> BatchCollector:
        loop = asyncio.get_running_loop()
        if loop not in self._collectors:
            self._collectors[loop] = BatchCollector(self._context, sleep=self._sleep)
        return self._collectors[loop]


def batched(model: ChatModel, folder: Path, ledger: AnswerStore | None) -> Batched:
    """The model, asked through its provider's batch API.

    Args:
        model: one of OpenAI or Anthropic.
        folder: for the notes of batches under way; next to the ledger.
        ledger: where answers are kept.

    Raises:
        ConfigError: there is no batch API for it.
    """
    if isinstance(model, OpenAIChat):
        return Batched(OpenAIBatches(model), folder, ledger=ledger)
    if isinstance(model, AnthropicMessages):
        return Batched(AnthropicBatches(model), folder, ledger=ledger)
    if isinstance(model, CompatibleChat):
        reason = "a server of one's own has no batch API"
    elif model.name.startswith(("local:", "crossencoder:")):
        reason = "it runs in this process"
    else:
        reason = "it is not one of OpenAI's or Anthropic's own services"
    raise ConfigError(
        f"batch=True does not go with {model.name!r}: {reason}; leave batch out, or use "
        "'openai:NAME' or 'anthropic:NAME' without base_url="
    )


class BatchCollector:
    """The requests and the batches of one event loop.

    Args:
        context: the service, the notes and all else.
        sleep: waits a number of seconds.
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
                    "batch %s goes on, though no caller waits for it now; its answers are fetched "
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
        """Assign every gathered request to a batch under way, or to a new one."""
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
        """Find batches of other runs that answer gathered requests."""
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
