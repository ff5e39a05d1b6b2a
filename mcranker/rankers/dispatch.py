"""Many queries at once: each is ranked, or its error is reported in its place."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from mcranker.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ConfigError,
    LedgerError,
    MCRankerError,
    ModelFileError,
    ModelNotFound,
    UnsupportedCapability,
)
from mcranker.inputs import Docs
from mcranker.logs import safe_logger
from mcranker.ranking import Ranking
from mcranker.runtime.bridge import Stream, task_group
from personas.ranking.types import Query

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
    work: Work, rank: Callable[[str | Query, Docs], Awaitable[Ranking]], at_once: int
) -> Stream[RankedQuery]:
    """Rank the queries, `at_once` at a time, and give each as it is done.

    Leaving the stream cancels the others.
    """

    async def produce(send: Callable[[RankedQuery], Awaitable[None]]) -> None:
        jobs, queue = anyio.create_memory_object_stream[tuple[int, str | Query, Docs]](0)

        async def serve(mailbox: MemoryObjectReceiveStream[tuple[int, str | Query, Docs]]) -> None:
            async with mailbox:
                async for place, query, docs in mailbox:
                    await send(await _reported(place, query, rank(query, docs)))
                    await anyio.lowlevel.checkpoint()  # the reader may want no other

        async with task_group() as group, jobs:
            with queue:
                for _ in range(at_once):
                    group.start_soon(serve, queue.clone())
            place = 0
            async for query, docs in each_of(work):
                try:
                    await jobs.send((place, query, docs))
                except anyio.BrokenResourceError:
                    break  # the workers have failed; their error is raised instead
                place += 1

    return Stream(produce)


async def each_of(work: Work) -> AsyncIterator[tuple[str | Query, Docs]]:
    """The queries with their passages, wherever they come from."""
    if isinstance(work, AsyncIterable):
        async for entry in work:
            yield entry
    else:
        for entry in work:
            yield entry


async def _reported(place: int, query: str | Query, ranking: Awaitable[Ranking]) -> RankedQuery:
    known = query if isinstance(query, Query) else Query(query if isinstance(query, str) else "")
    try:
        return RankedQuery(place, known, ranking=await ranking)
    except MCRankerError as error:
        # Once the budget is spent, this is so for all that follow.
        level = logging.INFO if isinstance(error, BudgetExceeded) else logging.WARNING
        logger.log(level, "query %r was not ranked: %s", known.id or known.text[:80], error)
        return RankedQuery(place, known, error=error)
