"""Answers to questions, from the index of the service."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from mcranker.rag.result import AnswerDone, StageDone, StageStarted
from mcranker.serve.events import event_data
from mcranker.serve.metrics import Metrics
from mcranker.serve.problems import Problem
from mcranker.serve.served import SHORTEST, Places, discreet, public, public_name
from mcranker.serve.settings import GRACE, Settings

if TYPE_CHECKING:
    from mcranker.llm.ledger.ledger import Ledger
    from mcranker.rag.pipeline import RAGPipeline
    from mcranker.rag.result import EmitAnswer, RAGEvent, RAGResult
    from personas.ranking.types import Query

ANSWER = "answer"
"""Name of the pipeline where metrics and the log name a ranker."""


class Answering:
    """The pipeline of a service, with its places."""

    def __init__(self, settings: Settings, metrics: Metrics | None = None) -> None:
        limits = settings.limits
        self.pipeline = settings.answer.make() if settings.answer else None
        self._places = Places(limits.rankings, limits.waiting, limits.wait)
        self._metrics = metrics
        if metrics is not None and self.pipeline is not None:
            metrics.watch(ANSWER, self._places.limiter)

    @property
    def ledger(self) -> Ledger | None:
        """The ledger of the pipeline's own calls, if it has one."""
        return self.pipeline.ledger if self.pipeline is not None else None

    def ready(self) -> RAGPipeline:
        """The pipeline."""
        if self.pipeline is None:
            raise Problem(
                "not_found", "this service has no index to answer from; start it with --index"
            )
        return self.pipeline

    async def answer(
        self, question: Query, seconds: float, emit: EmitAnswer | None = None
    ) -> RAGResult:
        """Wait for a place and answer; at the deadline the answer is of what is there."""
        pipeline, end = self.ready(), time.monotonic() + seconds
        async with self._places.one(within=seconds):
            outcome = "failed"
            try:
                left = max(end - time.monotonic(), SHORTEST)
                with anyio.fail_after(left + GRACE):
                    result = await _answered(pipeline, question, left, emit)
                outcome = "partial" if result.partial else result.kind
            except TimeoutError:
                raise Problem("timeout", f"no answer after {seconds:g} seconds") from None
            except anyio.get_cancelled_exc_class():
                outcome = "cancelled"
                raise
            finally:
                if self._metrics is not None:
                    self._metrics.add("answers", outcome)
        if self._metrics is not None:
            self._metrics.staged(ANSWER, {each.name: each.seconds for each in result.stages})
        return result

    async def aclose(self) -> None:
        """Close the pipeline, if there is one."""
        if self.pipeline is not None:
            await self.pipeline.aclose()


async def _answered(
    pipeline: RAGPipeline, question: Query, seconds: float, emit: EmitAnswer | None
) -> RAGResult:
    async with pipeline.astream(question, deadline=seconds) as events:
        async for event in events:
            if isinstance(event, AnswerDone):
                return event.result
            if emit is not None:
                await emit(event)
    raise AssertionError("a stream of events ended without an answer")


def answer_event(event: RAGEvent) -> tuple[str, Mapping[str, Any]]:
    """Name and data of an event; `AnswerDone` has none, since the service adds its own."""
    match event:
        case StageStarted():
            return "stage_started", {"name": event.name}
        case StageDone():
            return "stage_done", _discreet(event.stage.model_dump(mode="json"))
        case AnswerDone():
            raise AssertionError("the answer is sent as a whole")
        case _:
            return event_data(event)


def public_answer(result: RAGResult) -> dict[str, Any]:
    """Everything an answer holds, as JSON values, without paths and addresses of the operator's."""
    form = result.to_dict()
    form["models"] = {role: public_name(name) for role, name in form["models"].items()}
    for name in ("failure", "stages", "warnings", "config"):
        form[name] = _discreet(form[name])
    for each in (*form["passages"], *form["drafts"]):
        each |= {name: discreet(each[name]) for name in ("dropped", "failure") if name in each}
    if form["stored_ranking"] is not None:
        form["stored_ranking"] = public(form["stored_ranking"])
    return form


def answer_headers(name: str, result: RAGResult) -> dict[str, str]:
    """Return the headers of an answer."""
    headers = {"X-Answer-Id": name}
    if result.warnings:
        notes = " ".join(discreet("; ".join(result.warnings)).split())
        headers["X-Notes"] = notes.encode("ascii", "replace").decode()
    return headers | ({"X-Partial": "deadline"} if result.partial else {})


def _discreet(value: Any) -> Any:
    """JSON values without addresses and paths in any text."""
    match value:
        case str():
            return discreet(value)
        case list():
            return [_discreet(each) for each in value]
        case dict():
            return {name: _discreet(each) for name, each in value.items()}
    return value
