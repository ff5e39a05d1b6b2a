"""Pairwise ranking prompting: neighbours change places where a call finds the lower one better."""

from __future__ import annotations

from typing import ClassVar, Unpack

from mcranker.config import LARGEST, RankerConfig
from mcranker.method.seats import TeamSpec
from mcranker.models import LedgerSpec, ModelSpec, Roles
from mcranker.options import RankerOptions
from mcranker.rankers.comparative import ComparativeRanker, check_whole
from mcranker.rankers.sorting import Sorting
from mcranker.runtime.bridge import task_group


class PairwiseRanker(ComparativeRanker):
    """Has the model choose the better of two passages, and lets the best rise: PRP-Sliding-K.

    Each pass goes from the last passage to the first and swaps neighbours where the lower one is
    better; after so many passes, as many first ranks are sorted out. Every pair is shown in both
    orders, and if the choice depends on the order, it is a tie and nothing is swapped. No pair is
    asked about twice. "Large Language Models are Effective Text Rankers with Pairwise Ranking
    Prompting" (Qin et al. 2024, arXiv 2306.17563), section 3, by the letters' probabilities where
    the model gives them, else by the letter that it writes.

    n passages take at most 2 · (n - 1 + n - 2 + ... ) calls, one term a rank; an estimate counts
    so many.

    >>> PairwiseRanker(model="openai:gpt-5-mini")    # ten passes

    Args:
        ranks: so many first ranks are sorted out, K of the paper; at least 1.
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

    name: ClassVar[str] = "pairwise"
    prompt: ClassVar[str] = "pairwise"

    def __init__(
        self,
        *,
        ranks: int = 10,
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
        self.ranks = ranks
        super().__init__(
            RankerConfig.of(config, options, team_size=team_size),
            {"ranks": ranks},
            roles=Roles(model, recruiter_model, criteria_model),
            base_url=base_url,
            api_key=api_key,
            team=team,
            ledger=ledger,
        )

    async def _sort(self, sorting: Sorting) -> None:
        order = sorting.order
        better: dict[frozenset[int], int | None] = {}
        if len(order) == 1:
            sorting.settled = 1
        for top in range(min(self.ranks, len(order) - 1)):
            for lower in range(len(order) - 1, top, -1):
                pair = order[lower - 1], order[lower]
                known = frozenset(pair)
                if known not in better:
                    better[known] = await self._better_of(sorting, *pair)
                if better[known] == pair[1]:
                    order[lower - 1], order[lower] = order[lower], order[lower - 1]
            sorting.settled = top + 1

    def _most(self, count: int) -> int:
        return 2 * sum(count - top for top in range(1, min(self.ranks, count - 1) + 1))

    async def _better_of(self, sorting: Sorting, upper: int, lower: int) -> int | None:
        """The better one, chosen in both orders; None for a tie, or if a comparison failed."""
        chosen: dict[int, int | None] = {}

        async def choose(first: int, second: int) -> None:
            chosen[first] = await self._choose(sorting, (first, second))

        async with task_group() as group:
            group.start_soon(choose, upper, lower)
            group.start_soon(choose, lower, upper)
        failed = None in chosen.values()
        tied = not failed and chosen[upper] != chosen[lower]
        sorting.count(tied=tied)
        best = lower if sorting.worst else None if failed or tied else chosen[upper]
        await sorting.tell((lower, upper) if best == lower else (upper, lower), failed=failed)
        return best
