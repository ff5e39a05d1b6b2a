"""The one layer of retries; the providers' own are off."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable

import anyio

from mcranker.errors import ConnectionFailed, ModelError, RateLimited
from mcranker.llm.chat import Capabilities, ChatModel, ChatReply, ChatRequest

__all__ = ["Retrying"]

logger = logging.getLogger("mcranker.llm")


class Retrying:
    """A chat model that tries again where another try can help.

    Tried again are `ModelError`s that are ``retryable``: `RateLimited`, `ServerFailed`,
    `ModelTimeout`, and `ConnectionFailed` once the model has answered before (a server that
    was never there will not be there in a second). Everything else is raised at once.

    The wait before try n + 1 is ``min(longest_wait, first_wait * 2 ** (n - 1))`` seconds,
    times a random factor of 0.5 to 1, but at least what the provider's Retry-After says.

    Args:
        model: who answers.
        attempts: tries in all, the first included.
        deadline: seconds in all; a wait that would go beyond is not begun.
        first_wait: seconds, see above.
        longest_wait: seconds, see above.
        sleep: waits; tests replace it.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        attempts: int = 6,
        deadline: float = 300.0,
        first_wait: float = 0.5,
        longest_wait: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._model = model
        self._attempts = attempts
        self._deadline = deadline
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._sleep = sleep
        self._has_answered = False

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        start = time.monotonic()
        attempt = 1
        while True:
            try:
                reply = await self._model.complete(request)
            except ModelError as error:
                wait = self._wait(attempt, error)
                too_late = time.monotonic() - start + wait > self._deadline
                if not self._can_help(error) or attempt >= self._attempts or too_late:
                    raise
                logger.info("try %d of %d in %.1f s: %s", attempt + 1, self._attempts, wait, error)
                await self._sleep(wait)
                attempt += 1
            else:
                self._has_answered = True
                return reply

    async def aclose(self) -> None:
        await self._model.aclose()

    def _can_help(self, error: ModelError) -> bool:
        if isinstance(error, ConnectionFailed):
            return self._has_answered
        return error.retryable

    def _wait(self, attempt: int, error: ModelError) -> float:
        wait = min(self._longest_wait, self._first_wait * 2.0 ** (attempt - 1))
        # Spread out, so that calls that failed together do not come back together.
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        asked = error.retry_after if isinstance(error, RateLimited) else None
        return max(wait, asked or 0.0)
