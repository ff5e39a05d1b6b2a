"""Base of rankers that compare passages: one question after another, and an order at the end.

A reply is repaired by leaving out what it says twice or of passages that were not shown; what it
leaves out keeps its order. A comparison that fails leaves its passages as they are. Both are
counted (`personas.ranking.types.Comparisons`), and each passage is ranked once.
"""

from __future__ import annotations

import dataclasses
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Self, TypeVar

import anyio
import numpy as np

from mcranker.config import WEAK_MODEL_DEFAULTS, RankerConfig
from mcranker.errors import ConfigError, ModelError, UnsupportedCapability
from mcranker.events import Emit, RankingStarted
from mcranker.llm.chat import ChatReply
from mcranker.logs import safe_logger
from mcranker.method.rubric_text import judge_without_team, rubric_as_text
from mcranker.method.seats import Seats, TeamSpec, as_team
from mcranker.method.session import Memory, Session
from mcranker.method.team import assemble
from mcranker.models import LedgerSpec, Models, Roles, check_capabilities
from mcranker.rankers.base import Ranker
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.rankers.pointwise import characters_cut, team_as_judged
from mcranker.rankers.sorting import Sorting
from mcranker.ranking import Ranking, combined
from mcranker.replies.orders import ReadOrder, likeliest_first, read_choice, read_order
from mcranker.runtime.bridge import task_group
from personas import Member, PromptSet
from personas.ranking.orders import points, rule_of_points
from personas.ranking.types import Comparisons, Orders, Passage, Query, ScoreMatrix
from personas.ranking.usage import Stage
from personas.templates import Template

T = TypeVar("T")
logger = safe_logger("mcranker")

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_OF_SCORES = (
    *("scoring", "scale", "labels", "ensemble", "questions", "passages_per_call", "top_k"),
    *("first_stage_weight", "min_relevance"),
)
_OF_ORDERS = ("ensemble", "first_stage_weight")
"""Options about scores that apply to a team's orders as well."""

_WEAK_TEAM = ("prompts", "recruiting", "criteria")
"""Options added for a weak model that is to be a team."""


class ComparativeRanker(Ranker):
    """A ranker that shows a model several passages at once. Subclasses say which, in `_sort`.

    With a `team`, or where ``team_size`` or ``require`` is set, each persona compares all passages
    by its own rubric, and the ensemble combines their orders.
    """

    takes_instruction = True
    team_ensemble: str = "rrf"
    """The ensemble of a team's orders, unless another is chosen."""

    prompt: str
    """The file of its prompt, without ``.txt``."""

    def __init__(
        self,
        config: RankerConfig,
        own: Mapping[str, Any],
        *,
        roles: Roles,
        base_url: str | None = None,
        api_key: str | None = None,
        team: TeamSpec | None = None,
        ledger: LedgerSpec = "default",
    ) -> None:
        self.team = None if team is None else as_team(team)
        set_ones = config.model_fields_set
        self.by_team = team is not None or "team_size" in set_ones or bool(config.require)
        _refuse_score_options(config, self.name, by_team=self.by_team)
        if self.by_team:
            size = None if self.team is None else len(self.team.members)
            config = _of_team(config, size, self.team_ensemble)
        elif roles.recruiter is not None or roles.criteria is not None:
            raise ConfigError(
                f"recruiter_model and criteria_model are a team's, and this {self.name} has none; "
                "give it one with team= or team_size=, or leave them out"
            )
        # Before any model: a team or a folder that cannot be used needs none to be found out.
        self.seats = Seats.of(config, self.team) if self.by_team else Seats()
        self.prompts = PromptSet.load(config.prompts)
        super().__init__(
            model=roles, config=config, base_url=base_url, api_key=api_key, ledger=ledger
        )
        for chat in (self.models.scoring, self.models.assessor):
            if not chat.capabilities.prompts:
                raise UnsupportedCapability(
                    f"{chat.name} answers no prompts, and {self.name} compares passages in one; "
                    "name a model that does with model=",
                    model=chat.name,
                )
        self._adapt()
        check_capabilities(self.config, self.models, recruits=self.seats.recruits)
        self._own = own
        self._worst = False
        self._memory = Memory()

    @property
    def prompt_hashes(self) -> Mapping[str, str]:
        if self.by_team or self.config.instruction:
            return self.prompts.persona_hashes(self.prompt)
        return self.prompts.comparative_hashes(self.prompt)

    def _adapt(self) -> None:
        """Take the defaults for weak models, and for those that write nothing, where unset."""
        config, scoring = self.config, self.models.scoring
        chosen: dict[str, Any] = {}
        if scoring.capabilities.weak:
            names = ("max_passage_words", *(_WEAK_TEAM if self.by_team else ()))
            taken = {"max_passage_words"} if "max_passage_tokens" in config.model_fields_set else ()
            taken = {*taken, *config.model_fields_set}
            chosen = {name: WEAK_MODEL_DEFAULTS[name] for name in names if name not in taken}
        if chosen:
            self.config = RankerConfig.of(config, chosen)
            said = ", ".join(f"{name}={value}" for name, value in chosen.items())
            logger.info("%s is a weak model, so %s", scoring.name, said)
        if self.by_team:
            self.config = self.config.for_writers(
                self.models.recruiter.capabilities, self.models.criteria.capabilities
            )
            self.seats = Seats.of(self.config, self.team)
            self.prompts = PromptSet.load(self.config.prompts)

    @abstractmethod
    async def _sort(self, sorting: Sorting) -> None:
        """Compare, and keep ``sorting.order`` up to date: it counts at the deadline."""

    @abstractmethod
    def _most(self, count: int) -> int:
        """Return the most comparisons of `count` passages."""

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        return int(len(passages) > 1 and self._most(len(passages)) > 0)

    def _double(self, models: Models) -> Self:
        double = super()._double(models)
        double._worst = True  # noqa: SLF001 - of the same class
        double._memory = self._memory.copy()  # noqa: SLF001 - of the same class
        double.seats = self.seats.for_estimates()
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
            memory=self._memory,
            emit=emit,
        )
        if self.config.deadline is not None:
            session.deadline = anyio.current_time() + self.config.deadline
        session.gives_up = not self._worst
        rows = len(session.distinct)
        await session.tell(RankingStarted(query.id, query.text, rows, session.usage))
        if self.by_team:
            try:
                return await self._rank_by_team(session)
            except ModelError as error:
                return self._instead_of(error, query, passages, session.usage)
        sorting = Sorting(session, self._most(rows), list(range(rows)), self._worst)
        for judge in judge_without_team(self.config.instruction):
            sorting.template = self._template_for(judge, session)
        partial = True
        try:
            with session.until_deadline():
                await session.prepare_texts()
                await self._sort(sorting)
                partial = False
            sorting.check(partial=partial)
        except ModelError as error:
            return self._instead_of(error, query, passages, session.usage)
        return self._ranking_of(sorting, partial=partial)

    async def _rank_by_team(self, session: Session) -> Ranking:
        """Build the team, let each of its members sort all passages, and combine their orders.

        Raises:
            ConfigError, ReplyError, ModelError: as `mcranker.method.team.assemble`.
            ModelError: no member has had an answer, or the model stopped answering.
            MissingScoreError: a comparison failed and ``missing="fail"``.
        """
        locked = self.team is not None and self.team.locked
        members = await assemble(session, self.seats, locked=locked)
        rows, sortings = len(session.distinct), list[Sorting]()
        for member in members:
            order = list(range(rows))
            template = self._template_for(member, session)
            sorting = Sorting(session, self._most(rows), order, self._worst, sortings)
            sorting.persona, sorting.template = member.name, template
            sortings.append(sorting)
        # A model that keeps few prompt prefixes is asked persona by persona.
        places = anyio.CapacityLimiter(session.calls_at_once(self.models.scoring))

        async def sort(sorting: Sorting) -> None:
            async with places:
                try:
                    await self._sort(sorting)
                except ModelError as error:
                    if isinstance(error, FATAL_ERRORS) or not sorting.unanswered:
                        raise

        partial = True
        with session.until_deadline():
            # It may have come while the team was built, and then nothing must begin.
            await anyio.lowlevel.checkpoint_if_cancelled()
            async with task_group() as group:
                for sorting in sortings:
                    group.start_soon(sort, sorting)
            partial = False
        if not any(not each.unanswered for each in sortings):
            for each in sortings:
                each.check(partial=partial)
        return self._ranking_of_team(session, members, sortings, partial=partial)

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
        stage: Stage = "score",
        by_probability: bool,
    ) -> T | None:
        """Return what `read` makes of the reply; None if the comparison failed, which is counted.

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
        template = sorting.template or self.prompts[self.prompt]
        turns = template.bind(about).render({"passages": "\n\n".join(passages)})
        try:
            found = await session.ask(
                self.models.scoring if stage == "score" else self.models.assessor,
                turns,
                read,
                stage=stage,
                persona=sorting.persona,
                max_tokens=self.config.max_score_tokens,
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
        sorting: Sorting,
        rows: Sequence[int],
        stage: Stage = "score",
        *,
        by_probability: bool = False,
    ) -> list[int] | None:
        """Return the rows that the model names, best first; None if the comparison failed.

        What is odd about its reply is counted. `stage` and `by_probability` as for `_ask`; with
        the latter the likeliest letter is the best, and those not listed are not named.
        """
        first = sorting.first_number
        names = [str(number) for number in range(first, first + len(rows))]
        if by_probability:
            names = [LETTERS[(first + place - 1) % len(LETTERS)] for place in range(len(rows))]

        def read(reply: ChatReply) -> ReadOrder:
            if by_probability:
                sorting.made_up = sorting.worst and not reply.reused
                return likeliest_first(reply.label_logprobs or {}, names)
            return read_order(reply.text, len(rows), cut=reply.finish_reason == "length")

        shown = dict(zip(names, rows, strict=True))
        found = await self._ask(sorting, shown, read, stage=stage, by_probability=by_probability)
        if found is None:
            return None
        sorting.count(
            odd=found.odd,
            missing=found.missing,
            repeated=found.repeated,
            unknown=found.unknown,
            as_shown=found.as_shown,
        )
        return [rows[place] for place in found.places]

    async def _choose(self, sorting: Sorting, rows: Sequence[int]) -> int | None:
        """Return the row that the model finds most relevant, or None if the comparison failed.

        A model that gives probabilities is asked for those of the letters. Equal ones are the
        first's.
        """
        shown = dict(zip(LETTERS, rows, strict=False))
        by_probability = self.models.scoring.capabilities.label_logprobs

        def read(reply: ChatReply) -> int:
            if by_probability:
                return likeliest_first(reply.label_logprobs or {}, tuple(shown)).places[0]
            return read_choice(reply.text, tuple(shown), cut=reply.finish_reason == "length")

        place = await self._ask(sorting, shown, read, by_probability=by_probability)
        if place is None:
            return None
        sorting.count(as_shown=place == 0)
        return rows[place]

    def _ranking_of(self, sorting: Sorting, *, partial: bool) -> Ranking:
        session = sorting.session
        places: dict[int, list[int]] = {}
        for place, row in enumerate(session.group_of.tolist()):
            places.setdefault(row, []).append(place)
        order = [place for row in sorting.order for place in places[row]]
        ranking = self.ranking_by_order(session.asked, session.given, order, calls=session.usage)
        ranks = sorting.ranks()
        levels = [ranks[row] for row in session.group_of[order].tolist()]
        groups = [list(group) for _, group in groupby(range(len(levels)), levels.__getitem__)]
        undecided = tuple((each[0] + 1, each[-1] + 1) for each in groups if len(each) > 1)
        ranking = dataclasses.replace(ranking, undecided=undecided)
        return self._finished(ranking, session, sorting.counts, partial=partial)

    def _ranking_of_team(
        self,
        session: Session,
        members: Sequence[Member],
        sortings: Sequence[Sorting],
        *,
        partial: bool,
    ) -> Ranking:
        """Return the ranking by the orders that count; if none does, the first stage's order."""
        left_out = {each.persona: why for each in sortings if (why := each.left_out)}
        for name, why in left_out.items():
            logger.warning("%s has given no order and is left out: %s", name, why)
        places = range(len(session.given))
        ranking = self.ranking_by_order(session.asked, session.given, places, calls=session.usage)
        beyond = len(session.given) - len(session.passages)
        row_of = np.concatenate([session.group_of, np.full(beyond, -1, dtype=np.intp)])
        ranks = np.full((len(session.distinct) + 1, len(sortings)), np.nan)  # the last is row -1
        for column, sorting in enumerate(sortings):
            if sorting.persona not in left_out:
                ranks[:-1, column] = sorting.ranks()
        names = tuple(each.persona for each in sortings)
        counts = {each.persona: each.counts for each in sortings}
        orders = Orders(names, ranks[row_of], counts, left_out)
        ranking = dataclasses.replace(
            ranking,
            orders=orders if sortings else None,
            team=team_as_judged(session, members, given=self.team, seats=self.seats)
            if members
            else None,
        )
        if len(left_out) < len(sortings):
            known = ranks[:-1, [name not in left_out for name in names]]
            rule = rule_of_points(self.config.rule, len(known))
            matrix = ScoreMatrix(points(known))
            fields = combined(rule, matrix, row_of, session.given)
            ranking = dataclasses.replace(ranking, **fields)
        total = Sorting(session, 0, [], worst=False)
        for sorting in sortings:
            total.add(sorting.counts)
        return self._finished(ranking, session, total.counts, partial=partial)

    def _template_for(self, member: Member, session: Session) -> Template:
        """Return the persona's prompt for comparisons, by its rubric if it has one."""
        values = {"persona": member.name, "description": member.persona.description}
        piece = "comparing_persona_without_criteria"
        if member.rubric is not None:
            piece = "comparing_persona"
            values |= rubric_as_text(member, session.prompts)
        judge = self.prompts.piece(piece, values)
        return self.prompts[f"{self.prompt}_by_persona"].bind({"judge": judge})

    def _finished(
        self, ranking: Ranking, session: Session, counts: Comparisons, *, partial: bool
    ) -> Ranking:
        """Return the ranking with the results at its end."""
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


def check_whole(name: str, value: int, least: int, most: int) -> None:
    """Refuse an option that is no whole number of this range.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name}={value!r}: give a whole number from {least} to {most:,}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse an option that is not among the choices.

    Raises:
        ConfigError: it is none.
    """
    if value not in choices:
        raise ConfigError(f"{name}={value!r}: give one of {', '.join(map(repr, choices))}")


def _of_team(config: RankerConfig, members: int | None, ensemble: str) -> RankerConfig:
    """The configuration of a team of given members, with the ensemble for orders."""
    chosen: dict[str, Any] = {}
    if members is not None and "team_size" not in config.model_fields_set:
        chosen["team_size"] = members
    if "ensemble" not in config.model_fields_set:
        chosen["ensemble"] = ensemble
    return RankerConfig.of(config, chosen)


def _refuse_score_options(config: RankerConfig, ranker: str, *, by_team: bool) -> None:
    """Refuse options that need scores, instead of ignoring them silently."""
    if by_team and config.rule.ensemble.asks:
        raise ConfigError(
            f"ensemble={config.ensemble!r} shows a model the scores of each passage, and {ranker} "
            'gives orders; use "rrf", "reciprocal_rank" or "sum" (Borda\'s count)'
        )
    for name in _OF_SCORES:
        if by_team and name in _OF_ORDERS:
            continue
        if getattr(config, name) != RankerConfig.model_fields[name].default:
            raise ConfigError(
                f"{name}={getattr(config, name)!r} is about scores, and {ranker} compares "
                "passages and gives none; leave it out, or use another ranker"
            )
