"""Between a caller and the event loop: sync calls, and streams that may be left half way.

Everything that starts a thread or a background task of its own stands here.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import anyio
from anyio.from_thread import BlockingPortal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

__all__ = ["Bridge", "Stream", "task_group"]

T = TypeVar("T")
_STREAM_BUFFER = 64  # items
_STOP_SECONDS = 5.0  # allowed to what is still under way when a bridge is closed


@contextlib.asynccontextmanager
async def task_group() -> AsyncIterator[anyio.abc.TaskGroup]:
    """A task group that raises one error, the first that says what happened, not a group."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as errors:
        leaf = _leaf(errors)
        raise leaf from leaf.__cause__


def _leaf(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = next(
        (error for error in errors.exceptions if not isinstance(error, Exception)),
        errors.exceptions[0],
    )
    return _leaf(first) if isinstance(first, BaseExceptionGroup) else first


class Bridge:
    """Runs coroutines for callers that have no event loop, or must not block theirs.

    One daemon thread with one event loop, started at the first call and kept, so that
    connections outlive a call. A call that is interrupted (Ctrl-C) is cancelled in the loop
    and waited for before the interrupt goes on.

    Args:
        clean_up: awaited in that loop before it ends: when the bridge is closed or
            forgotten, or at the end of the process.
    """

    def __init__(self, clean_up: Callable[[], Awaitable[None]]) -> None:
        self._clean_up = clean_up
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[..., Bridge] | None = None
        self._portal: BlockingPortal | None = None

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """The result of ``await function()``."""
        ended = threading.Event()

        async def run() -> T:
            try:
                return await function()
            finally:
                ended.set()

        future = self._running_portal().start_task_soon(run)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait(_STOP_SECONDS)
            raise

    def close(self, *, wait: bool = True) -> None:
        """Clean up and end the thread, if there is one. A later call starts another."""
        with self._lock:
            finalizer, self._finalizer, self._portal = self._finalizer, None, None
        stopping = finalizer.detach() if finalizer is not None else None
        if stopping is not None:
            _, _, (portal, thread), _ = stopping
            _stop(portal, thread, wait=wait)

    def _running_portal(self) -> BlockingPortal:
        with self._lock:
            if self._portal is None:
                self._portal, thread = _start_portal(self._clean_up)
                self._finalizer = weakref.finalize(self, _stop, self._portal, thread)
            return self._portal


_running: set[tuple[BlockingPortal, threading.Thread]] = set()
_running_lock = threading.Lock()


def _start_portal(
    clean_up: Callable[[], Awaitable[None]],
) -> tuple[BlockingPortal, threading.Thread]:
    ready: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            ready.set_result(portal)
            await portal.sleep_until_stopped()
        await clean_up()

    # A daemon, because the interpreter would wait for another thread before it says so.
    thread = threading.Thread(target=anyio.run, args=(serve,), name="mcranker", daemon=True)
    thread.start()
    portal = ready.result()
    with _running_lock:
        if not _running:
            threading.Thread(target=_watch, name="mcranker watch", daemon=True).start()
        _running.add((portal, thread))
    return portal, thread


def _watch() -> None:
    """Stop what is running when the main thread ends.

    The loop may have worker threads, and the interpreter waits for those before anything
    that is registered with `atexit` runs.
    """
    threading.main_thread().join()
    for portal, thread in list(_running):
        _stop(portal, thread)


def _stop(portal: BlockingPortal, thread: threading.Thread, *, wait: bool = True) -> None:
    with _running_lock:
        _running.discard((portal, thread))
    with contextlib.suppress(RuntimeError):
        portal.start_task_soon(portal.stop, True)
        if wait and thread is not threading.current_thread():
            thread.join(_STOP_SECONDS)


class Stream(Generic[T]):
    """An async iterator over what a producer sends, which may be left at any time.

    The producer runs in a task of its own, because an async generator that holds a task
    group must not be finalised by another task. Leaving the iteration by `aclose`, by
    ``async with``, or by forgetting the object cancels the producer; an error of the
    producer is raised where the next item would have come.
    """

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
            self._task.exception()  # nobody reads on, so nobody is told


async def _run(
    produce: Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]],
    send: MemoryObjectSendStream[T],
) -> None:
    async with send:
        await produce(send.send)


def _abandon(
    task: asyncio.Task[None],
    receive: MemoryObjectReceiveStream[T],
    loop: asyncio.AbstractEventLoop,
) -> None:
    receive.close()
    if not task.done() and not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)
