"""Traces of rankings, read from OpenTelemetry's exporter in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from mcranker import (
    ChatReply,
    ChatRequest,
    DirectRanker,
    MCRanker,
    ScriptedChat,
    ServerFailed,
)
from mcranker.tracing import CONTENT_VARIABLE
from tests.support.scripted import by_table, scripted

ROOT = Path(__file__).parents[2]
DOCS = {"d1": "Cloth masks filter little.", "d2": "N95 masks filter most."}
TABLE = {
    "NLP scientist": {"d1": 2, "d2": 7},
    "Virologist": {"d1": 3, "d2": 9},
    "Worried parent": {"d1": 1, "d2": 8},
}

Spans = Callable[[], list[ReadableSpan]]


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def spans(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> Spans:
    """What was recorded so far; only ended spans are."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The provider of a process cannot be taken back.
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.delenv(CONTENT_VARIABLE, raising=False)
    return lambda: list(exporter.get_finished_spans())


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def kinds(spans: list[ReadableSpan], kind: str) -> list[ReadableSpan]:
    return [span for span in spans if facts(span)["openinference.span.kind"] == kind]


def tree(spans: list[ReadableSpan]) -> dict[str, list[str]]:
    """The names of spans below each name, sorted."""
    name = {span.context.span_id: span.name for span in spans if span.context}
    found: dict[str, list[str]] = {}
    for span in spans:
        above = name[span.parent.span_id] if span.parent else ""
        found.setdefault(above, []).append(span.name)
    return {above: sorted(names) for above, names in found.items()}


def test_a_ranking_its_stages_and_its_calls(spans: Spans) -> None:
    with MCRanker(model=scripted(by_table(TABLE)), ledger=None, top_n=1) as ranker:
        ranker.rank("best masks", DOCS)
    assert tree(spans()) == {
        "": ["rank"],
        "rank": ["criteria", "recruit", "score"],
        "recruit": ["recruit call"],
        "criteria": ["criteria call"] * 3,
        "score": ["score call"] * 6,
    }
    (root,) = kinds(spans(), "RERANKER")
    assert facts(root)["reranker.model_name"] == "scripted:function"
    assert facts(root)["reranker.top_k"] == 1
    assert facts(root)["reranker.input_documents.0.document.id"] == "d1"
    assert facts(root)["reranker.input_documents.1.document.id"] == "d2"
    assert facts(root)["reranker.output_documents.0.document.id"] == "d2"
    assert facts(root)["reranker.output_documents.0.document.score"] == 7 + 9 + 8
    assert "reranker.output_documents.1.document.id" not in facts(root)  # top_n
    assert facts(root)["mcranker.ranker"] == "mcranker"
    assert facts(root)["mcranker.calls"] == 10
    assert (facts(root)["mcranker.missing_scores"], facts(root)["mcranker.partial"]) == (0, False)
    calls = kinds(spans(), "LLM")
    asked = {
        (facts(call)["mcranker.persona"], facts(call)["mcranker.doc_id"])
        for call in calls
        if call.name == "score call"
    }
    assert asked == {(persona, doc_id) for persona in TABLE for doc_id in DOCS}
    for call in calls:
        assert facts(call)["llm.token_count.prompt"] == 100
        assert facts(call)["llm.token_count.prompt_details.cache_read"] == 60
        assert facts(call)["llm.token_count.completion"] == 5
        assert facts(call)["llm.token_count.total"] == 105
        assert not facts(call)["mcranker.ledger_hit"]
    for stage in kinds(spans(), "CHAIN"):
        below = [call for call in calls if call.parent and call.parent == stage.context]
        # From its first call to its last.
        assert stage.start_time is not None
        assert stage.end_time is not None
        assert stage.start_time <= min(call.start_time or 0 for call in below)
        last = max(call.end_time or 0 for call in below)
        assert last <= stage.end_time < last + 50_000_000


def test_texts_are_left_out_unless_allowed(spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> str:
        return "\n".join(str(dict(facts(span))) for span in spans())

    with DirectRanker(model=scripted(), ledger=None) as ranker:
        ranker.rank("best masks", DOCS)
        assert not any(text in told() for text in ("best masks", "Cloth", "N95", '"Score"'))
        monkeypatch.setenv(CONTENT_VARIABLE, "1")
        ranker.rank("best masks", DOCS)
    root = facts(kinds(spans(), "RERANKER")[-1])
    assert root["reranker.query"] == root["input.value"] == "best masks"
    assert root["reranker.input_documents.1.document.content"] == DOCS["d2"]
    assert root["reranker.output_documents.0.document.content"] == DOCS["d1"]
    call = facts(kinds(spans(), "LLM")[-1])
    texts = [value for name, value in call.items() if name.endswith("message.content")]
    assert any("N95 masks filter most." in text for text in texts)
    assert call["output.value"] == '{"Score": 5}'


def test_what_comes_from_the_ledger_took_no_tokens(spans: Spans, tmp_path: Path) -> None:
    with DirectRanker(model=scripted(), ledger=tmp_path / "ledger") as ranker:
        ranker.rank("best masks", DOCS)
        ranker.rank("best masks", DOCS)
    hits = [facts(call)["mcranker.ledger_hit"] for call in kinds(spans(), "LLM")]
    assert hits == [False, False, True, True]
    assert ["llm.token_count.total" in facts(call) for call in kinds(spans(), "LLM")] == [
        not hit for hit in hits
    ]
    roots = kinds(spans(), "RERANKER")
    assert [facts(root)["mcranker.calls"] for root in roots] == [2, 0]
    assert [facts(root)["mcranker.ledger_hits"] for root in roots] == [0, 2]


def test_failures_have_their_kind_and_no_text(spans: Spans) -> None:
    def fail(request: ChatRequest) -> str:
        if request.tag.doc_id == "d2":
            raise ServerFailed("at http://127.0.0.1, key sk-1")
        return '{"Score": 3}'

    with DirectRanker(model=ScriptedChat(fail), ledger=None) as ranker:
        ranker.rank("best masks", DOCS)
    failed = [call for call in kinds(spans(), "LLM") if call.status.status_code is StatusCode.ERROR]
    assert [facts(call)["error.type"] for call in failed] == ["ServerFailed"]
    assert failed[0].status.description == "ServerFailed"
    (root,) = kinds(spans(), "RERANKER")
    assert facts(root)["mcranker.missing_scores"] == 1
    assert root.status.status_code is StatusCode.UNSET
    assert not any("sk-1" in str(dict(facts(span))) or span.events for span in spans())


def test_a_ranking_that_fails_or_is_cancelled_ends_its_spans(spans: Spans) -> None:
    def fail(_: ChatRequest) -> str:
        raise ServerFailed("no")

    with DirectRanker(model=ScriptedChat(fail), ledger=None) as ranker, pytest.raises(ServerFailed):
        ranker.rank("best masks", DOCS)
    (root,) = kinds(spans(), "RERANKER")
    assert (root.status.status_code, facts(root)["error.type"]) == (
        StatusCode.ERROR,
        "ServerFailed",
    )

    class Waits(ScriptedChat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await anyio.sleep_forever()
            return await super().complete(request)

    async def cancelled() -> None:
        with anyio.move_on_after(0.05):
            await DirectRanker(model=Waits(fail), ledger=None).arank("best masks", DOCS)

    anyio.run(cancelled)
    root = kinds(spans(), "RERANKER")[-1]
    assert facts(root)["mcranker.cancelled"]
    assert all(facts(call)["mcranker.cancelled"] for call in kinds(spans(), "LLM")[-2:])


def test_it_stands_below_the_span_of_the_caller(spans: Spans, provider: TracerProvider) -> None:
    tracer = provider.get_tracer("caller")
    with DirectRanker(model=scripted(), ledger=None) as ranker:
        with tracer.start_as_current_span("request"):
            ranker.rank("best masks", DOCS)

        async def many() -> None:
            with tracer.start_as_current_span("batch"):
                async for _ in ranker.arank_many([("a", DOCS), ("b", DOCS)]):
                    pass

        anyio.run(many)
    above = {span.context.span_id: span.name for span in spans() if span.context}
    parents = [
        above[span.parent.span_id] for span in spans() if span.name == "rank" and span.parent
    ]
    assert parents == ["request", "batch", "batch"]
