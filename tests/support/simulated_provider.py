"""Providers that refuse calls for several reasons, in virtual time, and runs against them."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from mcranker import Capabilities, ChatReply, ChatRequest, Message, ModelError, RateLimited
from mcranker.errors import ServerFailed
from mcranker.llm.chat import Tag
from mcranker.llm.limits.rate_limiter import RateLimiter
from mcranker.llm.limits.retries import Retrying
from tests.support.virtual_time import now, simulate

REQUEST = ChatRequest((Message("user", "?"),), Tag("score"))
REFUSED_AFTER = 0.02  # seconds until a refusal comes
BEGIN = 1000.0  # when virtual time begins


class Reason(Protocol):
    """Decides whether a call that comes now is refused."""

    def refuses(self, in_flight: int) -> ModelError | None:
        """The refusal, or None; `in_flight` are the calls being answered."""


@dataclass
class Chance:
    """Refuses a share of all calls, whatever the load; from `begin` to `end` seconds."""

    share: float
    seed: int = 0
    error: Callable[[], ModelError] = lambda: RateLimited("529")
    begin: float = 0.0
    end: float = math.inf

    def __post_init__(self) -> None:
        self._luck = random.Random(self.seed)

    def refuses(self, in_flight: int) -> ModelError | None:
        refused = self._luck.random() < self.share
        return self.error() if refused and self.begin <= now() - BEGIN < self.end else None


@dataclass
class Rate:
    """Takes so many calls a second and a burst; `later` holds (seconds, new rate)."""

    a_second: float
    burst: float
    later: tuple[float, float] = (math.inf, 0.0)
    tells: bool = False
    _filled: float = BEGIN
    _left: float = math.nan

    def refuses(self, in_flight: int) -> ModelError | None:
        if math.isnan(self._left):
            self._left = self.burst
        at, changed = self.later
        rate = self.a_second if now() - BEGIN < at else changed
        self._left = min(self.burst, self._left + (now() - self._filled) * rate)
        self._filled = now()
        if self._left < 1.0:
            wait = (1.0 - self._left) / rate
            return RateLimited("429", retry_after=wait if self.tells else None)
        self._left -= 1.0
        return None


@dataclass
class Minute:
    """Takes so many calls in each minute by the clock."""

    a_minute: int
    tells: bool = False
    _minute: float = -1.0
    _left: int = 0

    def refuses(self, in_flight: int) -> ModelError | None:
        if self._minute != (minute := now() // 60.0):
            self._minute, self._left = minute, self.a_minute
        self._left -= 1
        wait = 60.0 * (minute + 1.0) - now() if self.tells else None
        return None if self._left >= 0 else RateLimited("429", retry_after=wait)


@dataclass
class AtOnce:
    """Takes so many calls at once and refuses the others."""

    most: int
    error: Callable[[], ModelError] = lambda: RateLimited("429")

    def refuses(self, in_flight: int) -> ModelError | None:
        return self.error() if in_flight >= self.most else None


@dataclass
class SimulatedProvider:
    """Answers after `latency` seconds, spread log-normally, what none of the reasons refuses."""

    reasons: Sequence[Reason] = ()
    latency: float = 0.1
    spread: float = 0.0
    slots: int | None = None
    seed: int = 0
    answers: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    in_flight: int = 0
    name: str = "simulated"
    capabilities: Capabilities = field(default_factory=Capabilities)

    def __post_init__(self) -> None:
        self._luck = random.Random(self.seed)
        self._slots = asyncio.Semaphore(self.slots or 10**9)

    async def complete(self, request: ChatRequest) -> ChatReply:
        for reason in self.reasons:
            if error := reason.refuses(self.in_flight):
                await anyio.sleep(REFUSED_AFTER)
                self.refusals.append(now() - BEGIN)
                raise error
        self.in_flight += 1
        try:
            async with self._slots:
                await anyio.sleep(self.latency * self._luck.lognormvariate(0.0, self.spread))
        finally:
            self.in_flight -= 1
        self.answers.append(now() - BEGIN)
        return ChatReply("fine")

    async def aclose(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True)
class Outcome:
    """What a run did; times in seconds since it began."""

    seconds: float
    answers: list[float]
    refusals: list[float]
    lost: int
    limit: int

    def refused(self, since: float = 0.0) -> float:
        """The share of the calls from then on that were refused."""
        refusals = sum(at >= since for at in self.refusals)
        return refusals / max(1, refusals + sum(at >= since for at in self.answers))

    def answered(self, since: float, until: float) -> float:
        """Answers a second in that time."""
        return sum(since <= at < until for at in self.answers) / (until - since)


def run(
    make: Callable[[], SimulatedProvider],
    *,
    calls: int = 10**9,
    seconds: float = math.inf,
    workers: int = 64,
    concurrency: int | None = None,
    attempts: int = 100,
    seed: int = 0,
) -> Outcome:
    """Make so many calls, or for so many seconds, `workers` at once.

    The waits before another try are random: `seed` fixes them.
    """

    async def main() -> Outcome:
        provider = make()
        limits = RateLimiter(concurrency=concurrency, clock=now)
        retrying = Retrying(provider, limits, attempts=attempts, deadline=math.inf, clock=now)
        left = calls
        lost = 0

        async def work() -> None:
            nonlocal left, lost
            while left > 0:
                left -= 1
                try:
                    await retrying.complete(REQUEST)
                except (RateLimited, ServerFailed):
                    lost += 1

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                for _ in range(min(workers, calls)):
                    group.start_soon(work)
        limit = limits._pace.limit
        return Outcome(now() - BEGIN, provider.answers, provider.refusals, lost, limit)

    state = random.getstate()
    random.seed(seed)
    try:
        return simulate(main())
    finally:
        random.setstate(state)
