"""Setwise and pairwise ranking: a call chooses the best of a few passages, and sorts use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import combinations, pairwise
from typing import ClassVar, Literal, Unpack

from mcranker.config import LARGEST
from mcranker.options import RankerKeywords
from mcranker.rankers.comparative import LETTERS, ComparativeRanker, check_choice, check_whole
from mcranker.rankers.sorting import SortState
from mcranker.runtime.bridge import task_group

BestOf = Callable[[Sequence[int], Callable[[Sequence[int]], int]], Awaitable[int]]
"""Finds the best of some rows; takes the one to assume where no reply says."""

_CHILDREN = 2  # of a heap of pairs


class SetwiseRanker(ComparativeRanker):
    """Has the model choose the most relevant of a few passages, and sorts by its choices.

    "A Setwise Approach for Effective and Highly Efficient Zero-shot Ranking with Large Language
    Models" (Zhuang et al. 2024, arXiv 2310.09497), section 3, by the letters' probabilities where
    the model gives them, else by the letter that it writes. A set is shown in first-stage order.

    By ``"heap"``, a heap in which each passage has `children` below it is built, and the best taken
    off its top `ranks` times; the others follow in first-stage order. By ``"bubble"``, the best of
    `children` + 1 passages moves on to the next ones above it, from the last passage to the first,
    `ranks` times.

    The number of calls depends on the answers. A heap takes about n / children to build, and for
    each rank at most its depth; bubbles take about n / children a rank. No set is asked about
    twice. An estimate counts the most there may be.

    >>> SetwiseRanker(model="openai:gpt-5-mini")    # sets of 4, the first 10 ranks

    Args:
        ranks: first ranks that are sorted out, at least 1.
        children: passages that one call compares with another one, 1 to 25.
        sort: ``"heap"`` or ``"bubble"``.
        shared: see `Ranker`, also for errors. A team needs `team`, `team_size` or ``require``.
    """

    name: ClassVar[str] = "setwise"
    prompt = "setwise"

    def __init__(
        self,
        *,
        ranks: int = 10,
        children: int = 3,
        sort: Literal["heap", "bubble"] = "heap",
        **shared: Unpack[RankerKeywords],
    ) -> None:
        check_whole("ranks", ranks, 1, LARGEST)
        check_whole("children", children, 1, len(LETTERS) - 1)
        check_choice("sort", sort, ("heap", "bubble"))
        self.ranks, self.children, self.sort = ranks, children, sort
        self.own = {"ranks": ranks, "children": children, "sort": sort}
        super().__init__(**shared)

    async def _sort(self, sorting: SortState) -> None:
        known: dict[frozenset[int], int | None] = {}

        async def best_of(rows: Sequence[int], keep: Callable[[Sequence[int]], int]) -> int:
            shown = frozenset(rows)
            is_new = shown not in known
            if is_new:
                known[shown] = await self._choose(sorting, sorted(rows))
            chosen = known[shown]
            best = keep(rows) if chosen is None else chosen
            others = [row for row in rows if row != best]
            sorting.note([frozenset((best, row)) for row in others], decided=chosen is not None)
            if is_new:
                await sorting.emit([best, *others], failed=chosen is None)
            return best

        sort = heapsort if self.sort == "heap" else bubblesort
        await sort(sorting, self.ranks, self.children, best_of)

    def _most(self, count: int) -> int:
        most = most_of_heap if self.sort == "heap" else most_of_bubbles
        return most(count, self.ranks, self.children)


class PairwiseRanker(ComparativeRanker):
    """Has the model choose the better of two passages, in both orders, and sorts by its choices.

    "Large Language Models are Effective Text Rankers with Pairwise Ranking Prompting" (Qin et al.
    2024, arXiv 2306.17563), section 3, by the letters' probabilities where the model gives them,
    else by the letter that it writes. If the choice depends on the order in which the two are
    shown, they are tied. No pair is asked about twice.

    | sort | of the paper | calls |
    |---|---|---|
    | ``"sliding"`` (default) | PRP-Sliding-K | 2 · (n - 1 + n - 2 + ...) at most, a term a rank |
    | ``"heap"`` | PRP-SortState | about 4 · n + 4 · log2 n a rank, at most |
    | ``"all_pairs"`` | PRP-Allpair | n · (n - 1) |

    Sliding swaps neighbours where the lower one is better, from the last to the first, once for
    each rank. A heap has its best passage taken off once for each rank; the others follow in
    first-stage order. With all pairs, passages are ordered by the pairs that they win, of which a
    tie is half of one for either; `ranks` has no say. Tied passages keep their order, in a heap
    that of the first stage. An estimate counts the most calls there may be.

    >>> PairwiseRanker(model="openai:gpt-5-mini")    # ten passes

    Args:
        ranks: first ranks that are sorted out, K of the paper; at least 1.
        sort: ``"sliding"``, ``"heap"`` or ``"all_pairs"``.
        shared: see `Ranker`, also for errors. A team needs `team`, `team_size` or ``require``.
    """

    name: ClassVar[str] = "pairwise"
    prompt = "pairwise"

    def __init__(
        self,
        *,
        ranks: int = 10,
        sort: Literal["sliding", "heap", "all_pairs"] = "sliding",
        **shared: Unpack[RankerKeywords],
    ) -> None:
        check_whole("ranks", ranks, 1, LARGEST)
        check_choice("sort", sort, ("sliding", "heap", "all_pairs"))
        self.ranks, self.sort = ranks, sort
        self.own = {"sort": sort} if sort == "all_pairs" else {"ranks": ranks, "sort": sort}
        super().__init__(**shared)

    async def _sort(self, sorting: SortState) -> None:
        better: dict[frozenset[int], int | None] = {}

        async def best_of(rows: Sequence[int], keep: Callable[[Sequence[int]], int]) -> int:
            best = rows[0]
            for other in rows[1:]:
                pair = frozenset((best, other))
                if pair not in better:
                    chosen = await self._compare(sorting, best, other)
                    decided = len(chosen) == 2 and chosen[0] == chosen[1]
                    better[pair] = chosen[0] if decided else None
                    sorting.note([pair], decided=decided)
                found = better[pair]
                best = keep((best, other)) if found is None else found
            return best

        match self.sort:
            case "sliding":
                await bubblesort(sorting, self.ranks, 1, best_of)
            case "heap":
                await heapsort(sorting, self.ranks, _CHILDREN, best_of)
            case "all_pairs":
                await self._sort_by_all_pairs(sorting)

    async def _sort_by_all_pairs(self, sorting: SortState) -> None:
        """Order by won pairs: a tie counts half for either, a failed one counts for the upper."""
        points = dict.fromkeys(sorting.order, 0)
        failed: set[frozenset[int]] = set()
        pairs = combinations(sorting.order, 2)

        async def compare() -> None:
            for upper, lower in pairs:
                chosen = await self._compare(sorting, upper, lower)
                if len(chosen) < 2:
                    failed.add(frozenset((upper, lower)))
                    chosen = [upper, upper]
                for row in chosen:
                    points[row] += 1

        async with task_group() as group:
            for _ in range(sorting.session.calls_at_once(sorting.session.models.scoring)):
                group.start_soon(compare)
        sorting.order.sort(key=lambda row: -points[row])
        sorting.settled = len(sorting.order)
        neighbours = pairwise(sorting.order)
        even = {frozenset((a, b)) for a, b in neighbours if points[a] == points[b]}
        sorting.note(even | failed, decided=False)

    def _most(self, count: int) -> int:
        match self.sort:
            case "sliding":
                return 2 * most_of_bubbles(count, self.ranks, 1)
            case "heap":
                return 2 * _CHILDREN * most_of_heap(count, self.ranks, _CHILDREN)
            case "all_pairs":
                return count * (count - 1)

    async def _compare(self, sorting: SortState, upper: int, lower: int) -> list[int]:
        """Return the rows chosen in the two orders; fewer if a comparison failed."""
        chosen: list[int] = []

        async def choose(rows: Sequence[int]) -> None:
            best = await self._choose(sorting, rows)
            chosen.extend(() if best is None else (best,))

        async with task_group() as group:
            group.start_soon(choose, (upper, lower))
            group.start_soon(choose, (lower, upper))
        tied = len(set(chosen)) == 2
        sorting.count(tied=tied, inconsistent=tied)
        if sorting.worst:
            chosen = [lower, lower]
        best = lower if chosen == [lower, lower] else upper
        await sorting.emit(sorted((upper, lower), key=best.__ne__), failed=len(chosen) < 2)
        return chosen


async def heapsort(sorting: SortState, ranks: int, children: int, best_of: BestOf) -> None:
    """Build a heap, each row with `children` below it, and take the best off its top.

    Where no reply says which is the best, it is the one that the first stage has first.
    """
    heap = list(sorting.order)

    async def sift_down(place: int) -> None:
        while (first := children * place + 1) < len(heap):
            places = [place, *range(first, min(first + children, len(heap)))]
            rows = [heap[each] for each in places]
            best = await best_of(rows, min)
            below = places[1 if sorting.worst else rows.index(best)]
            if below == place:
                return
            heap[place], heap[below] = heap[below], heap[place]
            place = below

    for place in range((len(heap) - 2) // children, -1, -1):
        await sift_down(place)
    found: list[int] = []
    while heap and len(found) < ranks:
        if found:
            await sift_down(0)
        found.append(heap[0])
        sorting.settle(found)
        last = heap.pop()
        if heap:
            heap[0] = last


def most_of_heap(count: int, ranks: int, children: int) -> int:
    """The most sets of which a heap of `count` rows may need the best."""

    def depth(size: int, place: int) -> int:
        levels = 0
        while (place := children * place + 1) < size:
            levels += 1
        return levels

    built = sum(depth(count, place) for place in range((count - 2) // children + 1))
    return built + sum(depth(left, 0) for left in range(count - 1, max(0, count - ranks), -1))


async def bubblesort(sorting: SortState, ranks: int, step: int, best_of: BestOf) -> None:
    """Let the best rise from the last place, past `step` rows at a time; once for each rank.

    Where no reply says which is the best, the order stays.
    """
    order = sorting.order
    if len(order) == 1:
        sorting.settled = 1
    for top in range(min(ranks, len(order) - 1)):
        for first, end in _steps(len(order), top, step):
            rows = order[first:end]
            best = await best_of(rows, lambda rows: rows[0])
            best = rows[-1] if sorting.worst else best
            order[first:end] = [best, *(row for row in rows if row != best)]
        sorting.settled = top + 1


def most_of_bubbles(count: int, ranks: int, step: int) -> int:
    """The most sets of which the passes over `count` rows may need the best."""
    return sum(len(_steps(count, top, step)) for top in range(min(ranks, count - 1)))


def _steps(count: int, top: int, step: int) -> list[tuple[int, int]]:
    """First place and end of each set of a pass from the last place up to `top`."""
    ends = range(count, top + 1, -step)
    return [(max(top, end - step - 1), end) for end in ends]
