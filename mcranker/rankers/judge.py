"""Base of rankers whose judges are asked about passages: prompts, a team, and a session a query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.events import RankingStarted
from mcranker.llm.models import check_capabilities
from mcranker.logs import safe_logger
from mcranker.method.job import Job
from mcranker.method.session import Session
from mcranker.method.team_plan import TeamPlan
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking
from personas import Member, PromptSet, Team

logger = safe_logger("mcranker")

LONGEST_QUERY = 20_000  # characters that a team's query may have


class JudgeRanker(Ranker):
    """A ranker whose judges are asked; subclasses implement `_run`."""

    keeps_deadline = True  # the session does, and so what has come by then
    by_team: bool = False

    by_personas: ClassVar[bool] = False
    """True if each persona gives a score, or an order, of its own."""

    prompt: str
    """The file of its prompt, without ``.txt``."""

    def _prepare(self, config: RankerConfig) -> RankerConfig:
        if self.team is not None and "team_size" not in config.model_fields_set:
            config = RankerConfig.of(config, {"team_size": len(self.team.members)})
        # Before any model: a team or a folder that cannot be used needs none to be found out.
        self.plan = TeamPlan.of(config, self.team) if self.by_team else TeamPlan()
        if self.team is not None and self.team.shares:
            if not self.by_personas:
                raise ConfigError(
                    f"the members of the team differ in weight, and {self.name} combines no scores "
                    "of personas; give them the same weight, or rank with MCRanker"
                )
            rule = config.rule.for_columns(self.team.members, self.team.names)
            if rule.weights_problem:
                raise ConfigError(rule.weights_problem)
        self.prompts = PromptSet.load(config.prompts)
        return config

    def _adapt(self) -> None:
        before, scoring = self.config, self.models.scoring
        self.config = self._for_models(before)
        if self.by_team:
            self.plan = TeamPlan.of(self.config, self.team)
        self.prompts = PromptSet.load(self.config.prompts)
        self._check_models()
        if self.config != before:
            changes = _changes(before, self.config)
            logger.info("%s answers typed questions, so %s", scoring.name, changes)

    @abstractmethod
    def _for_models(self, config: RankerConfig) -> RankerConfig:
        """Return the configuration with the defaults for these models, where unset."""

    def _check_models(self) -> None:
        """Refuse models that lack a feature the configuration needs, before any call."""
        check_capabilities(self.config, self.models, recruits=self.plan.recruits)

    def open_session(self, job: Job) -> Session:
        """A session that works with this ranker's prompts and team."""
        return Session.open(job, self.prompts, self.plan)

    async def _rank(self, job: Job) -> Ranking:
        session = self.open_session(job)
        rows, query = len(session.distinct), job.query
        await session.emit(RankingStarted(query.id, query.text, rows, job.calls))
        return await self._run(session)

    @abstractmethod
    async def _run(self, session: Session) -> Ranking:
        """Take the session through the stages."""


def team_as_judged(session: Session, members: Sequence[Member]) -> Team:
    """Return the team as it judged, with its rubrics."""
    config, plan = session.config, session.plan
    members = tuple(members)
    query = session.job.query.text.strip()[:LONGEST_QUERY]
    if plan.given is None:
        return Team(members=members, query="" if config.one_team else query)
    made_for_query = plan.recruits > 0 or (
        config.criteria != "dataset"
        and any(
            before.rubric is None and after.rubric is not None
            for before, after in zip(plan.members, members, strict=True)
        )
    )
    changed = {"query": query} if made_for_query else {}
    return plan.given.model_copy(update={"members": members, **changed})


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


def _changes(config: RankerConfig, resolved: RankerConfig) -> str:
    before = config.model_dump()
    listed = [
        f"{name}={value!r}"
        for name, value in resolved.model_dump().items()
        if value != before[name]
    ]
    return f"it works with {', '.join(listed)} unless you choose otherwise"
