"""The one layer of retries; the providers' own are off. Tells outages from failing requests."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import anyio

from mcranker.errors import ConnectionFailed, ModelError, RateLimited, ReplyError, RequestRejected
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Tag, Wrapper
from mcranker.llm.limits.rate_limiter import PATIENCE, RateLimiter, Slot
from mcranker.logs import safe_logger

ATTEMPTS, ATTEMPTS_IN_OUTAGE = 6, 3  # tries in all; for a passage while nothing is answered
DOWN = 3  # passages that fail in a row, with no answer in between, before the model counts as down
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0  # seconds before the second try, doubled for each further one
# Seconds of an outage after which one such passage is enough, for which a try that is under way may
# still be answered, and after which an outage is forgotten.
LONG = 300.0
_NEVER = -1

logger = safe_logger("mcranker.llm")


class Retrying(Wrapper):
    """A chat model that keeps within limits, and tries again where another try can help."""

    def __init__(
        self,
        model: ChatModel,
        limiter: RateLimiter,
        *,
        attempts: int = ATTEMPTS,
        deadline: float = PATIENCE,
        first_wait: float = FIRST_WAIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(model)
        self._limiter = limiter
        self._attempts = attempts
        self._deadline = deadline
        self._first_wait = first_wait
        self._outage = OutageDetector(clock)
        self._unread = ""  # the shape that ended a call, until a reply is read

    async def complete(self, request: ChatRequest) -> ChatReply:
        asked = Asked(request.tag, self._outage)
        shapes: set[str] = set()
        left = self._deadline
        for attempt in itertools.count(1):
            try:
                slot = await self._limiter.acquire(request)
            except RateLimited as error:
                error.others_answered = False  # no call at all is let through
                raise
            try:
                return await self._try(request, slot)
            except ModelError as error:
                if not error.retryable:
                    raise
                failure = error
            if asked.failed_after == _NEVER:
                asked.failed_after = self._outage.answers
            if failure.shape and failure.shape in {*shapes, self._unread}:
                self._unread = failure.shape
                break
            shapes.add(failure.shape)
            left -= slot.seconds
            attempts = self._outage.at_most(asked, self._attempts)
            if attempt >= attempts:
                break
            if isinstance(failure, RateLimited) and (asks := failure.retry_after or 0.0) > left:
                why = f"it asks to wait {asks:.0f} s, and {max(0.0, left):.0f} s are left of"
                what = f"{failure} ({why} this call's time; run again after that)"
                failure = RateLimited(what, model=failure.model, retry_after=asks)
                break
            wait = min(LONGEST_WAIT, self._first_wait * 2.0 ** (attempt - 1))
            # Spread out, so that calls that failed together do not come back together.
            wait *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            if wait > left:
                break
            logger.info("try %d of %d in %.1f s: %s", attempt + 1, attempts, wait, failure)
            await anyio.sleep(wait)
            left -= wait
            # A server that was never there will not be there in a second.
            if isinstance(failure, ConnectionFailed) and not self._outage.answers:
                break
        failure.others_answered = self._outage.give_up(asked)
        raise failure

    async def _try(self, request: ChatRequest, slot: Slot) -> ChatReply:
        number = self._outage.start()
        reply, failure = None, None
        try:
            reply = await self._model.complete(request)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._limiter.release(slot, failure, reply.usage if reply else None)
            self._unread = "" if reply else self._unread
            answered = failure is None or isinstance(failure, ReplyError | RequestRejected)
            self._outage.end(number, answered=answered)
        if reply.reused or reply.usage.seconds:  # a model in this process knows what it computed
            return reply
        return replace(reply, usage=replace(reply.usage, seconds=slot.seconds))


class Asked:
    """One request: about which passage of which ranking, and since when."""

    def __init__(self, tag: Tag, outages: OutageDetector) -> None:
        self.about = tag.ranking, tag.doc_id
        self.began = outages.clock()
        # The outage in which it was begun; named by the number of answers before it.
        self.outage = outages.outage if self.began - outages.last < LONG else _NEVER
        self.failed_after = _NEVER  # answers to others before its first try failed


class OutageDetector:
    """Tells a model outage from a single failing request, by the results of others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self.clock = clock
        self.answers = 0
        self._takes = 0.0  # seconds until an answer, of late
        self._tries = 0  # numbers them
        self._under_way: dict[int, float] = {}  # tries, and when they began
        self.outage = _NEVER
        self._since = 0  # the last try before the outage
        self._began = self._open_until = self.last = 0.0  # it; an answer to come; its last failure
        # Passages of requests given up in it, and the last try before that; the first began it.
        self._passages: dict[tuple[int, str], int] = {}

    def start(self) -> int:
        with self._lock:
            self._tries += 1
            self._under_way[self._tries] = self.clock()
            return self._tries

    def end(self, number: int, *, answered: bool) -> None:
        """End a try; the model may have answered it well, badly or with a rejection."""
        with self._lock:
            began = self._under_way.pop(number)
            if answered:
                self.answers += 1
                self._takes = max(self.clock() - began, self._takes / 2)

    def at_most(self, asked: Asked, attempts: int) -> int:
        """Return the tries a request gets: about a passage, fewer than `attempts` in an outage."""
        with self._lock:
            if not asked.about[1] or asked.outage != self.answers or self._may_end(self._since):
                return attempts
            return 1 if self._enough() == 1 else min(attempts, ATTEMPTS_IN_OUTAGE)

    def give_up(self, asked: Asked) -> bool | None:
        """End the tries: return True if other requests are answered; None if that is open."""
        with self._lock:
            if asked.failed_after != self.answers:
                return True
            self.last = now = self.clock()
            if self.outage != self.answers:
                self.outage, self._since, self._began = self.answers, self._tries, asked.began
                self._open_until, self._passages = now + self._takes, {asked.about: 0}
            if asked.outage == self.answers:
                self._passages.setdefault(asked.about, self._tries)
                first, *others = self._passages
                last = others[self._enough() - 1 : self._enough()]
                if asked.about != first and last and not self._may_end(self._passages[last[0]]):
                    return False
            return None

    def _may_end(self, tries: int) -> bool:
        """Return True if the outage is short, or one of the first tries may still be answered."""
        now = self.clock()
        return now < self._open_until or any(
            each <= tries and began > now - LONG for each, began in self._under_way.items()
        )

    def _enough(self) -> int:
        """The passages besides the first that must fail until the model counts as down."""
        return 1 if self.clock() - self._began > LONG else DOWN
