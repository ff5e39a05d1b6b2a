"""MCRanker: the paper's method, top to bottom."""

from __future__ import annotations

from typing import ClassVar, Unpack

from mcranker.config import RankerConfig
from mcranker.events import Emit
from mcranker.inputs import as_passages, as_query
from mcranker.method.recruiter import NO_EXAMPLE
from mcranker.method.seats import TeamSpec
from mcranker.method.session import Session
from mcranker.method.team import score_by_team
from mcranker.models import LedgerSpec, ModelSpec, Roles
from mcranker.options import RankerOptions
from mcranker.rankers.pointwise import PointwiseRanker
from mcranker.ranking import Ranking
from personas import Team
from personas.ranking.types import Passage, Query


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
    >>> ranker = MCRanker(require=("clinician",), forbid=("*marketing*",))
    >>> ranking = ranker.rank("best masks against covid", docs)

    Args:
        team_size: personas on the team, the NLP scientist included; if not given 3, or those
            of `team`.
        model: plays all roles that have no model of their own. ``"openai:NAME"``,
            ``"anthropic:NAME"``, ``"local:NAME-or-path.gguf"``, a `ChatModel`, or None:
            then ``MCRANKER_MODEL``, an API key in the environment, or the embedded local
            model decide, and a log line says which and why.
        recruiter_model: guesses who would ask the query.
        criteria_model: writes the rubrics; a strong one rescues a weak scorer (5.3.3).
        scoring_model: scores the passages.
        assessor_model: combines the scores with ``ensemble="assessor"``.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        team: judges instead of a recruited team: a `Team`, a file, the name of a team of
            the library, or a list of personas. Members with a rubric keep it. Where
            `team_size` is larger and the team is not locked, recruits join it; the NLP
            scientist does only if it is among the members.
        ledger: the file that keeps every answer, so that none is paid for twice; shared by
            any number of rankers and processes. ``"default"`` for ``MCRANKER_LEDGER`` or a
            file in the user's cache folder; a path; or None for none. A `ChatModel` of your
            own takes part if a path is given, and then its name must tell it from others.
        config: all other choices as one object; `options` replace single fields.
        options: fields of `RankerConfig`, e.g. ``scoring="expected"``.

    Raises:
        ConfigError: an option is unknown, impossible, or does not go with another.
        AuthenticationFailed, ModelNotFound, DownloadError: there is no such model for you.
        UnsupportedCapability: the model cannot do what the configuration needs.
        PersonasError: the team or the prompt folder cannot be used.
    """

    name: ClassVar[str] = "mcranker"
    takes_instruction = True
    by_personas = True

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
        ledger: LedgerSpec = "default",
        config: RankerConfig | None = None,
        **options: Unpack[RankerOptions],
    ) -> None:
        chosen = RankerConfig.of(config, options, team_size=team_size)
        super().__init__(
            chosen,
            Roles(model, recruiter_model, criteria_model, scoring_model, assessor_model),
            base_url=base_url,
            api_key=api_key,
            team=team,
            ledger=ledger,
            prompt="score_without_criteria" if chosen.criteria == "none" else "score",
        )

    def recruit_team(self, query: str | Query, example: str | Passage | None = None) -> Team:
        """Recruit a team for the query and write its rubrics, without scoring anything.

        A ranker with ``team=`` completes that team: with recruits, where ``team_size`` is larger,
        and with the rubrics that are missing.

        Args:
            query: what will be ranked for.
            example: one passage of the kind that will be judged; shown to the recruiter.

        Returns:
            The team, to look at, edit, save with `personas.save`, and pass as ``team=``.

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
        passages = as_passages([NO_EXAMPLE if example is None else example])
        session = self.open_session(as_query(query), passages, emit)
        return self.build_team(session, await self.assemble(session))

    async def _run(self, session: Session) -> Ranking:
        locked = self.team is not None and self.team.locked
        return self.build_ranking(session, await score_by_team(session, self.seats, locked=locked))
