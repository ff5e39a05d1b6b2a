"""Rankers that sort by comparisons: RankGPT orders windows, setwise takes the best of sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from mcranker.config import LARGEST, RankerConfig
from mcranker.llm.chat import ChatReply
from mcranker.rankers.comparative import ComparativeRanker, SortState
from mcranker.replies.orders import ReadOrder, likeliest, read_choice, read_order
from personas.ranking.types import Passage
from personas.ranking.usage import Stage

MOST_IN_A_WINDOW = 100
SORTED_OUT = 10
"""First ranks that a pass must sort for ``"rrf"`` to be a team's default."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class RankGPTConfig(RankerConfig):
    """Options of `RankGPTRanker`."""

    window: Annotated[int, Field(ge=2, le=MOST_IN_A_WINDOW)] = 20
    """Passages that one call puts in order."""
    step: Annotated[int, Field(ge=1, le=MOST_IN_A_WINDOW)] = 10
    """Passages by which the window moves on, below window."""
    reranked: Annotated[int, Field(ge=0, le=LARGEST)] = 30
    """Number of first passages that the assessor puts in order again; 0 without assessor_model."""

    @model_validator(mode="after")
    def _moves_on(self) -> Self:
        if self.step >= self.window:
            raise ValueError(
                f"step={self.step} is not below window={self.window}, so no passage would go on "
                f"from one window to the next; give 1 to {self.window - 1}"
            )
        return self


class RankGPTRanker(ComparativeRanker):
    """Has the model put a window of passages in order, from the last passages up to the first.

    Each window shares ``window - step`` passages with the one before, so that the best rise to
    the top. "Is ChatGPT Good at Search? Investigating Large
    Language Models as Re-Ranking Agents" (Sun et al. 2023, arXiv 2304.09542), section 3.2.

    n passages take one call up to `window`, else 1 + ceil((n - window) / step).

    With an `assessor_model` there is a second stage: it puts the first `reranked` passages in order
    again by one more pass over them, as the paper has GPT-4 do with the best of a cheaper model.

    >>> RankGPTRanker(model="openai:gpt-5-mini")              # window 20, step 10, as in the paper
    >>> RankGPTRanker(model="openai:gpt-5-mini", team_size=3)  # each persona's order
    >>> RankGPTRanker(model="openai:gpt-5-mini", assessor_model="openai:gpt-5")

    Its options are those of `RankGPTConfig` and `Ranker`. A team needs `team`, `team_size` or
    ``require``.
    """

    name: ClassVar[str] = "rankgpt"
    config: RankGPTConfig
    config_class = RankGPTConfig
    roles = ("recruiter", "criteria", "assessor")

    def _prepare(self, config: Any) -> Any:
        if self.given_roles["assessor"] is None:
            config = config.replaced({"reranked": 0})
        if config.window - config.step < SORTED_OUT:
            self.team_ensemble = "reciprocal_rank"
        return super()._prepare(config)

    async def _sort(self, sorting: SortState) -> None:
        for start, end in self._windows(len(sorting.order)):
            await self._put_in_order(sorting, start, end, "score")
        sorting.settled = len(sorting.order)
        for start, end in self._windows(min(self.config.reranked, len(sorting.order))):
            await self._put_in_order(sorting, start, end, "assess")

    def _most(self, count: int) -> int:
        second = self._windows(min(self.config.reranked, count))
        return len(self._windows(count)) + len(second)

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        return len(self._windows(len(passages)))

    def _windows(self, count: int) -> list[tuple[int, int]]:
        """First place and end of each window, the last passages first; none for one passage."""
        window, step = self.config.window, self.config.step
        steps = max(0, -(-(count - window) // step))
        ends = [count - each * step for each in range(steps + 1)] if count > 1 else []
        return [(max(0, end - window), end) for end in ends]

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
        # Behind made-up replies of an estimate, the second stage's windows are not the first's.
        first = 1 + MOST_IN_A_WINDOW * (sorting.made_up and stage == "assess")
        names = [str(first + place) for place in range(len(rows))]

        def read(reply: ChatReply) -> ReadOrder:
            return read_order(reply.text, len(rows), cut=reply.finish_reason == "length")

        shown = dict(zip(names, rows, strict=True))
        found = await self._ask(sorting, shown, read, stage=stage)
        if found is None:
            return []
        names_of_counts = ("odd", "missing", "repeated", "unknown", "as_shown")
        sorting.count(**{name: getattr(found, name) for name in names_of_counts})
        return [rows[place] for place in found.places]


class SetwiseConfig(RankerConfig):
    """Options of `SetwiseRanker`."""

    ranks: Annotated[int, Field(ge=1, le=LARGEST)] = 10
    """First ranks that are sorted out."""
    children: Annotated[int, Field(ge=1, le=len(LETTERS) - 1)] = 3
    """Passages that one call compares with another one."""


class SetwiseRanker(ComparativeRanker):
    """Has the model choose the most relevant of a few passages, and sorts by its choices.

    "A Setwise Approach for Effective and Highly Efficient Zero-shot Ranking with Large Language
    Models" (Zhuang et al. 2024, arXiv 2310.09497), section 3, by the letters' probabilities where
    the model gives them, else by the letter that it writes. A set is shown in first-stage order.

    A heap in which each passage has `children` below it is built, and the best taken off its top
    `ranks` times; the others follow in first-stage order.

    The number of calls depends on the answers: about n / children to build the heap, and for each
    rank at most its depth. No set is asked about twice. An estimate counts the most there may be.

    >>> SetwiseRanker(model="openai:gpt-5-mini")    # sets of 4, the first 10 ranks
    >>> SetwiseRanker(model="openai:gpt-5-mini", children=1)    # pairs

    Its options are those of `SetwiseConfig` and `Ranker`. A team needs `team`, `team_size` or
    ``require``.
    """

    name: ClassVar[str] = "setwise"
    config: SetwiseConfig
    config_class = SetwiseConfig

    async def _sort(self, sorting: SortState) -> None:
        """Build a heap, each row with `children` below it, and take the best off its top."""
        heap, children = list(sorting.order), self.config.children
        known: dict[frozenset[int], int | None] = {}

        async def sift_down(place: int) -> None:
            while (first := children * place + 1) < len(heap):
                places = [place, *range(first, min(first + children, len(heap)))]
                rows = [heap[each] for each in places]
                best = await self._best_of(sorting, rows, known)
                below = places[1 if sorting.worst else rows.index(best)]
                if below == place:
                    return
                heap[place], heap[below] = heap[below], heap[place]
                place = below

        for place in range((len(heap) - 2) // children, -1, -1):
            await sift_down(place)
        found: list[int] = []
        while heap and len(found) < self.config.ranks:
            if found:
                await sift_down(0)
            found.append(heap[0])
            sorting.settle(found)
            last = heap.pop()
            if heap:
                heap[0] = last

    async def _best_of(
        self, sorting: SortState, rows: Sequence[int], known: dict[frozenset[int], int | None]
    ) -> int:
        """Return the row that the model finds most relevant; the first one's if it says none."""
        shown = frozenset(rows)
        is_new = shown not in known
        if is_new:
            known[shown] = await self._choose(sorting, sorted(rows))
        chosen = known[shown]
        best = min(rows) if chosen is None else chosen
        others = [row for row in rows if row != best]
        sorting.note([frozenset((best, row)) for row in others], decided=chosen is not None)
        if is_new:
            await sorting.emit([best, *others], failed=chosen is None)
        return best

    async def _choose(self, sorting: SortState, rows: Sequence[int]) -> int | None:
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

    def _most(self, count: int) -> int:
        def depth(size: int, place: int) -> int:
            levels = 0
            while (place := self.config.children * place + 1) < size:
                levels += 1
            return levels

        built = sum(depth(count, place) for place in range((count - 2) // self.config.children + 1))
        taken = range(count - 1, max(0, count - self.config.ranks), -1)
        return built + sum(depth(left, 0) for left in taken)
