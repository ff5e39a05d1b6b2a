"""Rankers as tools of language models' clients, by the Model Context Protocol.

https://modelcontextprotocol.io; the server side is the official SDK's.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from mcranker import __version__
from mcranker.events import (
    Event,
    PassageAssessed,
    PassagesCompared,
    PassageScored,
    RankingDone,
    RubricWritten,
    TeamRecruited,
)
from mcranker.inputs import as_passages, as_query
from mcranker.logs import safe_logger
from mcranker.rankers import Ranker
from mcranker.rankers.mcranker import MCRanker
from mcranker.ranking import Ranking
from mcranker.serve.explanations import Explanations, Kept
from mcranker.serve.metrics import Metrics
from mcranker.serve.offers import Offers, notes_of
from mcranker.serve.problems import Problem, problem_of
from mcranker.serve.settings import GRACE, Settings
from personas.inspection.comparison import compare_rankings
from personas.inspection.inspection import InspectedHit, Inspection
from personas.report.compare.sentences import Sentence, reason, verdict

logger = safe_logger("mcranker.serve")
P = ParamSpec("P")
T = TypeVar("T")

_EACH = 0.2
"""Seconds between two notifications of progress, at least."""

_INSTRUCTIONS = (
    "Ranks passages by how well they answer a query, with a team of judges who each write weighted "
    "criteria. A score that could not be had is null, never a guess."
)


class Document(BaseModel):
    """A passage to be ranked."""

    text: str
    id: str | None = Field(None, description="its own, unique in the call; else its place, from 0")
    title: str = ""


class RankedDocument(BaseModel):
    """A passage in the order that was found."""

    rank: int = Field(description="from 1, best first")
    index: int = Field(description="its place among the documents that were given, from 0")
    id: str
    relevance: float | None = Field(description="0 to 1; null where it could not be judged")
    scores: dict[str, float | None] = Field(description="of each judge")
    missing: dict[str, str] = Field(description="why a judge's score is missing")


class RankResult(BaseModel):
    """A ranking."""

    ranking_id: str = Field(description="for the tools explain and compare")
    ranker: str
    judges: list[str]
    results: list[RankedDocument]
    notes: list[str] = Field(description="what is missing, partial or not as usual")
    calls: int = Field(description="of models")
    reused_answers: int = Field(description="taken from the ledger, at no call")
    cost_usd: float | None = Field(description="null where the price is not known")


class JudgeView(BaseModel):
    """What a judge thought of a passage."""

    name: str
    description: str
    score: float | None
    missing: str = Field(description="why there is no score; else empty")
    rank_without: int | None = Field(description="of the passage, had this judge not been there")
    criteria: list[str] = Field(description="the rubric: weight in percent, name and meaning")
    criteria_scores: dict[str, float] = Field(description="where criteria were scored one by one")


class Explanation(BaseModel):
    """Why a passage ranks where it does."""

    query: str
    id: str
    summary: str
    rank: int
    of: int
    given_rank: int = Field(description="its place among the documents that were given, from 1")
    score: float | None
    top_score: float = Field(description="the highest score that a judge can give")
    judges: list[JudgeView]


class MovedDocument(BaseModel):
    """A document that stands elsewhere than before."""

    id: str
    rank_before: int | None = Field(description="null where it was not ranked")
    rank_after: int | None = Field(description="null where it is not ranked any more")
    why: str = Field(description="whose change moved it most; empty where that is not known")


class Comparison(BaseModel):
    """What moved between two rankings."""

    summary: str
    notes: list[str] = Field(description="what to know before the rest is believed, worst first")
    moved: list[MovedDocument] = Field(description="the move that counts most first")


class RecruitedTeam(BaseModel):
    """A team of judges."""

    team: dict[str, Any] = Field(description="whole; may be edited and given to the tool rank")


@asynccontextmanager
async def mcp_server(settings: Settings | None = None) -> AsyncIterator[MCPServer[Any]]:
    """The MCP server, whose rankers are made at once and closed behind the block.

    Args:
        settings: what it offers; None for one MCRanker with its defaults. Keys, addresses and
            limits of connections are those of the transport, and not looked at.

    Raises:
        MCRankerError, PersonasError: a ranker cannot be made as it is set up.
    """
    tools = _Tools(settings or Settings())
    server: MCPServer[Any] = MCPServer(
        "mcranker",
        title="MCRanker",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.rank, tools.explain, tools.compare, tools.recruit_team):
        server.add_tool(tool, annotations=reads)
    try:
        yield server
    finally:
        await tools.aclose()


def _told(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The tool, whose errors are told as `problem_of` words them."""

    @functools.wraps(tool)
    async def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except Exception as error:
            problem = problem_of(error)
            if problem.kind == "internal":
                logger.exception("unexpected error")
            elif problem is not error and problem.ours:
                logger.warning("%s: %s", type(error).__name__, error)
            raise ToolError(problem.message) from error

    return told


class _Tools:
    def __init__(self, settings: Settings) -> None:
        self._limits = settings.limits
        self._offers = Offers.open(settings, Metrics())
        self._kept = Explanations(self._limits.explanations, self._limits.explanations_bytes)

    async def aclose(self) -> None:
        await self._offers.aclose()

    @_told
    async def rank(
        self,
        query: str,
        documents: list[str | Document],
        context: Context[Any, Any],
        top_n: Annotated[int | None, Field(ge=1, description="return so many; all if null")] = None,
        team: Annotated[
            str | dict[str, Any] | None,
            Field(description="a team or persona of the library by name, or a whole team"),
        ] = None,
        ranker: Annotated[str | None, Field(description="by name; null for the first")] = None,
    ) -> RankResult:
        """Put documents in the order of their relevance to a query, best first."""
        offer = self._offers.find(ranker)
        self._check_size(query, len(documents))
        passages = as_passages([_record(each) for each in documents])
        variant = offer.with_options({} if team is None else {"team": team})
        if not passages:
            raise Problem("empty", "documents is empty; give at least one")
        seconds = self._limits.deadline
        async with offer.places.one(within=seconds):
            try:
                # Where every score is needed, there is none that is partial at the deadline.
                with anyio.fail_after(seconds + GRACE):
                    ranking = await self._ranked(variant, query, passages, top_n, context)
            except TimeoutError:
                raise Problem("timeout", f"there is no ranking after {seconds:g} seconds") from None
        name = uuid.uuid4().hex
        self._kept.put(name, ranking, offer, "")
        return RankResult(
            ranking_id=name,
            ranker=offer.name,
            judges=list(ranking.orders.personas if ranking.orders else ranking.personas),
            results=[
                RankedDocument(
                    rank=hit.rank,
                    index=hit.index,
                    id=hit.doc_id,
                    relevance=hit.relevance,
                    scores=dict(hit.scores),
                    missing=dict(hit.missing),
                )
                for hit in ranking
            ],
            notes=list(notes_of(ranking)),
            calls=ranking.usage.calls,
            reused_answers=ranking.reused.calls,
            cost_usd=ranking.cost,
        )

    @_told
    async def explain(self, ranking_id: str, document_id: str) -> Explanation:
        """Say why a document of an earlier ranking stands where it does."""
        kept = self._found(ranking_id)
        stored = kept.offer.stored(kept.ranking)
        inspection = await anyio.to_thread.run_sync(Inspection.from_dict, stored)
        hit = next((each for each in inspection.hits if each.doc_id == document_id), None)
        if hit is None:
            some = ", ".join(each.doc_id for each in inspection.hits[:5])
            raise Problem("not_found", f"no document {document_id[:100]!r}; there are {some}, …")
        return Explanation(
            query=inspection.query,
            id=hit.doc_id,
            summary=_summary(inspection, hit),
            rank=hit.rank,
            of=len(inspection.hits),
            given_rank=hit.first_stage_rank,
            score=hit.score,
            top_score=inspection.top,
            judges=[_view(inspection, hit, name) for name in inspection.personas],
        )

    @_told
    async def compare(self, before: str, after: str) -> Comparison:
        """Say which documents moved between two earlier rankings, and whose scores moved them."""
        sides = [self._found(each) for each in (before, after)]
        one, two = (each.offer.stored(each.ranking) for each in sides)
        found = await anyio.to_thread.run_sync(compare_rankings, one, two)
        return Comparison(
            summary=" ".join(_plain(each) for each in verdict(found)),
            notes=list(found.notes),
            moved=[
                MovedDocument(
                    id=passage.doc_id,
                    rank_before=passage.before.rank if passage.before else None,
                    rank_after=passage.after.rank if passage.after else None,
                    why=_plain(reason(passage)),
                )
                for passage in found.movers
            ],
        )

    @_told
    async def recruit_team(
        self,
        query: str,
        example: Annotated[str | None, Field(description="a passage of the kind judged")] = None,
        ranker: Annotated[str | None, Field(description="by name; null for the first")] = None,
    ) -> RecruitedTeam:
        """Recruit the judges for a query and let them write their criteria, without ranking."""
        offer = self._offers.find(ranker)
        self._check_size(query, 1)
        recruiter = offer.ranker
        if not isinstance(recruiter, MCRanker):
            raise Problem("invalid", f"the ranker {offer.name!r} recruits no team; use mcranker")
        async with offer.places.one(within=self._limits.deadline):
            with anyio.move_on_after(self._limits.deadline):
                team = await recruiter.arecruit_team(query, example)
                return RecruitedTeam(team=team.model_dump(mode="json"))
        raise Problem("timeout", f"there is no team after {self._limits.deadline:g} seconds")

    async def _ranked(
        self,
        ranker: Ranker,
        query: str,
        passages: tuple[Any, ...],
        top_n: int | None,
        context: Context[Any, Any],
    ) -> Ranking:
        """The ranking, whose progress the client is told."""
        deadline = None if ranker.config.missing == "fail" else self._limits.deadline
        told = 0.0
        async with ranker.astream(
            as_query(query), passages, top_n=top_n, deadline=deadline
        ) as events:
            async for event in events:
                if isinstance(event, RankingDone):
                    return event.ranking
                now = time.monotonic()
                if (news := _progress(event)) and (now - told >= _EACH or news[0] == news[1]):
                    told = now
                    await context.report_progress(*news)
        raise AssertionError("a stream of events ended without a ranking")

    def _found(self, ranking_id: str) -> Kept:
        kept = self._kept.get(ranking_id, "")
        if kept is None:
            raise Problem(
                "not_found",
                f"there is no ranking {ranking_id[:100]!r}, or it was made too long ago to be "
                "kept; rank again",
            )
        return kept

    def _check_size(self, query: str, documents: int) -> None:
        limits = self._limits
        if not query.strip():
            raise Problem("empty", "query is empty")
        if len(query) > limits.query:
            raise Problem(
                "too_large", f"query has {len(query)} characters; send up to {limits.query}"
            )
        if documents > limits.documents:
            raise Problem(
                "too_large", f"there are {documents} documents; send up to {limits.documents}"
            )


def _record(document: str | Document) -> str | dict[str, str]:
    if isinstance(document, str):
        return document
    found = {"text": document.text, "title": document.title}
    return found if document.id is None else {"_id": document.id, **found}


def _progress(event: Event) -> tuple[float, float | None, str] | None:
    """How far the ranking is, of how much, and in words; None for events that say nothing of it."""
    match event:
        case TeamRecruited():
            names = ", ".join(each.name for each in event.personas)
            return 0, None, f"the judges are {names}"
        case RubricWritten():
            return 0, None, f"{event.persona} wrote {len(event.rubric.criteria)} criteria"
        case PassageScored() | PassageAssessed():
            return event.done, event.total, f"{event.done} of {event.total} scores"
        case PassagesCompared():
            return event.done, event.total, f"{event.done} of at most {event.total} comparisons"
    return None


def _rank_instead(hit: InspectedHit, name: str) -> str:
    rank = hit.ranks.get(name)
    return "" if rank is None else f"compared, not scored: rank {rank}"


def _view(inspection: Inspection, hit: InspectedHit, name: str) -> JudgeView:
    member = inspection.member(name)
    rubric = member.rubric if member is not None else None
    return JudgeView(
        name=name,
        description=member.persona.description if member is not None else "",
        score=hit.scores[name],
        missing=hit.missing.get(name, "") or _rank_instead(hit, name),
        rank_without=hit.rank_without.get(name),
        criteria=[
            f"{each.weight:g}% {each.name}: {each.description}"
            for each in (rubric.criteria if rubric is not None else ())
        ],
        criteria_scores=dict(hit.criteria.get(name, {})),
    )


def _plain(sentence: Sentence) -> str:
    return "".join(map(str, sentence))


def _summary(inspection: Inspection, hit: InspectedHit) -> str:
    said = [f"Rank {hit.rank} of {len(inspection.hits)}; given at {hit.first_stage_rank}."]
    for names in (hit.raised_most_by, hit.sunk_most_by):
        if names:
            who = " or ".join(names)
            said.append(f"Without {who}, it would be at rank {hit.rank_without[names[0]]}.")
    if hit.score is None:
        said.append("It was not judged.")
    return " ".join([*said, inspection.unfinished]).strip()
