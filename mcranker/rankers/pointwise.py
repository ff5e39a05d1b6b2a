"""Base of pointwise rankers: models, prompts, a team, and scores turned into a ranking."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self

import anyio
import numpy as np
from numpy.typing import NDArray

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, ModelError
from mcranker.events import Emit, RankingStarted
from mcranker.logs import safe_logger
from mcranker.method.seats import Seats, TeamSpec, as_team
from mcranker.method.session import Memory, Session
from mcranker.method.team import Scored, assemble
from mcranker.models import LedgerSpec, Models, Roles, check_capabilities
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking, combined, relevances_of
from personas import Member, PromptError, PromptSet, Team
from personas.ensembles import Rule
from personas.ranking.types import Passage, Query, ScoreMatrix
from personas.templates import OPTIONAL_PROMPTS

logger = safe_logger("mcranker")

_LONGEST_QUERY = 20_000  # characters that a team's query may have


class PointwiseRanker(Ranker):
    """A ranker that scores each passage by itself. Subclasses implement `_run`."""

    absolute = True
    by_personas: ClassVar[bool] = False
    """True if each persona gives a score of its own."""

    def __init__(
        self,
        config: RankerConfig,
        roles: Roles,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        team: TeamSpec | None = None,
        ledger: LedgerSpec = "default",
        needs_team: bool = True,
        prompt: str,
    ) -> None:
        self.team = None if team is None else as_team(team)
        if self.team is not None and "team_size" not in config.model_fields_set:
            config = RankerConfig.of(config, {"team_size": len(self.team.members)})
        if needs_team:
            Seats.of(config, self.team)
        self.writes_rubrics = needs_team
        # Before any model: a team or a folder that cannot be used needs none to be found out.
        PromptSet.load(config.prompts)
        super().__init__(
            model=roles, config=config, base_url=base_url, api_key=api_key, ledger=ledger
        )
        scoring = self.models.scoring
        self.config = config.for_model(scoring.capabilities, team=self.by_personas).for_writers(
            self.models.recruiter.capabilities, self.models.criteria.capabilities
        )
        self.seats = Seats.of(self.config, self.team) if needs_team else Seats()
        self._check_models()
        if self.config.criteria_examples:
            _check_examples(self.config, self.seats)
        self.prompts = PromptSet.load(self.config.prompts)
        _check_answer(self.prompts, prompt, self.config)
        self._memory = Memory()
        if self.config is not config:
            kind = "is a weak model" if scoring.capabilities.weak else "answers typed questions"
            logger.info("%s %s, so %s", scoring.name, kind, _changes(config, self.config))

    @property
    def prompt_hashes(self) -> Mapping[str, str]:
        hashes = dict(self.prompts.hashes)
        if self.config.questions is not None:
            hashes |= self.prompts.hashes_of(OPTIONAL_PROMPTS["typed"])
        if self.config.criteria_examples:
            hashes |= self.prompts.hashes_of(["criteria_examples"])
        return hashes

    def _check_models(self) -> None:
        """Refuse models that lack a feature the configuration needs, before any call."""
        check_capabilities(self.config, self.models, recruits=self.seats.recruits)

    @abstractmethod
    async def _run(self, session: Session) -> Ranking:
        """Take the session through the stages."""

    async def _rank(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        session = self.open_session(query, passages, emit)
        if self.config.deadline is not None:
            session.deadline = anyio.current_time() + self.config.deadline
        if emit is not None:
            await emit(RankingStarted(query.id, query.text, len(session.distinct), session.usage))
        try:
            return await self._run(session)
        except ModelError as error:
            return self._instead_of(error, query, passages, session.usage)

    async def _rank_in_time(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        # The session keeps the deadline, and so what has come by then.
        return await self._rank(query, passages, emit)

    def _double(self, models: Models) -> Self:
        double = super()._double(models)
        double._memory = self._memory.copy()  # noqa: SLF001 - of the same class
        double.seats = self.seats.for_estimates()
        return double

    def open_session(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Session:
        """A session that works with this ranker's configuration, models and prompts."""
        return Session.open(
            query,
            passages,
            config=self.config,
            models=self.models,
            prompts=self.prompts,
            memory=self._memory,
            emit=emit,
        )

    async def assemble(self, session: Session) -> Sequence[Member]:
        """Return the team with its rubrics; a locked team gets none.

        Raises:
            ConfigError, ReplyError, ModelError: as `mcranker.method.team.assemble`.
        """
        locked = self.team is not None and self.team.locked
        return await assemble(session, self.seats, locked=locked)

    def build_team(self, session: Session, members: Sequence[Member]) -> Team:
        """The team as it judged, see `team_as_judged`."""
        return team_as_judged(session, members, given=self.team, seats=self.seats)

    def build_ranking(
        self,
        session: Session,
        scored: Scored,
        *,
        left_out: Collection[int] = (),
        rule: Rule | None = None,
    ) -> Ranking:
        """The finished ranking: scores combined (Eq. 4), ties by first-stage order.

        A passage that was not scored by all ranks where the highest score that it could have
        reached puts it. Passages beyond ``depth``, and those that no judge scored, follow in
        first-stage order.

        Args:
            session: the query.
            scored: what came of it.
            left_out: rows of the matrix that get no final score; they follow as well.
            rule: how scores become final ones, instead of the configuration's.

        Raises:
            MissingScoreError: a score is missing and ``missing="fail"``.
        """
        beyond = len(session.given) - len(session.passages)
        rows = np.concatenate([session.group_of, np.full(beyond, -1, dtype=np.intp)])
        matrix, assessed = scored.matrix, scored.assessed
        judged = np.where(np.isin(rows, list(left_out)), -1, rows)
        rule = rule or self.config.rule
        return Ranking(
            query=session.asked,
            passages=session.given,
            **combined(
                rule,
                matrix,
                judged,
                session.given,
                assessed=assessed,
                refuse_missing=self.config.missing == "fail",
            ),
            absolute=self.absolute,
            relevances=relevances_of(rule, matrix, judged, assessed) if self.absolute else {},
            matrix=matrix.take(rows),
            personas=tuple(scored.names),
            team=self.build_team(session, scored.members) if scored.members else None,
            ranker=self.name,
            config=self.config.recorded(),
            models=self._models_used(session.usage),
            prompt_hashes=self.prompt_hashes,
            calls=session.usage,
            seconds={**session.seconds, "total": time.perf_counter() - session.started},
            assessor_reasons=_reasons(scored.assessed, rows),
            partial=scored.partial,
            cut=characters_cut(session),
            weak_judge=self.models.scoring.capabilities.weak_judge,
        )


def _check_examples(config: RankerConfig, seats: Seats) -> None:
    """Refuse examples of rubrics where everybody has one."""
    bring_one = config.recruiting == "library" and config.criteria == "library"
    if (seats.recruits and not bring_one) or any(each.rubric is None for each in seats.members):
        return
    raise ConfigError(
        f"criteria_examples={config.criteria_examples} shows rubrics to those who write criteria, "
        "and all personas of this team have some already; leave it out, or have criteria written "
        '(criteria="query", recruiting="invent")'
    )


def _check_answer(prompts: PromptSet, prompt: str, config: RankerConfig) -> None:
    """Refuse a scheme whose instruction has no place in the scoring prompt."""
    if config.questions or config.scoring == "integer":
        return
    if "answer" not in prompts[prompt].placeholders:
        raise PromptError(
            f"prompts={config.prompts!r}: {prompt}.txt has no {{{{answer}}}}, so the model is not "
            f"told how to answer with scoring={config.scoring!r}; write {{{{answer}}}} there, or "
            'use scoring="integer"'
        )


def _changes(config: RankerConfig, resolved: RankerConfig) -> str:
    before = config.model_dump()
    changed = {
        name: value for name, value in resolved.model_dump().items() if value != before[name]
    }
    if not changed:
        return "nothing changes"
    listed = ", ".join(f"{name.replace('_', ' ')} {_said(each)}" for name, each in changed.items())
    return f"unless you choose otherwise, it works with: {listed}"


def _said(value: Any) -> str:
    match value:
        case tuple() | list():
            return "/".join(map(str, value))
        case True | False:
            return "on" if value else "off"
    return str(value)


def team_as_judged(
    session: Session, members: Sequence[Member], *, given: Team | None, seats: Seats
) -> Team:
    """The team as it judged, rubrics included.

    A team that was given keeps its name, description and lock; it keeps its query too,
    unless a persona was recruited or a rubric written for this one.
    """
    config = session.config
    members = tuple(members)
    query = session.asked.text.strip()[:_LONGEST_QUERY]
    if given is None:
        return Team(members=members, query="" if config.one_team else query)
    made_for_query = seats.recruits > 0 or (
        config.criteria != "dataset"
        and any(
            before.rubric is None and after.rubric is not None
            for before, after in zip(seats.members, members, strict=True)
        )
    )
    changed = {"query": query} if made_for_query else {}
    return given.model_copy(update={"members": members, **changed})


def characters_cut(session: Session) -> dict[int, int]:
    """Return the place of each passage that was cut -> characters that models did not see."""
    config = session.config
    if config.max_passage_words is None and config.max_passage_tokens is None:
        return {}
    lengths = [len(each.text) - len(session.shown_text(each)) for each in session.passages]
    cut = {row: length for row, length in enumerate(lengths) if length}
    if cut:
        logger.info("%d of %d passages were cut for the model", len(cut), len(lengths))
    return cut


def _reasons(assessed: ScoreMatrix | None, rows: NDArray[np.intp]) -> dict[int, str]:
    if assessed is None:
        return {}
    return {row: why for (row, _), why in assessed.take(rows).reasons.items()}
