"""Setwise: a heap of passages, in which one call chooses the best of a parent and its children."""

from __future__ import annotations

from typing import ClassVar, Unpack

from mcranker.config import LARGEST, RankerConfig
from mcranker.method.seats import TeamSpec
from mcranker.models import LedgerSpec, ModelSpec, Roles
from mcranker.options import RankerOptions
from mcranker.rankers.comparative import LETTERS, ComparativeRanker, check_whole
from mcranker.rankers.sorting import Sorting


class SetwiseRanker(ComparativeRanker):
    """Has the model choose the most relevant of a few passages, and sorts by heapsort.

    A heap in which each passage has `children` below it is built and the best taken off its top
    `ranks` times. The other passages follow in first-stage order. "A Setwise Approach for
    Effective and Highly Efficient Zero-shot Ranking with Large Language Models" (Zhuang et al.
    2024, arXiv 2310.09497), section 3: heapsort, by the letters' probabilities where the model
    gives them, else by the letter that it writes.

    The number of calls depends on the answers; it is about n / children to build the heap, and
    for each rank at most the depth of the heap. An estimate counts the most there may be.

    >>> SetwiseRanker(model="openai:gpt-5-mini")    # sets of 4, the first 10 ranks

    Args:
        ranks: so many first ranks are sorted out, at least 1.
        children: passages that one call compares with the one above them, 1 to 25.
        model: answers, as for `MCRanker`.
        recruiter_model: recruits the team's personas, instead of `model`.
        criteria_model: writes their rubrics, instead of `model`.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        team: compares instead of a recruited team, as for `MCRanker`.
        team_size: personas on the team, as for `MCRanker`; None for no team, or those of `team`.
        ledger: the file that keeps every answer, as for `MCRanker`.
        config: all other choices as one object; `options` replace single fields.
        options: fields of `RankerConfig`; those about scores are refused. ``require`` asks for a
            team as well.

    Raises:
        ConfigError, ModelError, PersonasError: as `MCRanker`.
    """

    name: ClassVar[str] = "setwise"
    prompt: ClassVar[str] = "setwise"

    def __init__(
        self,
        *,
        ranks: int = 10,
        children: int = 3,
        model: ModelSpec = None,
        recruiter_model: ModelSpec = None,
        criteria_model: ModelSpec = None,
        base_url: str | None = None,
        api_key: str | None = None,
        team: TeamSpec | None = None,
        team_size: int | None = None,
        ledger: LedgerSpec = "default",
        config: RankerConfig | None = None,
        **options: Unpack[RankerOptions],
    ) -> None:
        check_whole("ranks", ranks, 1, LARGEST)
        check_whole("children", children, 1, len(LETTERS) - 1)
        self.ranks, self.children = ranks, children
        super().__init__(
            RankerConfig.of(config, options, team_size=team_size),
            {"ranks": ranks, "children": children},
            roles=Roles(model, recruiter_model, criteria_model),
            base_url=base_url,
            api_key=api_key,
            team=team,
            ledger=ledger,
        )

    async def _sort(self, sorting: Sorting) -> None:
        heap = list(sorting.order)
        for place in self._parents(len(heap)):
            await self._sift_down(sorting, heap, place)
        found: list[int] = []
        while heap and len(found) < self.ranks:
            if found:
                await self._sift_down(sorting, heap, 0)
            found.append(heap[0])
            sorting.settle(found)
            last = heap.pop()
            if heap:
                heap[0] = last

    def _most(self, count: int) -> int:
        built = sum(self._depth(count, place) for place in self._parents(count))
        after = range(count - 1, max(0, count - self.ranks), -1)
        return built + sum(self._depth(left, 0) for left in after)

    def _parents(self, count: int) -> range:
        """Places in a heap that have others below them, the last first."""
        return range((count - 2) // self.children, -1, -1)

    def _depth(self, count: int, place: int) -> int:
        """How many levels a heap of so many has below a place, at most."""
        levels = 0
        while (place := self.children * place + 1) < count:
            levels += 1
        return levels

    async def _sift_down(self, sorting: Sorting, heap: list[int], place: int) -> None:
        """Let the passage sink until it is the best of those compared with it."""
        while (first := self.children * place + 1) < len(heap):
            places = [place, *range(first, min(first + self.children, len(heap)))]
            rows = [heap[each] for each in places]
            chosen = await self._choose(sorting, rows)
            best = rows[1] if sorting.worst else rows[0] if chosen is None else chosen
            await sorting.tell([best, *(row for row in rows if row != best)], failed=chosen is None)
            if best == rows[0]:
                return
            below = places[rows.index(best)]
            heap[place], heap[below] = heap[below], heap[place]
            place = below
