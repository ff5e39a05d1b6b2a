"""Limits that several processes share: buckets that lease, and the leases of one process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

CATCH_UP = 0.1  # seconds of lateness that are made up for; event loops are late by milliseconds
LEASE = 1.0
"""Seconds for which a process leases at most what it needs."""
AHEAD = 4.0
"""Seconds of a limit that are leased ahead, at most, where there are many processes."""
SHARES = 16.0
"""A process gets one of as many shares of what is free of these seconds."""
QUEUE = 60.0
"""Seconds of a limit that are leased ahead where each process gets a single call."""
GRACE = 1.0
"""Seconds after which a lease that was not used is given back."""
BEAT = 1.0
"""Seconds between two questions of a process, at least while it makes calls."""
LOW = 0.25  # of a lease; with less left the next one is asked for
_SHORT = 0.25  # seconds; the least over which a need is measured
_TINY = 1e-6  # that sums of floats may be off


class Want(NamedTuple):
    """A wish of a process for `amount` of a bucket, but not less than `least`."""

    rate: float
    amount: float
    least: float


class Grant(NamedTuple):
    """The answer to a `Want`: `amount`, the first of it in `wait` seconds."""

    amount: float
    wait: float


class Ask(NamedTuple):
    """The wishes of a process for the limits of a model; None where there is no limit."""

    pause: float
    requests: Want | None
    tokens: Want | None


class Lease(NamedTuple):
    """The answer to an `Ask`; the longest pause of a process goes on for `pause` seconds."""

    pause: float
    requests: Grant | None
    tokens: Grant | None


@dataclass(slots=True)
class Bucket:
    """A limit that is leased; `mcranker.llm.ledger.postgres_limits` has the same in SQL."""

    due: float
    at: float

    def lease(self, want: Want, now: float) -> Grant:
        """Lease what is wanted, or give it back."""
        start = max(self.due - max(0.0, self.at - now), now - CATCH_UP)
        wait, amount = start - now, want.amount
        if amount > 0:
            share = max(want.least, min(amount, (AHEAD - wait) / SHARES * want.rate))
            amount = share if wait <= QUEUE else 0.0
        self.due, self.at = start + amount / want.rate, now
        return Grant(amount, wait)


@dataclass(slots=True)
class Account:
    """The part of one limit that a process has."""

    rate: float
    left: float = 0.0
    low: float = 0.0
    _used: float = 0.0  # since the last question
    _wait: float = 0.0  # seconds until the last lease began, for which the next one has to do too
    _until: float = -math.inf  # end of the lease

    def take(self, amount: float) -> None:
        """Use some of it."""
        self.left -= amount
        self._used += amount

    def want(self, now: float, seconds: float, waiting: float, first: float) -> Want:
        """Return what to ask for."""
        lasts = LEASE + self._wait
        need = waiting + max(0.0, self._used) * lasts / max(seconds, _SHORT)
        need = max(first, min(need, LEASE * self.rate))
        self._used = 0.0
        enough = self.left >= max(first, self.low) and now <= self._until
        return Want(self.rate, 0.0 if enough else need - self.left, max(0.0, first - self.left))

    def rest(self) -> Want:
        """Return how to give all of it back."""
        return Want(self.rate, -max(0.0, self.left), 0.0)

    def add(self, grant: Grant, now: float) -> None:
        """Add what was leased, or take off what was given back."""
        self.left += grant.amount
        if grant.amount <= 0:
            return
        self.low, self._wait = LOW * self.left, max(0.0, grant.wait)
        self._until = now + max(0.0, grant.wait) + max(0.0, self.left) / self.rate + GRACE


class Leases:
    """The parts of the limits of a model that a process has leased."""

    def __init__(self, requests: float, tokens: float) -> None:
        self.requests = Account(requests) if requests else None
        self.tokens = Account(tokens) if tokens else None
        self.again = -math.inf
        self._known = False
        self._asked = -math.inf

    def take(self, tokens: float) -> bool:
        """Take what a call needs; False if there is too little."""
        requests, counted = self.requests, self.tokens
        if not self._known or (requests and requests.left < 1.0 - _TINY):
            return False
        if counted and counted.left < tokens - _TINY:
            return False
        if requests:
            requests.take(1.0)
        if counted:
            counted.take(tokens)
        return True

    def wants(self, now: float) -> bool:
        """True if it is time to ask, before a call finds too little."""
        accounts = filter(None, (self.requests, self.tokens))
        is_low = now >= self.again and any(each.left < each.low for each in accounts)
        return is_low or now >= self._asked + BEAT

    def ask(self, now: float, *, pause: float, waiting: int = 0, first: float = 0.0) -> Ask:
        """Return what to ask for."""
        seconds, self._asked = now - self._asked, now
        requests, tokens = self.requests, self.tokens
        return Ask(
            max(0.0, pause),
            requests.want(now, seconds, waiting, float(waiting > 0)) if requests else None,
            tokens.want(now, seconds, waiting * first, first) if tokens else None,
        )

    def give_back(self, now: float) -> Ask | None:
        """Return how to give everything back; None if there is nothing."""
        if not any(each and each.left > 0 for each in (self.requests, self.tokens)):
            return None
        self._asked = now
        requests, tokens = self.requests, self.tokens
        rest = (each.rest() if each else None for each in (requests, tokens))
        return Ask(0.0, *rest)

    def add(self, lease: Lease, now: float) -> None:
        """Add what was leased."""
        self._known = True
        short = False
        for account, grant in ((self.requests, lease.requests), (self.tokens, lease.tokens)):
            if account and grant:
                account.add(grant, now)
                short |= grant.wait > QUEUE
        self.again = now + BEAT if short else now
