"""The one layer of retries; the providers' own are off."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import anyio

from mcranker.errors import (
    ConnectionFailed,
    ModelError,
    RateLimited,
)
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest
from mcranker.llm.limits.limits import PATIENCE, Limits, Place
from mcranker.llm.limits.silence import Asked, Silence
from mcranker.llm.wrapper import Wrapper
from mcranker.logs import safe_logger
from mcranker.runtime.forks import renew_in_child

ATTEMPTS = 6
"""Tries in all, the first included."""
FIRST_WAIT = 0.5
"""Seconds before the second try; see `Retrying`."""

logger = safe_logger("mcranker.llm")


class RetryingStatistics(NamedTuple):
    """Counts of attempts so far."""

    #: calls to `Retrying.complete`
    calls: int
    #: calls to the model itself
    tries: int
    #: tries beyond the first of each call
    retries: int
    #: tries that failed, by the name of the error
    failed: Mapping[str, int]


class Retrying(Wrapper):
    """A chat model that keeps within limits, and tries again where another try can help.

    Tried again are `ModelError`s that are ``retryable``: `RateLimited`, `ServerFailed`,
    `ModelTimeout`, and `ConnectionFailed` where the model has answered by the end of the wait
    (a server that was never there will not be there in a second). Everything else is raised at
    once.

    Each try takes a place of its own, so that a call that waits for its next try holds none.
    The wait before try n + 1 is ``min(longest_wait, first_wait * 2 ** (n - 1))`` seconds,
    times a random factor of 0.5 to 1. What a Retry-After asks for is waited for by the limits,
    for all calls at once. The reply's ``usage.seconds`` are those of the try that answered.

    An error that is raised at last says whether the model answers other requests meanwhile
    (`ModelError.others_answered`, see `Silence`). A call about a passage that is begun while the
    model answers nothing gets 3 tries, or 1 once that has lasted for 5 minutes. So a model that
    is down is found out after one call of full length and, one after the other or at once, 3 of
    these short ones, or 1 once 5 minutes have passed; but not in less time than an answer takes,
    nor before the calls that were under way have ended.

    Args:
        model: who answers.
        limits: of this model; may be shared.
        attempts: tries in all, the first included; 1 for none again.
        deadline: seconds in all for the tries of a call and the waits between them. A wait, or
            a Retry-After, that would go beyond is not begun; a try that has begun is not cut
            short. Waiting for a place does not count: a model with a slow pace is not a failure.
        first_wait: seconds, see above.
        longest_wait: seconds, see above.
        clock: the time in seconds; tests replace it.
    """

    def __init__(
        self,
        model: ChatModel,
        limits: Limits,
        *,
        attempts: int = ATTEMPTS,
        deadline: float = PATIENCE,
        first_wait: float = FIRST_WAIT,
        longest_wait: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(model)
        self._limits = limits
        self._attempts = attempts
        self._deadline = deadline
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._silence = Silence(clock)
        self._lock = threading.Lock()
        self._calls = self._tries = self._retries = 0
        self._failed: Counter[str] = Counter()
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The model's reply.

        Raises:
            RateLimited: the provider asks to wait for longer than the deadline allows.
            ModelError: the last try failed, or the first one in a way that no other can help.
        """
        with self._lock:
            self._calls += 1
        asked = self._silence.begin(request.tag)
        spent = 0.0
        attempt = 1
        while True:
            place = await self._place(request)
            try:
                with place, self._silence.attempt():
                    self._count(attempt)
                    reply = await self._model.complete(request)
                    place.answered(reply.usage)
            except ModelError as error:
                with self._lock:
                    self._failed[type(error).__name__] += 1
                if not error.retryable:
                    raise
                self._silence.failed(asked)
                spent += place.seconds
                wait = self._wait(error, attempt, self._deadline - spent, asked)
                failure = error
            else:
                return _timed(reply, place.seconds)
            await anyio.sleep(wait)
            # A server that was never there will not be there in a second.
            if isinstance(failure, ConnectionFailed) and not self._silence.answered:
                raise self._given_up(failure, asked)
            spent += wait
            attempt += 1

    def statistics(self) -> RetryingStatistics:
        """Return the counts of attempts so far."""
        with self._lock:
            return RetryingStatistics(self._calls, self._tries, self._retries, dict(self._failed))

    def _count(self, attempt: int) -> None:
        with self._lock:
            self._tries += 1
            self._retries += attempt > 1

    async def _place(self, request: ChatRequest) -> Place:
        try:
            return await self._limits.place(request)
        except RateLimited as error:
            error.others_answered = False  # no call at all is let through
            raise

    def _wait(self, error: ModelError, attempt: int, left: float, asked: Asked) -> float:
        """Return the seconds to wait before the next try, or raise the error if there is none."""
        attempts = self._silence.at_most(asked, self._attempts)
        if attempt >= attempts:
            raise self._given_up(error, asked)
        wanted = error.retry_after if isinstance(error, RateLimited) else None
        if wanted is not None and wanted > left:
            told = RateLimited(
                f"{error} (it asks to wait {wanted:.0f} s, and {max(0.0, left):.0f} s are left of "
                "this call's time; run again after that)",
                model=error.model,
                retry_after=wanted,
            )
            raise self._given_up(told, asked) from error
        wait = min(self._longest_wait, self._first_wait * 2.0 ** (attempt - 1))
        # Spread out, so that calls that failed together do not come back together.
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        if wait > left:
            raise self._given_up(error, asked)
        logger.info("try %d of %d in %.1f s: %s", attempt + 1, attempts, wait, error)
        return wait

    def _given_up(self, error: ModelError, asked: Asked) -> ModelError:
        error.others_answered = self._silence.give_up(asked)
        return error


def _timed(reply: ChatReply, seconds: float) -> ChatReply:
    if reply.reused or reply.usage.seconds:  # a model in this process knows what it computed
        return reply
    return replace(reply, usage=replace(reply.usage, seconds=seconds))
