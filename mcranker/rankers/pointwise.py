"""Base of pointwise rankers: scores of single passages turned into a ranking."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.method.session import Session
from mcranker.method.team import Scored
from mcranker.rankers.judge import JudgeRanker, characters_cut, team_as_judged
from mcranker.ranking import Ranking, combined, relevances_of
from personas import PromptError
from personas.ensembles import Rule
from personas.ranking.types import ScoreMatrix
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
        left_out: Collection[int] = (),
        rule: Rule | None = None,
    ) -> Ranking:
        """Return the finished ranking: scores combined (Eq. 4), ties by first-stage order."""
        job, config, rows = session.job, session.config, session.row_of
        matrix, assessed = scored.matrix, scored.assessed
        judged = np.where(np.isin(rows, list(left_out)), -1, rows)
        rule = (rule or config.rule).for_columns(scored.members, scored.names)
        refuse_missing = config.missing_policy == "fail"
        order, final = combined(
            rule, matrix, judged, job.passages, assessed=assessed, refuse_missing=refuse_missing
        )
        return dataclasses.replace(
            self._ranking(job, order, final),
            relevances=relevances_of(rule, matrix, judged, assessed) if self.absolute else {},
            matrix=matrix.take(rows),
            personas=tuple(scored.names),
            team=team_as_judged(session, scored.members) if scored.members else None,
            seconds=session.seconds,
            assessor_reasons=_reasons(assessed, rows),
            partial=scored.partial,
            cut=characters_cut(session),
            weak_judge=session.models.scoring.capabilities.weak_judge,
        )


def _reasons(assessed: ScoreMatrix | None, rows: NDArray[np.intp]) -> dict[int, str]:
    if assessed is None:
        return {}
    return {row: why for (row, _), why in assessed.take(rows).reasons.items()}
