"""MCRanker: the paper's method, top to bottom."""

from __future__ import annotations

from typing import ClassVar, Unpack

from mcranker.config import RankerConfig, RankerOptions
from mcranker.models import ModelSpec
from mcranker.rankers.pointwise import PointwiseRanker, Roles, given
from mcranker.ranking import Ranking
from mcranker.stages import Session, Tally, assess, recruit, score_passages, write_rubrics
from mcranker.teams import TeamSpec
from personas import Rubric

__all__ = ["MCRanker"]


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
    >>> ranking = ranker.rank("best masks against covid", docs)

    Args:
        team_size: personas on the team, the NLP scientist included; 3 if not given.
        model: plays all roles that have no model of their own. ``"openai:NAME"``,
            ``"anthropic:NAME"``, ``"local:NAME-or-path.gguf"``, a `ChatModel`, or None:
            then ``MCRANKER_MODEL``, an API key in the environment, or the embedded local
            model decide, and a log line says which and why.
        recruiter_model: guesses who would ask the query.
        criteria_model: writes the rubrics; a strong one rescues a weak scorer (§5.3.3).
        scoring_model: scores the passages.
        assessor_model: combines the scores with ``ensemble="assessor"``.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        team: judges instead of a recruited team: a `Team`, a file, the name of a team of
            the library, or a list of personas. Members with a rubric keep it.
        config: all other choices as one object; `options` replace single fields.
        options: fields of `RankerConfig`, e.g. ``scoring="expected"``.

    Raises:
        ConfigError: an option is unknown, impossible, or does not go with another.
        AuthenticationFailed, ModelNotFound, DownloadError: there is no such model for you.
        UnsupportedCapability: the model cannot do what the configuration needs.
        PersonasError: the team or the prompt folder cannot be used.
    """

    name: ClassVar[str] = "mcranker"

    def __init__(
        self,
        team_size: int | None = None,
        *,
        model: ModelSpec = None,
        recruiter_model: ModelSpec = None,
        criteria_model: ModelSpec = None,
        scoring_model: ModelSpec = None,
        assessor_model: ModelSpec = None,
        base_url: str | None = None,
        api_key: str | None = None,
        team: TeamSpec | None = None,
        preset: str | None = None,
        config: RankerConfig | None = None,
        **options: Unpack[RankerOptions],
    ) -> None:
        super().__init__(
            RankerConfig.of(config, {**given(team_size=team_size, preset=preset), **options}),
            Roles(model, recruiter_model, criteria_model, scoring_model, assessor_model),
            base_url=base_url,
            api_key=api_key,
            team=team,
        )
        self._dataset_rubrics: dict[str, Rubric] = {}

    async def _run(self, session: Session) -> Ranking:
        if self.team is not None:
            members = self.team.members
        else:
            members = await recruit(session, team_size=self.config.team_size)
        tally = Tally(session, [member.name for member in members])
        annotators = await write_rubrics(
            session,
            members,
            scored=tally.of,
            shared=self._dataset_rubrics,
            locked=self.team is not None and self.team.locked,
        )
        await score_passages(session, annotators)
        assessed = None
        if self.config.ensemble == "assessor":
            assessed = await assess(session, tally.matrix, [member.name for member in members])
        return self.build_ranking(session, tally, annotators, assessed)
