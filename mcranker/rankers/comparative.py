"""What rankers share that compare passages: one question after another, and an order at the end.

A reply is repaired by leaving out what it says twice or of passages that were not shown; what it
leaves out keeps its order. A comparison that fails leaves its passages as they are. Both are
counted (`mcranker.types.Comparisons`), and each passage is ranked once.
"""

from __future__ import annotations

import dataclasses
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self, TypeVar

import anyio

from mcranker.config import WEAK_MODEL_DEFAULTS, RankerConfig
from mcranker.errors import ConfigError, MissingScoreError, ModelError, UnsupportedCapability
from mcranker.events import Emit, PassagesCompared, RankingStarted
from mcranker.llm.chat import ChatReply
from mcranker.logs import safe_logger
from mcranker.method.session import Memory, Session
from mcranker.models import LedgerSpec, Models, ModelSpec, Roles, check_capabilities
from mcranker.rankers.base import Ranker
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.rankers.pointwise import characters_cut
from mcranker.ranking import Ranking
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.orders import read_choice
from mcranker.types import Comparisons, Passage, Query
from personas import PromptSet

T = TypeVar("T")
logger = safe_logger("mcranker")

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_HOPELESS = 3  # failures in a row that are no chance
_OF_SCORES = (
    *("scoring", "scale", "labels", "ensemble", "questions", "passages_per_call", "top_k"),
    *("first_stage_weight", "min_relevance"),
)


class ComparativeRanker(Ranker):
    """A ranker that shows a model several passages at once. Subclasses say which, in `_sort`."""

    prompt: ClassVar[str]
    """The file of its prompt, without ``.txt``."""

    def __init__(
        self,
        config: RankerConfig,
        own: Mapping[str, int],
        *,
        model: ModelSpec | Roles = None,
        base_url: str | None = None,
        api_key: str | None = None,
        ledger: LedgerSpec = "default",
    ) -> None:
        _refuse_score_options(config, self.name)
        # Before any model: a folder that cannot be used needs none to be found out.
        self.prompts = PromptSet.load(config.prompts)
        super().__init__(
            model=model, config=config, base_url=base_url, api_key=api_key, ledger=ledger
        )
        for chat in (self.models.scoring, self.models.assessor):
            if not chat.capabilities.prompts:
                raise UnsupportedCapability(
                    f"{chat.name} answers no prompts, and {self.name} compares passages in one; "
                    "name a model that does with model= (--model)",
                    model=chat.name,
                )
        check_capabilities(config, self.models, recruits=0)
        if self.models.scoring.capabilities.weak and not {
            "max_passage_words",
            "max_passage_tokens",
        } & set(config.model_fields_set):
            words = WEAK_MODEL_DEFAULTS["max_passage_words"]
            self.config = RankerConfig.of(config, {"max_passage_words": words})
            logger.info(
                "%s is a weak model, so max_passage_words=%s", self.models.scoring.name, words
            )
        self._own = own
        self._worst = False

    @property
    def prompt_hashes(self) -> Mapping[str, str]:
        return self.prompts.comparative_hashes(self.prompt)

    @abstractmethod
    async def _sort(self, sorting: Sorting) -> None:
        """Compare, and keep ``sorting.order`` up to date: it counts at the deadline."""

    @abstractmethod
    def _most(self, count: int) -> int:
        """The most comparisons that so many passages may take."""

    def _double(self, models: Models) -> Self:
        double = super()._double(models)
        double._worst = True  # noqa: SLF001 - of the same class
        return double

    async def _rank(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        session = Session.open(
            query,
            passages,
            config=self.config,
            models=self.models,
            prompts=self.prompts,
            memory=Memory(),
            emit=emit,
        )
        if self.config.deadline is not None:
            session.deadline = anyio.current_time() + self.config.deadline
        rows = len(session.distinct)
        await session.tell(RankingStarted(query.id, query.text, rows))
        sorting = Sorting(session, self._most(rows), list(range(rows)), self._worst)
        partial = True
        try:
            with session.until_deadline():
                await session.cut_by_tokens()
                await self._sort(sorting)
                partial = False
            sorting.check(partial=partial)
        except ModelError as error:
            return self._instead_of(error, query, passages, session.usage)
        return self._ranking_of(sorting, partial=partial)

    async def _rank_in_time(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        # The session keeps the deadline, and so what is known by then.
        return await self._rank(query, passages, emit)

    async def _ask(
        self,
        sorting: Sorting,
        shown: Mapping[str, int],
        read: Callable[[ChatReply], T],
        *,
        stage: Literal["score", "assess"] = "score",
        by_probability: bool = False,
    ) -> T | None:
        """What `read` makes of the reply; None if the comparison failed, which is counted.

        Args:
            sorting: the query.
            shown: the passages' rows, by the names that they are shown under.
            read: makes something of a reply, or raises `Unreadable`.
            stage: which of the models is asked: that which scores, or the assessor.
            by_probability: read the names' probabilities, instead of a text.

        Raises:
            ModelError, MissingScoreError: as `Sorting.note_failure`.
        """
        session, names = sorting.session, tuple(shown)
        passages = [
            self.prompts.piece(
                "compared_passage",
                {"name": name, "passage": session.fenced(session.passage(row))},
            )
            for name, row in shown.items()
        ]
        about = {
            "query": session.query.text,
            "count": str(len(names)),
            "labels": ", ".join(names),
        }
        turns = self.prompts[self.prompt].bind(about).render({"passages": "\n\n".join(passages)})
        try:
            found = await session.ask(
                self.models.scoring if stage == "score" else self.models.assessor,
                turns,
                read,
                stage=stage,
                max_tokens=self.config.max_score_tokens,
                labels=names if by_probability else (),
            )
        except ModelError as error:
            sorting.note_failure(error)
            return None
        sorting.note_answer()
        return found

    async def _choose(self, sorting: Sorting, rows: Sequence[int]) -> int | None:
        """The row that the model finds most relevant, or None if the comparison failed.

        A model that gives probabilities is asked for those of the letters. Equal ones are the
        first's.
        """
        shown = dict(zip(LETTERS, rows, strict=False))
        by_probability = self.models.scoring.capabilities.label_logprobs

        def read(reply: ChatReply) -> int:
            if by_probability:
                return _likeliest(reply.label_logprobs or {}, tuple(shown))
            return read_choice(reply.text, tuple(shown), cut=reply.finish_reason == "length")

        place = await self._ask(sorting, shown, read, by_probability=by_probability)
        return None if place is None else rows[place]

    def _ranking_of(self, sorting: Sorting, *, partial: bool) -> Ranking:
        session, counts = sorting.session, sorting.counts
        places: dict[int, list[int]] = {}
        for place, row in enumerate(session.group_of.tolist()):
            places.setdefault(row, []).append(place)
        order = [place for row in sorting.order for place in places[row]]
        ranking = self.ranking_by_order(session.asked, session.given, order, calls=session.usage)
        if counts.failed:
            logger.warning(
                "%d of %d comparisons failed, and their passages kept their order; the first: %s",
                counts.failed,
                counts.asked,
                counts.reason,
            )
        return dataclasses.replace(
            ranking,
            config={**ranking.config, **self._own},
            seconds={**session.seconds, "total": time.perf_counter() - session.started},
            partial=partial,
            cut=characters_cut(session),
            comparisons=counts,
            weak_judge=self.models.scoring.capabilities.weak_judge,
        )


@dataclass(slots=True)
class Sorting:
    """One query whose passages are being compared.

    Passages are named by their row in `Session.distinct`: equal ones are compared as one.

    Attributes:
        session: the query.
        total: the most comparisons that there may be.
        order: rows, best first, as far as is known by now; always each once.
        worst: every comparison is to go the way that leads to the most of them, for estimates.
        counts: what came of the replies.
    """

    session: Session
    total: int
    order: list[int]
    worst: bool
    counts: Comparisons = field(default_factory=Comparisons)
    _first: ModelError | None = None
    _in_a_row: int = 0

    def settle(self, first: Sequence[int]) -> None:
        """Put these rows first; the others follow in first-stage order."""
        known = set(first)
        self.order = [*first, *(row for row in range(len(self.order)) if row not in known)]

    def count(self, **more: int) -> None:
        """Add to the counts."""
        sums = {name: getattr(self.counts, name) + value for name, value in more.items()}
        self.counts = dataclasses.replace(self.counts, **sums)

    def note_answer(self) -> None:
        """Count a comparison that was answered."""
        self.count(asked=1)
        self._in_a_row = 0

    def note_failure(self, error: ModelError) -> None:
        """Count a comparison that failed.

        Raises:
            ModelError: further comparisons would fail as well: it is an error of that kind, or
                nothing has been answered yet, or the model did not answer several times.
            MissingScoreError: ``missing="fail"``.
        """
        if isinstance(error, FATAL_ERRORS):
            raise error
        if self.worst:
            return  # a reply that was made up
        if self.session.config.missing == "fail":
            raise MissingScoreError(
                f'a comparison failed and missing="fail": {error} Choose another policy to keep '
                "the order of its passages"
            ) from error
        self._first = self._first or error
        self._in_a_row += 1
        self.count(asked=1, failed=1)
        self.counts = dataclasses.replace(self.counts, reason=str(self._first))
        nothing_answered = self.counts.failed == self.counts.asked
        if self._in_a_row >= _HOPELESS and (nothing_answered or error.retryable):
            raise error

    def check(self, *, partial: bool) -> None:
        """See that this is a ranking: something was answered, if anything was asked.

        Raises:
            ModelError: the first failure, if nothing was.
        """
        if self._first is not None and self.counts.failed == self.counts.asked and not partial:
            raise self._first

    async def tell(self, rows: Sequence[int], *, failed: bool) -> None:
        """Give the event that these rows were compared; best first."""
        await self.session.tell(
            PassagesCompared(
                self.session.query.id,
                tuple(self.session.passage(row).id for row in rows),
                failed,
                self.counts.asked,
                self.total,
            )
        )


def check_whole(name: str, value: int, least: int, most: int) -> None:
    """Refuse an option that is no whole number of this range.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name}={value!r}: give a whole number from {least} to {most:,}")


def _refuse_score_options(config: RankerConfig, ranker: str) -> None:
    """Refuse what needs scores, instead of leaving it out unsaid."""
    for name in _OF_SCORES:
        if getattr(config, name) != RankerConfig.model_fields[name].default:
            raise ConfigError(
                f"{name}={getattr(config, name)!r} is about scores, and {ranker} compares "
                "passages and gives none; leave it out, or use another ranker"
            )


def _likeliest(logprobs: Mapping[str, float], labels: Sequence[str]) -> int:
    """The place of the likeliest label, of equal ones the first.

    Raises:
        Unreadable: none of the labels is listed.
    """
    known = [logprobs.get(label, -math.inf) for label in labels]
    known = [each if each < math.inf else -math.inf for each in known]  # NaN is below nothing
    if max(known) == -math.inf:
        raise Unreadable(f"none of the letters {', '.join(labels)} is among the likely answers.")
    return known.index(max(known))
