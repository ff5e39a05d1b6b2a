"""The Ranker interface: every ranker is used in the same way."""

from __future__ import annotations

import contextlib
import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from mcranker.config import RankerConfig
from mcranker.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ConfigError,
    LedgerError,
    MCRankerError,
    ModelFileError,
    ModelNotFound,
    ReplyError,
    UnsupportedCapability,
)
from mcranker.estimate import Estimate, Forecast
from mcranker.events import Emit, Event, RankingDone
from mcranker.inputs import Docs, as_passages, as_query
from mcranker.logs import safe_logger
from mcranker.models import Models
from mcranker.ranking import Ranking
from mcranker.runtime.bridge import Bridge, Stream, task_group
from mcranker.types import Passage, Query

__all__ = ["HOPELESS", "RankedQuery", "Ranker", "Work"]

logger = safe_logger("mcranker")

Work: TypeAlias = Iterable[tuple[str | Query, Docs]] | AsyncIterable[tuple[str | Query, Docs]]
"""Queries with their passages, one after the other; read only as fast as they are ranked."""

HOPELESS = (
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


class Ranker(ABC):
    """Ranks passages for a query. Subclasses say how, in `_rank`.

    Usable as ``with`` and ``async with``; closing releases connections and threads. A
    ranker may be used from several threads and event loops.
    """

    name: ClassVar[str]
    """How the ranker is called in runs, reports and on the command line."""

    def __init__(self, config: RankerConfig, models: Models) -> None:
        self.config = config
        self.models = models
        self._bridge = Bridge(models.aclose)

    @property
    def prompt_hashes(self) -> Mapping[str, str]:
        """Prompt -> SHA-256 of its text; empty for a ranker without prompts."""
        return {}

    @abstractmethod
    async def _rank(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        """Rank at least one passage; `emit` takes events if anybody wants them."""

    def rank(self, query: str | Query, docs: Docs) -> Ranking:
        """Rank `docs` for `query`, and wait for the result.

        Works in a plain script, in a thread, and where an event loop is running already,
        such as a notebook; that loop stands still meanwhile (use `arank` there instead).

        Args:
            query: the text, or a `Query` with an id.
            docs: passages in first-stage order: texts, records with ``_id``, ``title`` and
                ``text``, `Passage` objects, or a mapping id -> text.

        Returns:
            All passages, each once, best first. An empty ranking for no passages.

        Raises:
            InputError: query or docs cannot be ranked as given; raised before any call.
            ModelError: the model, or the way to it, failed.
            MissingScoreError: a score is missing and ``missing="fail"``.
            BudgetExceeded: more calls would go beyond ``max_calls`` or ``max_cost``.
        """
        return self._bridge.call(lambda: self.arank(query, docs))

    async def arank(self, query: str | Query, docs: Docs) -> Ranking:
        """`rank` for callers with an event loop."""
        return await self._checked_rank(as_query(query), as_passages(docs), None)

    def astream(self, query: str | Query, docs: Docs) -> Stream[Event]:
        """The events of ranking one query, the last of which is `RankingDone`.

        An async iterator; leaving it cancels the work. Errors are those of `rank`.
        """
        checked, passages = as_query(query), as_passages(docs)

        async def produce(send: Callable[[Event], Awaitable[None]]) -> None:
            ranking = await self._checked_rank(checked, passages, send)
            await send(RankingDone(checked.id, ranking))

        return Stream(produce)

    def rank_many(self, work: Iterable[tuple[str | Query, Docs]]) -> Iterator[RankedQuery]:
        """Rank many queries; results come as they finish.

        ``config.query_concurrency`` queries are in progress at once, and `work` is read no
        faster than that. Unless it is set, they are no more than the prompt prefixes that the
        scoring model keeps, since queries that take turns would drive out each other's: one
        with the local engine. A query that fails is reported in its place; the others go on.
        """
        stream = self.arank_many(work)
        loop = self._bridge.loop()
        end = object()

        async def following() -> RankedQuery | object:
            return await anext(stream, end)

        try:
            while isinstance(item := loop.call(following), RankedQuery):
                yield item
        finally:
            loop.leave(stream.aclose)

    def arank_many(self, work: Work, *, emit: Emit | None = None) -> Stream[RankedQuery]:
        """`rank_many` as an async iterator; leaving it cancels what is in progress.

        Args:
            work: queries with their passages.
            emit: takes the events of all queries as they happen, without `RankingDone`.
        """

        async def produce(send: Callable[[RankedQuery], Awaitable[None]]) -> None:
            jobs, queue = anyio.create_memory_object_stream[tuple[int, str | Query, Docs]](0)

            async def serve(
                mailbox: MemoryObjectReceiveStream[tuple[int, str | Query, Docs]],
            ) -> None:
                async with mailbox:
                    async for place, query, docs in mailbox:
                        await send(await self._reported(place, query, docs, emit))

            async with task_group() as group, jobs:
                with queue:
                    for _ in range(self._queries_at_once()):
                        group.start_soon(serve, queue.clone())
                place = 0
                async for query, docs in _each(work):
                    try:
                        await jobs.send((place, query, docs))
                    except anyio.BrokenResourceError:
                        break  # whoever took the jobs has failed; that error is the one to tell
                    place += 1

        return Stream(produce)

    def estimate(self, query: str | Query, docs: Docs) -> Estimate:
        """What `rank` would take: calls, tokens and US dollars. Nothing is sent or kept.

        Raises:
            InputError: query or docs cannot be ranked as given.
            LedgerError: the ledger cannot be read.
        """
        return self.estimate_many([(query, docs)])

    async def aestimate(self, query: str | Query, docs: Docs) -> Estimate:
        """`estimate` for callers with an event loop."""
        return await self.aestimate_many([(query, docs)])

    def estimate_many(
        self, work: Iterable[tuple[str | Query, Docs]], *, counted: set[bytes] | None = None
    ) -> Estimate:
        """What `rank_many` would take for all of `work`, which is read to its end.

        Args:
            work: queries with their passages.
            counted: what estimates of other rankers with the same ledger have counted, and so
                is not counted again; what this one counts is added. One set for all of them.

        Raises:
            InputError: a query or its docs cannot be ranked as given.
            LedgerError: the ledger cannot be read.
        """
        return self._bridge.call(lambda: self.aestimate_many(work, counted=counted))

    async def aestimate_many(self, work: Work, *, counted: set[bytes] | None = None) -> Estimate:
        """`estimate_many` for callers with an event loop."""
        forecast = Forecast(self.config, counted)
        double = self._double(forecast.models(self.models))
        async for query, docs in _each(work):
            checked, passages = as_query(query), as_passages(docs)
            if passages:
                # A query whose recruiter's unusable answers are in the ledger ends early.
                with contextlib.suppress(ReplyError):
                    await double._rank(checked, passages, None)  # noqa: SLF001 - of this class
                forecast.end_query(passages)
        return forecast.estimate()

    def _double(self, models: Models) -> Self:
        """This ranker with other models; it makes every call, and leaves nothing behind here."""
        double = copy.copy(self)
        double.models = models
        double.config = self.config.model_copy(update={"top_k": None, "missing": "lowest"})
        return double

    def _queries_at_once(self) -> int:
        wanted = self.config.queries_at_once
        slots = self.models.scoring.capabilities.prefix_slots
        if slots is None or "query_concurrency" in self.config.model_fields_set:
            return wanted
        return min(slots, wanted)

    async def _reported(
        self, place: int, query: str | Query, docs: Docs, emit: Emit | None
    ) -> RankedQuery:
        known = (
            query if isinstance(query, Query) else Query(query if isinstance(query, str) else "")
        )
        try:
            ranking = await self._checked_rank(as_query(query), as_passages(docs), emit)
            return RankedQuery(place, known, ranking=ranking)
        except MCRankerError as error:
            # Once the budget is spent, this is so for all that follow.
            level = logging.INFO if isinstance(error, BudgetExceeded) else logging.WARNING
            logger.log(level, "query %r was not ranked: %s", known.id or known.text[:80], error)
            return RankedQuery(place, known, error=error)

    async def _checked_rank(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        if not passages:
            return self._empty(query)
        ranking = await self._rank(query, passages, emit)
        missing = ranking.missing
        if missing:
            logger.warning(
                "%d of %d scores are missing; the first: %s of passage %r: %s",
                len(missing),
                ranking.matrix.values.size,
                missing[0].persona,
                missing[0].doc_id,
                missing[0].reason,
            )
        return ranking

    def _empty(self, query: Query) -> Ranking:
        import numpy as np

        from mcranker.types import ScoreMatrix, UsageTable

        return Ranking(
            query=query,
            passages=(),
            order=np.empty(0, dtype=np.intp),
            final=np.empty(0),
            matrix=ScoreMatrix.empty(0, 0),
            personas=(),
            team=None,
            ranker=self.name,
            config=self.config.model_dump(mode="json"),
            models={},
            prompt_hashes={},
            calls=UsageTable(),
            seconds={"total": 0.0},
        )

    def close(self) -> None:
        """Release connections, processes and threads."""
        self._bridge.call(self.models.aclose)
        self._bridge.close()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        await self.models.aclose()
        self._bridge.close(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


async def _each(work: Work) -> AsyncIterator[tuple[str | Query, Docs]]:
    if isinstance(work, AsyncIterable):
        async for entry in work:
            yield entry
    else:
        for entry in work:
            yield entry
