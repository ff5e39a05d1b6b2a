"""Limits that several processes share: the part of each that one process has leased."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

CATCH_UP = 0.1  # seconds of lateness that are made up for; event loops are late by milliseconds
LEASE = 1.0  # seconds for which a process leases at most what it needs
AHEAD = 4.0  # seconds of a limit that are leased ahead, at most, by many processes
SHARES = 16.0  # of what is free of these seconds, of which a process gets one
QUEUE = 60.0  # seconds that are leased ahead where each process gets a single call
GRACE = 1.0  # seconds after which the next question gives back what was not used
BEAT = 1.0  # seconds between two questions of a process while it makes calls, at most
_LOW = 0.25  # of a lease; with less left the next one is asked for, and seconds of a need
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


Ask: TypeAlias = dict[str, Want]
"""Wishes by kind: ``"pause"`` in seconds, ``"requests"``, ``"tokens"``."""
Lease: TypeAlias = dict[str, Grant]
"""Answers by kind; the longest pause of a process goes on for the sum of ``"pause"``."""


class Account:
    """The part of one limit that a process has."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.left = self._low = self._used = 0.0  # used since the last question
        self._wait = 0.0  # seconds until the last lease began, for which the next one has to do too
        self._until = -math.inf  # end of the lease

    @property
    def is_low(self) -> bool:
        return self.left < self._low

    def take(self, amount: float) -> None:
        self.left -= amount
        self._used += amount

    def want(self, now: float, seconds: float, waiting: float, first: float) -> Want:
        """The need of those that wait and of as many calls as in these seconds."""
        lasts = LEASE + self._wait
        need = waiting + max(0.0, self._used) * lasts / max(seconds, _LOW)
        need = max(first, min(need, LEASE * self.rate))
        self._used = 0.0
        enough = self.left >= max(first, self._low) and now <= self._until
        return Want(self.rate, 0.0 if enough else need - self.left, max(0.0, first - self.left))

    def add(self, grant: Grant, now: float) -> None:
        self.left += grant.amount
        if grant.amount > 0:
            self._low, self._wait = _LOW * self.left, max(0.0, grant.wait)
            self._until = now + self._wait + max(0.0, self.left) / self.rate + GRACE


class Leases:
    """The parts of the limits of a model that a process has leased, by kind."""

    def __init__(self, rates: dict[str, float]) -> None:
        self._accounts = {kind: Account(rate) for kind, rate in rates.items()}
        self.again = -math.inf
        self._known = False
        self._asked = -math.inf

    def take(self, needs: dict[str, float]) -> bool:
        """Take what a call needs; False if there is too little."""
        accounts = self._accounts
        if not self._known or any(accounts[kind].left < needs[kind] - _TINY for kind in accounts):
            return False
        for kind, account in accounts.items():
            account.take(needs[kind])
        return True

    def correct(self, extra_tokens: float) -> None:
        """Take the tokens that a call took besides those reckoned."""
        if account := self._accounts.get("tokens"):
            account.take(extra_tokens)

    def wants(self, now: float) -> bool:
        """True if it is time to ask, before a call finds too little."""
        is_low = now >= self.again and any(each.is_low for each in self._accounts.values())
        return is_low or now >= self._asked + BEAT

    def ask(self, now: float, *, pause: float, waiting: int, first: dict[str, float]) -> Ask:
        """Amounts to ask for where that many calls wait, the first of which has these needs."""
        seconds, self._asked = now - self._asked, now
        ask = {"pause": Want(1.0, max(0.0, pause), 0.0)}
        for kind, account in self._accounts.items():
            need = first.get(kind, 0.0)
            ask[kind] = account.want(now, seconds, waiting * need, need)
        return ask

    def add(self, lease: Lease, now: float) -> None:
        self._known, self.again = True, now
        for kind, account in self._accounts.items():
            account.add(lease[kind], now)
            if lease[kind].wait > QUEUE:
                self.again = now + BEAT
