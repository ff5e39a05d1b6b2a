"""MCRanker: the paper's method, top to bottom."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, ClassVar

from mcranker.events import Emit
from mcranker.llm.models import ROLES
from mcranker.method.recruiter import NO_EXAMPLE
from mcranker.method.session import Session
from mcranker.method.team import assemble, score_by_team
from mcranker.rankers.judge import PointwiseRanker, team_as_judged
from mcranker.ranking import Ranking
from personas import Team
from personas.ranking.types import Passage, Query


class _Documented(ABCMeta):
    """Lists in ``help(MCRanker)`` what most callers need."""

    def __dir__(cls) -> list[str]:
        return ["rank", "rank_many", "estimate", "recruit_team"]


class MCRanker(PointwiseRanker, metaclass=_Documented):
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
        passages = [NO_EXAMPLE if example is None else example]
        session = self.open_session(self._job(query, passages, emit=emit))
        return team_as_judged(session, await assemble(session))

    async def _run(self, session: Session) -> Ranking:
        return self.build_ranking(session, await score_by_team(session))
