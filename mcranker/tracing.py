"""Rankings as OpenTelemetry traces, after OpenInference's conventions; see docs/traces.md.

There are spans only in programs that have set a tracer provider. In others nothing is imported,
and a call costs one look-up more.

https://github.com/Arize-ai/openinference/tree/main/spec
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, ReusesAnswers
from mcranker.llm.models import ROLES
from mcranker.llm.wrapper import Wrapper
from personas.ranking.types import Query

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from mcranker.method.session import Job
    from mcranker.ranking import Ranking

CONTENT_VARIABLE = "MCRANKER_TRACE_CONTENT"
"""Set to 1, it lets queries, passages, prompts and replies into spans."""

Documents: TypeAlias = Sequence[tuple[str, str, float | None]]
"""Id, text and score of each."""

LISTED = 20
"""Most passages of each side in a span, which may have 128 attributes by default."""

_SYSTEMS = ("openai", "anthropic")  # prefixes that are names of OpenInference's as well


@contextmanager
def ranking_span(ranker: str, job: Job) -> Iterator[tuple[Job, Callable[[Ranking], None]]]:
    """A span for what happens in the block: rank the job given there, and call with the ranking."""
    with _traced("rank") as trace:
        if trace.span is None:
            yield job, lambda _: None
            return
        trace.facts = {
            "openinference.span.kind": "RERANKER",
            "reranker.model_name": job.models.scoring.name,
            "mcranker.ranker": ranker,
            "mcranker.query_id": job.query.id,
            "mcranker.passages": len(job.passages),
        }
        if job.config.top_n is not None:
            trace.facts["reranker.top_k"] = job.config.top_n
        if trace.content:
            trace.facts |= {"reranker.query": job.query.text, "input.value": job.query.text}
        given = [(each.id, each.text, None) for each in job.passages[:LISTED]]
        trace.documents(trace.span, "reranker.input_documents", given)
        around: dict[str, Any] = {role: trace.around(getattr(job.models, role)) for role in ROLES}
        yield replace(job, models=replace(job.models, **around)), trace.ranked


@contextmanager
def answer_span(question: Query) -> Iterator[Trace]:
    """A span for what happens in the block, from a question to its answer."""
    with _traced("ask") as trace:
        trace.facts = {"openinference.span.kind": "CHAIN", "mcranker.query_id": question.id}
        if trace.content:
            trace.facts["input.value"] = question.conversation
        yield trace


@contextmanager
def _traced(name: str) -> Iterator[Trace]:
    """A trace of the block, without a span in programs without a provider."""
    span = tracer = None
    # A program that sets a provider has imported this.
    if (api := sys.modules.get("opentelemetry.trace")) is not None:
        from mcranker import __version__

        tracer = api.get_tracer("mcranker", __version__)
        span = tracer.start_span(name)
    if span is None or not span.is_recording():
        yield Trace(None, None)
        return
    trace = Trace(tracer, span)
    try:
        with _inside(span):
            yield trace
    finally:
        for stage, ended in trace.stages.values():
            stage.end(ended or None)
        span.set_attributes(trace.facts)  # last: of too many, the first are dropped
        span.end()


class _Traced(Wrapper):
    """A model with a span around each call."""

    def __init__(self, model: ChatModel, trace: Trace) -> None:
        super().__init__(model)
        self._trace = trace
        if isinstance(model, ReusesAnswers):
            self.mark_unusable = model.mark_unusable

    async def complete(self, request: ChatRequest) -> ChatReply:
        with self._trace.call(self.name, request) as answered:
            reply = await self._model.complete(request)
            answered(reply)
            return reply


class Trace:
    """A ranking's or answer's span, one for each stage, and one for each call below these."""

    def __init__(self, tracer: Tracer | None, span: Span | None) -> None:
        self.content = os.environ.get(CONTENT_VARIABLE, "").lower() in {"1", "true", "yes", "on"}
        self._tracer = tracer
        self.span = span
        self.facts: dict[str, Any] = {}
        self.stages: dict[str, tuple[Span, int]] = {}

    def around(self, model: ChatModel) -> ChatModel:
        """Return the model with a span around each call."""
        return model if self.span is None else _Traced(model, self)

    @contextmanager
    def retrieval(self) -> Iterator[Callable[[Documents], None]]:
        """A span for a search; call with id, text and score of what it found."""
        if self.span is None:
            yield lambda _: None
            return
        span = self.start("retrieval", self.span, {"openinference.span.kind": "RETRIEVER"})
        try:
            with _inside(span):
                yield lambda found: self.documents(span, "retrieval.documents", found)
        finally:
            span.end()

    def end(self, text: str, facts: Mapping[str, str | bool | int]) -> None:
        self.facts |= {**facts, **({"output.value": text} if self.content else {})}

    def ranked(self, ranking: Ranking) -> None:
        assert self.span is not None
        hits = [(hit.doc_id, hit.passage.text, hit.score) for hit in ranking[:LISTED]]
        self.documents(self.span, "reranker.output_documents", hits)
        self.facts |= {
            "mcranker.calls": ranking.calls.total.calls,
            "mcranker.ledger_hits": ranking.calls.reused.total.calls,
            "mcranker.missing_scores": len(ranking.missing),
            "mcranker.partial": ranking.partial,
        }
        if ranking.failure:
            self.facts["mcranker.kept_first_stage"] = True

    def documents(self, span: Span, name: str, found: Documents) -> None:
        """Set ids, scores and, where they are let in, texts of documents."""
        for place, (doc_id, text, score) in enumerate(found[:LISTED]):
            parts = {"id": doc_id, "content": text if self.content else None, "score": score}
            for part, value in parts.items():
                if value is not None:
                    span.set_attribute(f"{name}.{place}.document.{part}", value)

    @contextmanager
    def call(self, model: str, request: ChatRequest) -> Iterator[Callable[[ChatReply], None]]:
        assert self.span is not None
        tag = request.tag
        if tag.stage not in self.stages:
            stage = self.start(tag.stage, self.span, {"openinference.span.kind": "CHAIN"})
            self.stages[tag.stage] = stage, 0
        above, _ = self.stages[tag.stage]
        kind = "decision" if request.questions else "llm"
        facts = {
            "openinference.span.kind": kind.upper(),
            f"{kind}.model_name": model,
            "mcranker.stage": tag.stage,
            "mcranker.persona": tag.persona,
            "mcranker.doc_id": tag.doc_id,
        }
        prefix = model.partition(":")[0]
        if prefix in _SYSTEMS:
            facts[f"{kind}.system"] = prefix
        if kind == "llm":
            asked = {"temperature": request.temperature, "max_tokens": request.max_tokens}
            facts["llm.invocation_parameters"] = json.dumps(asked)
        if self.content:
            facts |= _messages("llm.input_messages", request)
        span = self.start(f"{tag.stage} call", above, facts)
        try:
            with _inside(span):
                yield lambda reply: span.set_attributes(self._answer(kind, reply))
        finally:
            span.end()
            self.stages[tag.stage] = above, time.time_ns()

    def start(self, name: str, above: Span, facts: Mapping[str, Any]) -> Span:
        from opentelemetry.trace import set_span_in_context

        assert self._tracer is not None
        context = set_span_in_context(above)
        return self._tracer.start_span(name, context=context, attributes=dict(facts))

    def _answer(self, kind: str, reply: ChatReply) -> Mapping[str, Any]:
        usage = reply.usage
        facts: dict[str, Any] = {"mcranker.ledger_hit": reply.reused}
        # What was paid before is not counted again.
        if not reply.reused and kind == "llm":
            facts |= {
                "llm.token_count.prompt": usage.input_tokens,
                "llm.token_count.prompt_details.cache_read": usage.cached_input_tokens,
                "llm.token_count.completion": usage.output_tokens,
                "llm.token_count.total": usage.input_tokens + usage.output_tokens,
            }
        elif not reply.reused:
            facts |= {
                "decision.token_count.input": usage.input_tokens,
                "decision.token_count.output": usage.output_tokens,
            }
        if kind == "llm":
            facts["llm.finish_reason"] = reply.finish_reason
        if self.content:
            facts["output.value"] = reply.text
        return facts


@contextmanager
def _inside(span: Span) -> Iterator[None]:
    """Make the span current in the block, and record how the block ended."""
    from opentelemetry.trace import Status, StatusCode, use_span

    with use_span(span, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except Exception as error:
            # Messages may quote prompts and replies.
            kind = type(error).__name__
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind))
            raise
        except BaseException:
            span.set_attribute("mcranker.cancelled", value=True)
            raise


def _messages(prefix: str, request: ChatRequest) -> dict[str, str]:
    return {
        f"{prefix}.{place}.message.{part}": value
        for place, message in enumerate(request.messages)
        for part, value in (("role", message.role), ("content", message.content))
    }
