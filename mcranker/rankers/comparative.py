"""Base of rankers that compare passages: one question after another, and an order at the end.

What a reply says twice or of passages that were not shown is left out; what it leaves out keeps its
order, as do the passages of a comparison that fails. Both are counted
(`personas.ranking.types.Comparisons`).
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, TypeVar

import anyio
import numpy as np

from mcranker.config import RankerConfig
from mcranker.errors import (
    FATAL_ERRORS,
    ConfigError,
    FormNotKept,
    MissingScoreError,
    ModelError,
    ReplyError,
)
from mcranker.events import PassagesCompared
from mcranker.llm.chat import ChatReply
from mcranker.logs import safe_logger
from mcranker.method.rubric_text import judge_without_team, rubric_as_text
from mcranker.method.session import Session
from mcranker.method.team import assemble
from mcranker.rankers.judge import JudgeRanker, characters_cut, demand, refuse, team_as_judged
from mcranker.ranking import Ranking, combined
from mcranker.runtime.bridge import task_group
from personas import Member
from personas.ensembles import points
from personas.ranking.hit import Hit
from personas.ranking.types import DEADLINE, Comparisons, Passage, PersonaOrder
from personas.ranking.usage import Stage
from personas.templates import Template
from personas.untrusted import Name

T = TypeVar("T")
_PERSONAS = ("comparing_persona", "comparing_persona_without_criteria")
logger = safe_logger("mcranker")

Pair = frozenset[int]

_DOWN = 3  # failures in a row that are no chance
_OF_SCORES = (
    *("scoring", "scale", "labels", "ensemble", "questions", "passages_per_call"),
    *("first_stage_weight", "min_relevance"),
)
_OF_ORDERS = ("ensemble", "first_stage_weight")  # of those, what applies to a team's orders


class ComparativeRanker(JudgeRanker):
    """A ranker that shows a model several passages at once. Subclasses say which, in `_sort`."""

    takes_team = takes_instruction = by_personas = True
    roles: ClassVar[tuple[str, ...]] = ("recruiter", "criteria")

    team_ensemble: str = "rrf"
    """The ensemble of a team's orders, unless another is chosen."""

    def _prepare(self, config: Any) -> Any:
        set_ones = config.model_fields_set
        self.by_team = self.team is not None or "team_size" in set_ones or bool(config.require)
        if not self.by_team and (self.given_roles["recruiter"] or self.given_roles["criteria"]):
            raise ConfigError(
                f"recruiter_model and criteria_model are a team's, and this {self.name} has none; "
                "give it one with team= or team_size=, or leave them out"
            )
        if self.by_team and config.rule.ensemble.asks:
            raise ConfigError(
                f"ensemble={config.ensemble!r} shows a model the scores of each passage, and "
                f'{self.name} gives orders; use "rrf", "reciprocal_rank" or "sum" (Borda\'s '
                "count)"
            )
        refused = [name for name in _OF_SCORES if not (self.by_team and name in _OF_ORDERS)]
        defaults = {name: RankerConfig.model_fields[name].default for name in refused}
        refuse(
            config,
            defaults,
            f"is about scores, and {self.name} compares passages and gives none; leave it out, or "
            "use another ranker",
        )
        if self.by_team and "ensemble" not in set_ones:
            config = config.replaced({"ensemble": self.team_ensemble})
        return super()._prepare(config)

    def _for_models(self, config: RankerConfig) -> RankerConfig:
        """Take the library's team for models that write none, where unset."""
        if not self.by_team:
            return config
        return config.for_writers(
            self.models.recruiter.capabilities, self.models.criteria.capabilities
        )

    def _check_models(self) -> None:
        does = f"{self.name} compares passages in one; name a model that does with model="
        for chat in (self.models.scoring, self.models.assessor):
            demand(chat, "prompts", f"answers no prompts, and {does}")
        super()._check_models()

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        if self.by_team or config.instruction:
            used = (f"{self.name}_by_persona", *_PERSONAS, "compared_passage")
            return {**self.prompts.hashes, **self.prompts.hashes_of(used)}
        return self.prompts.comparative_hashes(self.name)

    @abstractmethod
    async def _sort(self, sorting: SortState) -> None:
        """Compare, and keep ``sorting.order`` up to date: it counts at the deadline."""

    @abstractmethod
    def _most(self, count: int) -> int:
        """Return the most comparisons of `count` passages."""

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        return int(len(passages) > 1 and self._most(len(passages)) > 0)

    async def _run(self, session: Session) -> Ranking:
        """Let each judge sort all passages, and combine their orders."""
        rows, sortings = len(session.distinct), list[SortState]()
        members = await assemble(session) if self.by_team else []
        one = () if self.by_team else judge_without_team(session.config.instruction) or (None,)
        for judge in (*members, *one):
            sorting = SortState(session, self._most(rows), list(range(rows)), team=sortings)
            sorting.persona = judge.name if judge and self.by_team else ""
            sorting.template = self._template_for(judge, session) if judge else None
            sortings.append(sorting)
        # A model that keeps few prompt prefixes is asked persona by persona.
        places = anyio.CapacityLimiter(session.calls_at_once(session.models.scoring))

        async def sort(sorting: SortState) -> None:
            async with places:
                try:
                    await self._sort(sorting)
                except ModelError as error:
                    ends_all = not self.by_team or isinstance(error, FATAL_ERRORS)
                    if ends_all or not sorting.unanswered:
                        raise

        partial = True
        with session.until_deadline():
            # It may have come while the team was built, and then nothing must begin.
            await anyio.lowlevel.checkpoint_if_cancelled()
            await session.prepare_texts()
            async with task_group() as group:
                for sorting in sortings:
                    group.start_soon(sort, sorting)
            partial = False
        if all(each.unanswered for each in sortings):
            for each in sortings:
                each.check(partial=partial)
        order = self._order_of_team if self.by_team else self._order_of_one
        ranking = order(session, members, sortings)
        counts = _added_up([each.counts for each in sortings])
        if counts.failed:
            logger.warning(
                "%d of %d comparisons failed, and their passages kept their order; the first: %s",
                counts.failed,
                counts.asked,
                counts.reason,
            )
        cut = characters_cut(session)
        return dataclasses.replace(
            ranking,
            seconds=session.seconds,
            partial=partial,
            hits=tuple(
                [dataclasses.replace(hit, cut=cut.get(hit.index, 0)) for hit in ranking.hits]
            ),
            comparisons=counts,
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
        template = sorting.template or self.prompts[self.name]
        turns = template.bind(about).render({"passages": session.named(shown)})
        try:
            found = await session.ask(
                session.models.scoring if stage == "score" else session.models.assessor,
                turns,
                read,
                stage=stage,
                persona=sorting.persona,
                max_tokens=session.config.max_score_tokens,
                labels=labels,
                passages=len(names),
            )
        except ModelError as error:
            sorting.note_failure(error)
            return None
        sorting.note_answer()
        return found

    def _order_of_one(
        self, session: Session, _: Sequence[Member], sortings: Sequence[SortState]
    ) -> Ranking:
        """Return the ranking by the one order."""
        (sorting,) = sortings
        places: dict[int, list[int]] = {}
        for place, row in enumerate(session.group_of.tolist()):
            places.setdefault(row, []).append(place)
        order = [place for row in sorting.order for place in places[row]]
        ranks = sorting.ranks()
        levels = [ranks[row] for row in session.group_of[order].tolist()]
        groups = [list(group) for _, group in groupby(range(len(levels)), levels.__getitem__)]
        undecided = tuple((each[0] + 1, each[-1] + 1) for each in groups if len(each) > 1)
        return dataclasses.replace(self.ranking_by_order(session.job, order), undecided=undecided)

    def _order_of_team(
        self, session: Session, members: Sequence[Member], sortings: Sequence[SortState]
    ) -> Ranking:
        """Return the ranking by the orders that count; if none does, the first stage's order."""
        left_out = {each.persona: why for each in sortings if (why := each.left_out)}
        for name, why in left_out.items():
            logger.warning("%s has given no order and is left out: %s", name, why)
        counted = [each for each in sortings if each.persona not in left_out]
        ranks = {each.persona: each.ranks() for each in counted}
        rows = session.row_of.tolist()
        hits: Sequence[Hit] = [
            Hit.of(passage, place, ranks={name: of[row] for name, of in ranks.items() if row >= 0})
            for place, (passage, row) in enumerate(zip(session.job.passages, rows, strict=True))
        ]
        if counted:
            known = np.array(list(ranks.values()), dtype=np.float64).T
            rule = session.config.rule.for_columns(members, list(ranks)).for_points(len(known))
            hits = combined(rule, hits, points(known), rows)
        return dataclasses.replace(
            self._ranking(session.job, hits),
            orders={
                each.persona: PersonaOrder(
                    **dataclasses.asdict(each.counts), left_out=left_out.get(each.persona, "")
                )
                for each in sortings
            },
            team=team_as_judged(session, members) if members else None,
        )

    def _template_for(self, member: Member, session: Session) -> Template:
        """Return the persona's prompt for comparisons, by its rubric if it has one."""
        values = {"persona": Name(member.name), "description": member.persona.description}
        piece = "comparing_persona" if member.rubric else "comparing_persona_without_criteria"
        values |= rubric_as_text(member, session.prompts) if member.rubric else {}
        judge = self.prompts.piece(piece, values)
        return self.prompts[f"{self.name}_by_persona"].bind({"judge": judge})


@dataclass(slots=True)
class SortState:
    """One query whose passages are being compared."""

    session: Session
    total: int
    order: list[int]
    team: Sequence[SortState]
    persona: str = ""
    template: Template | None = None
    settled: int = 0
    undecided: set[Pair] = field(default_factory=set)
    counts: Comparisons = field(default_factory=Comparisons)
    made_up: bool = False
    first_number: int = 1
    _first: ModelError | None = None
    _in_a_row: int = 0

    @property
    def worst(self) -> bool:
        """True if every comparison is to go the way that leads to the most, for an estimate."""
        return self.session.job.estimated

    def settle(self, first: Sequence[int]) -> None:
        """Put these rows first; the others follow in first-stage order."""
        known = set(first)
        self.order = [*first, *(row for row in range(len(self.order)) if row not in known)]
        self.settled = len(first)

    @property
    def unanswered(self) -> bool:
        """True if comparisons were asked for and none was answered."""
        return bool(self.counts.asked) and self.counts.failed == self.counts.asked

    @property
    def left_out(self) -> str:
        """Reason that a team cannot count the order; empty if it can."""
        if self.unanswered:
            return self.counts.reason
        return "" if self.settled else DEADLINE

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

    def count(self, **more: int) -> None:
        """Add to the counts."""
        sums = {name: getattr(self.counts, name) + value for name, value in more.items()}
        self.counts = dataclasses.replace(self.counts, **sums)

    def note_answer(self) -> None:
        """Count a comparison that was answered."""
        self.count(asked=1)
        self._in_a_row = 0

    def note_failure(self, error: ModelError) -> None:
        """Count a comparison that failed."""
        if isinstance(error, FATAL_ERRORS):
            raise error
        if self.worst:
            self.made_up = True
            return
        answered = self.counts.asked - self.counts.failed
        if isinstance(error, FormNotKept) and not answered:
            raise error
        if self.session.config.missing_policy == "fail":
            raise MissingScoreError(
                f'a comparison failed and missing_policy="fail": {error} Choose another policy to '
                "keep the order of its passages"
            ) from error
        self._first = self._first or error
        self._in_a_row += 1
        self.count(asked=1, failed=1)
        self.counts = dataclasses.replace(self.counts, reason=str(self._first))
        down = error.retryable or not (answered or isinstance(error, ReplyError))
        if down and self._in_a_row >= _DOWN:
            raise error

    def check(self, *, partial: bool) -> None:
        """Check that a comparison was answered, or none was needed."""
        if self._first is not None and self.counts.failed == self.counts.asked and not partial:
            raise self._first

    async def emit(self, rows: Sequence[int], *, failed: bool) -> None:
        """Give the event that these rows were compared; best first."""
        asked = sum(each.counts.asked for each in self.team)
        total = sum(each.total for each in self.team)
        ids = tuple(self.session.passage(row).id for row in rows)
        query_id = self.session.query.id
        event = PassagesCompared(query_id, ids, failed, asked, total, self.persona)
        await self.session.emit(event)


def _added_up(counts: Sequence[Comparisons]) -> Comparisons:
    """Return the sums of the counts, with the first reason."""
    names = [each.name for each in dataclasses.fields(Comparisons) if each.name != "reason"]
    sums = {name: sum(getattr(each, name) for each in counts) for name in names}
    return Comparisons(**sums, reason=next((each.reason for each in counts if each.reason), ""))
