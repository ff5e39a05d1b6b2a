"""Calls of one model: how many at once, how fast, when not at all, and whose turn it is.

Calls at once double each round of answers until a first overload, which halves them; then they grow
by one a round. Overload is a refusal that says for how long, or a round of which more than
`ALLOWED` calls and a `SHARE` were refused or, where the number is learned, failed. All calls pause
as long as a refusal says, or for `FIRST_PAUSE` where nothing of a round was answered; then one call
goes, and the pause doubles until one is answered. Requests and tokens a minute are evenly spread.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from weakref import WeakKeyDictionary

from mcranker.errors import (
    ConnectionFailed,
    MCRankerError,
    ModelTimeout,
    RateLimited,
    ServerFailed,
)
from mcranker.llm.chat import ChatRequest, prompt_bytes
from mcranker.llm.limits.leases import BEAT, CATCH_UP, Ask, Lease, Leases
from personas.ranking.usage import Usage

FIRST, MOST_LEARNED = 16, 256  # calls at once without a limit: to begin with, and at most
PATIENCE = 300.0  # seconds; a longer wait for a provider that refuses calls is an error instead
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 20.0  # seconds
ALLOWED, SHARE, SLOW = 4, 0.25, 3.0
BYTES_A_TOKEN = 4
OUTPUT_TOKENS = 128  # of a reply, where fewer are not asked for
_EARLY = 1e-6  # seconds that a timer may be
_FAILURES = (ConnectionFailed, ModelTimeout, ServerFailed)  # of a server in trouble

Lessor: TypeAlias = Callable[[Ask], Awaitable[Lease]]


class Queue:
    """The calls of one event loop: those in flight, and a queue for each ranking."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiters: OrderedDict[int, deque[Slot]] = OrderedDict()
        self.timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return sum(not slot.granted.done() for each in self.waiters.values() for slot in each)


class Slot:
    """The right to make one call, to be given back with `RateLimiter.release`."""

    def __init__(self, queue: Queue, tokens: float, granted: asyncio.Future[None]) -> None:
        self.queue = queue
        self.granted = granted
        self.needs = {"requests": 1.0, "tokens": tokens}
        self.number = 0
        self.started = self.seconds = 0.0  # when, and how long the call took


class Pace:
    """When a call may start, by what became of others."""

    def __init__(self, concurrency: int | None, per_minute: Mapping[str, float]) -> None:
        self._learns = concurrency is None
        self._most = float(concurrency or MOST_LEARNED)
        self._size = float(concurrency or FIRST)
        self.limit = int(self._size)
        self._doubling = True  # no overload was seen
        self._rounds = 0.0  # of answers since the last one
        self._fastest = math.inf  # seconds
        self.number = 0
        self._last = 0  # the last call before the last overload
        self._begin_round()
        self._pause = FIRST_PAUSE
        self._paused_at = self.paused_until = -math.inf
        self._closed_since: float | None = None  # the first pause after which nothing was answered
        self._probing = False  # one call at a time
        self._probe = 0
        # Seconds of a request, or token, and when the next one may go. What is made up for must
        # not bring too many into 60 s.
        self.intervals = {kind: (60.0 + 2 * CATCH_UP) / n for kind, n in per_minute.items()}
        self._due = dict.fromkeys(self.intervals, -math.inf)
        self.leases: Leases | None = None

    def leased(self, lease: Lease, now: float) -> None:
        """Count what was leased, and keep to the pauses of others."""
        assert self.leases is not None
        self.leases.add(lease, now)
        for kind, due in self._due.items():
            if lease[kind].amount > 0:
                self._due[kind] = max(due, now + lease[kind].wait)
        if (pause := sum(lease["pause"])) > 0:
            self.paused_until = max(self.paused_until, now + pause)

    def start(self, slot: Slot, now: float) -> float | None:
        """Start a call; if it may not go now, return the time at which to ask again."""
        if slot.queue.in_flight >= self.limit:
            return math.inf
        due = max([self.paused_until, *self._due.values()])
        if due > now + _EARLY:
            return due
        if self._probing and self._probe:
            return now + BEAT / 4  # it may end in another event loop
        if self.leases and not self.leases.take(slot.needs):
            return math.inf
        self.number += 1
        self._started += 1
        slot.number, slot.started = self.number, now
        slot.queue.in_flight += 1
        if self._probing:
            self._probe = self.number
        for kind, interval in self.intervals.items():
            self._due[kind] = max(self._due[kind], now - CATCH_UP) + slot.needs[kind] * interval
        return None

    def ended(
        self, slot: Slot, now: float, error: BaseException | None, usage: Usage | None
    ) -> None:
        if usage is not None:
            extra = usage.input_tokens + usage.output_tokens - slot.needs["tokens"]
            if "tokens" in self._due:
                self._due["tokens"] += extra * self.intervals["tokens"]
            if self.leases is not None:
                self.leases.correct(extra)
        in_flight = slot.queue.in_flight
        slot.queue.in_flight -= 1
        is_probe, is_new = slot.number == self._probe, slot.number > self._last
        self._probe = 0 if is_probe else self._probe
        self._ended += slot.number > self._first
        if isinstance(error, RateLimited):
            if (told := error.retry_after) is not None:
                if told > 0 and is_new:
                    self._overload(halve=True)
                    self._pause_for(now, told)
                self.paused_until = max(self.paused_until, now + told)
            elif is_probe:
                self._pause = min(LONGEST_PAUSE, self._pause * 2)
                self._pause_for(now, self._pause)
            elif is_new:
                self._failed(now, refused=True)
        elif isinstance(error, _FAILURES):
            if is_new and self._learns and not self._probing:
                self._failed(now, refused=False)
        elif error is None or isinstance(error, Exception):  # a cancelled call says nothing
            self._answered += 1
            if is_new:
                self._probing, self._pause = False, FIRST_PAUSE
            if not self._probing:
                self._closed_since = None
            if is_new and error is None:
                seconds = now - slot.started
                self._fastest = min(self._fastest, seconds)
                if in_flight >= 0.9 * self.limit and seconds <= SLOW * self._fastest:
                    self._rounds += 1.0 / self._size
                    more = 1.0 if self._doubling else (1.0 + self._rounds // 3) / self._size
                    self._size = min(self._most, self._size + more)
                    self.limit = int(self._size)
        if self._ended >= max(8, self.limit):
            self._begin_round()

    @property
    def closed(self) -> float:
        """Seconds from the first to the last of pauses with no answer in between."""
        return 0.0 if self._closed_since is None else self._paused_at - self._closed_since

    def _begin_round(self) -> None:
        self._first = self.number
        self._started = self._ended = self._answered = self._bad = 0

    def _failed(self, now: float, *, refused: bool) -> None:
        self._bad += 1
        if self._bad <= min(ALLOWED, self.limit) + SHARE * self._started:
            return
        in_vain = not self._answered or self.limit == 1
        self._overload(halve=self._closed_since is None)
        if in_vain and refused:
            self._probing = True
            self._pause_for(now, self._pause)
        elif in_vain and self._closed_since is None:
            self._closed_since = now

    def _overload(self, *, halve: bool) -> None:
        self._size = max(1.0, self._size / 2) if halve else self._size
        self.limit = int(self._size)
        self._doubling, self._rounds, self._last = False, 0.0, self.number
        self._begin_round()

    def _pause_for(self, now: float, seconds: float) -> None:
        self._last, self._paused_at = self.number, now
        self._closed_since = now if self._closed_since is None else self._closed_since
        self.paused_until = max(self.paused_until, now + seconds)


class RateLimiter:
    """Grants slots for calls of a model."""

    def __init__(
        self,
        *,
        concurrency: int | None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = {"requests": requests_per_minute, "tokens": tokens_per_minute}
        per_minute = {kind: limit for kind, limit in limits.items() if limit is not None}
        self._pace = Pace(concurrency, per_minute)
        self._lessor: Lessor | None = None
        self._asked: asyncio.Future[Lease] | None = None  # what others are asked now
        self._told = -math.inf  # until when this process pauses, as others know
        self._refusal = RateLimited("")
        self._clock = clock
        self._lock = threading.Lock()
        self._process = 0
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, Queue] = WeakKeyDictionary()

    def share(self, lessor: Lessor) -> None:
        """Keep to the limits and pauses together with other processes."""
        self._lessor = lessor
        self._pace.leases = Leases({kind: 1.0 / n for kind, n in self._pace.intervals.items()})

    async def acquire(self, request: ChatRequest) -> Slot:
        """Wait for a slot; the call is then to be made at once."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            if self._process not in (0, os.getpid()):
                raise MCRankerError(
                    "this ranker was used before the process was forked; make it in the child "
                    "process"
                )
            self._process = os.getpid()
            with self._lock:
                queue = self._queues[loop] = Queue()
        tokens = 0.0
        if "tokens" in self._pace.intervals:
            tokens = prompt_bytes(request) / BYTES_A_TOKEN + min(request.max_tokens, OUTPUT_TOKENS)
        slot = Slot(queue, tokens, loop.create_future())
        if not queue.waiters and self._start(slot, self._clock()) is None:
            return slot
        queue.waiters.setdefault(request.tag.ranking, deque()).append(slot)
        self._admit(queue)
        try:
            await slot.granted
        except asyncio.CancelledError as cancelled:
            if slot.number:  # given in the very moment in which the wait was cancelled
                self.release(slot, cancelled)
            self._admit(queue)
            raise
        return slot

    def release(
        self, slot: Slot, error: BaseException | None = None, usage: Usage | None = None
    ) -> None:
        """End a call: learn from its result, and let others start."""
        now = self._clock()
        slot.seconds = now - slot.started
        if isinstance(error, RateLimited):
            self._refusal = error
        with self._lock:
            self._pace.ended(slot, now, error, usage)
        if self._pace.paused_until > self._told + BEAT:
            self._question(now)
        self._admit(slot.queue)

    def _start(self, slot: Slot, now: float) -> float | None:
        """Start the call of a slot if it may; else the time at which to ask again."""
        with self._lock:
            due = self._pace.start(slot, now)
        leases, is_full = self._pace.leases, slot.queue.in_flight >= self._pace.limit
        if leases is not None and due is None and leases.wants(now):
            self._question(now)
        elif leases is not None and due == math.inf and not is_full:
            if now < leases.again:
                return leases.again
            self._question(now, slot.needs)
        return due

    def _question(self, now: float, first: dict[str, float] | None = None) -> None:
        """Ask for more leases, and for pauses, if no answer is awaited; `first` waits for more."""
        leases = self._pace.leases
        if leases is None or self._lessor is None:
            return
        with self._lock:
            if self._asked is not None and not self._asked.get_loop().is_closed():
                return
            waiting = sum(queue.waiting for queue in self._queues.values())
            waiting = max(waiting, first is not None)
            self._told = self._pace.paused_until
            first = first or {"requests": float(waiting > 0)}
            ask = leases.ask(now, pause=self._told - now, waiting=waiting, first=first)
            self._asked = asyncio.ensure_future(self._lessor(ask))
            self._asked.add_done_callback(self._answered)

    def _answered(self, asked: asyncio.Future[Lease]) -> None:
        """Let calls start that have waited for a lease."""
        error = None if asked.cancelled() else asked.exception()
        with self._lock:
            self._asked = None
            queues = list(self._queues.items())
            if not asked.cancelled() and error is None:
                now, lease = self._clock(), asked.result()
                self._pace.leased(lease, now)
                self._told = max(self._told, now + sum(lease["pause"]))
        for loop, queue in queues:
            if queue.waiters and not loop.is_closed():
                loop.call_soon_threadsafe(self._admit, queue, error)
        if self._pace.paused_until > self._told + BEAT:
            self._question(self._clock())

    def _admit(self, queue: Queue, error: BaseException | None = None) -> None:
        """Start the calls that may start, by turns, and come back in time for the rest."""
        now = self._clock()
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        while queue.waiters:
            ranking, waiting = next(iter(queue.waiters.items()))
            slot = waiting[0]
            if not slot.granted.done():
                failure = error or self._no_patience(now)
                due = None if failure else self._start(slot, now)
                if due is not None:
                    if due < math.inf:
                        loop = asyncio.get_running_loop()
                        queue.timer = loop.call_later(due - now, self._admit, queue)
                    return
                if failure:
                    slot.granted.set_exception(failure)
                else:
                    slot.granted.set_result(None)
                queue.waiters.move_to_end(ranking)
            waiting.popleft()
            if not waiting:
                del queue.waiters[ranking]

    def _no_patience(self, now: float) -> RateLimited | None:
        """The error if the provider makes calls wait for too long."""
        pause, closed = self._pace.paused_until - now, self._pace.closed
        if pause <= 0 or max(pause, closed) <= PATIENCE:
            return None
        why = f"no calls for another {pause:.0f} s, which is too long to wait for"
        if closed > PATIENCE:
            why = f"every call has been refused for {closed:.0f} s, and pauses did not help"
        what = f"{self._refusal} ({why}; run again after that)"
        return RateLimited(what, model=self._refusal.model, retry_after=pause)
