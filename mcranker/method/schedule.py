"""Schedules of scoring calls: all of them, or those that the first ranks depend on.

A schedule hands out calls and takes note of how they ended; it makes none itself. Rows are
distinct passages. A judge takes part from the moment it is ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mcranker.method.topk import NecessaryCalls, fewest_rows, strictest_first

SAMPLE = 3
"""First passages that all judges score, to find the strictest judge."""

Call: TypeAlias = tuple[int, int]
"""Row of the score matrix, and judge."""


class EveryScore:
    """Every judge scores every passage (Eq. 3).

    Judges take turns passage by passage, and one who is ready late catches up first, so that the
    scores of a passage come together.

    Args:
        rows: distinct passages.
        judges: how many there are, at most until the team is known.
        together: none begins before all are ready.
        by_judge: one judge after the other.
    """

    def __init__(self, rows: int, judges: int, *, together: bool, by_judge: bool) -> None:
        self._rows = rows
        self._judges = judges
        self._together = together or by_judge
        self._by_judge = by_judge
        self._next: dict[int, int] = {}  # row, by judge
        self._done = 0

    @property
    def total(self) -> int:
        """Number of calls there will be, as far as is known."""
        return self._rows * self._judges

    @property
    def finished(self) -> bool:
        """True if all calls have ended."""
        return self._done == self.total

    def team_known(self, judges: int) -> None:
        """Set the number of judges."""
        self._judges = judges

    def ready(self, judge: int) -> None:
        """Note that the judge can score from now on."""
        self._next[judge] = 0

    def take(self) -> Call | None:
        """Return an open call, once; None if there is none for now."""
        if self._together and len(self._next) < self._judges:
            return None
        found: Call | None = None
        for judge, row in self._next.items():
            # By judge the lowest judge's is the next, else the lowest row's.
            if row < self._rows and (
                found is None or (judge < found[1] if self._by_judge else (row, judge) < found)
            ):
                found = row, judge
        if found is not None:
            self._next[found[1]] += 1
        return found

    def settle(self, row: int, judge: int) -> None:
        """Note the end of a call, with a score or without."""
        self._done += 1


class TopScores:
    """The judges score only what the first `k` ranks depend on, see `mcranker.method.topk`.

    Once all are ready, each scores the first few passages, by which the strictest is found. That
    one scores all passages; the others only those that can still reach the first ranks.

    Args:
        row_of: the row of each passage, in first-stage order; equal passages share one.
        scores: the score matrix, which fills meanwhile; shape (rows, judges).
        k: how many ranks must be right, at least 1.
        reach: the highest final score that each of these rows can reach, by what is known.
    """

    def __init__(
        self,
        row_of: NDArray[np.intp],
        scores: NDArray[np.float64],
        *,
        k: int,
        reach: Callable[[slice], NDArray[np.float64]],
    ) -> None:
        rows, judges = scores.shape
        self._row_of = row_of
        self._scores = scores
        self._k = k
        self._reach = reach
        self._sampled = min(SAMPLE, rows)
        self._order = tuple(range(judges))
        self._absent = set(self._order)
        self._asked = [0] * rows
        self._last: int | None = None
        self._done = self._under_way = 0
        self._calls = deque((row, judge) for judge in self._order for row in range(self._sampled))
        self._necessary: NecessaryCalls | None = None
        self._passed = False  # all passages have a score, or are about to have one
        self._expected: int = rows + max(self._sampled, fewest_rows(row_of, k)) * (judges - 1)

    @property
    def total(self) -> int:
        if self._necessary is None:
            return self._expected
        return self._done + self._necessary.open

    @property
    def finished(self) -> bool:
        return self._necessary is not None and not self._necessary.open

    def ready(self, judge: int) -> None:
        self._absent.discard(judge)
        if not self._absent and not self._calls:
            self._go_on()

    def take(self) -> Call | None:
        if self._absent:
            return None
        if self._calls:
            call = self._calls.popleft()
        else:
            # The judge who was asked last has its prompt loaded, where a model keeps only a few.
            found = self._necessary.take(self._last) if self._necessary else None
            if found is None:
                return None
            call = found
        self._last = call[1]
        self._under_way += 1
        return call

    def settle(self, row: int, judge: int) -> None:
        self._under_way -= 1
        self._done += 1
        self._asked[row] += 1
        if self._necessary is not None:
            self._necessary.settle(row, float(self._reach(slice(row, row + 1))[0]))
        elif not self._calls and not self._under_way:
            self._go_on()

    def _go_on(self) -> None:
        """Move on from the sample to all passages, and from there to the necessary calls."""
        if not self._passed:
            self._passed = True
            if self._sampled:
                self._order = strictest_first(self._scores[: self._sampled])
            rest = range(self._sampled, len(self._scores))
            self._calls.extend((row, self._order[0]) for row in rest)
            if self._calls:
                return
        self._necessary = NecessaryCalls(
            self._reach(slice(None)).tolist(),
            self._row_of.tolist(),
            k=self._k,
            order=self._order,
            asked=self._asked,
        )
