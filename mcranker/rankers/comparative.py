"""Base of rankers that compare passages: one question after another, and an order at the end.

What a reply says twice or of passages that were not shown is left out; what it leaves out keeps its
order, as do the passages of a comparison that fails. Both are counted
(`personas.ranking.types.Comparisons`).
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, TypeVar

import anyio
import numpy as np

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, ModelError
from mcranker.llm.chat import ChatReply
from mcranker.logs import safe_logger
from mcranker.method.rubric_text import judge_without_team, rubric_as_text
from mcranker.method.session import Session
from mcranker.method.team import assemble
from mcranker.models import Models
from mcranker.rankers.base import demand, refuse
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.rankers.judge import JudgeRanker, characters_cut, team_as_judged
from mcranker.rankers.sorting import SortState, added_up
from mcranker.ranking import Ranking, combined
from mcranker.replies.orders import ReadOrder, likeliest_first, read_choice, read_order
from mcranker.runtime.bridge import task_group
from personas import Member
from personas.ranking.orders import points, rule_of_points
from personas.ranking.types import Orders, Passage, ScoreMatrix
from personas.ranking.usage import Stage
from personas.templates import Template

T = TypeVar("T")
logger = safe_logger("mcranker")

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_OF_SCORES = (
    *("scoring", "scale", "labels", "ensemble", "questions", "passages_per_call"),
    *("first_stage_weight", "min_relevance"),
)
_OF_ORDERS = ("ensemble", "first_stage_weight")  # of those, what applies to a team's orders


class ComparativeRanker(JudgeRanker):
    """A ranker that shows a model several passages at once. Subclasses say which, in `_sort`.

    With a `team`, or where ``team_size`` or ``require`` is set, each persona compares all passages
    by its own rubric, and the ensemble combines their orders. Options about scores are refused.

    Attributes:
        own: the ranker's own options, as rankings keep them.
    """

    takes_team = takes_instruction = by_personas = True
    roles: ClassVar[tuple[str, ...]] = ("recruiter", "criteria")
    own: Mapping[str, Any]

    team_ensemble: str = "rrf"
    """The ensemble of a team's orders, unless another is chosen."""

    def _prepare(self, config: RankerConfig) -> RankerConfig:
        set_ones = config.model_fields_set
        self.by_team = self.team is not None or "team_size" in set_ones or bool(config.require)
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
            config = RankerConfig.of(config, {"ensemble": self.team_ensemble})
        return super()._prepare(config)

    def _connect(self, given: Mapping[str, Any]) -> Models:
        if not self.by_team and any(given[f"{role}_model"] for role in ("recruiter", "criteria")):
            raise ConfigError(
                f"recruiter_model and criteria_model are a team's, and this {self.name} has none; "
                "give it one with team= or team_size=, or leave them out"
            )
        return super()._connect(given)

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
            return self.prompts.persona_hashes(self.prompt)
        return self.prompts.comparative_hashes(self.prompt)

    @abstractmethod
    async def _sort(self, sorting: SortState) -> None:
        """Compare, and keep ``sorting.order`` up to date: it counts at the deadline."""

    @abstractmethod
    def _most(self, count: int) -> int:
        """Return the most comparisons of `count` passages."""

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        return int(len(passages) > 1 and self._most(len(passages)) > 0)

    async def _run(self, session: Session) -> Ranking:
        """Let each judge sort all passages, and combine their orders.

        Raises:
            ConfigError, ReplyError, ModelError: as `mcranker.method.team.assemble`; no judge had
                an answer, or the model stopped answering.
            MissingScoreError: a comparison failed and ``missing_policy="fail"``.
        """
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
        counts = added_up([each.counts for each in sortings])
        if counts.failed:
            logger.warning(
                "%d of %d comparisons failed, and their passages kept their order; the first: %s",
                counts.failed,
                counts.asked,
                counts.reason,
            )
        return dataclasses.replace(
            ranking,
            config={**ranking.config, **self.own},
            seconds=session.seconds,
            partial=partial,
            cut=characters_cut(session),
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
        by_probability: bool,
    ) -> T | None:
        """Return what `read` makes of the reply; None if the comparison failed, which is counted.

        `shown` are the passages' rows by name. `stage` says whether the scoring model is asked or
        the assessor; `by_probability` whether for the names' probabilities, instead of a text.

        Raises:
            ModelError, MissingScoreError: as `SortState.note_failure`.
        """
        session, names = sorting.session, tuple(shown)
        about = {"query": session.query.text, "count": str(len(names)), "labels": ", ".join(names)}
        template = sorting.template or self.prompts[self.prompt]
        turns = template.bind(about).render({"passages": session.named(shown)})
        try:
            found = await session.ask(
                session.models.scoring if stage == "score" else session.models.assessor,
                turns,
                read,
                stage=stage,
                persona=sorting.persona,
                max_tokens=session.config.max_score_tokens,
                labels=names if by_probability else (),
                passages=len(names),
            )
        except ModelError as error:
            sorting.note_failure(error)
            return None
        sorting.note_answer()
        return found

    async def _order(
        self,
        sorting: SortState,
        rows: Sequence[int],
        stage: Stage = "score",
        *,
        by_probability: bool = False,
    ) -> list[int] | None:
        """Return the rows that the model names, best first; None if the comparison failed.

        What is odd about its reply is counted. With `by_probability` the likeliest letter is the
        best, and those not listed are not named.
        """
        first = sorting.first_number
        names = [str(number) for number in range(first, first + len(rows))]
        if by_probability:
            names = [LETTERS[(first + place - 1) % len(LETTERS)] for place in range(len(rows))]

        def read(reply: ChatReply) -> ReadOrder:
            if by_probability:
                sorting.made_up = sorting.worst and not reply.reused
                return likeliest_first(reply.label_logprobs, names)
            return read_order(reply.text, len(rows), cut=reply.finish_reason == "length")

        shown = dict(zip(names, rows, strict=True))
        found = await self._ask(sorting, shown, read, stage=stage, by_probability=by_probability)
        if found is None:
            return None
        names_of_counts = ("odd", "missing", "repeated", "unknown", "as_shown")
        sorting.count(**{name: getattr(found, name) for name in names_of_counts})
        return [rows[place] for place in found.places]

    async def _choose(self, sorting: SortState, rows: Sequence[int]) -> int | None:
        """Return the row that the model finds most relevant, or None if the comparison failed.

        A model that gives probabilities is asked for those of the letters. Equal ones are the
        first's.
        """
        shown = dict(zip(LETTERS, rows, strict=False))
        by_probability = sorting.session.models.scoring.capabilities.label_logprobs

        def read(reply: ChatReply) -> int:
            if by_probability:
                return likeliest_first(reply.label_logprobs, tuple(shown)).places[0]
            return read_choice(reply.text, tuple(shown), cut=reply.finish_reason == "length")

        place = await self._ask(sorting, shown, read, by_probability=by_probability)
        if place is None:
            return None
        sorting.count(as_shown=place == 0)
        return rows[place]

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
        ranking, row_of = self.ranking_by_order(session.job), session.row_of
        ranks = np.full((len(session.distinct) + 1, len(sortings)), np.nan)  # the last is row -1
        for column, sorting in enumerate(sortings):
            if sorting.persona not in left_out:
                ranks[:-1, column] = sorting.ranks()
        names = tuple(each.persona for each in sortings)
        counts = {each.persona: each.counts for each in sortings}
        orders = Orders(names, ranks[row_of], counts, left_out)
        if len(left_out) < len(sortings):
            known = ranks[:-1, [name not in left_out for name in names]]
            counted = [name for name in names if name not in left_out]
            rule = session.config.rule.for_columns(members, counted)
            rule = rule_of_points(rule, len(known))
            matrix = ScoreMatrix(points(known))
            order, final = combined(rule, matrix, row_of, session.job.passages)
            ranking = dataclasses.replace(ranking, order=order, final=final)
        return dataclasses.replace(
            ranking,
            orders=orders if sortings else None,
            team=team_as_judged(session, members) if members else None,
        )

    def _template_for(self, member: Member, session: Session) -> Template:
        """Return the persona's prompt for comparisons, by its rubric if it has one."""
        values = {"persona": member.name, "description": member.persona.description}
        piece = "comparing_persona" if member.rubric else "comparing_persona_without_criteria"
        values |= rubric_as_text(member, session.prompts) if member.rubric else {}
        judge = self.prompts.piece(piece, values)
        return self.prompts[f"{self.prompt}_by_persona"].bind({"judge": judge})


def check_whole(name: str, value: int, least: int, most: int) -> None:
    """Refuse an option that is no whole number of this range, with a `ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name}={value!r}: give a whole number from {least} to {most:,}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse an option that is not among the choices, with a `ConfigError`."""
    if value not in choices:
        raise ConfigError(f"{name}={value!r}: give one of {', '.join(map(repr, choices))}")
