"""Between a caller and the event loop: sync calls, and streams that may be left half way.

Everything that starts a thread or a background task of its own stands here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import signal
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, ParamSpec, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcranker.errors import MCRankerError
from mcranker.logs import safe_logger
from mcranker.runtime.forks import abandon, renew_in_child

P = ParamSpec("P")
T = TypeVar("T")
_STREAM_BUFFER = 64  # items
_UNTAKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_STOP_SECONDS = 5.0  # allowed to what is still under way when a bridge is closed

logger = safe_logger("mcranker")


@contextlib.asynccontextmanager
async def task_group() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Open a task group that raises its first informative error, not a group."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as errors:
        leaf = _leaf(errors)
        raise leaf from leaf.__cause__


def _leaf(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    leaves = [
        _leaf(error) if isinstance(error, BaseExceptionGroup) else error
        for error in errors.exceptions
    ]
    # An interrupt goes first; a message that was not taken is only what another error led to.
    return min(leaves, key=lambda e: 2 * isinstance(e, _UNTAKEN) + isinstance(e, Exception))


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C stop long work in the block, though an event loop runs.

    A loop would take note of it, and do nothing before the next ``await``.
    """
    noted_by = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(noted_by):
        yield
        return
    # The command line's handler has another way for this; it tells the first signal from others.
    signal.signal(signal.SIGINT, getattr(noted_by, "at_once", signal.default_int_handler))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, noted_by)


async def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a daemon thread and return its result.

    Neither a cancellation nor the end of the process waits for it, as they do with
    `anyio.to_thread`: for reads and writes that may never end.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # no cancellation reaches it from here on

    def work() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            future.set_exception(error)

    threading.Thread(target=work, name="mcranker apart", daemon=True).start()
    return await asyncio.wrap_future(future)


class Bridge:
    """Runs coroutines for callers that have no event loop, or must not block theirs.

    One `Loop`, started at the first call and kept, so that connections outlive a call. It ends
    when the bridge is closed or forgotten, or at the end of the process. A forked process
    starts one of its own.

    Args:
        clean_up: awaited in that loop before it ends.
    """

    def __init__(self, clean_up: Callable[[], Awaitable[None]]) -> None:
        self._clean_up = clean_up
        self._lock = threading.Lock()
        self._loop: Loop | None = None
        self._finalizer: weakref.finalize[..., Bridge] | None = None
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        if self._finalizer is not None:
            self._finalizer.detach()
        self._loop = self._finalizer = None

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``await function()``, see `Loop.call`."""
        while True:
            try:
                return self.loop().call(function)
            except _Ended:  # at this very moment; a new one takes its place
                continue

    def loop(self) -> Loop:
        """The running loop; started if needed."""
        with self._lock:
            if self._loop is None or self._loop.ends:
                if self._finalizer is not None:
                    self._finalizer.detach()
                self._loop = Loop(self._clean_up)
                self._finalizer = weakref.finalize(self, self._loop.stop)
            return self._loop

    def end(self) -> None:
        """Cancel what is under way, clean up, and end the thread. A later call starts another.

        Raises:
            Exception: whatever cleaning up raises.
        """
        self.call(self._finish)
        self.close()

    async def _finish(self) -> None:
        # First of all: what works on while connections are closed fails for their sake.
        if self._loop is not None:
            await self._loop.cancel_others()
        await self._clean_up()

    def close(self, *, wait: bool = True) -> None:
        """Clean up and end the thread, if there is one. A later call starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if self._finalizer is not None:
                self._finalizer.detach()
                self._finalizer = None
        if loop is not None:
            loop.stop(wait=wait)


class _Ended(Exception):
    """The loop takes no more calls."""


class Loop:
    """An event loop in a daemon thread of its own.

    When the main thread has ended, it ends as soon as those have that the interpreter waits
    for, which may still rank.

    Args:
        clean_up: awaited in the loop before it ends.
    """

    def __init__(self, clean_up: Callable[[], Awaitable[None]]) -> None:
        self.ends = False
        self._clean_up = clean_up
        self._futures: set[Future[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        ready: Future[None] = Future()
        # A daemon, because the interpreter would wait for another thread before it says so.
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="mcranker", daemon=True
        )
        self._thread.start()
        ready.result()
        _process.watch(self)

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``await function()``.

        A call that is interrupted (Ctrl-C) is cancelled in the loop and waited for before the
        interrupt goes on.

        Raises:
            MCRankerError: the loop was stopped before there was a result.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a call from the ranker's own event loop would wait for itself")
        call = _Call(function)
        try:
            self._begin(call)
            return call.future.result()
        except _Ended:
            raise
        except concurrent.futures.CancelledError:
            _process.stay_if_it_ends()
            raise MCRankerError(
                "the ranker was closed while it was at work; close it when that is done"
            ) from None
        except BaseException:
            if not call.future.done():
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(call.cancel)
                concurrent.futures.wait([call.future], _STOP_SECONDS)
            raise

    def leave(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run ``await function()`` for cleanup, unless the loop has ended and done so."""
        with contextlib.suppress(_Ended, MCRankerError):
            if threading.current_thread() is not self._thread:
                self.call(function)
            else:  # from the finalizer of something without any reference left
                self._begin(_Call(function))

    async def cancel_others(self) -> None:
        """Cancel all calls but the one this is part of, and wait for them."""
        while tasks := self._tasks - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def stop(self, *, wait: bool = True) -> None:
        """Cancel what is under way, clean up, and end the thread."""
        _process.forget(self)
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stopped.set)
        if wait and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)

    def _begin(self, call: _Call[Any]) -> None:
        with _process.lock:
            if self.ends:
                raise _Ended
            _process.note_caller()
            self._futures.add(call.future)
        call.future.add_done_callback(self._futures.discard)
        self._loop.call_soon_threadsafe(self._start, call)

    def _start(self, call: _Call[Any]) -> None:
        call.task = task = self._loop.create_task(call.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _run(self, ready: Future[None]) -> None:
        try:
            anyio.run(self._serve, ready)
        except Exception as error:  # noqa: BLE001 - of a thread that no caller waits for
            if not ready.done():
                ready.set_exception(error)
            else:
                # When the process ends, there may be no threads for it any more, and no harm.
                level = logging.WARNING if threading.main_thread().is_alive() else logging.INFO
                logger.log(level, "a ranker could not be closed in an orderly way: %s", error)
        finally:
            _process.forget(self)
            for future in list(self._futures):
                future.cancel()

    async def _serve(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        ready.set_result(None)
        await self._stopped.wait()
        await self.cancel_others()
        await self._clean_up()


class _Call(Generic[T]):
    """A coroutine in a loop; `future` receives its result."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self.future: Future[T] = Future()
        self.task: asyncio.Task[None] | None = None
        self._function = function

    async def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = await self._function()
        except asyncio.CancelledError:
            self.future.set_exception(concurrent.futures.CancelledError())
            raise
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def cancel(self) -> None:
        """Cancel the call, or do not start it; called in the loop."""
        if not self.future.cancel() and self.task is not None:
            self.task.cancel()


class _Process:
    """The loops of this process, and the threads that may still need them."""

    def __init__(self) -> None:
        # A finaliser may run in the middle of anything, and takes it once more.
        self.lock = threading.RLock()
        self._loops: set[Loop] = set()
        self._callers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._watched = False
        renew_in_child(self)

    def after_fork(self) -> None:
        for loop in self._loops:
            loop.ends = True
            abandon(loop)
        self.lock = threading.RLock()
        self._loops, self._callers, self._watched = set(), weakref.WeakSet(), False

    def watch(self, loop: Loop) -> None:
        """Stop a loop when the process ends, or before."""
        with self.lock:
            self._loops.add(loop)
            if not self._watched:
                threading.Thread(target=self._watch, name="mcranker watch", daemon=True).start()
            self._watched = True

    def forget(self, loop: Loop) -> None:
        """Remove a loop that takes no more calls."""
        with self.lock:
            loop.ends = True
            self._loops.discard(loop)

    def note_caller(self) -> None:
        """Keep the loops alive as long as the calling thread; the lock must be held."""
        caller = threading.current_thread()
        if not caller.daemon and caller is not threading.main_thread():
            self._callers.add(caller)

    def stay_if_it_ends(self) -> None:
        """Block a daemon thread of an ending process for ever: it has nothing more to do."""
        caller = threading.current_thread()
        if caller.daemon and not threading.main_thread().is_alive():
            threading.Event().wait()

    def _watch(self) -> None:
        """Stop unused loops; `atexit` is too late, as the interpreter first waits for threads."""
        threading.main_thread().join()
        while True:
            with self.lock:
                callers = [each for each in self._callers if each.is_alive()]
                if not callers:
                    loops, self._loops, self._watched = self._loops, set(), False
                    for loop in loops:
                        loop.ends = True
                    break
            for caller in callers:
                caller.join()
        for loop in loops:
            loop.stop()


_process = _Process()


class Stream(Generic[T]):
    """An async iterator over a producer's items, which may be left at any time.

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
            self._task.exception()  # there is no reader left


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
    def stop() -> None:
        # Closed only then: until it is cancelled, the producer may send.
        task.add_done_callback(lambda _: receive.close())
        task.cancel()

    if task.done() or loop.is_closed():
        receive.close()
    else:
        loop.call_soon_threadsafe(stop)
