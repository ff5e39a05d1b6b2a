"""RankGPT: a window slides from the last passages to the first, put in order by one call each."""

from __future__ import annotations

from typing import ClassVar, Unpack

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.llm.chat import ChatReply
from mcranker.models import LedgerSpec, ModelSpec
from mcranker.options import RankerOptions
from mcranker.rankers.comparative import ComparativeRanker, Sorting, check_whole
from mcranker.replies.orders import ReadOrder, read_order

MOST_IN_A_WINDOW = 100
MOST_PASSES = 100


class RankGPTRanker(ComparativeRanker):
    """Has the model put a window of passages in order, from the last passages up to the first.

    Each window shares ``window - step`` passages with the one before, so that the best rise to
    the top; each pass begins again at the end. "Is ChatGPT Good at Search? Investigating Large
    Language Models as Re-Ranking Agents" (Sun et al. 2023, arXiv 2304.09542), section 3.2.

    n passages take one call a pass up to `window`, else 1 + ceil((n - window) / step).

    >>> RankGPTRanker(model="openai:gpt-5-mini")              # window 20, step 10, as in the paper
    >>> RankGPTRanker(model="openai:gpt-5-mini", passes=2)

    Args:
        window: passages that one call puts in order, 2 to 100.
        step: passages by which the window moves on, below `window`.
        passes: how often the window goes over all passages.
        model: answers, as for `MCRanker`.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        ledger: the file that keeps every answer, as for `MCRanker`.
        config: all other choices as one object; `options` replace single fields.
        options: fields of `RankerConfig`; those about scores and teams have no use here.

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
        model: ModelSpec = None,
        base_url: str | None = None,
        api_key: str | None = None,
        ledger: LedgerSpec = "default",
        config: RankerConfig | None = None,
        **options: Unpack[RankerOptions],
    ) -> None:
        check_whole("window", window, 2, MOST_IN_A_WINDOW)
        check_whole("step", step, 1, MOST_IN_A_WINDOW)
        check_whole("passes", passes, 1, MOST_PASSES)
        if step >= window:
            raise ConfigError(
                f"step={step} is not below window={window}, so no passage would go on from one "
                f"window to the next; give 1 to {window - 1}"
            )
        self.window, self.step, self.passes = window, step, passes
        super().__init__(
            RankerConfig.of(config, options),
            {"window": window, "step": step, "passes": passes},
            model=model,
            base_url=base_url,
            api_key=api_key,
            ledger=ledger,
        )

    async def _sort(self, sorting: Sorting) -> None:
        for _ in range(self.passes):
            for start, end in self._windows(len(sorting.order)):
                await self._put_in_order(sorting, start, end)

    def _most(self, count: int) -> int:
        return self.passes * len(self._windows(count))

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

    async def _put_in_order(self, sorting: Sorting, start: int, end: int) -> None:
        rows = sorting.order[start:end]

        def read(reply: ChatReply) -> ReadOrder:
            return read_order(reply.text, len(rows), cut=reply.finish_reason == "length")

        shown = {str(number): row for number, row in enumerate(rows, start=1)}
        found = await self._ask(sorting, shown, read)
        if found is not None:
            named = [rows[place] for place in found.places]
            rows = [*named, *(row for row in rows if row not in named)]
            sorting.order[start:end] = rows
            sorting.count(
                odd=found.odd,
                missing=found.missing,
                repeated=found.repeated,
                unknown=found.unknown,
            )
        await sorting.tell(rows, failed=found is None)
