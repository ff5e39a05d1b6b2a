"""Rankers as tools of language models' clients, by the Model Context Protocol.

https://modelcontextprotocol.io; the server side is the official SDK's.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field, SkipValidation
from starlette.applications import Starlette

from mcranker import __version__
from mcranker.errors import BudgetExceeded
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
from mcranker.runtime.bridge import task_group
from mcranker.serve.answers import scores_of, warnings_of
from mcranker.serve.explanations import Explanations
from mcranker.serve.mcp_wire import CheckedBodies, stdio
from mcranker.serve.problems import Problem, problem_of
from mcranker.serve.requests import RANK_FIELDS, read_fields
from mcranker.serve.served import Job, ServedRanker, ServedRankers, discreet, public_form
from mcranker.serve.settings import Limits, Settings
from personas.format import counted
from personas.ranking.comparison import compare_rankings
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.ranking.types import Reason
from personas.report.compare.sentences import Sentence, reason, summary

logger = safe_logger("mcranker.serve")
P = ParamSpec("P")
T = TypeVar("T")

_EACH = 0.2
"""Seconds between two notifications of progress, at least."""

_LONGEST_ERROR = 500
"""Characters of an error, which may take more than a byte each."""

_EXPLAINED = (
    *("rank", "doc_id", "first_stage_rank", "score", "scores", "ranks", "missing"),
    *("imputed", "criteria", "rank_without"),
)
"""Fields of `Hit` in a document's result."""

_INSTRUCTIONS = (
    "Ranks passages by how well they answer a query, with a team of judges who each write weighted "
    "criteria. A missing score is null, never a guess; notes say who judged and what to know of it."
)


class Document(BaseModel):
    """A passage to be ranked."""

    text: str
    id: str | None = Field(None, description="its own, unique in the call; else its place, from 0")
    title: str = ""


class RankedDocument(BaseModel):
    """A passage at its rank."""

    rank: int = Field(description="from 1, best first")
    index: int = Field(description="its place among the documents that were given, from 0")
    id: str
    relevance: float | None = Field(description="0 to 1; null where it could not be judged")
    scores: dict[str, float | None] = Field(description="of each judge")
    missing: dict[str, str] = Field(description="why a judge's score is missing")
    imputed: dict[str, float] = Field(description="what counts for a missing score")
    reasons: dict[str, Reason] = Field(description="of each judge, where they were asked for")


class Effort(BaseModel):
    """The effort of a ranking."""

    calls: int = Field(description="of models")
    reused_answers: int = Field(description="taken from the ledger, at no call")
    cost_usd: float | None = Field(description="null where the price is not known")


class EstimateResult(Effort):
    """The estimated effort of a ranking."""

    input_tokens: int
    output_tokens: int
    cost_usd_at_most: float | None = Field(description="if every reply is as long as may be")


class RankResult(Effort):
    """A ranking."""

    ranking_id: str = Field(description="for the tools explain and compare")
    ranker: str
    judges: list[str]
    relevance_is: str = Field(
        description="absolute: means the same in every call, so that a threshold holds; by_rank: "
        "the ranker gives an order alone; input_order: nothing was judged"
    )
    results: list[RankedDocument]
    notes: list[str] = Field(description="who judges, and what is missing or not as usual")


class RecruitedTeam(BaseModel):
    """A team of judges."""

    team: dict[str, Any] = Field(description="whole; may be edited and given to the tool rank")


# As clients see them; they are checked as the service's are, which stops at the first fault.
_Documents = SkipValidation[list[str | Document]]
_Team = Annotated[
    str | dict[str, Any] | None,
    Field(description="a team or persona of the library by name, or a whole team"),
]
_Name = Annotated[str | None, Field(description="by name; null for the first")]
_Reasons = Annotated[int, Field(ge=0, description="first documents that judges explain")]
_Instruction = Annotated[
    str, Field(description="what else matters, in a sentence: one more criterion for every judge")
]


@asynccontextmanager
async def mcp_server(settings: Settings | None = None) -> AsyncIterator[MCPServer[Any]]:
    """Make the MCP server; its rankers are made at once and closed after the block.

    Args:
        settings: what it offers; None for one MCRanker with its defaults. Keys, addresses and
            limits of connections are those of the transport, and not looked at.

    Raises:
        MCRankerError, PersonasError: a ranker cannot be made as it is set up.
    """
    settings = settings or Settings()
    tools = _Tools(settings)
    server = _Server(
        settings.limits,
        "mcranker",
        title="MCRanker",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.rank, tools.estimate, tools.explain, tools.compare, tools.recruit_team):
        server.add_tool(tool, annotations=reads)
    try:
        yield server
    finally:
        await tools.aclose()


class _Server(MCPServer[Any]):
    """The SDK's server, with messages within the limits and errors that a model can read."""

    def __init__(self, limits: Limits, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self._limits = limits
        self.middleware.append(_short_errors)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            raise type(error)(_short(str(error))) from None

    async def run_stdio_async(self) -> None:
        server = self._lowlevel_server
        options = server.create_initialization_options()
        # As a task of a group, it is cancelled as a whole; a signal reaches this task alone first.
        async with stdio(self._limits) as streams, task_group() as group:
            group.start_soon(server.run, *streams, options)

    def streamable_http_app(self, **given: Any) -> Starlette:
        app = super().streamable_http_app(max_request_body_size=self._limits.body, **given)
        app.add_middleware(CheckedBodies, limits=self._limits)
        return app


async def _short_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    try:
        return await call_next(ctx)
    except Exception as error:
        code, data = (error.code, error.data) if isinstance(error, MCPError) else (0, None)
        if len(str(error)) + len(str(data)) <= _LONGEST_ERROR:
            raise
        raise MCPError(code or INVALID_PARAMS, _short(str(error))) from None


def _short(message: str) -> str:
    """Shorten an error's text, which goes into a model's context."""
    return message if len(message) <= _LONGEST_ERROR else f"{message[: _LONGEST_ERROR - 1]}…"


def _reported(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return the tool with its errors converted by `problem_of`."""

    @functools.wraps(tool)
    async def reported(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except Exception as error:
            problem = problem_of(error)
            if problem.kind == "internal":
                logger.exception("unexpected error")
            elif problem is not error and problem.ours:
                logger.warning("%s: %s", type(error).__name__, error)
            raise ToolError(problem.message) from error

    return reported


class _Tools:
    def __init__(self, settings: Settings) -> None:
        self._limits = settings.limits
        self._rankers = ServedRankers.open(settings)
        self._kept = Explanations(self._limits.explanations, self._limits.explanations_bytes)

    async def aclose(self) -> None:
        await self._rankers.aclose()

    @_reported
    async def rank(
        self,
        query: str,
        documents: _Documents,
        context: Context[Any, Any],
        top_n: Annotated[int | None, Field(ge=1, description="results; all if null")] = None,
        team: _Team = None,
        ranker: _Name = None,
        instruction: _Instruction = "",
        reasons: _Reasons = 0,
        deadline: Annotated[
            float | None, Field(gt=0, description="seconds; then what is known is returned")
        ] = None,
        max_calls: Annotated[int | None, Field(ge=0, description="most calls of models")] = None,
        max_cost: Annotated[float | None, Field(ge=0, description="most US dollars")] = None,
    ) -> RankResult:
        """Put documents in the order of their relevance to a query, best first."""
        served, options = self._chosen(ranker, team)
        limited = served.limited(options, max_calls=max_calls, max_cost=max_cost)
        seconds = min(deadline or math.inf, self._limits.deadline)
        wanted = {"query": query, "documents": documents, "instruction": instruction}
        job = self._job(limited, {**wanted, "reasons": reasons}, seconds, top_n or 0)
        if max_calls is not None or max_cost is not None:
            await _check_cost(job, max_calls, max_cost)
        try:
            ranking = await served.rank(job, _Progress(context).emit)
        except BudgetExceeded as error:
            if max_calls is None and max_cost is None:
                raise
            raise Problem("unavailable", f"{max_calls=}, {max_cost=}: {error}") from error
        scored = scores_of(ranking, "null")
        return RankResult(
            ranking_id=self._kept.put(ranking),
            ranker=served.name,
            judges=list(ranking.orders.personas if ranking.orders else ranking.personas),
            relevance_is=scored.relevance,
            results=[
                RankedDocument(
                    rank=hit.rank,
                    index=hit.index,
                    id=hit.doc_id,
                    relevance=relevance,
                    scores=dict(hit.scores),
                    missing={name: discreet(said) for name, said in hit.missing.items()},
                    imputed=dict(hit.imputed),
                    reasons=dict(hit.reasons),
                )
                for hit, relevance in zip(ranking, scored.scores, strict=True)
            ],
            notes=[*warnings_of(ranking, reasons), *scored.warnings],
            calls=ranking.usage.calls,
            reused_answers=ranking.reused.calls,
            cost_usd=ranking.cost,
        )

    @_reported
    async def estimate(
        self,
        query: str,
        documents: _Documents,
        team: _Team = None,
        ranker: _Name = None,
        instruction: _Instruction = "",
        reasons: _Reasons = 0,
    ) -> EstimateResult:
        """Say what the tool rank would take for the same arguments. Nothing is sent."""
        served, options = self._chosen(ranker, team)
        wanted = {"query": query, "documents": documents, "instruction": instruction}
        job = self._job(served.with_options(options), {**wanted, "reasons": reasons})
        found = await job.estimate()
        return EstimateResult(
            calls=found.calls,
            reused_answers=found.reused,
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
            cost_usd=found.cost,
            cost_usd_at_most=found.cost_at_most,
        )

    @_reported
    async def explain(self, ranking_id: str, document_id: str) -> dict[str, Any]:
        """Say why a document of an earlier ranking ranks where it does, judge by judge."""
        form = public_form(self._kept.get(ranking_id))
        inspection = await anyio.to_thread.run_sync(RankingRecord.from_dict, form)
        hit = next((each for each in inspection.hits if each.doc_id == document_id), None)
        if hit is None:
            some = ", ".join(each.doc_id for each in inspection.hits[:5])
            raise Problem("not_found", f"no document {document_id[:100]!r}; there are {some}, …")
        judges = {
            member.name: {
                "description": member.persona.description,
                "criteria": [
                    f"{each.weight:g}% {each.name}: {each.description}".removesuffix(": ")
                    for each in (member.rubric.criteria if member.rubric else ())
                ],
            }
            for name in inspection.judges
            if (member := inspection.member(name)) is not None
        }
        return {
            "query": inspection.query.text,
            "summary": _summary(inspection, hit),
            **{name: getattr(hit, name) for name in _EXPLAINED},
            "top_score": inspection.top,
            "judges": judges,
        }

    @_reported
    async def compare(self, before: str, after: str) -> dict[str, Any]:
        """Say which documents moved between two earlier rankings, and whose scores moved them."""
        one, two = (public_form(self._kept.get(each)) for each in (before, after))
        found = await anyio.to_thread.run_sync(compare_rankings, one, two)
        return {
            "summary": " ".join(_plain(each) for each in summary(found)),
            "notes": list(found.notes),
            "moved": [
                {
                    "id": passage.doc_id,
                    "rank_before": passage.before.rank if passage.before else None,
                    "rank_after": passage.after.rank if passage.after else None,
                    "why": _plain(reason(passage)),
                }
                for passage in found.movers
            ],
        }

    @_reported
    async def recruit_team(
        self,
        query: str,
        example: Annotated[str | None, Field(description="a passage of the kind judged")] = None,
        ranker: _Name = None,
    ) -> RecruitedTeam:
        """Recruit the judges for a query and let them write their criteria, without ranking."""
        served, _ = self._chosen(ranker, None)
        asked = read_fields({"query": query}, RANK_FIELDS, self._limits)["query"]
        recruiter = served.ranker
        if not isinstance(recruiter, MCRanker):
            raise Problem("invalid", f"the ranker {served.name!r} recruits no team; use mcranker")
        async with served.places.one(within=self._limits.deadline):
            with anyio.move_on_after(self._limits.deadline):
                team = await recruiter.arecruit_team(asked, example)
                return RecruitedTeam(team=team.model_dump(mode="json"))
        raise Problem("timeout", f"no team after {self._limits.deadline:g} seconds")

    def _chosen(
        self, ranker: str | None, team: str | dict[str, Any] | None
    ) -> tuple[ServedRanker, Mapping[str, Any]]:
        options = {} if team is None else {"team": team}
        return self._rankers.find(ranker), read_fields(
            {"options": options}, RANK_FIELDS, self._limits
        )["options"]

    def _job(
        self, ranker: Ranker, wanted: dict[str, Any], seconds: float = 0.0, top_n: int = 0
    ) -> Job:
        """Return the ranking job, within the limits."""
        found = read_fields(wanted, RANK_FIELDS, self._limits)
        if not found.get("documents"):
            raise Problem("empty", "documents is empty; give at least one")
        passages = as_passages(found["documents"])
        return Job(
            ranker,
            as_query(found["query"]),
            passages,
            seconds,
            min(top_n, len(passages)),
            instruction=found["instruction"],
            reasons=found["reasons"],
        )


class _Progress:
    """Reports the progress of a ranking, at most every `_EACH` seconds."""

    def __init__(self, context: Context[Any, Any]) -> None:
        self._context = context
        self._latest = 0.0
        self._reached: tuple[float, float | None] = 0, None

    async def emit(self, event: Event) -> None:
        now, (done, total) = time.monotonic(), self._reached
        match event:
            case RankingDone():
                await self._context.report_progress(done, total, "asking for reasons")
                return
            case TeamRecruited():
                said = f"the judges are {', '.join(each.name for each in event.personas)}"
            case RubricWritten():
                said = f"{event.persona} wrote {len(event.rubric.criteria)} criteria"
            case PassageScored() | PassageAssessed():
                done, total = event.done, event.total
                said = f"{done} of {total} scores"
            case PassagesCompared():
                done, total = event.done, event.total
                said = f"{done} of at most {total} comparisons"
            case _:
                return
        if now - self._latest >= _EACH or done == total:
            self._latest, self._reached = now, (done, total)
            await self._context.report_progress(done, total, said)


async def _check_cost(job: Job, max_calls: int | None, max_cost: float | None) -> None:
    """Refuse a ranking that would take more, before anything is sent."""
    found = await job.estimate()
    cost = found.cost or 0.0
    if (max_calls is not None and found.calls > max_calls) or (
        max_cost is not None and cost > max_cost
    ):
        dollars = f", about ${cost:.2g}" if cost else ""
        raise Problem(
            "invalid",
            f"nothing was sent: it would take {counted(found.calls, 'call')}{dollars}, more than "
            f"{max_calls=} and {max_cost=} allow; allow more, or send fewer documents",
        )


def _plain(sentence: Sentence) -> str:
    return "".join(map(str, sentence))


def _summary(inspection: RankingRecord, hit: Hit) -> str:
    said = [f"Rank {hit.rank} of {len(inspection.hits)}; given at {hit.first_stage_rank}."]
    for names in (hit.raised_most_by, hit.sunk_most_by):
        if names:
            who = " or ".join(names)
            said.append(f"Without {who}, it would be at rank {hit.rank_without[names[0]]}.")
    if not (hit.judged or inspection.unscored):
        said.append("Not all judges were asked." if hit.skipped else "No judge scored it.")
    return " ".join([*said, inspection.unfinished]).strip()
