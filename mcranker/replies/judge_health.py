"""Giving up a judge that does not keep the form of a reply: one rule for all rankers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import anyio

from mcranker.errors import (
    ConnectionFailed,
    FormNotKept,
    ModelError,
    RateLimited,
    ReplyError,
    RequestRejected,
)

T = TypeVar("T")
Rows = tuple[int, ...]

FEWEST_CALLS, FEWEST_PASSAGES = 3, 10  # A judge is not given up for less
MOST_FOR_ONE = 10  # unreadable replies for each readable one, beyond which a judge is given up


class Form:
    """Count of the replies of one judge of a ranking that can and cannot be read."""

    def __init__(self) -> None:
        self._tried = False
        self._read = self._calls = self._passages = self._under_way = 0
        self._first: ReplyError | None = None
        self._ended = anyio.Event()
        self._in_parts = anyio.Lock()

    async def watch(self, call: Coroutine[Any, Any, T], passages: int, *, divisible: bool) -> T:
        """Return the result of one call. A refusal first waits for the calls under way to end."""
        if self._tried:
            try:
                await self._check()
            except BaseException:
                call.close()
                raise
        self._under_way += 1
        try:
            result = await call
        except ReplyError as error:
            self._first = self._first or error
            self._calls += 1
            self._passages += passages
            enough = self._calls >= FEWEST_CALLS and self._passages >= FEWEST_PASSAGES
            self._tried = self._tried or (enough and not divisible)
            raise
        else:
            self._read += 1
            return result
        finally:
            self._under_way -= 1
            if self._tried:
                self._ended.set()
                self._ended = anyio.Event()

    async def in_parts(
        self,
        rows: Rows,
        ask: Callable[[Rows], Awaitable[T]],
        take: Callable[[Rows, T | ModelError], Awaitable[None]],
    ) -> None:
        """Ask about several passages, and in halves again where that may help."""
        parts = [rows]
        async with AsyncExitStack() as alone:
            while parts:
                part = parts.pop()
                found: T | ModelError
                try:
                    found = await ask(part)
                except ModelError as error:
                    found = error
                    if len(part) > 1 and _may_be_one_of_them(error):
                        if part == rows and not self._read:
                            await alone.enter_async_context(self._in_parts)
                        half = (len(part) + 1) // 2
                        parts += [part[half:], part[:half]]
                        continue
                await take(part, found)

    async def _check(self) -> None:
        while self._given_up and self._under_way:
            await self._ended.wait()
        if self._given_up and self._first is not None:
            raise FormNotKept(
                f"{self._first.model} is given up, as {self._read} of {self._read + self._calls} "
                "replies could be read; take another model, or a ranker that asks for less. The "
                f"first that could not: {self._first}",
                reply=self._first.reply,
                model=self._first.model,
            ) from self._first

    @property
    def _given_up(self) -> bool:
        return self._tried and self._calls > MOST_FOR_ONE * self._read


def _may_be_one_of_them(error: ModelError) -> bool:
    """Return True if a call about several passages may have failed by one, or their length."""
    if isinstance(error, FormNotKept | ConnectionFailed | RateLimited) or error.shape:
        return False
    if isinstance(error, ReplyError | RequestRejected):
        return True
    return error.retryable and error.others_answered is not False
