"""Many pieces of work at once: each is done, or its error is reported in its place."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from mcranker.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ConfigError,
    InputError,
    LedgerError,
    MCRankerError,
    ModelFileError,
    ModelNotFound,
    UnsupportedCapability,
)
from mcranker.inputs.passages import Docs
from mcranker.logs import safe_logger
from mcranker.ranking import Ranking
from mcranker.runtime.bridge import Stream, task_group
from personas.errors import shown
from personas.ranking.types import Query

T = TypeVar("T")
R = TypeVar("R")

logger = safe_logger("mcranker")

Work: TypeAlias = Iterable[tuple[str | Query, Docs]] | AsyncIterable[tuple[str | Query, Docs]]
"""Queries with their passages; read only as fast as they are ranked."""

FATAL_ERRORS = (
    AuthenticationFailed,
    ConfigError,
    LedgerError,
    ModelFileError,
    ModelNotFound,
    UnsupportedCapability,
)
"""Errors that, when they fail one query, fail all of them."""


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """One query of many: its ranking, or the error that stopped it.

    Attributes:
        place: place of the query among those given, from 0.
        query: the query; its text is empty if it could not be read.
        ranking: the ranking, or None.
        error: what went wrong, or None.
    """

    place: int
    query: Query
    ranking: Ranking | None = None
    error: MCRankerError | None = None

    def result(self) -> Ranking:
        """The ranking; raises the error if there is none."""
        if self.ranking is None:
            raise self.error or MCRankerError("the query was not ranked")
        return self.ranking


def dispatch(
    work: Iterable[T] | AsyncIterable[T], do: Callable[[int, T], Awaitable[R]], at_once: int
) -> Stream[R]:
    """Do the work, `at_once` pieces at a time, and give each result as it comes."""

    async def produce(send: Callable[[R], Awaitable[None]]) -> None:
        jobs, queue = anyio.create_memory_object_stream[tuple[int, T]](0)

        async def serve(mailbox: MemoryObjectReceiveStream[tuple[int, T]]) -> None:
            async with mailbox:
                async for place, piece in mailbox:
                    await send(await do(place, piece))
                    await anyio.lowlevel.checkpoint()  # the reader may want no other

        async with task_group() as group, jobs:
            with queue:
                for _ in range(at_once):
                    group.start_soon(serve, queue.clone())
            place = 0
            async for piece in each_of(work):
                try:
                    await jobs.send((place, piece))
                except anyio.BrokenResourceError:
                    break  # the workers have failed; their error is raised instead
                place += 1

    return Stream(produce)


async def each_of(work: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """The pieces of work, wherever they come from."""
    if isinstance(work, str | Mapping):
        raise InputError(f"the queries are a {type(work).__name__}; give them as a list")
    if isinstance(work, AsyncIterable):
        async for entry in work:
            yield entry
    else:
        for entry in work:
            yield entry


def pair_of(piece: tuple[str | Query, Docs]) -> tuple[str | Query, Docs]:
    """A piece of `Work`, checked."""
    if isinstance(piece, tuple | list) and len(piece) == 2:
        return piece[0], piece[1]
    raise InputError(f"there is {shown(piece)}; give pairs of a query and its passages")


def named(query: str | Query) -> Query:
    """A query to be named in a report, whatever was given; its text is empty if that is none."""
    return query if isinstance(query, Query) else Query(query if isinstance(query, str) else "")


def note_failure(query: Query, error: MCRankerError, what: str) -> None:
    """Log that a query of many failed, as "was not ranked"."""
    # Once the budget is spent, this is so for all that follow.
    level = logging.INFO if isinstance(error, BudgetExceeded) else logging.WARNING
    logger.log(level, "query %r %s: %s", query.id or query.text[:80], what, error)
