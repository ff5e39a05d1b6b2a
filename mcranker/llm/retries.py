"""The one layer of retries; the providers' own are off."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import anyio

from mcranker.errors import ConnectionFailed, ModelError, RateLimited
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest
from mcranker.llm.limits import PATIENCE, Limits
from mcranker.llm.wrapper import Wrapper
from mcranker.logs import safe_logger

__all__ = ["ATTEMPTS", "Retrying", "RetryingStatistics"]

ATTEMPTS = 6
"""Tries in all, the first included."""

logger = safe_logger("mcranker.llm")


class RetryingStatistics(NamedTuple):
    """What has been tried so far."""

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
    `ModelTimeout`, and `ConnectionFailed` once the model has answered before (a server that
    was never there will not be there in a second). Everything else is raised at once.

    Each try takes a place of its own, so that a call that waits for its next try holds none.
    The wait before try n + 1 is ``min(longest_wait, first_wait * 2 ** (n - 1))`` seconds,
    times a random factor of 0.5 to 1. What a Retry-After asks for is waited for by the limits,
    for all calls at once. The reply's ``usage.seconds`` are those of the try that answered.

    Args:
        model: who answers.
        limits: of this model; may be shared.
        attempts: tries in all, the first included; 1 for none again.
        deadline: seconds in all for the tries of a call and the waits between them. A wait, or
            a Retry-After, that would go beyond is not begun; a try that has begun is not cut
            short. Waiting for a place does not count: a model with a slow pace is not a failure.
        first_wait: seconds, see above.
        longest_wait: seconds, see above.
    """

    def __init__(
        self,
        model: ChatModel,
        limits: Limits,
        *,
        attempts: int = ATTEMPTS,
        deadline: float = PATIENCE,
        first_wait: float = 0.5,
        longest_wait: float = 60.0,
    ) -> None:
        super().__init__(model)
        self._limits = limits
        self._attempts = attempts
        self._deadline = deadline
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._has_answered = False
        self._lock = threading.Lock()
        self._calls = self._tries = self._retries = 0
        self._failed: Counter[str] = Counter()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The model's reply.

        Raises:
            RateLimited: the provider asks to wait for longer than the deadline allows.
            ModelError: the last try failed, or the first one in a way that no other can help.
        """
        with self._lock:
            self._calls += 1
        spent = 0.0
        attempt = 1
        while True:
            place = await self._limits.place(request)
            try:
                with place:
                    self._count(attempt)
                    reply = await self._model.complete(request)
                    place.answered(reply.usage)
            except ModelError as error:
                with self._lock:
                    self._failed[type(error).__name__] += 1
                spent += place.seconds
                wait = self._wait(error, attempt, self._deadline - spent)
            else:
                self._has_answered = True
                return _timed(reply, place.seconds)
            await anyio.sleep(wait)
            spent += wait
            attempt += 1

    def statistics(self) -> RetryingStatistics:
        """What has been tried so far."""
        with self._lock:
            return RetryingStatistics(self._calls, self._tries, self._retries, dict(self._failed))

    def _count(self, attempt: int) -> None:
        with self._lock:
            self._tries += 1
            self._retries += attempt > 1

    def _wait(self, error: ModelError, attempt: int, left: float) -> float:
        """Seconds to wait before the next try; raises the error if there is to be none."""
        if attempt >= self._attempts or not self._can_help(error):
            raise error
        asked = error.retry_after if isinstance(error, RateLimited) else None
        if asked is not None and asked > left:
            raise RateLimited(
                f"{error} (it asks to wait {asked:.0f} s, and {max(0.0, left):.0f} s are left of "
                "this call's time; run again after that)",
                model=error.model,
                retry_after=asked,
            ) from error
        wait = min(self._longest_wait, self._first_wait * 2.0 ** (attempt - 1))
        # Spread out, so that calls that failed together do not come back together.
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        if wait > left:
            raise error
        logger.info("try %d of %d in %.1f s: %s", attempt + 1, self._attempts, wait, error)
        return wait

    def _can_help(self, error: ModelError) -> bool:
        if isinstance(error, ConnectionFailed):
            return self._has_answered
        return error.retryable


def _timed(reply: ChatReply, seconds: float) -> ChatReply:
    if reply.reused:
        return reply
    return replace(reply, usage=replace(reply.usage, seconds=seconds))
