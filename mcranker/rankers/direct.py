"""DIRECT(0, k): one judge without a persona, the paper's baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Unpack

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.method.annotator import ScorePassages, ScorePrompt, Scores
from mcranker.method.batch_judge import BatchJudge
from mcranker.method.questions import DirectQuestions
from mcranker.method.rubric_text import judge_without_team
from mcranker.method.session import Session
from mcranker.method.team import assemble, score_by_judge
from mcranker.options import RankerKeywords
from mcranker.rankers.base import refuse
from mcranker.rankers.pointwise import PointwiseRanker
from mcranker.ranking import Ranking
from mcranker.runtime.actor import Actor
from personas import Member

JUDGE = "DIRECT"


class DirectRanker(PointwiseRanker):
    """Asks for the relevance of each passage directly, from 0 to k (4.2, App. D.6).

    >>> DirectRanker(model="openai:gpt-5-mini")                    # DIRECT(0, 10)
    >>> DirectRanker(scale=20)                                     # DIRECT(0, 20)
    >>> DirectRanker(with_criteria=True)                           # Table 2, "+criteria"
    >>> DirectRanker(with_criteria=True, team="team.yaml")

    Args:
        with_criteria: put a team's criteria into the prompt; the team is recruited and
            writes its rubrics as for `MCRanker`, unless `team` is given.
        shared: the keywords of all rankers, see `Ranker`. `team_size` is that of the team whose
            criteria are used; as for `MCRanker`, recruits join `team` up to it.

    Raises:
        ConfigError, ModelError, PersonasError: as `Ranker`.
    """

    name: ClassVar[str] = "direct"
    roles = ("recruiter", "criteria", "scoring")
    takes_team = takes_instruction = True

    def __init__(self, *, with_criteria: bool = False, **shared: Unpack[RankerKeywords]) -> None:
        self.with_criteria = self.by_team = with_criteria or shared.get("team") is not None
        if self.with_criteria:
            self.prompt = "direct_with_criteria"
        super().__init__(**shared)

    def _prepare(self, config: RankerConfig) -> RankerConfig:
        # Options that need several personas' scores are refused, not ignored silently.
        if config.scoring_class.needs_rubric:
            raise ConfigError(
                f'scoring="{config.scoring}" scores by each persona\'s rubric, which DIRECT has '
                "not; use MCRanker, or with_criteria=True to put the criteria into the prompt"
            )
        if config.questions == "per_criterion":
            raise ConfigError(
                'questions="per_criterion" asks by each persona\'s rubric, which DIRECT has not; '
                'use questions="per_persona", or MCRanker'
            )
        one_judge = (
            "combines the scores of a team, and DIRECT has one judge; leave it out, or use MCRanker"
        )
        refuse(config, {"ensemble": "sum"}, one_judge)
        return super()._prepare(config)

    async def _run(self, session: Session) -> Ranking:
        members = await assemble(session) if self.with_criteria else []
        judges = members or judge_without_team(session.config.instruction)
        if session.config.questions is None:
            prompt = self._score_prompt(judges, session)
            scored = await score_by_judge(
                session, JUDGE, lambda ensembler: DirectJudge(prompt, JUDGE, session, ensembler)
            )
        else:
            sheet = DirectQuestions(judges, session)
            scored = await score_by_judge(
                session, JUDGE, lambda ensembler: BatchJudge(sheet, [None], session, ensembler)
            )
        return self.build_ranking(session, replace(scored, members=members))

    def _score_prompt(self, judges: Sequence[Member], session: Session) -> ScorePrompt:
        return ScorePrompt.direct(judges, session)


class DirectJudge(Actor[ScorePassages]):
    """Scores passages by one prompt, without a persona; `name` is its own in the table of calls."""

    def __init__(
        self, prompt: ScorePrompt, name: str, session: Session, ensembler: Actor[Any]
    ) -> None:
        workers = session.calls_at_once(session.models.scoring)
        super().__init__("direct judge", self._score, workers=workers)
        self._prompt = prompt
        self._name = name
        self._session = session
        self._ensembler = ensembler

    async def _score(self, message: ScorePassages) -> None:
        (row,) = message.rows
        score = await self._prompt.score(self._session.passage(row), self._name)
        await self._ensembler.tell(Scores(row, 0, (score,)))
