"""RankGPT: a window slides from the last passages to the first, put in order by one call each."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Unpack

from mcranker.config import LARGEST
from mcranker.errors import ConfigError
from mcranker.options import RankerKeywords
from mcranker.rankers.base import demand
from mcranker.rankers.comparative import LETTERS, ComparativeRanker, check_whole
from mcranker.rankers.sorting import Pair, SortState
from mcranker.runtime.bridge import task_group
from personas.ranking.types import Passage
from personas.ranking.usage import Stage

MOST_IN_A_WINDOW = MOST_PASSES = MOST_SHUFFLES = 100
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

    With `shuffles` each window is shown in several orders, and what the replies agree on counts:
    "Found in the Middle: Permutation Self-Consistency Improves Listwise Ranking in Large Language
    Models" (Tang et al. 2023, arXiv 2310.07712). With `likelihood` a window is ordered by how
    likely each passage's letter is as the first token of the reply: "FIRST: Faster Improved
    Listwise Reranking with Single Token Decoding" (Gangi Reddy et al. 2024, arXiv 2406.15657),
    without its training.

    >>> RankGPTRanker(model="openai:gpt-5-mini")              # window 20, step 10, as in the paper
    >>> RankGPTRanker(model="openai:gpt-5-mini", passes=2)
    >>> RankGPTRanker(model="openai:gpt-5-mini", shuffles=5)   # five calls a window
    >>> RankGPTRanker(model="openai:gpt-4.1-mini", likelihood=True)  # one token of reply a window
    >>> RankGPTRanker(model="openai:gpt-5-mini", team_size=3)  # each persona's order
    >>> RankGPTRanker(model="openai:gpt-5-mini", assessor_model="openai:gpt-5")

    Args:
        window: passages that one call puts in order, 2 to 100.
        step: passages by which the window moves on, below `window`.
        passes: how often the window goes over all passages.
        shuffles: orders in which each window is shown, 1 to 100; the first is that of the passages.
        likelihood: order a window by its letters' probabilities; `window` is at most 26 then.
        reranked: how many of the first passages the assessor puts in order again, at least 2.
        assessor_model: a stronger one, for the second stage; None for no second stage.
        shared: see `Ranker`, also for errors. A team needs `team`, `team_size` or ``require``.
    """

    name: ClassVar[str] = "rankgpt"
    roles = ("recruiter", "criteria", "assessor")
    prompt = "rankgpt"

    def __init__(
        self,
        *,
        window: int = 20,
        step: int = 10,
        passes: int = 1,
        shuffles: int = 1,
        likelihood: bool = False,
        reranked: int = 30,
        **shared: Unpack[RankerKeywords],
    ) -> None:
        check_whole("window", window, 2, MOST_IN_A_WINDOW)
        check_whole("step", step, 1, MOST_IN_A_WINDOW)
        check_whole("passes", passes, 1, MOST_PASSES)
        check_whole("shuffles", shuffles, 1, MOST_SHUFFLES)
        check_whole("reranked", reranked, 2, LARGEST)
        if step >= window:
            raise ConfigError(
                f"step={step} is not below window={window}, so no passage would go on from one "
                f"window to the next; give 1 to {window - 1}"
            )
        self.window, self.step, self.passes = window, step, passes
        self.shuffles, self.likelihood = shuffles, likelihood
        self.reranked = 0 if shared.get("assessor_model") is None else reranked
        if window - step < SORTED_OUT:
            self.team_ensemble = "reciprocal_rank"
        if likelihood:
            check_whole("window", window, 2, len(LETTERS))
            self.prompt = "setwise"
        names = ("window", "step", "passes", "reranked", "shuffles", "likelihood")
        self.own = {name: getattr(self, name) for name in names}
        super().__init__(**shared)

    def _check_models(self) -> None:
        super()._check_models()
        lack = (
            "gives no log-probabilities, by which likelihood=True puts passages in order; name a "
            "model that does, or leave it out"
        )
        for chat in (self.models.scoring, self.models.assessor) if self.likelihood else ():
            demand(chat, "label_logprobs", lack)

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
        windows = self._windows(count) * self.passes + self._windows(min(self.reranked, count))
        return self._calls(windows)

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        # In later passes, windows that stayed as they were are answered from the ledger.
        return self._calls(self._windows(len(passages)))

    def _calls(self, windows: Sequence[tuple[int, int]]) -> int:
        return sum(min(self.shuffles, math.factorial(end - start)) for start, end in windows)

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
        orders: list[list[int]] = []

        async def ask(shown: Sequence[int]) -> None:
            by_probability = self.likelihood and stage == "score"
            named = await self._order(sorting, shown, stage, by_probability=by_probability)
            if named is not None:
                orders.append(named)

        async with task_group() as group:
            for shown in _shuffled(rows, self.shuffles, sorting.session.query.text):
                group.start_soon(ask, shown)
        agreed, even = _agreed(rows, orders)
        sorting.order[start:end] = agreed
        sorting.count(tied=len(even) if len(orders) > 1 else 0)
        sorting.note({frozenset(pair) for pair in combinations(rows, 2)} - even, decided=True)
        if not sorting.settled:  # else an earlier pass has decided them
            sorting.note(even, decided=False)
        await sorting.emit(agreed, failed=not orders)


def _shuffled(rows: Sequence[int], count: int, query: str) -> list[Sequence[int]]:
    """Return the rows as they are, and random other orders of them, each once; reproducible."""
    draw = random.Random(f"{query} {rows}")  # noqa: S311 - an order is no secret
    found = dict.fromkeys([tuple(rows)])
    while len(found) < min(count, math.factorial(len(rows))):
        found[tuple(draw.sample(rows, len(rows)))] = None
    return list(found)


def _agreed(rows: Sequence[int], orders: Sequence[Sequence[int]]) -> tuple[list[int], set[Pair]]:
    """Return the order that agrees best with the given ones, and the pairs on which they are even.

    That is Borda's, with neighbours swapped that are against the majority. What an order leaves out
    is behind what it names.
    """
    lead: Counter[tuple[int, int]] = Counter()
    for named in orders:
        behind = set(rows)
        for row in named:
            behind.remove(row)
            lead.update((row, other) for other in behind)
            lead.subtract((other, row) for other in behind)
    points = {row: sum(lead[row, other] for other in rows) for row in rows}
    agreed = sorted(rows, key=lambda row: -points[row])
    for last in range(1, len(agreed)):
        for place in range(last, 0, -1):
            before, after = agreed[place - 1 : place + 1]
            if lead[after, before] <= 0:
                break
            agreed[place - 1 : place + 1] = after, before
    return agreed, {frozenset(pair) for pair in combinations(rows, 2) if not lead[pair]}


def _tell_apart(sorting: SortState, number: int) -> None:
    """Count the requests of this pass in an estimate, as the order will be another by then."""
    if sorting.made_up:
        sorting.first_number = 1 + number * (MOST_IN_A_WINDOW + 1)
