"""Setwise: one call chooses the best of a few passages, and a heap or bubbles sort by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Unpack

from mcranker.config import LARGEST
from mcranker.options import RankerKeywords
from mcranker.rankers.comparative import LETTERS, ComparativeRanker, check_choice, check_whole
from mcranker.rankers.sorting import (
    SortState,
    bubblesort,
    heapsort,
    most_of_bubbles,
    most_of_heap,
)


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
        shared: the keywords of all rankers, see `Ranker`. Without `team`, `team_size` and
            ``require`` there is no team.

    Raises:
        ConfigError, ModelError, PersonasError: as `Ranker`.
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
                await sorting.tell([best, *others], failed=chosen is None)
            return best

        sort = heapsort if self.sort == "heap" else bubblesort
        await sort(sorting, self.ranks, self.children, best_of)

    def _most(self, count: int) -> int:
        most = most_of_heap if self.sort == "heap" else most_of_bubbles
        return most(count, self.ranks, self.children)
