"""One judge without a persona: DIRECT(0, k), the paper's baseline, and rerank services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mcranker.config import MOST_IN_A_CALL, RankerConfig
from mcranker.errors import ConfigError
from mcranker.method.annotator import ScorePrompt, rubrics_as_text
from mcranker.method.questions import QuestionSheet, RelevanceQuestions
from mcranker.method.session import Session
from mcranker.rankers.judge import NO_TEAM, OneJudgeRanker, demand, refuse
from personas import Member

_FIXED = {
    "scoring": "expected",
    "scale": 1,
    "labels": (),
    "questions": "per_persona",
    "ensemble": "sum",
}
"""Fixed options of a rerank service: one relevance a passage, from 0 to 1."""


class DirectConfig(RankerConfig):
    """Options of `DirectRanker`."""

    with_criteria: bool = False
    """Put a team's criteria into the prompt; the team is recruited and writes its rubrics as for
    MCRanker, unless team is given."""


class DirectRanker(OneJudgeRanker):
    """Asks for the relevance of each passage directly, from 0 to k (4.2, App. D.6).

    >>> DirectRanker(model="openai:gpt-5-mini")                    # DIRECT(0, 10)
    >>> DirectRanker(scale=20)                                     # DIRECT(0, 20)
    >>> DirectRanker(with_criteria=True)                           # Table 2, "+criteria"
    >>> DirectRanker(with_criteria=True, team="team.yaml")

    Its options are those of `DirectConfig` and `Ranker`. `team_size` is that of the team whose
    criteria are used; as for `MCRanker`, recruits join `team` up to it.

    Raises:
        ConfigError, ModelError, PersonasError: as `Ranker`.
    """

    name: ClassVar[str] = "direct"
    config: DirectConfig
    config_class = DirectConfig
    roles = ("recruiter", "criteria", "scoring")
    takes_team = takes_instruction = True
    for_a_team = "use with_criteria=True, or MCRanker"

    def _prepare(self, config: Any) -> Any:
        if config.with_criteria or self.team is not None:
            self.by_team, self.prompt = True, "direct_with_criteria"
        for role in ("recruiter", "criteria"):
            if self.given_roles[role] is not None and not self.by_team:
                raise ConfigError(
                    f"{role}_model writes for a team, and direct has none; leave it out, or "
                    f"{self.for_a_team}"
                )
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

    @property
    def _judge_name(self) -> str:
        return "DIRECT"

    def _asks(self, session: Session, members: Sequence[Member]) -> ScorePrompt | QuestionSheet:
        if session.config.questions is not None:
            return QuestionSheet(members, session, of_team=self.by_team)
        if not members:
            return ScorePrompt(session.prompts["direct"], session)
        criteria = rubrics_as_text(members, session.prompts)
        return ScorePrompt(session.prompts["direct_with_criteria"].bind(criteria), session)


class RerankRanker(OneJudgeRanker):
    """Ranks by the relevance, 0 to 1, that a reranker gives to each passage.

    >>> RerankRanker(model="rerank:rerank-v3.5", base_url="https://api.cohere.com/v2")
    >>> RerankRanker(model="rerank:BAAI/bge-reranker-v2-m3", base_url="http://localhost:8000/v1")
    >>> RerankRanker(model="rerank-tei:bge", base_url="http://localhost:8080")
    >>> RerankRanker(model="local:bge-reranker-v2-m3-Q8_0.gguf")
    >>> RerankRanker(model="crossencoder:cross-encoder/ms-marco-MiniLM-L6-v2")

    One call has up to ``passages_per_call`` passages: 100, or 32 of Text Embeddings Inference,
    unless set. What fails with others is asked again: a call in halves, a passage
    without a score alone.

    Its `model` is ``rerank:NAME``, ``rerank-tei:NAME`` or ``rerank-logits:NAME`` with `base_url`,
    the service's address before ``/rerank``; ``local:PATH`` of a reranker in GGUF; or
    ``crossencoder:NAME`` of sentence-transformers. Any other model of typed questions is asked how
    relevant each passage is. `api_key` is instead of the environment's ``RERANK_API_KEY``. Other
    keywords are those of `Ranker`.

    Raises:
        ConfigError: an option that has no meaning here: of a team, or of the scale.
        UnsupportedCapability: the model answers prompts and no typed questions.
        ModelError: as `MCRanker`.
    """

    name: ClassVar[str] = "rerank"
    without_team = NO_TEAM

    def _prepare(self, config: Any) -> Any:
        why = (
            "has no meaning for ranker='rerank', which takes the reranker's own relevance, 0 to 1; "
            "leave it out, or use ranker='direct'"
        )
        refuse(config, _FIXED, why)
        return super()._prepare(config.replaced(_FIXED))

    def _adapt(self) -> None:
        super()._adapt()
        offers = self.models.scoring.capabilities
        self.takes_instruction = offers.instructions
        if self.config.passages_per_call is None:
            at_once = min(offers.max_questions, MOST_IN_A_CALL)
            self.config = self.config.replaced({"passages_per_call": at_once})

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        return {}

    def _check_models(self) -> None:
        lack = (
            "answers prompts and gives no relevance; name the model 'rerank:NAME' with base_url=, "
            "or use ranker='direct'"
        )
        demand(self.models.scoring, "max_questions", lack)
        super()._check_models()

    def _asks(self, session: Session, members: Sequence[Member]) -> QuestionSheet:
        return RelevanceQuestions(session)
