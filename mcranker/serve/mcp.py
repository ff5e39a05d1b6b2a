"""Rankers as tools of language models' clients, by the Model Context Protocol.

https://modelcontextprotocol.io; the server side is the official SDK's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, cast

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field, SkipValidation
from starlette.applications import Starlette

from mcranker import __version__
from mcranker.errors import ConfigError
from mcranker.events import PassageAssessed, PassagesCompared, PassageScored
from mcranker.logs import safe_logger
from mcranker.rag.result import EmitAnswer, RAGEvent
from mcranker.ranking import Ranking
from mcranker.runtime.bridge import apart, task_group
from mcranker.runtime.processes import stopping
from mcranker.serve.bodies import Problem, problem_of
from mcranker.serve.metrics import Metrics
from mcranker.serve.rankers import Answering, Job, ServedRanker, ServedRankers
from mcranker.serve.requests import QuestionRequest, RankRequest
from mcranker.serve.results import (
    Explanations,
    discreet,
    public_answer,
    public_form,
    scores_of,
    size_of,
    warnings_of,
)
from mcranker.serve.settings import Limits, Settings
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord

logger = safe_logger("mcranker.serve")

_EACH = 0.2  # seconds between two notifications of progress, at least
_LONGEST_ERROR = 500  # characters
_RANKED = ("rank", "index", "scores", "missing", "imputed", "reasons")
_EXPLAINED = (
    *("rank", "doc_id", "first_stage_rank", "score", "scores", "missing"),
    *("imputed", "criteria", "rank_without"),
)
"""Fields of `Hit` in a document's result, and in its explanation."""

_INSTRUCTIONS = (
    "Ranks passages by how well they answer a query, with a team of judges who each write weighted "
    "criteria. A missing score is null, never a guess; notes say who judged and what to know of it."
)


class Document(BaseModel):
    """A passage to be ranked."""

    text: str
    id: str | None = Field(None, description="its own, unique in the call; else its place, from 0")
    title: str = ""


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
    """Make the MCP server; its rankers are made at once and closed after the block."""
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
    asks = ToolAnnotations(read_only_hint=True, open_world_hint=True)  # models, which lie outside
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    server.add_tool(tools.rank, annotations=asks)
    server.add_tool(tools.estimate, annotations=reads)
    server.add_tool(tools.explain, annotations=reads)
    if settings.answer is not None:
        server.add_tool(tools.answer, annotations=asks)
    try:
        yield server
    finally:
        await tools.rankers.aclose()
        await tools.answering.aclose()


class _Server(MCPServer[Any]):
    """The SDK's server, with messages within the limits and errors that a model can read."""

    def __init__(self, limits: Limits, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self._limits = limits

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            said, cause = str(error), error.__cause__
            if isinstance(error, UnexpectedToolError) and isinstance(cause, Exception):
                said = f"{said}: {problem_of(cause, name).message}"
            # It goes into a model's context.
            whole = len(said) <= _LONGEST_ERROR
            raise ToolError(said if whole else f"{said[: _LONGEST_ERROR - 1]}…") from None

    async def run_stdio_async(self) -> None:
        server = self._lowlevel_server
        options = server.create_initialization_options()
        lines = cast("anyio.AsyncFile[str]", _StandardInput(self._limits.body))
        try:
            # As a task of a group, it is cancelled as a whole; a signal reaches this task first.
            async with stdio_server(lines) as (incoming, outgoing), task_group() as group:
                group.start_soon(server.run, incoming, outgoing, options)
        except* (OSError, anyio.BrokenResourceError):
            logger.debug("the client is gone, or reads no more")
        if stopping.left(0) is not None:
            raise KeyboardInterrupt  # the signal, whose cancellation may be lost in those errors

    def streamable_http_app(self, **given: Any) -> Starlette:
        return super().streamable_http_app(max_request_body_size=self._limits.body, **given)


class _StandardInput:
    """Lines of standard input, of `longest` bytes at most, read where no end waits for them."""

    def __init__(self, longest: int) -> None:
        if sys.__stdin__ is None or sys.__stdout__ is None:
            raise ConfigError(
                "standard input or output is closed; MCP clients keep both open, or use --http"
            )
        # A file of its own: the interpreter's end would wait for the lock of ``sys.stdin``.
        self._file, self._longest = os.fdopen(os.dup(0), "rb", closefd=False), longest

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await apart(self._file.readline, self._longest):
            yield line.decode("utf-8", "replace")


class _Tools:
    def __init__(self, settings: Settings) -> None:
        self._limits = settings.limits
        metrics = Metrics()  # that no client reads
        self.rankers = ServedRankers(settings, metrics)
        self.answering = Answering(settings, metrics)
        self._kept = Explanations[Ranking](self._limits)

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
    ) -> dict[str, Any]:
        """Put documents in the order of their relevance to a query, best first."""
        shared = (ranker, team, query, documents, instruction, reasons)
        served, job = self._job(*shared, top_n=top_n, timeout=deadline)
        ranking = await served.rank(job, _progress(context))
        scored = scores_of(ranking, "null")
        return {
            "ranking_id": self._kept.put(ranking, size_of(ranking)),
            "ranker": served.name,
            "judges": list(ranking.personas),
            "relevance_is": scored.relevance,
            "results": [
                {"id": hit.doc_id, "relevance": relevance, **_view(hit, _RANKED)}
                for hit, relevance in zip(ranking, scored.scores, strict=True)
            ],
            "notes": [*warnings_of(ranking, reasons), *scored.warnings],
            "calls": ranking.usage.calls,
            "reused_answers": ranking.reused.calls,
            "cost_usd": ranking.cost,
        }

    async def estimate(
        self,
        query: str,
        documents: _Documents,
        team: _Team = None,
        ranker: _Name = None,
        instruction: _Instruction = "",
        reasons: _Reasons = 0,
    ) -> dict[str, Any]:
        """Estimate calls, tokens and cost of `rank` with these arguments. Nothing is sent."""
        _, job = self._job(ranker, team, query, documents, instruction, reasons)
        found = await job.ranker.aestimate(
            job.query, job.passages, instruction=instruction or None, reasons=reasons
        )
        return {
            "calls": found.calls,
            "reused_answers": found.reused,
            "input_tokens": found.input_tokens,
            "output_tokens": found.output_tokens,
            "cost_usd": found.cost,
            "cost_usd_at_most": found.cost_at_most,
        }

    async def answer(
        self,
        question: str,
        context: Context[Any, Any],
        messages: Annotated[
            list[dict[str, str]] | None,
            Field(description="the conversation before it: role and content each"),
        ] = None,
        deadline: Annotated[
            float | None, Field(gt=0, description="seconds; then what is there is answered from")
        ] = None,
    ) -> dict[str, Any]:
        """Answer a question from the indexed documents, with checked citations."""
        given = {"question": question, "messages": messages}
        asked = QuestionRequest.read(given, self._limits).asked(self._limits)
        result = await self.answering.answer(asked, deadline, _progress(context))
        form, ranking = public_answer(result), result.ranking
        return {
            "answer": form["text"],
            **{name: form[name] for name in ("kind", "failure", "partial")},
            "citations": form["all_citations"],
            "passages": [
                {name: getattr(each, name) for name in ("number", "id", "document", "title")}
                for each in result.context
            ],
            "ranking_id": ranking and self._kept.put(ranking, size_of(ranking)),
            "notes": form["warnings"],
            "calls": sum(stage.calls for stage in result.stages),
        }

    async def explain(self, ranking_id: str, document_id: str) -> dict[str, Any]:
        """Say why a document of an earlier ranking ranks where it does, judge by judge."""
        form = public_form(self._kept.get(ranking_id))
        record = await anyio.to_thread.run_sync(RankingRecord.from_dict, form)
        hit = next((each for each in record.hits if each.doc_id == document_id), None)
        if hit is None:
            some = ", ".join(each.doc_id for each in record.hits[:5])
            raise Problem("not_found", f"no document {document_id[:100]!r}; there are {some}, …")
        members = {name: member for name in record.personas if (member := record.member(name))}
        return {
            "query": record.query.text,
            **_view(hit, _EXPLAINED),
            "top_score": record.top,
            "judges": {
                name: {
                    "description": member.persona.description,
                    "criteria": [
                        f"{each.weight:g}% {each.name}: {each.description}".removesuffix(": ")
                        for each in (member.rubric.criteria if member.rubric else ())
                    ],
                }
                for name, member in members.items()
            },
        }

    def _job(
        self,
        ranker: str | None,
        team: str | dict[str, Any] | None,
        query: str,
        documents: Sequence[Any],
        instruction: str,
        reasons: int,
        **more: Any,
    ) -> tuple[ServedRanker, Job]:
        """Return the ranking job, within the limits."""
        served = self.rankers.find(ranker)
        options = {} if team is None else {"team": team}
        given = {"query": query, "documents": documents, "options": options, **more}
        given |= {"instruction": instruction, "reasons": reasons}
        asked = RankRequest.read(given, self._limits)
        if not asked.documents:
            raise Problem("empty", "documents is empty; give at least one")
        return served, Job(served.with_options(asked.options), asked, asked.passages())


def _progress(context: Context[Any, Any]) -> EmitAnswer:
    """Report the progress of a ranking, at most every `_EACH` seconds."""
    latest = 0.0

    async def emit(event: RAGEvent) -> None:
        nonlocal latest
        if not isinstance(event, PassageScored | PassageAssessed | PassagesCompared):
            return
        what = "comparisons" if isinstance(event, PassagesCompared) else "scores"
        done, total, now = event.done, event.total, time.monotonic()
        if now - latest >= _EACH or done == total:
            latest = now
            await context.report_progress(done, total, f"{done} of {total} {what}")

    return emit


def _view(hit: Hit, names: tuple[str, ...]) -> dict[str, Any]:
    missing = {name: discreet(said) for name, said in hit.missing.items()}
    return {name: getattr(hit, name) for name in names} | {"missing": missing}
