"""Pairwise ranking prompting: a call finds the better of two, and three ways sort by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import ClassVar, Literal, Unpack

from mcranker.config import LARGEST
from mcranker.options import RankerKeywords
from mcranker.rankers.comparative import ComparativeRanker, check_choice, check_whole
from mcranker.rankers.sorting import (
    SortState,
    bubblesort,
    heapsort,
    most_of_bubbles,
    most_of_heap,
)
from mcranker.runtime.bridge import task_group

_CHILDREN = 2


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
        shared: the keywords of all rankers, see `Ranker`. Without `team`, `team_size` and
            ``require`` there is no team.

    Raises:
        ConfigError, ModelError, PersonasError: as `Ranker`.
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
        await sorting.tell(sorted((upper, lower), key=best.__ne__), failed=len(chosen) < 2)
        return chosen
