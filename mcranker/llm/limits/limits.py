"""Concurrency and rate limits for one model, with fair queueing."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mcranker.errors import ConnectionFailed, ModelTimeout, RateLimited, ServerFailed
from mcranker.llm.chat import ChatRequest
from mcranker.llm.limits.concurrency import USED, LearnedConcurrency
from mcranker.llm.limits.pace import Pace, estimated_tokens
from mcranker.runtime.forks import renew_in_child
from personas.ranking.usage import Usage

FIRST_PAUSE = 1.0
"""Seconds without calls after a refusal that does not say for how long; see `Limits`."""
PATIENCE = 300.0
"""Seconds. A longer wait for a provider that refuses calls is an error instead."""

_FAILURES = (ConnectionFailed, ModelTimeout, ServerFailed)  # that speak of a server in trouble
_AT_ONCE = 1e-6  # seconds that a timer may be early, or a sum of floats be off


class LimitsStatistics(NamedTuple):
    """The present limits of one model."""

    #: calls that may be in flight at once, in each event loop
    limit: int
    #: calls in flight, in all event loops
    in_flight: int
    #: calls that wait for a place
    waiting: int
    #: how often the provider has made all calls wait
    pauses: int
    #: seconds for which it still does
    paused: float
    #: starts a second that it is thought to take; None if it takes all
    rate: float | None


class Limits:
    """Grants places for calls of a model.

    >>> limits = Limits(concurrency=8)                             # at most 8 at once
    >>> limits = Limits(concurrency=None)                          # as many as it is worth
    >>> limits = Limits(concurrency=8, requests_per_minute=500)

    A call waits for its place until few enough are in flight, the `Pace` allows another start,
    and it is its turn: the rankings that wait (``request.tag.ranking``) take turns, and the
    calls of one ranking come in their order, so a ranking with one call does not wait behind
    the thousand of another. What is learned, and the pace, hold for the model; places and
    queues are one set for each event loop, and no loop waits for another's calls.

    Args:
        concurrency: calls in flight at once; None to learn it, see `LearnedConcurrency`.
        requests_per_minute: starts in any 60 s at most, evenly spread; None for no limit.
        tokens_per_minute: input and output tokens likewise, see `Pace`; None for no limit.
        first_pause: seconds for which all calls wait once the provider refuses every one
            (429, 529) without saying for how long; doubles as long as it does, see `Refusals`.
        longest_pause: seconds that such a pause has at most.
        patience: seconds; if the provider asks for a longer pause, or has refused every call for
            longer, those who wait get an error.
        clock: the time in seconds; tests replace it.
    """

    def __init__(
        self,
        *,
        concurrency: int | None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        first_pause: float = FIRST_PAUSE,
        longest_pause: float = 60.0,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._concurrency = concurrency
        self._learned = LearnedConcurrency()
        self._pace = Pace(
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            first_pause=first_pause,
            longest_pause=longest_pause,
        )
        self._patience = patience
        self._refusal = RateLimited("")
        self._full = False  # whether calls were refused with as many in flight as may be
        self._clock = clock
        self._lock = threading.Lock()
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, _Gate] = WeakKeyDictionary()
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._gates = WeakKeyDictionary()

    @property
    def limit(self) -> int:
        """Calls that may be in flight at once, in each event loop."""
        return self._concurrency or self._learned.limit

    async def place(self, request: ChatRequest) -> Place:
        """Wait for a place; the call is then to be made in ``with place:``, at once.

        Raises:
            RateLimited: the provider has asked for a pause that is longer than `patience`, or has
            refused every call for as long.
        """
        gate = self._gate()
        tokens = estimated_tokens(request) if self._pace.counts_tokens else 0.0
        place = Place(self, gate, tokens)
        now = self._clock()
        if gate.idle_since is not None:
            with self._lock:
                self._pace.refusals.idle(now - gate.idle_since)
            gate.idle_since = None
        if gate.queues or self._start(place, now) is not None:
            await self._wait(place, request.tag.ranking)
        return place

    def end(self, place: Place, error: BaseException | None) -> None:
        """End a call: learn from its result, and let others start."""
        now = self._clock()
        place.seconds = now - place.started
        failed = isinstance(error, _FAILURES)
        with self._lock:
            if isinstance(error, RateLimited):
                self._refusal = error
                self._full |= place.gate.in_flight >= USED * self.limit
                self._pace.refused(now, place.number, place.seconds, error.retry_after)
            elif error is None:
                self._pace.refusals.answered(place.number)
                if place.used is not None:
                    self._pace.correct(place.used - place.tokens)
            if self._concurrency is None and (error is None or failed):
                self._learned.finished(now, place.started, place.gate.in_flight, failed=failed)
        place.gate.in_flight -= 1
        self._admit(place.gate)

    def statistics(self) -> LimitsStatistics:
        """Return the present limits."""
        now = self._clock()
        with self._lock:
            gates = list(self._gates.values())
        return LimitsStatistics(
            limit=self.limit,
            in_flight=sum(gate.in_flight for gate in gates),
            waiting=sum(gate.waiting for gate in gates),
            pauses=self._pace.refusals.pauses,
            paused=max(0.0, self._pace.paused_until - now),
            rate=self._pace.refusals.rate(now),
        )

    def _gate(self) -> _Gate:
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            with self._lock:
                gate = self._gates[loop] = _Gate()
        return gate

    def _start(self, place: Place, now: float) -> float | None:
        """Start the call of a place if it may; else the time at which to ask again.

        That time is infinite if another call has to end first.
        """
        if place.gate.in_flight >= self.limit:
            return math.inf
        pace = self._pace
        with self._lock:
            if pace.due > now + _AT_ONCE:
                return pace.due
            if pace.resume(now) and self._full:
                self._learned.back_off(now)
                self._full = False
            if pace.due > now + _AT_ONCE:
                return pace.due
            pace.book(now, place.tokens)
            place.number = pace.refusals.number
        place.started = now
        place.gate.in_flight += 1
        return None

    async def _wait(self, place: Place, ranking: int) -> None:
        gate = place.gate
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        gate.enqueue(ranking, waiter, place)
        self._admit(gate)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                gate.forget(ranking, waiter)
            elif waiter.exception() is None:
                # The place was given in the very moment in which the wait was cancelled.
                gate.in_flight -= 1
            self._admit(gate)
            raise

    def _admit(self, gate: _Gate) -> None:
        """Start the calls that may start, by turns, and come back in time for the rest."""
        now = self._clock()
        while gate.queues:
            ranking, waiter, place = gate.next()
            if not waiter.cancelled():
                pause = self._pace.paused_until - now
                closed = self._pace.refusals.closed(now) if pause > 0 else 0.0
                if pause > self._patience or closed > self._patience:
                    waiter.set_exception(self._no_patience(pause, closed))
                elif (due := self._start(place, now)) is None:
                    waiter.set_result(None)
                else:
                    gate.wake_at(due, now, self._admit)
                    return
            gate.forget(ranking, waiter)
            if ranking in gate.queues:
                gate.queues.move_to_end(ranking)
        if not gate.in_flight:
            gate.idle_since = now

    def _no_patience(self, pause: float, closed: float) -> RateLimited:
        why = f"no calls for another {pause:.0f} s, which is too long to wait for"
        if closed > self._patience:
            why = f"every call has been refused for {closed:.0f} s, and pauses did not help"
        return RateLimited(
            f"{self._refusal} ({why}; run again after that)",
            model=self._refusal.model,
            retry_after=pause,
        )


class Place:
    """The right to make one call; given back when the ``with`` block ends, however it ends."""

    __slots__ = ("_limits", "gate", "number", "seconds", "started", "tokens", "used")

    def __init__(self, limits: Limits, gate: _Gate, tokens: float) -> None:
        self._limits = limits
        self.gate = gate
        self.tokens = tokens  # booked
        self.used: float | None = None
        self.number = 0  # of the call, for `Refusals`
        self.started = 0.0
        self.seconds = 0.0
        """Seconds the call took."""

    def answered(self, usage: Usage) -> None:
        """Replace the estimate with the usage of the call."""
        self.used = usage.input_tokens + usage.output_tokens

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._limits.end(self, error)


_Waiter = asyncio.Future[None]


class _Gate:
    """The places of one event loop, and their waiters: a queue for each ranking.

    Everything takes the same time however many wait: the rankings and the waiters of each are
    linked lists with an index.
    """

    __slots__ = ("_timer", "_timer_at", "idle_since", "in_flight", "queues", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting = 0
        self.queues: OrderedDict[int, OrderedDict[_Waiter, Place]] = OrderedDict()
        self.idle_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def enqueue(self, ranking: int, waiter: _Waiter, place: Place) -> None:
        """Add a waiter to its ranking's queue."""
        queue = self.queues.get(ranking)
        if queue is None:
            queue = self.queues[ranking] = OrderedDict()
        queue[waiter] = place
        self.waiting += 1

    def next(self) -> tuple[int, _Waiter, Place]:
        """Return the next waiter; the queue must not be empty."""
        ranking, queue = next(iter(self.queues.items()))
        waiter, place = next(iter(queue.items()))
        return ranking, waiter, place

    def forget(self, ranking: int, waiter: _Waiter) -> None:
        """Take a waiter out, if it is still there."""
        queue = self.queues.get(ranking)
        if queue is None or waiter not in queue:
            return
        del queue[waiter]
        self.waiting -= 1
        if not queue:
            del self.queues[ranking]
        if not self.queues and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def wake_at(self, due: float, now: float, wake: Callable[[_Gate], None]) -> None:
        """Call `wake` at the time `due`, or a little before."""
        if due == math.inf or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = asyncio.get_running_loop().call_later(due - now, self._wake, wake)

    def _wake(self, wake: Callable[[_Gate], None]) -> None:
        self._timer = None
        wake(self)
