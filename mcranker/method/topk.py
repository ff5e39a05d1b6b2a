"""Exact top-k: the calls that the first ranks depend on. Pure; makes no call.

What a passage can reach at most is its sum with the highest score in place of each open one
(`personas.ensembles.Rule.reach`). A passage that stands among the k best by that must be
scored further, whatever else comes: bounds only fall, so nothing but a score of its own takes
it from there. Once the k best have all their scores, none can overtake them. Asking only what
is necessary in this sense is minimal for a given order of the judges, and any number of such
calls may be under way at once without one too many: Chang and Hwang, "Minimal probing" (SIGMOD
2002); see also Bruno, Gravano and Marian, "Evaluating top-k queries over web-accessible
databases" (ICDE 2002).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class NecessaryCalls:
    """Hands out the calls needed for the first k ranks, until there are none.

    Rows are distinct passages. A row is asked about by one judge at a time, in `order`.
    Every operation takes a time that grows with the logarithm of the number of passages.

    Args:
        bounds: by row, the highest sum that it can reach.
        row_of: the row of each passage, in first-stage order, which breaks ties; equal
            passages share a row, and each takes a rank of its own.
        k: how many ranks must be right, at least 1.
        order: the columns of the judges, each once.
        asked: by row, how many of `order` have scored it.

    Attributes:
        open: scores that the k passages which are best as things stand do not have yet.
    """

    def __init__(
        self,
        bounds: Sequence[float],
        row_of: Sequence[int],
        *,
        k: int,
        order: Sequence[int],
        asked: Sequence[int],
    ) -> None:
        self._bounds = list(bounds)
        self._row_of = row_of
        self._order = order
        self._asked = list(asked)
        self._ready: dict[int, deque[int]] = {column: deque() for column in order}
        # Passages on the shortlist, by row; the others wait in the heap under the bound they
        # had when they came there, which may have fallen since.
        self._listed: dict[int, list[int]] = {}
        self._others = [(-self._bounds[row], place) for place, row in enumerate(row_of)]
        heapq.heapify(self._others)
        self.open = 0
        self._fill(min(k, len(row_of)))

    def take(self, column: int | None = None) -> tuple[int, int] | None:
        """The row and column of a call not taken yet; None if there is none for now.

        Args:
            column: the judge to be preferred.
        """
        if column is None or not self._ready[column]:
            column = max(self._ready, key=lambda each: len(self._ready[each]))
        return (self._ready[column].popleft(), column) if self._ready[column] else None

    def settle(self, row: int, bound: float) -> None:
        """Note the answer to the call about `row`, which can now reach `bound`."""
        self.open -= len(self._order) - self._asked[row]
        self._asked[row] += 1
        self._bounds[row] = bound
        places = self._listed.pop(row)
        for place in places:
            heapq.heappush(self._others, (-bound, place))
        self._fill(len(places))

    def _fill(self, places: int) -> None:
        """Put the best of the other passages on the shortlist."""
        for _ in range(places):
            place = self._best_other()
            row = self._row_of[place]
            if row in self._listed:
                self._listed[row].append(place)
                continue
            self._listed[row] = [place]
            if self._asked[row] < len(self._order):
                self.open += len(self._order) - self._asked[row]
                self._ready[self._order[self._asked[row]]].append(row)

    def _best_other(self) -> int:
        while True:
            key, place = self._others[0]
            bound = self._bounds[self._row_of[place]]
            if bound == -key:
                heapq.heappop(self._others)
                return place
            heapq.heapreplace(self._others, (-bound, place))


def strictest_first(sample: NDArray[np.float64]) -> tuple[int, ...]:
    """Return the judges' columns by rising mean score, equal ones in column order; NaN last.

    The lower the first scores are, the sooner a passage's bound falls below the k-th sum. A
    wide spread of scores does not help as much: what counts is how far they fall short of
    the top.

    Args:
        sample: scores, shape (passages, judges); NaN where one is missing.
    """
    import numpy as np

    known = ~np.isnan(sample)
    sums = np.where(known, sample, 0.0).sum(axis=0)
    means = np.full(sample.shape[1], np.inf)
    np.divide(sums, known.sum(axis=0), out=means, where=known.any(axis=0))
    return tuple(np.argsort(means, kind="stable").tolist())


def fewest_rows(row_of: NDArray[np.intp], k: int) -> int:
    """Return the fewest rows that fill the first k ranks, if equal passages share a row."""
    import numpy as np

    shares = np.sort(np.bincount(row_of))[::-1]
    return int(np.searchsorted(np.cumsum(shares), min(k, len(row_of)))) + 1
