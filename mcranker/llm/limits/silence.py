"""Tell a model outage from a single failing request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mcranker.errors import ReplyError, RequestRejected
from mcranker.llm.chat import Tag
from mcranker.runtime.forks import renew_in_child

DOWN = 3
"""Passages that fail in a row, without an answer in between, before the model counts as down."""
ATTEMPTS_IN_SILENCE = 3
"""Tries for a passage while the model answers nothing."""
LONG = 300.0
"""Seconds in vain after which one such passage is enough, for which a try that is under way may
still be answered, and after which a silence is forgotten."""
_NEVER = -1


@dataclass(slots=True)
class Asked:
    """One request, from before its first try.

    Attributes:
        about: the number of the ranking, and the passage's id.
        began: when, in seconds.
        silence: in which it was begun; silences are named by the number of answers before them.
        failed_after: answers to others before its first try failed.
    """

    about: tuple[int, str]
    began: float
    silence: int
    failed_after: int = _NEVER


class Silence:
    """Tells a single failing request from a model outage, by the results of others.

    A request that is given up failed for itself if the model has answered another one since
    its first failure. If not, the model is silent, and it is down once requests about `DOWN` other
    passages that were begun in the silence are given up as well, or about one if all this took
    `LONG` seconds; until then that is open. The next answer, whichever request gets it, ends the
    silence. Failures can be faster than answers: no verdict comes before the silence has lasted as
    long as an answer takes, nor while tries are under way that began before those failures.

    One for each model, for any number of threads and event loops.

    Args:
        clock: the time in seconds; tests replace it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._answers = 0
        self._takes = 0.0  # seconds until an answer, of late
        self._tries = 0  # numbers them
        self._under_way: dict[int, float] = {}  # tries, and when they began
        self._silence = _NEVER
        self._since = 0  # the last try before the silence
        self._open_until = 0.0  # when an answer may be expected
        self._first = (0, "")  # about which the request was that began it
        self._last = 0.0  # when a request was given up in the silence
        self._in_vain = 0.0  # seconds that the first such request took, and those begun since
        self._passages: dict[tuple[int, str], int] = {}  # of those: the last try before the end
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._under_way = {}

    @property
    def answered(self) -> bool:
        """True if the model has ever answered a request."""
        return self._answers > 0

    def begin(self, tag: Tag) -> Asked:
        """Begin a request, before its first try."""
        now = self._clock()
        silence = self._silence if now - self._last < LONG else _NEVER
        return Asked((tag.ranking, tag.doc_id), now, silence)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Watch one try; the model has answered it if it ends well, badly or with a rejection."""
        with self._lock:
            self._tries += 1
            number = self._tries
            self._under_way[number] = self._clock()
        answered = False
        try:
            yield
            answered = True
        except (ReplyError, RequestRejected):
            answered = True
            raise
        finally:
            with self._lock:
                now = self._clock()
                began = self._under_way.pop(number, now)  # a forked child has forgotten it
                if answered:
                    self._answers += 1
                    self._takes = max(now - began, self._takes / 2)

    def failed(self, asked: Asked) -> None:
        """Count a failed try."""
        if asked.failed_after == _NEVER:
            asked.failed_after = self._answers

    def at_most(self, asked: Asked, attempts: int) -> int:
        """Return the tries a request gets: about a passage, fewer than `attempts` in a silence."""
        with self._lock:
            if not asked.about[1] or asked.silence != self._answers or self._may_end(self._since):
                return attempts
            return 1 if self._is_long(asked) else min(attempts, ATTEMPTS_IN_SILENCE)

    def give_up(self, asked: Asked) -> bool | None:
        """End the tries: return True if other requests are answered; None if that is open."""
        with self._lock:
            if asked.failed_after != self._answers:
                return True
            self._last = now = self._clock()
            if self._silence != self._answers:
                self._first = asked.about
                self._silence, self._in_vain = self._answers, now - asked.began
                self._since, self._open_until = self._tries, now + self._takes
                self._passages.clear()
            if asked.silence != self._answers or asked.about == self._first:
                return None
            if len(self._passages) < DOWN:
                self._passages.setdefault(asked.about, self._tries)
            enough = 1 if self._is_long(asked) else DOWN
            tries = [*self._passages.values()][:enough]
            self._in_vain += now - asked.began
            return None if len(tries) < enough or self._may_end(tries[-1]) else False

    def _may_end(self, tries: int) -> bool:
        """Return True if the silence is short, or one of the first tries may still be answered."""
        now = self._clock()
        return now < self._open_until or any(
            each <= tries and began > now - LONG for each, began in self._under_way.items()
        )

    def _is_long(self, asked: Asked) -> bool:
        return self._in_vain + self._clock() - asked.began > LONG
