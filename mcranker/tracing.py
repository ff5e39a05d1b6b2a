"""Rankings as OpenTelemetry traces, after OpenInference's conventions; see docs/calls.md.

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

from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, ReusesAnswers, Wrapper
from mcranker.llm.models import ROLES
from personas.ranking.types import Query

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from mcranker.method.session import Job
    from mcranker.ranking import Ranking
    from personas.ranking.usage import Usage

CONTENT_VARIABLE = "MCRANKER_TRACE_CONTENT"
"""1 lets queries, passages, prompts and replies into spans."""

LISTED = 20
"""Most passages of each side in a span, which may have 128 attributes by default."""

Documents: TypeAlias = Sequence[tuple[str, str, float | None]]  # id, text and score of each
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
    # A program that sets a provider has imported this.
    if (api := sys.modules.get("opentelemetry.trace")) is None:
        yield Trace(None, None)
        return
    from mcranker import __version__

    tracer = api.get_tracer("mcranker", __version__)
    with _span(tracer, name) as span:
        trace = Trace(tracer, span if span.is_recording() else None)
        try:
            yield trace
        finally:
            for stage, ended in trace.stages.values():
                stage.end(ended or None)
            span.set_attributes(trace.facts)  # last: of too many, the first are dropped


@contextmanager
def _span(
    tracer: Tracer, name: str, above: Span | None = None, facts: Mapping[str, Any] | None = None
) -> Iterator[Span]:
    """A current span for the block, with how it ended."""
    from opentelemetry.trace import Status, StatusCode, set_span_in_context

    context = None if above is None else set_span_in_context(above)
    with tracer.start_as_current_span(
        name, context, attributes=facts, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            # Messages may quote prompts and replies.
            kind = type(error).__name__
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind))
            raise
        except BaseException:
            span.set_attribute("mcranker.cancelled", value=True)
            raise


class _Traced(Wrapper):
    """A model with a span around each call."""

    def __init__(self, model: ChatModel, trace: Trace) -> None:
        super().__init__(model)
        self._trace = trace
        if isinstance(model, ReusesAnswers):
            self.mark_unusable = model.mark_unusable

    async def complete(self, request: ChatRequest) -> ChatReply:
        tag, content = request.tag, self._trace.content
        kind, prefix = "decision" if request.questions else "llm", self.name.partition(":")[0]
        facts: dict[str, Any] = {
            "openinference.span.kind": kind.upper(),
            f"{kind}.model_name": self.name,
            "mcranker.stage": tag.stage,
            "mcranker.persona": tag.persona,
            "mcranker.doc_id": tag.doc_id,
        }
        if prefix in _SYSTEMS:
            facts[f"{kind}.system"] = prefix
        if kind == "llm":
            asked = {"temperature": request.temperature, "max_tokens": request.max_tokens}
            facts["llm.invocation_parameters"] = json.dumps(asked)
        for place, message in enumerate(request.messages if content else ()):
            name = f"llm.input_messages.{place}.message"
            facts |= {f"{name}.role": message.role, f"{name}.content": message.content}
        with self._trace.below(tag.stage, f"{tag.stage} call", facts) as span:
            reply = await self._model.complete(request)
            span.set_attribute("mcranker.ledger_hit", reply.reused)
            if not reply.reused:  # what was paid before is not counted again
                span.set_attributes(_tokens(kind, reply.usage))
            if kind == "llm":
                span.set_attribute("llm.finish_reason", reply.finish_reason)
            if content:
                span.set_attribute("output.value", reply.text)
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
    def below(self, stage: str, name: str, facts: Mapping[str, Any]) -> Iterator[Span]:
        """A span below the stage's, which lasts from its first one to its last."""
        from opentelemetry.trace import set_span_in_context

        assert self._tracer is not None
        assert self.span is not None
        if stage not in self.stages:
            kind, context = {"openinference.span.kind": "CHAIN"}, set_span_in_context(self.span)
            self.stages[stage] = self._tracer.start_span(stage, context, attributes=kind), 0
        above, _ = self.stages[stage]
        try:
            with _span(self._tracer, name, above, facts) as span:
                yield span
        finally:
            self.stages[stage] = above, time.time_ns()

    @contextmanager
    def retrieval(self) -> Iterator[Callable[[Documents], None]]:
        """A span for a search; call with id, text and score of what it found."""
        if self.span is None or self._tracer is None:
            yield lambda _: None
            return
        kind = {"openinference.span.kind": "RETRIEVER"}
        with _span(self._tracer, "retrieval", self.span, kind) as span:
            yield lambda found: self.documents(span, "retrieval.documents", found)

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


def _tokens(kind: str, usage: Usage) -> dict[str, int]:
    if kind == "decision":
        tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
    else:
        tokens = {
            "prompt": usage.input_tokens,
            "prompt_details.cache_read": usage.cached_input_tokens,
            "completion": usage.output_tokens,
            "total": usage.input_tokens + usage.output_tokens,
        }
    return {f"{kind}.token_count.{name}": count for name, count in tokens.items()}
