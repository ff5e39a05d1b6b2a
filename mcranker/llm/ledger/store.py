"""A store of answers: the interface of a ledger's file or database."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mcranker.errors import ConfigError
from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger.rows import Damaged, Row, reply_of
from mcranker.llm.prices import cost
from personas.ranking.usage import Usage

LEASE = 15.0
"""Seconds after which a claim that is not renewed counts as abandoned."""

MOST_KEYS = 1000
"""Largest number of keys or answers in one call of a store."""


class NewAnswer(NamedTuple):
    """An answer to keep: the key of the request, the model as the user names it, and the stage."""

    key: bytes
    reply: ChatReply
    model: str
    stage: str
    created: int | None = None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer of a store; `reply` is None if it is damaged."""

    key: bytes
    model: str
    stage: str
    created: datetime.datetime
    unusable: bool
    reply: ChatReply | None


@dataclass(frozen=True, slots=True)
class Share:
    """The answers of one model in one stage."""

    model: str
    stage: str
    answers: int
    unusable: int
    usage: Usage
    oldest: datetime.datetime
    newest: datetime.datetime

    @property
    def cost(self) -> float | None:
        """US dollars at today's prices, None where no price is known."""
        return cost(self.model, self.usage)


def kept_of(row: Row) -> KeptAnswer:
    """Read a row with its number before and its mark after it."""
    _, *values, unusable = row
    key, model, stage, created = values[:4]
    reply: ChatReply | None = None
    try:
        reply, date = reply_of(tuple(values)), _date(created)
    except (Damaged, OverflowError, TypeError, ValueError):
        reply, date = None, _date(0)
    return KeptAnswer(key, text_of(model), text_of(stage), date, bool(unusable), reply)


def share_of(row: Row) -> Share:
    """Read a row of sums."""
    model, stage, answers, unusable, *counts, oldest, newest = row
    dates = _date(oldest), _date(newest)
    return Share(text_of(model), text_of(stage), answers, unusable, Usage(*counts), *dates)


def problem_of(answer: KeptAnswer) -> list[str]:
    """Return a line if an answer is damaged."""
    if answer.reply is not None:
        return []
    key = answer.key.hex() if isinstance(answer.key, bytes) else answer.key
    return [f"the answer for the key {key} is damaged"]


def summed(read: int, damaged: list[str], faults: Sequence[str] = ()) -> list[str]:
    """Return all faults, after a line that counts the answers."""
    if not damaged and not faults:
        return []
    count = f"{read - len(damaged):,} answers are whole, {len(damaged):,} are not"
    return [count, *faults, *damaged]


def text_of(value: object) -> str:
    """Return a text of a row."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _date(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter of answers: all fields that are set must match."""

    older_than: float | None = None
    model: str | None = None
    stage: str | None = None
    unusable: bool = False

    def __post_init__(self) -> None:
        if self.older_than is not None and not self.older_than >= 0:
            raise ConfigError(f"older_than={self.older_than!r}: give 0 days or more")


class LedgerStore(Protocol):
    """Answers by the key of their request, with claims on those that are being asked for."""

    @property
    def lease(self) -> float: ...

    @property
    def name(self) -> str: ...

    async def get_many(self, keys: Collection[bytes]) -> dict[bytes, ChatReply]:
        """Return the answers that are kept, with `ChatReply.reused` set. Damaged ones are not."""

    def claim_many(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        """Claim keys for `LEASE` seconds; without keys, check that the store can be written."""

    def complete_many(self, answers: Sequence[NewAnswer]) -> Awaitable[set[bytes]]:
        """Keep answers and end the claims on them. They are durable when this is done."""

    def renew(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        """Extend this store's claims on `keys` by another `LEASE` seconds."""

    def release(self, keys: Collection[bytes]) -> Awaitable[set[bytes]]:
        """End this store's claims on `keys`."""

    def mark_unusable(self, key: bytes) -> Awaitable[set[bytes]]:
        """Note that the answer for `key` could not be read. It stays until it is pruned."""

    async def aclose(self) -> None:
        """Write what waits, and close. A later use opens the store again."""

    async def stats(self) -> list[Share]:
        """Return sums by model and stage."""

    async def size(self) -> int:
        """Return the bytes that it takes."""

    def iterate(self) -> AsyncIterator[KeptAnswer]:
        """Return all answers in the order in which they came."""

    async def prune(self, selection: Selection, *, dry_run: bool = False) -> int:
        """Remove answers and give their room back; return their number. `dry_run` only counts."""

    async def verify(self) -> tuple[int, list[str]]:
        """Return how many answers there are, and a line for each fault found."""
