"""RankGPT: a window slides from the last passages to the first, put in order by one call each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Unpack

from mcranker.config import LARGEST
from mcranker.errors import ConfigError
from mcranker.llm.chat import ChatReply
from mcranker.options import RankerKeywords
from mcranker.rankers.comparative import ComparativeRanker, SortState, check_whole
from mcranker.replies.orders import ReadOrder, read_order
from personas.ranking.types import Passage
from personas.ranking.usage import Stage

MOST_IN_A_WINDOW = MOST_PASSES = 100
SORTED_OUT = 10
"""First ranks that a pass must sort for ``"rrf"`` to be a team's default."""


class RankGPTRanker(ComparativeRanker):
    """Has the model put a window of passages in order, from the last passages up to the first.

    Each window shares ``window - step`` passages with the one before, so that the best rise to
    the top; each pass begins again at the end. "Is ChatGPT Good at Search? Investigating Large
    Language Models as Re-Ranking Agents" (Sun et al. 2023, arXiv 2304.09542), section 3.2.

    n passages take one call a pass up to `window`, else 1 + ceil((n - window) / step).

    With an `assessor_model` there is a second stage: it puts the first `reranked` passages in order
    again by one more pass over them, as the paper has GPT-4 do with the best of a cheaper model.

    >>> RankGPTRanker(model="openai:gpt-5-mini")              # window 20, step 10, as in the paper
    >>> RankGPTRanker(model="openai:gpt-5-mini", passes=2)
    >>> RankGPTRanker(model="openai:gpt-5-mini", team_size=3)  # each persona's order
    >>> RankGPTRanker(model="openai:gpt-5-mini", assessor_model="openai:gpt-5")

    Args:
        window: passages that one call puts in order, 2 to 100.
        step: passages by which the window moves on, below `window`.
        passes: how often the window goes over all passages.
        reranked: how many of the first passages the assessor puts in order again, at least 2.
        assessor_model: a stronger one, for the second stage; None for no second stage.
        shared: see `Ranker`, also for errors. A team needs `team`, `team_size` or ``require``.
    """

    name: ClassVar[str] = "rankgpt"
    roles = ("recruiter", "criteria", "assessor")

    def __init__(
        self,
        *,
        window: int = 20,
        step: int = 10,
        passes: int = 1,
        reranked: int = 30,
        **shared: Unpack[RankerKeywords],
    ) -> None:
        check_whole("window", window, 2, MOST_IN_A_WINDOW)
        check_whole("step", step, 1, MOST_IN_A_WINDOW)
        check_whole("passes", passes, 1, MOST_PASSES)
        check_whole("reranked", reranked, 2, LARGEST)
        if step >= window:
            raise ConfigError(
                f"step={step} is not below window={window}, so no passage would go on from one "
                f"window to the next; give 1 to {window - 1}"
            )
        self.window, self.step, self.passes = window, step, passes
        self.reranked = 0 if shared.get("assessor_model") is None else reranked
        if window - step < SORTED_OUT:
            self.team_ensemble = "reciprocal_rank"
        names = ("window", "step", "passes", "reranked")
        self.own = {name: getattr(self, name) for name in names}
        super().__init__(**shared)

    async def _sort(self, sorting: SortState) -> None:
        for number in range(self.passes):
            _tell_apart(sorting, number)
            for start, end in self._windows(len(sorting.order)):
                await self._put_in_order(sorting, start, end, "score")
            sorting.settled = len(sorting.order)
        _tell_apart(sorting, self.passes)
        for start, end in self._windows(min(self.reranked, len(sorting.order))):
            await self._put_in_order(sorting, start, end, "assess")

    def _most(self, count: int) -> int:
        second = self._windows(min(self.reranked, count))
        return len(self._windows(count)) * self.passes + len(second)

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        # In later passes, windows that stayed as they were are answered from the ledger.
        return len(self._windows(len(passages)))

    def _windows(self, count: int) -> list[tuple[int, int]]:
        """First place and end of each window, the last passages first; none for one passage."""
        windows = []
        end = count
        while count > 1:
            start = max(0, end - self.window)
            windows.append((start, end))
            if start == 0:
                break
            end -= self.step
        return windows

    async def _put_in_order(self, sorting: SortState, start: int, end: int, stage: Stage) -> None:
        rows = sorting.order[start:end]
        named = await self._order(sorting, rows, stage)
        left_out = [row for row in rows if row not in named]
        ordered = [*named, *left_out]
        sorting.order[start:end] = ordered
        even = {frozenset(pair) for pair in combinations(left_out, 2)}
        sorting.note({frozenset(pair) for pair in combinations(rows, 2)} - even, decided=True)
        if not sorting.settled:  # else an earlier pass has decided them
            sorting.note(even, decided=False)
        await sorting.emit(ordered, failed=not named)

    async def _order(self, sorting: SortState, rows: Sequence[int], stage: Stage) -> list[int]:
        """Return the rows that the model names, best first; none if the comparison failed."""
        names = [str(sorting.first_number + place) for place in range(len(rows))]

        def read(reply: ChatReply) -> ReadOrder:
            return read_order(reply.text, len(rows), cut=reply.finish_reason == "length")

        shown = dict(zip(names, rows, strict=True))
        found = await self._ask(sorting, shown, read, stage=stage)
        if found is None:
            return []
        names_of_counts = ("odd", "missing", "repeated", "unknown", "as_shown")
        sorting.count(**{name: getattr(found, name) for name in names_of_counts})
        return [rows[place] for place in found.places]


def _tell_apart(sorting: SortState, number: int) -> None:
    """Count the requests of this pass in an estimate, as the order will be another by then."""
    if sorting.made_up:
        sorting.first_number = 1 + number * (MOST_IN_A_WINDOW + 1)
