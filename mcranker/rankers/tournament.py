"""Tournament: one call puts k passages in order, and what follows from its answers is not asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice, pairwise, product, takewhile
from operator import or_
from typing import ClassVar, NamedTuple, Unpack

from mcranker.config import LARGEST
from mcranker.options import RankerKeywords
from mcranker.rankers.comparative import ComparativeRanker, check_whole
from mcranker.rankers.rankgpt import MOST_IN_A_WINDOW
from mcranker.rankers.sorting import Pair, SortState
from mcranker.runtime.bridge import task_group


class TournamentRanker(ComparativeRanker):
    """Finds the first ranks by calls that each put `window` passages in order.

    An order of k passages is k (k - 1) / 2 facts of the kind "this one before that one", and more
    follow: what is before the second is before the third. A passage whose place among all others
    is known is not shown again; the next call shows those that are behind the fewest. It ends
    once the first `ranks` are known; the other passages follow in first-stage order.

    After "BlitzRank: Principled Zero-shot Ranking Agents with Tournament Graphs" (Agrawal, Nguyen
    and Kiela 2026, arXiv 2602.05448), Algorithm 1: passages that answers put before each other in
    a circle make a tier; within it they keep their first-stage order. ``docs/rankers.md`` says what
    is different here. The number of calls depends on the answers; an estimate counts the most.

    >>> TournamentRanker(model="openai:gpt-5-mini")    # 10 in a call, the first 10 ranks

    Args:
        ranks: first ranks that are found, at least 1.
        window: passages that one call puts in order, 2 to 100.
        shared: see `Ranker`, also for errors. A team needs `team`, `team_size` or ``require``.
    """

    name: ClassVar[str] = "tournament"
    prompt = "rankgpt"

    def __init__(
        self,
        *,
        ranks: int = 10,
        window: int = 10,
        **shared: Unpack[RankerKeywords],
    ) -> None:
        check_whole("ranks", ranks, 1, LARGEST)
        check_whole("window", window, 2, MOST_IN_A_WINDOW)
        self.ranks, self.window = ranks, window
        self.own = {"ranks": ranks, "window": window}
        super().__init__(**shared)

    async def _sort(self, sorting: SortState) -> None:
        count = len(sorting.order)
        facts = PartialOrder(count)

        async def compare(rows: Sequence[int]) -> None:
            named = await self._order(sorting, rows)
            facts.note(rows, named or ())
            sorting.settle(facts.first(self.ranks))
            sorting.settled = min(facts.known(), self.ranks)  # what follows may change yet
            sorting.undecided = facts.undecided(sorting.order)
            sorting.counts = replace(sorting.counts, tied=facts.tied())
            known = named or []
            best_first = [*known, *(row for row in rows if row not in known)]
            await sorting.emit(best_first, failed=named is None)

        # A passage not shown yet is behind none, so these calls come first anyway.
        fresh = [
            range(start, start + self.window)
            for start in range(0, count - self.window + 1, self.window)
        ]
        async with task_group() as group:
            for each in fresh:
                group.start_soon(compare, each)
        for _ in range(sorting.total - len(fresh)):
            rows = facts.next(self.ranks, self.window)
            if not rows:
                break
            await compare(rows)
        sorting.settled = min(self.ranks, count)

    def _most(self, count: int) -> int:
        """Most calls of knockout rounds, repeated for each further rank."""
        if count < 2:
            return 0
        rounds = 1
        while self.window**rounds < count:
            rounds += 1
        first = math.ceil((count - 1) / (self.window - 1))
        return first + (min(self.ranks, count - 1) - 1) * rounds


class PartialOrder:
    """Facts known about the order of passages, each named by its row.

    Sets of rows are whole numbers, in which bit r is set for row r.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._all = (1 << count) - 1
        self._above = [0] * count  # who is before the row, by answers or what follows from them
        self._below = [0] * count
        self._met = [1 << row for row in range(count)]  # who was shown together with the row

    def note(self, shown: Sequence[int], named: Sequence[int]) -> None:
        """Take down an answer about the rows that were shown.

        Rows that are not `named`, best first, are behind those that are; of their own order nothing
        is known, and it is not asked for again. A failed answer names none.
        """
        met = _set_of(shown)
        for row in shown:
            self._met[row] |= met
        if not named:
            return
        left_out = [row for row in shown if row not in named]
        for before, after in (*pairwise(named), *product(named[-1:], left_out)):
            self._put(before, after)

    def next(self, ranks: int, most: int) -> list[int]:
        """Return up to `most` rows to put in order next, in first-stage order; none at the end.

        They represent tiers that are behind the fewest, and not all of their order is known. At the
        end the first `ranks` are known, or all was asked that can be.
        """
        if self.known() >= ranks:
            return []
        tiers = [tier for tier in self._by_place() if tier.open]
        # Of consistent answers the first two are such a pair.
        for second, first in ((j, i) for j in range(len(tiers)) for i in range(j)):
            if tiers[first].open & tiers[second].rows:
                others = (tier for place, tier in enumerate(tiers) if place not in (first, second))
                chosen = [tiers[first], tiers[second], *islice(others, most - 2)]
                return sorted(tier.row for tier in chosen)
        return []

    def known(self) -> int:
        """Number of first ranks that are settled: no answer can change them any more."""
        known = takewhile(lambda tier: not tier.open, self._by_place())
        return sum(tier.rows.bit_count() for tier in known)

    def undecided(self, order: Sequence[int]) -> set[Pair]:
        """The neighbours in this order of which neither is known to be before the other."""
        return {
            frozenset((first, second))
            for first, second in pairwise(order)
            if (self._below[first] ^ self._above[first]) >> second & 1 == 0
        }

    def tied(self) -> int:
        """Count the pairs that are before each other, by answers that contradict each other."""
        return sum(math.comb(tier.rows.bit_count(), 2) for tier in self._tiers())

    def first(self, ranks: int) -> list[int]:
        """Return rows, best first: by what is known, and else in first-stage order."""
        waiting, found, placed = self._tiers(), list[int](), 0
        while waiting and len(found) < ranks:
            tier = next(tier for tier in waiting if not tier.above & ~placed)
            waiting.remove(tier)
            placed |= tier.rows
            found += _rows(tier.rows)
        return found[:ranks]

    def _put(self, before: int, after: int) -> None:
        if self._below[before] >> after & 1:
            return
        above = self._above[before] | 1 << before
        below = self._below[after] | 1 << after
        for row in _rows(above):
            self._below[row] |= below
        for row in _rows(below):
            self._above[row] |= above

    def _by_place(self) -> list[Tier]:
        """All tiers, those that are behind the fewest first."""
        return sorted(
            self._tiers(), key=lambda tier: (tier.above.bit_count(), tier.below.bit_count())
        )

    def _tiers(self) -> list[Tier]:
        """All tiers, by their first row."""
        tiers, seen = [], 0
        for row in range(self._count):
            if seen >> row & 1:
                continue
            rows = self._above[row] & self._below[row] | 1 << row
            seen |= rows
            above, below = self._above[row] & ~rows, self._below[row] & ~rows
            met = reduce(or_, (self._met[each] for each in _rows(rows)))
            tiers.append(Tier(row, rows, above, below, self._all & ~(rows | above | below | met)))
        return tiers


class Tier(NamedTuple):
    """Rows that are before each other in a circle; mostly one."""

    row: int  #: the first
    rows: int  #: all
    above: int  #: rows before it, none of the tier itself
    below: int  #: rows behind it
    open: int  #: rows of which neither is known nor was asked


def _set_of(rows: Iterable[int]) -> int:
    return reduce(or_, (1 << row for row in rows), 0)


def _rows(rows: int) -> Iterator[int]:
    """The rows of a set, the first ones first."""
    while rows:
        lowest = rows & -rows
        yield lowest.bit_length() - 1
        rows ^= lowest
