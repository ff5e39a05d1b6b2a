"""Rankers that compare passages: RankGPT orders windows, setwise takes the best of sets.

What a reply says twice or of passages that were not shown is left out; what it leaves out keeps its
order, as do the passages of a comparison that fails. Both are counted
(`personas.ranking.types.Comparisons`).
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from mcranker.config import LARGEST, RankerConfig
from mcranker.errors import (
    FATAL_ERRORS,
    FormNotKept,
    MissingScoreError,
    ModelError,
    ReplyError,
)
from mcranker.events import PassagesCompared
from mcranker.llm.chat import ChatReply
from mcranker.logs import safe_logger
from mcranker.method.annotator import judge_without_team, rubric_as_text
from mcranker.method.session import Session
from mcranker.rankers.judge import JudgeRanker, characters_cut, demand, refuse
from mcranker.ranking import Ranking
from mcranker.replies.orders import ReadOrder, likeliest, read_choice, read_order
from personas.ranking.types import Comparisons, Passage
from personas.ranking.usage import Stage
from personas.templates import Template

T = TypeVar("T")
logger = safe_logger("mcranker")

Pair = frozenset[int]

MOST_IN_A_WINDOW = 100
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOWN = 3  # failures in a row that are no chance
_OF_SCORES = (
    *("scoring", "scale", "labels", "ensemble", "questions", "passages_per_call"),
    *("first_stage_weight", "min_relevance"),
)


class ComparativeRanker(JudgeRanker):
    """A ranker that shows a model several passages at once. Subclasses say which, in `_sort`."""

    takes_instruction = True

    def _prepare(self, config: Any) -> Any:
        refuse(
            config,
            {name: RankerConfig.model_fields[name].default for name in _OF_SCORES},
            f"is about scores, and {self.name} compares passages and gives none; leave it out, or "
            "use another ranker",
        )
        return super()._prepare(config)

    def _for_models(self, config: RankerConfig) -> RankerConfig:
        return config

    def _check_models(self) -> None:
        does = f"{self.name} compares passages in one; name a model that does with model="
        for chat in (self.models.scoring, self.models.assessor):
            demand(chat, "prompts", f"answers no prompts, and {does}")
        super()._check_models()

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        if not config.instruction:
            return self.prompts.comparative_hashes(self.name)
        used = (f"{self.name}_with_criteria", "compared_passage")
        return {**self.prompts.hashes, **self.prompts.hashes_of(used)}

    @abstractmethod
    async def _sort(self, sorting: SortState) -> None:
        """Compare, and keep ``sorting.order`` up to date: it counts at the deadline."""

    @abstractmethod
    def _most(self, count: int) -> int:
        """Return the most comparisons of `count` passages."""

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        return int(len(passages) > 1 and self._most(len(passages)) > 0)

    async def _run(self, session: Session) -> Ranking:
        count, template = len(session.distinct), self.prompts[self.name]
        for judge in judge_without_team(session.config.instruction):
            template = self.prompts[f"{self.name}_with_criteria"].bind(
                rubric_as_text(judge, self.prompts)
            )
        sorting = SortState(session, template, self._most(count), list(range(count)))
        partial = True
        with session.until_deadline():
            await session.prepare_texts()
            await self._sort(sorting)
            partial = False
        failure = sorting.first_failure
        counts = Comparisons(**sorting.tally, reason=str(failure) if failure else "")
        if failure and not partial and counts.asked == counts.failed:
            raise failure
        if counts.failed:
            logger.warning(
                "%d of %d comparisons failed, and their passages kept their order; the first: %s",
                counts.failed,
                counts.asked,
                counts.reason,
            )
        places: dict[int, list[int]] = {}
        for place, row in enumerate(session.group_of.tolist()):
            places.setdefault(row, []).append(place)
        order = [place for row in sorting.order for place in places[row]]
        ranking, cut = self.ranking_by_order(session.job, order), characters_cut(session)
        return dataclasses.replace(
            ranking,
            seconds=session.seconds,
            partial=partial,
            hits=tuple(
                [dataclasses.replace(hit, cut=cut.get(hit.index, 0)) for hit in ranking.hits]
            ),
            comparisons=counts,
            undecided=_undecided(sorting.ranks(), session.group_of[order].tolist()),
            weak_judge=session.models.scoring.capabilities.weak_judge,
        )

    async def _ask(
        self,
        sorting: SortState,
        shown: Mapping[str, int],
        read: Callable[[ChatReply], T],
        *,
        stage: Stage = "score",
        labels: tuple[str, ...] = (),
    ) -> T | None:
        """Return what `read` makes of the reply; None if the comparison failed."""
        session, names = sorting.session, tuple(shown)
        about = {"query": session.query.text, "count": str(len(names)), "labels": ", ".join(names)}
        turns = sorting.template.bind(about).render({"passages": session.named(shown)})
        try:
            found = await session.ask(
                session.models.scoring if stage == "score" else session.models.assessor,
                turns,
                read,
                stage=stage,
                max_tokens=session.config.max_score_tokens,
                labels=labels,
                passages=len(names),
            )
        except ModelError as error:
            sorting.note_failure(error)
            return None
        sorting.tally.update(asked=1)
        sorting.in_a_row = 0
        return found


def _undecided(rank_of: Sequence[int], rows: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the first and last rank of each run of rows that share a rank."""
    groups = [list(group) for _, group in groupby(range(len(rows)), lambda n: rank_of[rows[n]])]
    return tuple((each[0] + 1, each[-1] + 1) for each in groups if len(each) > 1)


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
    >>> RankGPTRanker(model="openai:gpt-5-mini", assessor_model="openai:gpt-5")

    Its options are those of `RankGPTConfig` and `Ranker`.
    """

    name: ClassVar[str] = "rankgpt"
    config: RankGPTConfig
    config_class = RankGPTConfig
    roles = ("assessor",)

    def _prepare(self, config: Any) -> Any:
        if self.given_roles["assessor"] is None:
            config = config.replaced({"reranked": 0})
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
        counted = ("odd", "missing", "repeated", "unknown", "as_shown")
        sorting.tally.update({name: getattr(found, name) for name in counted})
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

    Its options are those of `SetwiseConfig` and `Ranker`.
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
        sorting.tally.update(as_shown=place == 0)
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


@dataclass(slots=True)
class SortState:
    """One query whose passages are being compared."""

    session: Session
    template: Template
    total: int
    order: list[int]
    settled: int = 0
    undecided: set[Pair] = field(default_factory=set)
    tally: Counter[str] = field(default_factory=Counter)
    first_failure: ModelError | None = None
    in_a_row: int = 0  # failures
    made_up: bool = False

    @property
    def worst(self) -> bool:
        """True if every comparison is to go the way that leads to the most, for an estimate."""
        return self.session.job.estimated

    def settle(self, first: Sequence[int]) -> None:
        """Put these rows first; the others follow in first-stage order."""
        known = set(first)
        self.order = [*first, *(row for row in range(len(self.order)) if row not in known)]
        self.settled = len(first)

    def ranks(self) -> list[int]:
        """Return the rank of each row, from 1; undecided ones share their first rank."""
        ranks, rank = [0] * len(self.order), 1
        for place, row in enumerate(self.order):
            before = self.order[place - 1]
            if place <= self.settled and frozenset((before, row)) not in self.undecided:
                rank = place + 1
            ranks[row] = rank
        return ranks

    def note(self, pairs: Iterable[Pair], *, decided: bool) -> None:
        """Take down whether a reply decides the order of these pairs."""
        if decided:
            self.undecided.difference_update(pairs)
        else:
            self.undecided.update(pairs)

    def note_failure(self, error: ModelError) -> None:
        """Count a comparison that failed."""
        if isinstance(error, FATAL_ERRORS):
            raise error
        if self.worst:
            self.made_up = True
            return
        answered = self.tally["asked"] > self.tally["failed"]
        if isinstance(error, FormNotKept) and not answered:
            raise error
        if self.session.config.missing_policy == "fail":
            raise MissingScoreError(
                f'a comparison failed and missing_policy="fail": {error} Choose another policy to '
                "keep the order of its passages"
            ) from error
        self.first_failure = self.first_failure or error
        self.in_a_row += 1
        self.tally.update(asked=1, failed=1)
        down = error.retryable or not (answered or isinstance(error, ReplyError))
        if down and self.in_a_row >= _DOWN:
            raise error

    async def emit(self, rows: Sequence[int], *, failed: bool) -> None:
        """Give the event that these rows were compared; best first."""
        ids = tuple(self.session.passage(row).id for row in rows)
        query_id, asked = self.session.query.id, self.tally["asked"]
        await self.session.emit(PassagesCompared(query_id, ids, failed, asked, self.total))
