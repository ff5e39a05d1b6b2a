"""Frame of rankers and pipelines: calls of scripts and event loops, streams, many at once."""

from __future__ import annotations

import asyncio
import logging
import weakref
from abc import ABC
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any, Generic, Self, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcranker.errors import BudgetExceeded, InputError, MCRankerError
from mcranker.logs import safe_logger
from mcranker.runtime.bridge import Bridge, check_loop, task_group
from personas.ranking.types import Query

T = TypeVar("T")
R = TypeVar("R")
_STREAM_BUFFER = 64  # items

logger = safe_logger("mcranker")


class Service(ABC):
    """Base of what answers calls by models, from any thread and event loop, until it is closed."""

    _bridge: Bridge
    """Runs the calls of scripts; knows what to close, and not whose it is."""

    def _items(self, stream: Stream[T]) -> Iterator[T]:
        """The items of a stream, which is left when the iterator is."""
        end = object()

        async def following() -> Any:
            return await anext(stream, end)

        try:
            while (item := self._bridge.call(following)) is not end:
                yield item
        finally:
            self._bridge.leave(stream.aclose)

    def close(self) -> None:
        """Release connections, processes and threads."""
        self._bridge.end()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        await self._bridge.clean_up()
        self._bridge.close(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Stream(Generic[T]):
    """An async iterator over a producer's items, which may be left at any time."""

    def __init__(
        self, produce: Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]]
    ) -> None:
        self._produce = produce
        self._receive: MemoryObjectReceiveStream[T] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        if self._closed:
            raise StopAsyncIteration
        if self._task is None or self._receive is None:
            check_loop()
            send, self._receive = anyio.create_memory_object_stream[T](_STREAM_BUFFER)
            self._task = asyncio.create_task(_run(self._produce, send))
            weakref.finalize(self, _abandon, self._task, self._receive, asyncio.get_running_loop())
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            self._closed = True
            self._receive.close()
            await self._task
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Stream[T]:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the producer and wait until it has cleaned up."""
        self._closed = True
        if self._task is None or self._receive is None:
            return
        # First the producer: with the receiver closed, it would fail rather than be cancelled.
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        self._receive.close()
        if not self._task.cancelled():
            self._task.exception()  # there is no reader left


async def _run(
    produce: Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]],
    send: MemoryObjectSendStream[T],
) -> None:
    async with send:
        await produce(send.send)


def _abandon(
    task: asyncio.Task[None],
    receive: MemoryObjectReceiveStream[Any],
    loop: asyncio.AbstractEventLoop,
) -> None:
    def stop() -> None:
        # Closed only then: until it is cancelled, the producer may send.
        task.add_done_callback(lambda _: receive.close())
        task.cancel()

    if task.done() or loop.is_closed():
        receive.close()
    else:
        loop.call_soon_threadsafe(stop)


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


def named(query: object) -> Query:
    """A query to be named in a report, whatever was given; its text is empty if that is none."""
    return query if isinstance(query, Query) else Query(query if isinstance(query, str) else "")


def note_failure(query: Query, error: MCRankerError, what: str) -> None:
    """Log that a query of many failed, as "was not ranked"."""
    # Once the budget is spent, this is so for all that follow.
    level = logging.INFO if isinstance(error, BudgetExceeded) else logging.WARNING
    logger.log(level, "query %r %s: %s", query.id or query.text[:80], what, error)
