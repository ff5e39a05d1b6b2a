"""One judge without a persona: DIRECT(0, k), the paper's baseline, and rerank services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from mcranker.config import MOST_IN_A_CALL, RankerConfig
from mcranker.errors import ConfigError
from mcranker.llm.chat import Judge, Question
from mcranker.method.annotator import ScorePassages, ScorePrompt, Scores
from mcranker.method.batch_judge import BatchJudge
from mcranker.method.questions import Asked, DirectQuestions, Entry
from mcranker.method.rubric_text import judge_without_team
from mcranker.method.session import Session
from mcranker.method.team import assemble, score_by_judge
from mcranker.rankers.judge import NO_TEAM, PointwiseRanker, demand, refuse
from mcranker.ranking import Ranking
from mcranker.runtime.actor import Actor
from personas import Member
from personas.ranking.types import Passage

_DIRECT, _RERANK = "DIRECT", "RERANK"

_FIXED = {
    "scoring": "expected",
    "scale": 1,
    "labels": (),
    "questions": "per_persona",
    "batch_criteria": True,
    "ensemble": "sum",
}
"""Fixed options of a rerank service: one relevance a passage, from 0 to 1."""


class DirectConfig(RankerConfig):
    """Options of `DirectRanker`."""

    with_criteria: bool = False
    """Put a team's criteria into the prompt; the team is recruited and writes its rubrics as for
    MCRanker, unless team is given."""


class DirectRanker(PointwiseRanker):
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

    def _prepare(self, config: Any) -> Any:
        if config.with_criteria or self.team is not None:
            self.by_team, self.prompt = True, "direct_with_criteria"
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
        members = await assemble(session) if self.by_team else []
        judges = members or judge_without_team(session.config.instruction)
        if session.config.questions is None:
            prompt = self._score_prompt(judges, session)
            scored = await score_by_judge(
                session, _DIRECT, lambda ensembler: DirectJudge(prompt, _DIRECT, session, ensembler)
            )
        else:
            sheet = DirectQuestions(judges, session)
            scored = await score_by_judge(
                session, _DIRECT, lambda ensembler: BatchJudge(sheet, [None], session, ensembler)
            )
        return self.build_ranking(session, replace(scored, members=members))

    def _score_prompt(self, judges: Sequence[Member], session: Session) -> ScorePrompt:
        return ScorePrompt.direct(judges, session)


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

    def _prepare(self, config: Any) -> Any:
        own = {name: value for name, value in _FIXED.items() if name != "batch_criteria"}
        why = (
            "has no meaning for ranker='rerank', which takes the reranker's own relevance, 0 to 1; "
            "leave it out, or use ranker='direct'"
        )
        refuse(config, own, why)
        return super()._prepare(config.replaced({**NO_TEAM, **_FIXED}))

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

    async def _run(self, session: Session) -> Ranking:
        sheet = RelevanceQuestions(session)
        scored = await score_by_judge(
            session, _RERANK, lambda ensembler: BatchJudge(sheet, [None], session, ensembler)
        )
        return self.build_ranking(session, scored)


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
