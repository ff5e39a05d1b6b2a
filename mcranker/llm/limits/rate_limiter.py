"""Concurrency and rate limits for one model, with fair queueing."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, Unpack
from weakref import WeakKeyDictionary

from mcranker.errors import MCRankerError, RateLimited
from mcranker.llm.chat import ChatRequest
from mcranker.llm.limits.leases import BEAT, GRACE, Ask, Lease
from mcranker.llm.limits.rate_controller import RateController, RateLimits
from personas.ranking.usage import Usage

Lessor: TypeAlias = Callable[[Ask], Awaitable[Lease]]
PATIENCE = 300.0
"""Seconds. A longer wait for a provider that refuses calls is an error instead."""
BYTES_A_TOKEN = 4
OUTPUT_TOKENS = 128  # of a reply, where fewer are not asked for


class RateLimiterStatistics(NamedTuple):
    """The present limits of one model."""

    #: calls that may be in flight at once, in each event loop
    limit: int
    #: calls in flight, in all event loops
    in_flight: int
    #: calls that wait for a slot
    waiting: int
    #: how often the provider has made all calls wait
    pauses: int
    #: seconds for which it still does
    paused: float
    #: starts a second that it is thought to take; None if it takes all
    rate: float | None


@dataclass(slots=True, eq=False)
class Slot:
    """The right to make one call, to be given back with `RateLimiter.release`."""

    queue: LoopQueue
    tokens: float
    """Tokens booked."""
    number: int = 0
    """Number of the call, for `RateController`."""
    started: float = 0.0
    seconds: float = 0.0
    """Seconds the call took, once it is released."""


class RateLimiter:
    """Grants slots for calls of a model."""

    def __init__(
        self,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        **limits: Unpack[RateLimits],
    ) -> None:
        self._controller = RateController(**limits)
        self.shared = False
        self._lessor: Lessor | None = None
        self._asked: asyncio.Future[Lease] | None = None  # what others are asked now
        self._told = -math.inf  # until when this process pauses, as others know
        self._counts_tokens = limits.get("tokens_per_minute") is not None
        self._patience = patience
        self._refusal = RateLimited("")
        self._clock = clock
        self._lock = threading.Lock()
        self._process = 0
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopQueue] = WeakKeyDictionary()

    def share(self, lessor: Lessor) -> None:
        """Keep to the limits and pauses together with other processes."""
        self._lessor, self.shared = lessor, True
        self._controller.share()

    def close(self) -> None:
        """Give back what is leased and not used, soon."""
        leases = self._controller.leases
        if leases is not None and self._asked is None:
            self._ask(leases.give_back(self._clock()))

    async def acquire(self, request: ChatRequest) -> Slot:
        """Wait for a slot; the call is then to be made at once."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop) or self._new_queue(loop)
        slot = Slot(queue, _estimated_tokens(request) if self._counts_tokens else 0.0)
        now = self._clock()
        if queue.idle_since is not None:
            with self._lock:
                self._controller.idle(now - queue.idle_since)
            queue.idle_since = None
        if not queue.waiters and self._start(slot, now) is None:
            return slot
        ranking = request.tag.ranking
        waiter = loop.create_future()
        queue.add(ranking, waiter, slot)
        self._admit(queue)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                queue.remove(ranking, waiter)
            elif waiter.exception() is None:
                # The slot was given in the very moment in which the wait was cancelled.
                queue.in_flight -= 1
            self._admit(queue)
            raise
        return slot

    def release(
        self, slot: Slot, error: BaseException | None = None, usage: Usage | None = None
    ) -> None:
        """End a call: learn from its result, and let others start."""
        now = self._clock()
        slot.seconds = now - slot.started
        queue = slot.queue
        extra = usage.input_tokens + usage.output_tokens - slot.tokens if usage else 0.0
        if isinstance(error, RateLimited):
            self._refusal = error
        with self._lock:
            self._controller.ended(
                now,
                number=slot.number,
                started=slot.started,
                in_flight=queue.in_flight,
                error=error,
                extra_tokens=extra,
            )
        queue.in_flight -= 1
        if self._controller.paused_until > self._told + BEAT:
            self._question(now)
        if queue.waiters:
            self._admit(queue)
        elif not queue.in_flight:
            queue.idle_since = now
            if self._lessor is not None:
                asyncio.get_running_loop().call_later(GRACE, self._rest, queue, now)

    def statistics(self) -> RateLimiterStatistics:
        """Return the present limits."""
        now = self._clock()
        with self._lock:
            queues = list(self._queues.values())
        controller = self._controller
        return RateLimiterStatistics(
            limit=controller.limit,
            in_flight=sum(queue.in_flight for queue in queues),
            waiting=sum(len(each) for queue in queues for each in queue.waiters.values()),
            pauses=controller.pauses,
            paused=max(0.0, controller.paused_until - now),
            rate=controller.rate(now),
        )

    def _new_queue(self, loop: asyncio.AbstractEventLoop) -> LoopQueue:
        if self._process not in (0, os.getpid()):
            raise MCRankerError(
                "this ranker was used before the process was forked; make it in the child process"
            )
        self._process = os.getpid()
        with self._lock:
            queue = self._queues[loop] = LoopQueue(self._admit)
        return queue

    def _start(self, slot: Slot, now: float) -> float | None:
        """Start the call of a slot if it may; else the time at which to ask again."""
        if slot.queue.in_flight >= self._controller.limit:
            return math.inf
        with self._lock:
            due = self._controller.start(now, slot.tokens)
            slot.number = self._controller.number
        leases = self._controller.leases
        if due is None:
            slot.started = now
            slot.queue.in_flight += 1
            if leases is not None and leases.wants(now):
                self._question(now)
        elif due == math.inf and leases is not None:
            if now < leases.again:
                return leases.again
            self._question(now, slot)
        return due

    def _question(self, now: float, first: Slot | None = None) -> None:
        """Ask for more leases, and for pauses, if no answer is awaited; `first` waits for more."""
        leases = self._controller.leases
        if leases is None:
            return
        with self._lock:
            if self._asked is not None and not self._asked.get_loop().is_closed():
                return
            queues = list(self._queues.values())
            waiting = sum(len(each) for queue in queues for each in queue.waiters.values())
            self._told = self._controller.paused_until
            ask = leases.ask(
                now,
                pause=self._told - now,
                waiting=max(waiting, first is not None),
                first=first.tokens if first else 0.0,
            )
            self._ask(ask)

    def _ask(self, ask: Ask | None) -> None:
        if ask is not None and self._lessor is not None:
            self._asked = asyncio.ensure_future(self._lessor(ask))
            self._asked.add_done_callback(self._answered)

    def _answered(self, asked: asyncio.Future[Lease]) -> None:
        """Let calls start that have waited for a lease."""
        error = None if asked.cancelled() else asked.exception()
        with self._lock:
            self._asked = None
            queues = list(self._queues.items())
            if not asked.cancelled() and error is None:
                now = self._clock()
                self._controller.leased(asked.result(), now)
                self._told = max(self._told, now + asked.result().pause)
        for loop, queue in queues:
            if not queue.waiters:
                continue
            if loop is asked.get_loop():
                self._admit(queue, error)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(self._admit, queue, error)
        if self._controller.paused_until > self._told + BEAT:
            self._question(self._clock())

    def _rest(self, queue: LoopQueue, since: float) -> None:
        """Give back what is leased if no call came since then."""
        if queue.idle_since == since:
            self.close()

    def _admit(self, queue: LoopQueue, error: BaseException | None = None) -> None:
        """Start the calls that may start, by turns, and come back in time for the rest."""
        now = self._clock()
        while queue.waiters:
            ranking, waiting = next(iter(queue.waiters.items()))
            waiter, slot = next(iter(waiting.items()))
            if not waiter.cancelled():
                pause = self._controller.paused_until - now
                closed = self._controller.closed(now) if pause > 0 else 0.0
                if error is not None:
                    waiter.set_exception(error)
                elif pause > self._patience or closed > self._patience:
                    waiter.set_exception(self._no_patience(pause, closed))
                elif (due := self._start(slot, now)) is None:
                    waiter.set_result(None)
                else:
                    queue.wake_at(due, now)
                    return
            queue.remove(ranking, waiter)
            if ranking in queue.waiters:
                queue.waiters.move_to_end(ranking)
        if not queue.in_flight:
            queue.idle_since = now

    def _no_patience(self, pause: float, closed: float) -> RateLimited:
        why = f"no calls for another {pause:.0f} s, which is too long to wait for"
        if closed > self._patience:
            why = f"every call has been refused for {closed:.0f} s, and pauses did not help"
        return RateLimited(
            f"{self._refusal} ({why}; run again after that)",
            model=self._refusal.model,
            retry_after=pause,
        )


class LoopQueue:
    """The slots of one event loop, and their waiters: a queue for each ranking."""

    __slots__ = ("_admit", "_timer", "idle_since", "in_flight", "waiters")

    def __init__(self, admit: Callable[[LoopQueue], None]) -> None:
        self.in_flight = 0
        self.waiters: OrderedDict[int, OrderedDict[asyncio.Future[None], Slot]] = OrderedDict()
        self.idle_since: float | None = None
        self._admit = admit
        self._timer: asyncio.TimerHandle | None = None

    def add(self, ranking: int, waiter: asyncio.Future[None], slot: Slot) -> None:
        """Add a waiter to its ranking's queue."""
        self.waiters.setdefault(ranking, OrderedDict())[waiter] = slot

    def remove(self, ranking: int, waiter: asyncio.Future[None]) -> None:
        """Take a waiter out, if it is still there."""
        waiting = self.waiters.get(ranking)
        if waiting is not None:
            waiting.pop(waiter, None)
            if not waiting:
                del self.waiters[ranking]
        if not self.waiters:
            self._cancel_timer()

    def wake_at(self, due: float, now: float) -> None:
        """Admit again at the time `due`, or a little before."""
        loop = asyncio.get_running_loop()
        when = loop.time() + due - now
        if due < math.inf and (self._timer is None or when < self._timer.when()):
            self._cancel_timer()
            self._timer = loop.call_at(when, self._wake)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        self._admit(self)


def _estimated_tokens(request: ChatRequest) -> float:
    """Estimate the tokens of a request and its reply."""
    from mcranker.llm.limits.budget import prompt_bytes  # brings the providers' prices along

    return prompt_bytes(request) / BYTES_A_TOKEN + min(request.max_tokens, OUTPUT_TOKENS)
