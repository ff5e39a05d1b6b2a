"""Setwise ranking: a call chooses the best of a few passages, and a sort uses the choices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Literal, TypeAlias, Unpack

from mcranker.config import LARGEST
from mcranker.llm.chat import ChatReply
from mcranker.options import RankerKeywords
from mcranker.rankers.comparative import ComparativeRanker, SortState, check_choice, check_whole
from mcranker.replies.orders import likeliest, read_choice

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

BestOf: TypeAlias = Callable[[Sequence[int]], Awaitable[int]]


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
    >>> SetwiseRanker(model="openai:gpt-5-mini", children=1, sort="bubble")    # pairs

    Args:
        ranks: first ranks that are sorted out, at least 1.
        children: passages that one call compares with another one, 1 to 25.
        sort: ``"heap"`` or ``"bubble"``.
        shared: see `Ranker`, also for errors. A team needs `team`, `team_size` or ``require``.
    """

    name: ClassVar[str] = "setwise"

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

        async def best_of(rows: Sequence[int]) -> int:
            shown = frozenset(rows)
            is_new = shown not in known
            if is_new:
                known[shown] = await self._choose(sorting, sorted(rows))
            chosen = known[shown]
            kept = min(rows) if self.sort == "heap" else rows[0]
            best = kept if chosen is None else chosen
            others = [row for row in rows if row != best]
            sorting.note([frozenset((best, row)) for row in others], decided=chosen is not None)
            if is_new:
                await sorting.emit([best, *others], failed=chosen is None)
            return best

        sort = self._heapsort if self.sort == "heap" else self._bubblesort
        await sort(sorting, best_of)

    async def _choose(self, sorting: SortState, rows: Sequence[int]) -> int | None:
        """Return the row that the model finds most relevant, or None if the comparison failed."""
        shown = dict(zip(LETTERS, rows, strict=False))
        labels = tuple(shown)
        by_probability = sorting.session.models.scoring.capabilities.label_logprobs

        def read(reply: ChatReply) -> int:
            if by_probability:
                return likeliest(reply.label_logprobs, labels)
            return read_choice(reply.text, labels, cut=reply.finish_reason == "length")

        place = await self._ask(sorting, shown, read, labels=labels if by_probability else ())
        if place is None:
            return None
        sorting.count(as_shown=place == 0)
        return rows[place]

    async def _heapsort(self, sorting: SortState, best_of: BestOf) -> None:
        """Build a heap, each row with `children` below it, and take the best off its top."""
        heap, children = list(sorting.order), self.children

        async def sift_down(place: int) -> None:
            while (first := children * place + 1) < len(heap):
                places = [place, *range(first, min(first + children, len(heap)))]
                rows = [heap[each] for each in places]
                best = await best_of(rows)
                below = places[1 if sorting.worst else rows.index(best)]
                if below == place:
                    return
                heap[place], heap[below] = heap[below], heap[place]
                place = below

        for place in range((len(heap) - 2) // children, -1, -1):
            await sift_down(place)
        found: list[int] = []
        while heap and len(found) < self.ranks:
            if found:
                await sift_down(0)
            found.append(heap[0])
            sorting.settle(found)
            last = heap.pop()
            if heap:
                heap[0] = last

    async def _bubblesort(self, sorting: SortState, best_of: BestOf) -> None:
        """Let the best rise from the last place, past `children` rows at a time, for each rank."""
        order = sorting.order
        if len(order) == 1:
            sorting.settled = 1
        for top in range(min(self.ranks, len(order) - 1)):
            for first, end in self._steps(len(order), top):
                rows = order[first:end]
                best = await best_of(rows)
                best = rows[-1] if sorting.worst else best
                order[first:end] = [best, *(row for row in rows if row != best)]
            sorting.settled = top + 1

    def _steps(self, count: int, top: int) -> list[tuple[int, int]]:
        """First place and end of each set of a pass from the last place up to `top`."""
        ends = range(count, top + 1, -self.children)
        return [(max(top, end - self.children - 1), end) for end in ends]

    def _most(self, count: int) -> int:
        if self.sort == "bubble":
            return sum(len(self._steps(count, top)) for top in range(min(self.ranks, count - 1)))

        def depth(size: int, place: int) -> int:
            levels = 0
            while (place := self.children * place + 1) < size:
                levels += 1
            return levels

        built = sum(depth(count, place) for place in range((count - 2) // self.children + 1))
        taken = range(count - 1, max(0, count - self.ranks), -1)
        return built + sum(depth(left, 0) for left in taken)
