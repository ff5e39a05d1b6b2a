"""RankGPT: a window slides from the last passages to the first, put in order by one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

from mcranker.config import LARGEST, RankerConfig
from mcranker.errors import ConfigError
from mcranker.method.seats import TeamSpec
from mcranker.models import LedgerSpec, ModelSpec, Roles
from mcranker.options import RankerOptions
from mcranker.rankers.comparative import ComparativeRanker, check_whole
from mcranker.rankers.sorting import Sorting
from mcranker.types import Passage

MOST_IN_A_WINDOW = 100
MOST_PASSES = 100


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
        model: answers, as for `MCRanker`.
        recruiter_model: recruits the team's personas, instead of `model`.
        criteria_model: writes their rubrics, instead of `model`.
        assessor_model: a stronger one, for the second stage; None for no second stage.
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

    name: ClassVar[str] = "rankgpt"
    prompt: ClassVar[str] = "rankgpt"

    def __init__(
        self,
        *,
        window: int = 20,
        step: int = 10,
        passes: int = 1,
        reranked: int = 30,
        model: ModelSpec = None,
        recruiter_model: ModelSpec = None,
        criteria_model: ModelSpec = None,
        assessor_model: ModelSpec = None,
        base_url: str | None = None,
        api_key: str | None = None,
        team: TeamSpec | None = None,
        team_size: int | None = None,
        ledger: LedgerSpec = "default",
        config: RankerConfig | None = None,
        **options: Unpack[RankerOptions],
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
        self.reranked = 0 if assessor_model is None else reranked
        super().__init__(
            RankerConfig.of(config, options, team_size=team_size),
            {"window": window, "step": step, "passes": passes, "reranked": self.reranked},
            roles=Roles(model, recruiter_model, criteria_model, assessor=assessor_model),
            base_url=base_url,
            api_key=api_key,
            team=team,
            ledger=ledger,
        )

    async def _sort(self, sorting: Sorting) -> None:
        for number in range(self.passes):
            _tell_apart(sorting, number)
            for start, end in self._windows(len(sorting.order)):
                await self._put_in_order(sorting, start, end, "score")
            sorting.settled = len(sorting.order)
        _tell_apart(sorting, self.passes)
        for start, end in self._windows(min(self.reranked, len(sorting.order))):
            await self._put_in_order(sorting, start, end, "assess")

    def _most(self, count: int) -> int:
        again = len(self._windows(min(self.reranked, count)))
        return self.passes * len(self._windows(count)) + again

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

    async def _put_in_order(
        self, sorting: Sorting, start: int, end: int, stage: Literal["score", "assess"]
    ) -> None:
        rows = sorting.order[start:end]
        named = await self._order(sorting, rows, stage)
        if named is not None:
            rows = [*named, *(row for row in rows if row not in named)]
            sorting.order[start:end] = rows
        await sorting.tell(rows, failed=named is None)


def _tell_apart(sorting: Sorting, number: int) -> None:
    """Have an estimate count the requests of this pass, as the order will be another by then."""
    if sorting.made_up:
        sorting.first_number = 1 + number * MOST_IN_A_WINDOW
