"""RERANK: a rerank service or a local reranker scores the passages, many in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from mcranker.config import MOST_IN_A_CALL, RankerConfig
from mcranker.llm.chat import Judge, Question
from mcranker.method.batch_judge import BatchJudge
from mcranker.method.questions import Asked, DirectQuestions, Entry
from mcranker.method.session import Session
from mcranker.method.team import score_by_judge
from mcranker.rankers.base import demand, refuse
from mcranker.rankers.pointwise import NO_TEAM, PointwiseRanker
from mcranker.ranking import Ranking
from personas.ranking.types import Passage

JUDGE = "RERANK"

_FIXED = {
    "scoring": "expected",
    "scale": 1,
    "labels": (),
    "questions": "per_persona",
    "batch_criteria": True,
    "ensemble": "sum",
}
"""Fixed options: one relevance a passage, from 0 to 1."""


class RerankRanker(PointwiseRanker):
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

    def _prepare(self, config: RankerConfig) -> RankerConfig:
        own = {name: value for name, value in _FIXED.items() if name != "batch_criteria"}
        why = (
            "has no meaning for ranker='rerank', which takes the reranker's own relevance, 0 to 1; "
            "leave it out, or use ranker='direct'"
        )
        refuse(config, own, why)
        return super()._prepare(RankerConfig.of(config, {**NO_TEAM, **_FIXED}))

    def _adapt(self) -> None:
        super()._adapt()
        offers = self.models.scoring.capabilities
        self.takes_instruction = offers.instructions
        if self.config.passages_per_call is None:
            at_once = min(offers.max_questions, MOST_IN_A_CALL)
            self.config = RankerConfig.of(self.config, {"passages_per_call": at_once})

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        return {}

    def _check_models(self) -> None:
        lack = (
            "answers prompts and gives no relevance; name the model 'rerank:NAME' with base_url=, "
            "or use ranker='direct'"
        )
        demand(self.models.scoring, "max_questions", lack)
        super()._check_models()

    async def _run(self, session: Session) -> Ranking:
        sheet = RelevanceQuestions(session)
        scored = await score_by_judge(
            session, JUDGE, lambda ensembler: BatchJudge(sheet, [None], session, ensembler)
        )
        return self.build_ranking(session, scored)


class RelevanceQuestions:
    """Ask for each passage's relevance, 0 to 1: query and passages, no other words."""

    entries: Sequence[Entry] = (Entry(0),)

    def __init__(self, session: Session) -> None:
        self._direct = DirectQuestions((), session)
        instruction = session.config.instruction
        self._judge = Judge("", criteria=((instruction, "", 100.0),)) if instruction else None

    def ask(self, passages: Sequence[Passage], entries: Sequence[Entry]) -> Asked:
        state = self._direct.ask(passages, entries).state
        assert state is not None, "a sheet's questions are about data"
        judge = self._judge
        questions = tuple(Question(n, "", passage=n, judge=judge) for n in state.passages)
        return Asked((), questions, state)
