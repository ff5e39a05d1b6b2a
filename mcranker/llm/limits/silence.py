"""Whether a model answers nothing any more, or only this request fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from mcranker.llm.chat import Tag
from mcranker.runtime.forks import renew_in_child

DOWN = 3
"""So many passages fail one after the other, with no answer in between: the model is down."""
ATTEMPTS_IN_SILENCE = 3
"""Tries for a passage while the model answers nothing."""
LONG = 300.0
"""Seconds in vain, after which one such passage is enough; later, a silence is forgotten."""
_NEVER = -1


@dataclass(slots=True)
class Asked:
    """One request, from before its first try.

    Attributes:
        about: the number of the ranking, and the passage's id.
        began: when, in seconds.
        silence: in which it was begun; silences are named by the number of answers before them.
        failed_after: so many answers to others its first try failed.
    """

    about: tuple[int, str]
    began: float
    silence: int
    failed_after: int = _NEVER


class Silence:
    """Tells a request that fails for itself from a model that is down, by what others get.

    A request that is given up failed for itself if the model has answered another one since
    its first failure. If not, the model is silent, and it is down once requests about `DOWN`
    passages that were begun in the silence are given up as well, or about one if all this took
    `LONG` seconds; until then that is open. The next answer, whoever gets it, ends the silence.

    One for each model, for any number of threads and event loops.

    Args:
        clock: the time in seconds; tests replace it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._answers = 0
        self._silence = _NEVER
        self._last = 0.0  # when a request was given up in the silence
        self._in_vain = 0.0  # seconds that the first such request took, and those begun since
        self._passages: set[tuple[int, str]] = set()  # of those begun since
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    @property
    def answered(self) -> bool:
        """Whether the model has ever answered a request."""
        return self._answers > 0

    def begin(self, tag: Tag) -> Asked:
        """A request is about to be sent for the first time."""
        now = self._clock()
        silence = self._silence if now - self._last < LONG else _NEVER
        return Asked((tag.ranking, tag.doc_id), now, silence)

    def end(self) -> None:
        """The model has answered a request, well or badly."""
        with self._lock:
            self._answers += 1

    def failed(self, asked: Asked) -> None:
        """A try has failed."""
        if asked.failed_after == _NEVER:
            asked.failed_after = self._answers

    def at_most(self, asked: Asked, attempts: int) -> int:
        """How many tries a request gets: about a passage, fewer than `attempts` in a silence."""
        if asked.silence != self._answers or not asked.about[1]:
            return attempts
        return 1 if self._is_long(asked) else min(attempts, ATTEMPTS_IN_SILENCE)

    def give_up(self, asked: Asked) -> bool | None:
        """A request is not tried again: whether others are answered; None if that is open."""
        with self._lock:
            if asked.failed_after != self._answers:
                return True
            self._last = now = self._clock()
            if self._silence != self._answers:
                self._silence, self._in_vain = self._answers, now - asked.began
                self._passages.clear()
            if asked.silence != self._answers:
                return None
            self._passages.add(asked.about)
            down = len(self._passages) >= DOWN or self._is_long(asked)
            self._in_vain += now - asked.began
            return False if down else None

    def _is_long(self, asked: Asked) -> bool:
        return self._in_vain + self._clock() - asked.began > LONG
