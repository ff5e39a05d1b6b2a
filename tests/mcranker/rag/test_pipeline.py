"""A pipeline from question to answer, on a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcranker import (
    ConfigError,
    ConnectionFailed,
    DirectRanker,
    InputError,
    PassageScored,
    Query,
    ScriptedChat,
)
from mcranker.rag import PipelineConfig, RAGPipeline
from mcranker.rag.result import AnswerDone, RAGResult, StageDone, StageStarted
from tests.mcranker.rag.fakes import ALL, QUESTION, FakeIndex, scripted

STAGES = ["query", "retrieval", "rerank", "context", "answer", "citations"]
ROOT = Path(__file__).parents[3]


def pipeline(model: ScriptedChat | None = None, config: Any = ALL, **options: Any) -> RAGPipeline:
    return RAGPipeline(
        FakeIndex(), config, model=model or scripted(), **{"ledger": None, **options}
    )


def changed(**tables: dict[str, Any]) -> PipelineConfig:
    values = ALL.model_dump()
    return PipelineConfig.model_validate(
        {
            name: {**values[name], **tables.get(name, {})}
            for name in ("query", "retrieval", "rerank", "context", "answer")
        }
    )


def stage(result: RAGResult, name: str) -> Any:
    return next(each for each in result.stages if each.name == name)


def test_the_stages_go_in_order_and_are_counted() -> None:
    asked: list[str] = []
    with pipeline(scripted(asked.append)) as made:
        result = made.answer(Query(QUESTION, "q1"))
    # Of 4 / 2 = 2 passages for each query, a1 and c1, both queries find the same.
    assert asked == ["transform", "score", "score", "answer"]
    assert [(each.name, each.calls) for each in result.stages] == list(
        zip(STAGES, (1, 0, 2, 0, 1, 0), strict=True)
    )
    assert (result.id, result.text, result.kind) == ("q1", "Respirators [1].", "answer")
    assert [each.origin for each in result.queries] == ["question", "hypothetical answer"]
    ranked = [(each.id, each.rank, each.number, each.found_by) for each in result.passages]
    assert ranked == [("a#1", 2, 2, (0, 1)), ("c#1", 1, 1, (0, 1))]
    assert [cited.passage for cited in result.all_citations] == [1]
    assert set(result.models) == {"query", "answer", "scoring"}
    assert result.ranking is not None
    assert result.ranking.ids == ["c#1", "a#1"]
    assert RAGResult.from_dict(result.to_dict()) == result


@pytest.mark.parametrize("name", ["transform", "score", "answer"])
def test_a_stage_that_fails_leaves_the_others_with_what_there_is(name: str) -> None:
    with pipeline(scripted(fails={name: ConnectionFailed("no server there")})) as made:
        result = made.answer(QUESTION)
    at = {"transform": "query", "score": "rerank", "answer": "answer"}[name]
    record = stage(result, at)
    assert "no server there" in record.failure + " ".join(record.notes)
    # One query brings all 4, of 3 documents.
    assert len(result.passages) == (3 if name == "transform" else 2)
    if name == "transform":
        assert [each.origin for each in result.queries] == ["question"]
    if name == "answer":
        assert (result.text, result.kind) == ("", "none")
        assert [each.id for each in result.context] == ["c#1", "a#1"]
        assert "no server there" in result.failure
    else:
        assert result.kind == "answer"
    if name == "score":
        assert [each.id for each in result.context] == ["a#1", "c#1"]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("most", "kind"), [(4, "answer"), (3, "none"), (0, "none")])
def test_all_stages_are_paid_from_one_budget(most: int, kind: str, *, own: bool) -> None:
    asked: list[str] = []
    model = scripted(asked.append)
    ranker = DirectRanker(model=model, ledger=None) if own else None
    with pipeline(model, max_calls=most, ranker=ranker) as made:
        result = made.answer(QUESTION)
    assert len(asked) == most
    assert result.kind == kind
    if kind == "none":
        assert f"max_calls={most} is used up" in result.failure
    if ranker is not None:  # which keeps no limit of the pipeline's
        assert len(ranker.rank(QUESTION, {"a": "x", "b": "y"})) == 2
        ranker.close()


def test_an_estimate_is_exact_and_sends_nothing() -> None:
    asked: list[str] = []
    config = changed(query={"transform": "none"}, retrieval={"by": "bm25", "unique": "chunk"})
    with pipeline(scripted(asked.append), config) as made:
        estimate = made.estimate(QUESTION)
        assert asked == []
        result = made.answer(QUESTION)
    assert estimate.calls == len(asked) == 5  # 4 passages and the answer
    assert estimate.calls_at_least <= 5
    assert sum(each.calls for each in result.stages) == 5


@pytest.mark.anyio
async def test_events_come_in_the_order_of_the_stages() -> None:
    async with pipeline() as made, made.astream(QUESTION) as events:
        seen = [event async for event in events]
    named = [
        (type(event), event.name if isinstance(event, StageStarted) else event.stage.name)
        for event in seen
        if isinstance(event, StageStarted | StageDone)
    ]
    assert named == [(kind, name) for name in STAGES for kind in (StageStarted, StageDone)]
    assert sum(isinstance(event, PassageScored) for event in seen) == 2
    assert isinstance(seen[-1], AnswerDone)


@pytest.mark.anyio
@pytest.mark.parametrize("stuck", ["transform", "score", "answer"])
async def test_at_the_deadline_the_answer_is_made_of_what_is_there(stuck: str) -> None:
    plain = scripted()

    async def answer(request: Any) -> Any:
        if request.tag.stage == stuck:
            await anyio.sleep_forever()
        return await plain.complete(request)

    async with pipeline(ScriptedChat(answer)) as made:
        result = await made.aanswer(QUESTION, deadline=0.5)
    assert result.partial
    assert result.kind == ("extract" if stuck == "answer" else "answer")
    assert result.text
    assert any("deadline" in each for each in result.warnings)


def test_many_questions_are_answered_and_errors_are_in_their_place() -> None:
    read: list[int] = []

    def questions() -> Any:
        for place in range(20):
            read.append(place)
            yield "" if place == 3 else f"{QUESTION} {place}"

    with pipeline(query_concurrency=2) as made:
        stream = made.answer_many(questions())
        first = next(stream)
        assert first.result().kind == "answer"
        rest = sorted(stream, key=lambda each: each.place)
    assert len(read) == 20
    assert [each.place for each in rest if each.error] == [3]
    with pytest.raises(InputError, match="empty"):
        next(each for each in rest if each.error).result()
    with pipeline() as made, pytest.raises(InputError, match="give them as a list"):
        list(made.answer_many(QUESTION))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scoring": "expected"}, "a pipeline takes no option 'scoring'"),
        ({"max_calls": -1}, "max_calls must be at least 0"),
        ({"config": changed(rerank={"options": {"windov": 3}})}, "'windov'"),
        ({"config": "g_ragg"}, "no preset"),
        ({"model": ScriptedChat(str, name="mystery:one"), "max_cost": 1.0}, "no price is known"),
    ],
)
def test_what_cannot_be_is_refused_before_any_call(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        pipeline(**options)


def test_without_a_model_that_writes_the_answer_is_an_extract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MCRANKER_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with RAGPipeline(FakeIndex(), "naive", ledger=None) as made:
        assert (made.config.answer.style, dict(made.models)) == ("extract", {})


def test_an_answer_is_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with pipeline() as made:
        made.answer(QUESTION)
    spans = exporter.get_finished_spans()
    kinds = {each.name: dict(each.attributes or {})["openinference.span.kind"] for each in spans}
    names = {each.context.span_id: each.name for each in spans if each.context}
    above = {each.name: names[each.parent.span_id] for each in spans if each.parent}
    assert above == {
        "transform": "ask",
        "transform call": "transform",
        "retrieval": "ask",
        "rank": "ask",
        "score": "rank",
        "score call": "score",
        "answer": "ask",
        "answer call": "answer",
    }
    assert kinds["ask"] == kinds["answer"] == "CHAIN"
    assert kinds["transform call"] == kinds["answer call"] == "LLM"
    assert (kinds["retrieval"], kinds["rank"]) == ("RETRIEVER", "RERANKER")


class CountingEmbedder:
    """Vectors of the length of a text, with a note of each passage."""

    name, mark, dimensions, max_tokens = "fake:length", "length", 2, 100

    def __init__(self) -> None:
        self.read: list[str] = []

    async def embed_queries(self, texts: Any, usage: Any = None) -> Any:
        return np.array([(1, 0) for _ in texts], np.float32)

    async def embed_passages(self, texts: Any, usage: Any = None) -> Any:
        self.read += texts
        return np.array([(1, 0) for _ in texts], np.float32)

    async def aclose(self) -> None:
        pass


def test_the_same_documents_are_indexed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    documents, embedder = {"a": "Masks help.", "b": "Cats sleep."}, CountingEmbedder()
    for texts in (documents, documents, {**documents, "b": "Cats wake."}):
        with RAGPipeline.from_documents(
            texts, "naive", embedder=embedder, model=scripted(), ledger=None
        ) as made:
            result = made.answer("Do masks help?")
        assert [each.document for each in result.passages] == ["a", "b"]
    assert len(list((tmp_path / "indexes").glob("*.sqlite"))) == 2
    # The third has other content, so it is an index of its own.
    assert len(embedder.read) == 4
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match=r"empty.txt' holds no document"):
        RAGPipeline.from_documents(
            str(tmp_path / "empty.txt"), "naive", embedder=embedder, model=scripted()
        )
