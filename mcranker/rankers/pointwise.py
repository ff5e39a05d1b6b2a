"""Base of pointwise rankers: scores of single passages turned into a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.method.session import Session
from mcranker.method.team import Scored
from mcranker.rankers.judge import JudgeRanker, characters_cut, team_as_judged
from mcranker.ranking import Ranking, combined, refuse_missing
from personas import PromptError, Team
from personas.ensembles import Rule
from personas.ranking.hit import Hit
from personas.ranking.types import ASSESSOR
from personas.templates import OPTIONAL_PROMPTS

NO_TEAM: Mapping[str, Any] = MappingProxyType({"criteria": "none", "recruiting": "library"})
"""Options of a ranker for which nothing is written."""


class PointwiseRanker(JudgeRanker):
    """A ranker that scores each passage by itself. Subclasses implement `_run`."""

    absolute = True
    prompt = "direct"

    def _prepare(self, config: RankerConfig) -> RankerConfig:
        self.writes_rubrics = self.by_team
        return super()._prepare(config)

    def _for_models(self, config: RankerConfig) -> RankerConfig:
        models = self.models
        config = config.for_model(models.scoring.capabilities, team=self.by_personas)
        return config.for_writers(models.recruiter.capabilities, models.criteria.capabilities)

    def _check_models(self) -> None:
        super()._check_models()
        config, plan = self.config, self.plan
        bring_one = config.recruiting == "library" and config.criteria == "library"
        writes = (plan.recruits and not bring_one) or any(not each.rubric for each in plan.members)
        if config.criteria_examples and not writes:
            raise ConfigError(
                f"criteria_examples={config.criteria_examples} shows rubrics to those who write "
                "criteria, and all personas of this team have some already; leave it out, or have "
                'criteria written (criteria="query", recruiting="invent")'
            )
        reads_prompt = not config.questions and config.scoring != "integer"
        if reads_prompt and "answer" not in self.prompts[self.prompt].placeholders:
            raise PromptError(
                f"prompts={config.prompts!r}: {self.prompt}.txt has no {{{{answer}}}}, so the "
                f"model is not told how to answer with scoring={config.scoring!r}; write "
                '{{answer}} there, or use scoring="integer"'
            )

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        hashes = dict(self.prompts.hashes)
        if config.questions is not None:
            hashes |= self.prompts.hashes_of(OPTIONAL_PROMPTS["typed"])
        if config.criteria_examples:
            hashes |= self.prompts.hashes_of(["criteria_examples"])
        return hashes

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
        job, config, rows = session.job, session.config, session.row_of.tolist()
        matrix, assessed, dropped = scored.matrix, scored.assessed, left_out or {}
        if config.missing_policy == "fail":
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
            (rule or config.rule).for_columns(scored.members, scored.names),
            hits,
            matrix.values,
            [-1 if row in dropped else row for row in rows],
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
