"""Rankers whose judges are asked about passages, and MCRanker: the paper's method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from mcranker.config import PRESETS, RankerConfig
from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.events import Emit, RankingStarted
from mcranker.llm.chat import ChatModel
from mcranker.llm.models import ROLES, check_capabilities
from mcranker.logs import safe_logger
from mcranker.method.annotator import PromptJudge, ScorePrompt, judge_without_team
from mcranker.method.batch_judge import BatchJudge
from mcranker.method.ensembler import Scored, assemble, score_by_judge, score_by_team
from mcranker.method.questions import QuestionSheet
from mcranker.method.recruiter import NO_EXAMPLE
from mcranker.method.session import Job, Session
from mcranker.method.team_plan import TeamPlan
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking, combined, refuse_missing
from mcranker.runtime.actor import Actor
from personas import Member, PromptError, PromptSet, Team
from personas.ensembles import Rule
from personas.ranking.hit import Hit
from personas.ranking.types import ASSESSOR, Passage, Query
from personas.templates import OPTIONAL_PROMPTS

logger = safe_logger("mcranker")

LONGEST_QUERY = 20_000  # characters that a team's query may have
NO_TEAM: Mapping[str, Any] = MappingProxyType({"criteria": "none", "recruiting": "library"})
"""Options of a ranker for which nothing is written."""

_OF_TEAMS = (
    *("team_size", "nlp_scientist", "recruiting", "require", "criteria", "dataset"),
    *("dataset_team", "example_rank", "snake_case_personas"),
)


class JudgeRanker(Ranker):
    """A ranker whose judges are asked; subclasses implement `_run`."""

    keeps_deadline = True  # the session does, and so what has come by then
    by_team: bool = False

    by_personas: ClassVar[bool] = False
    """True if each persona gives a score of its own."""

    prompt: str
    """The file of its prompt, without ``.txt``."""

    without_team: Mapping[str, Any] = MappingProxyType({})
    """Values that it gives to options of a team, where it has none."""

    for_a_team: ClassVar[str] = "rank with MCRanker"
    """Advice to users who name such an option."""

    def _prepare(self, config: Any) -> Any:
        if not self.by_team:
            config = self._without_team(config)
        if self.team is not None and "team_size" not in config.model_fields_set:
            config = config.replaced({"team_size": len(self.team.members)})
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

    def _without_team(self, config: Any) -> Any:
        """Refuse options of a team, but for values of the preset or the ranker itself."""
        known = {name: RankerConfig.model_fields[name].default for name in _OF_TEAMS}
        known |= {name: v for name, v in PRESETS[config.preset].items() if name in known}
        why = f"is about a team, and {self.name} has none; leave it out, or {self.for_a_team}"
        refuse(config, {**known, "team_size": None, **self.without_team}, why)
        return config.replaced(self.without_team)

    def _adapt(self) -> None:
        before, scoring = self.config, self.models.scoring
        self.config = self._for_models(before)
        if self.by_team:
            self.plan = TeamPlan.of(self.config, self.team)
        self.prompts = PromptSet.load(self.config.prompts)
        self._check_models()
        if self.config != before:
            old = before.model_dump()
            changes = [f"{k}={v!r}" for k, v in self.config.model_dump().items() if v != old[k]]
            logger.info(
                "%s answers typed questions: %s by default",
                scoring.name,
                ", ".join(changes),
            )

    @abstractmethod
    def _for_models(self, config: RankerConfig) -> RankerConfig:
        """Return the configuration with the defaults for these models, where unset."""

    def _check_models(self) -> None:
        """Refuse models that lack a feature the configuration needs, before any call."""
        check_capabilities(self.config, self.models, recruits=self.plan.recruits)

    async def _rank(self, job: Job) -> Ranking:
        session = Session.open(job, self.prompts, self.plan)
        rows, query = len(session.distinct), job.query
        await session.emit(RankingStarted(query.id, query.text, rows, job.calls))
        return await self._run(session)

    @abstractmethod
    async def _run(self, session: Session) -> Ranking:
        """Take the session through the stages."""


class PointwiseRanker(JudgeRanker):
    """A ranker that scores each passage by itself. Subclasses implement `_run`."""

    absolute = True
    prompt = "direct"

    def _for_models(self, config: RankerConfig) -> RankerConfig:
        models = self.models
        config = config.for_model(models.scoring.capabilities)
        return config.for_writers(models.recruiter.capabilities, models.criteria.capabilities)

    def _check_models(self) -> None:
        super()._check_models()
        config = self.config
        reads_prompt = not config.questions and config.scoring != "integer"
        if reads_prompt and "answer" not in self.prompts[self.prompt].placeholders:
            raise PromptError(
                f"prompts={config.prompts!r}: {self.prompt}.txt has no {{{{answer}}}}, so the "
                f"model is not told how to answer with scoring={config.scoring!r}; write "
                '{{answer}} there, or use scoring="integer"'
            )

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        if config.questions is None:
            return self.prompts.hashes
        return {**self.prompts.hashes, **self.prompts.hashes_of(OPTIONAL_PROMPTS["typed"])}

    def build_ranking(
        self,
        session: Session,
        scored: Scored,
        *,
        left_out: Mapping[int, float] | None = None,
        rule: Rule | None = None,
        team: Team | None = None,
    ) -> Ranking:
        """Return the finished ranking: scores combined (Eq. 4), ties by first-stage order."""
        job, rows, dropped = session.job, session.row_of.tolist(), left_out or {}
        matrix, assessed = scored.matrix, scored.assessed
        if session.config.missing_policy == "fail":
            refuse_missing(matrix, assessed)
        if team is None and scored.members:
            team = team_as_judged(session, scored.members)
        cut = characters_cut(session)
        hits = []
        for place, (passage, row) in enumerate(zip(job.passages, rows, strict=True)):
            given = matrix.rows[row] if row >= 0 else [None] * len(scored.names)
            said = assessed.rows[row][0] if assessed and row >= 0 else None
            lost = said is not None and said.value is None
            hits.append(
                Hit.of(
                    passage,
                    place,
                    dict(zip(scored.names, given, strict=True)),
                    team.members if team else (),
                    missing={ASSESSOR: said.reason} if said is not None and lost else {},
                    cut=cut.get(place, 0),
                    dropped=dropped.get(row),
                )
            )
        ranked = combined(
            (rule or session.config.rule).for_columns(scored.members, scored.names),
            hits,
            matrix.values,
            [-1 if row in dropped else row for row in rows] if dropped else rows,
            assessed=assessed.values[:, 0] if assessed else None,
            absolute=self.absolute,
        )
        return self._ranking(
            job,
            ranked,
            personas=tuple(scored.names),
            team=team,
            seconds=session.seconds,
            partial=scored.partial,
            weak_judge=session.models.scoring.capabilities.weak_judge,
        )


class MCRanker(PointwiseRanker):
    """Ranks passages with a team of personas that write weighted criteria and score by them.

    For a query it recruits personas (Eq. 1), adds the fixed NLP scientist, lets each write
    a rubric (Eq. 2) and score every passage by it from 0 to k (Eq. 3), and combines the
    scores (Eq. 4). "Generating Diverse Criteria On-the-Fly to Improve Pointwise LLM
    Rankers", arXiv 2404.11960.

    >>> ranker = MCRanker(team_size=3)                    # NLP scientist + 2 recruits
    >>> ranker = MCRanker(model="openai:gpt-5-mini")
    >>> ranker = MCRanker(model="openai:qwen", base_url="http://localhost:8000/v1")
    >>> ranker = MCRanker(model="openai:gpt-5-mini", criteria_model="openai:gpt-5")
    >>> ranker = MCRanker(team="team.yaml")               # a saved team: no recruiting
    >>> ranker = MCRanker(team=["clinician", "Worried parent"], team_size=4)  # + 2 recruits
    >>> ranker = MCRanker(require=("clinician",))
    >>> ranking = ranker.rank("best masks against covid", docs)

    The usual options are named above; ``help(mcranker.RankerConfig)`` has them all, and
    ``help(mcranker.Ranker)`` more methods: `explain`, and forms for an event loop (`arank`).
    Raises what `Ranker` raises; a ``with`` block, or ``close()``, ends its connections.
    """

    name: ClassVar[str] = "mcranker"
    roles = ROLES
    takes_team = takes_instruction = by_personas = by_team = True

    def _prepare(self, config: Any) -> Any:
        self.prompt = "score_without_criteria" if config.criteria == "none" else "score"
        return super()._prepare(config)

    def recruit_team(self, query: str | Query, example: str | Passage | None = None) -> Team:
        """Recruit a team for the query and write its rubrics, without scoring anything.

        A ranker with ``team=`` completes that team: with recruits, where ``team_size`` is larger,
        and with the rubrics that are missing. `example` is a passage of the kind that will be
        judged, for the recruiter. Save the team with `personas.save`, and pass it as ``team=``.

        Raises:
            InputError, ModelError: as `rank`.
        """
        return self._bridge.call(lambda: self.arecruit_team(query, example))

    async def arecruit_team(
        self,
        query: str | Query,
        example: str | Passage | None = None,
        *,
        emit: Emit | None = None,
    ) -> Team:
        """`recruit_team` for callers with an event loop; `emit` takes events as they happen."""
        job = self._job(query, [NO_EXAMPLE if example is None else example], emit=emit)
        if example is not None:
            job = replace(job, config=job.config.replaced({"example_rank": 1}))
        session = Session.open(job, self.prompts, self.plan)
        return team_as_judged(session, await assemble(session))

    async def _run(self, session: Session) -> Ranking:
        return self.build_ranking(session, await score_by_team(session))


class OneJudgeRanker(PointwiseRanker):
    """A ranker with one judge without a persona. Subclasses say what it is asked, in `_asks`."""

    @property
    def _judge_name(self) -> str:
        return self.name.upper().replace("_", "-")

    @abstractmethod
    def _asks(self, session: Session, members: Sequence[Member]) -> ScorePrompt | QuestionSheet:
        """Return the prompt, or the typed questions, by the criteria of `members` if any."""

    async def _run(self, session: Session) -> Ranking:
        members = await assemble(session) if self.by_team else []
        asks = self._asks(session, members or judge_without_team(session.config.instruction))
        name = self._judge_name

        def make(ensembler: Actor[Any]) -> PromptJudge | BatchJudge:
            if isinstance(asks, ScorePrompt):
                return PromptJudge(name, 0, session, ensembler, asks)
            return BatchJudge(asks, [None], session, ensembler)

        scored = await score_by_judge(session, name, make)
        return self.build_ranking(session, replace(scored, members=members))


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


def refuse(config: RankerConfig, only: Mapping[str, object], why: str) -> None:
    """Refuse options with a `ConfigError` if they are set to another value than the only one."""
    for name, value in only.items():
        given = getattr(config, name)
        if name in config.model_fields_set and given != value:
            raise ConfigError(f"{name}={given!r} {why}")


def demand(chat: ChatModel, capability: str, lack: str) -> None:
    """Refuse a model without a capability: an `UnsupportedCapability` of its name and `lack`."""
    if not getattr(chat.capabilities, capability):
        raise UnsupportedCapability(f"{chat.name} {lack}", model=chat.name)
