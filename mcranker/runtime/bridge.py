"""An event loop in a thread, for callers that have none: everything here that starts a thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from mcranker.errors import ConfigError, MCRankerError
from mcranker.logs import safe_logger

P = ParamSpec("P")
T = TypeVar("T")
_UNTAKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_STOP_SECONDS = 5.0  # allowed to what is still under way when a bridge is closed

logger = safe_logger("mcranker")


def check_loop() -> None:
    """Refuse event loops other than asyncio's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "this is no event loop of asyncio; call the method for scripts in a thread, as in "
            "trio.to_thread.run_sync(ranker.rank, query, docs)"
        ) from None


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
    """Let Ctrl-C stop long work in the block, though an event loop runs."""
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
    """Run blocking work in a daemon thread and return its result."""
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
    """Runs coroutines for callers that have no event loop, or must not block theirs."""

    def __init__(self, clean_up: Callable[[], Awaitable[None]]) -> None:
        self.clean_up = clean_up
        self._lock = threading.Lock()
        self._loop: _Loop | None = None

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return self._running().call(function)
            except _Ended:  # at this very moment; a new one takes its place
                continue

    def leave(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run ``await function()`` for cleanup, unless the loop has ended and done so."""
        with self._lock:
            loop = self._loop
        if loop is not None:
            with contextlib.suppress(_Ended, MCRankerError, RuntimeError):
                loop.call(function)

    def end(self) -> None:
        """Cancel what is under way, clean up, and end the thread. A later call starts another."""
        loop = self._running()
        self.close()
        if loop.error is not None:
            raise loop.error

    def close(self, *, wait: bool = True) -> None:
        """Clean up and end the thread, if there is one. A later call starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop(wait=wait)

    def _running(self) -> _Loop:
        with self._lock:
            if self._loop is None or self._loop.ends:
                self._loop = _Loop(self.clean_up)
                weakref.finalize(self, self._loop.stop)  # at the end of the process as well
            return self._loop


class _Ended(Exception):
    """The loop takes no more calls."""


class _Loop:
    """An event loop in a daemon thread of its own."""

    def __init__(self, clean_up: Callable[[], Awaitable[None]]) -> None:
        self.ends = False
        self.error: Exception | None = None
        self._clean_up = clean_up
        self._process = os.getpid()
        self._lock = threading.RLock()
        ready: Future[BlockingPortal] = Future()
        # A daemon, because the interpreter would wait for another thread before it says so.
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="mcranker", daemon=True
        )
        self._thread.start()
        self._portal = ready.result()

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``await function()``, see `Bridge.call`."""
        if self._process != os.getpid():
            raise MCRankerError(
                "this ranker was used before the process was forked; make it in the child process"
            )
        caller, ended = threading.current_thread(), threading.Event()

        async def run() -> T:
            try:
                return await function()
            finally:
                ended.set()

        with self._lock:
            if self.ends:
                raise _Ended
            future = self._portal.start_task_soon(run)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if caller.daemon and not threading.main_thread().is_alive():
                threading.Event().wait()  # the process ends, and the thread has nothing to do
            raise MCRankerError(
                "the ranker was closed while it was at work; close it when that is done"
            ) from None
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait(_STOP_SECONDS)
            raise

    def stop(self, *, wait: bool = True) -> None:
        """Cancel what is under way, clean up, and end the thread."""
        if self._process != os.getpid() or not self._thread.is_alive():
            return
        with self._lock:
            self.ends = True
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._native.call_soon_threadsafe(self._stopped.set)
        if wait and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)

    def _run(self, ready: Future[BlockingPortal]) -> None:
        try:
            anyio.run(self._serve, ready)
        except Exception as error:  # noqa: BLE001 - of a thread that no caller waits for
            if not ready.done():
                ready.set_exception(error)
                return
            self.error = error
            # When the process ends, there may be no threads for it any more, and no harm.
            level = logging.WARNING if threading.main_thread().is_alive() else logging.INFO
            logger.log(level, "a ranker could not be closed in an orderly way: %s", error)
        finally:
            self.ends = True

    async def _serve(self, ready: Future[BlockingPortal]) -> None:
        self._native = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        async with BlockingPortal() as portal:
            ready.set_result(portal)
            await self._stopped.wait()
            await portal.stop(cancel_remaining=True)
        await self._clean_up()
