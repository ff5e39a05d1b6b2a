"""A pipeline that answers by rote, in place of `RAGPipeline`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self

import anyio

from mcranker import ConnectionFailed, Estimate, MCRankerError
from mcranker.rag.config import PipelineConfig
from mcranker.rag.result import (
    AnswerDone,
    AnsweredQuestion,
    Citation,
    RAGEvent,
    RAGResult,
    Sentence,
    SourcePassage,
    StageDone,
    StageRecord,
    StageStarted,
)
from mcranker.runtime.service import Stream
from mcranker.serve import Settings
from mcranker.serve.settings import AnswerSettings
from personas.ranking.types import Query
from personas.ranking.usage import Usage, UsageTable
from tests.support import serving

SENTENCE = "NSP is next sentence prediction."
STAGES = (
    StageRecord(name="retrieval", seconds=0.5, calls=1),
    StageRecord(name="answer", seconds=0.25, calls=2, failure=""),
)


def answered(question: str, query_id: str = "", **changes: Any) -> RAGResult:
    """An answer of one sentence, from the second of two passages."""
    values: dict[str, Any] = {
        "question": question,
        "id": query_id,
        "text": f"{SENTENCE} [1]",
        "kind": "answer",
        "sentences": (Sentence(text=SENTENCE, citations=(0,)),),
        "all_citations": (
            Citation(claim=SENTENCE, passage=1, quote="sentence", verdict="found", start=5, end=13),
        ),
        "passages": (
            SourcePassage(id="a#1", document="a", text="masks", dropped="rerank: too low"),
            SourcePassage(id="b#1", document="b", text="next sentence", rank=1, number=1),
        ),
        "stages": STAGES,
        "models": {"answer": "local:/home/me/models/m.gguf"},
        "warnings": ("weak model at http://10.0.0.1:8000",),
    }
    return RAGResult(**{**values, **changes})


class FakePipeline:
    """Answers what the question's first word says: ``none``, ``fail``, ``wait`` or an answer."""

    ledger = None
    made: list[FakePipeline]
    """Those that were made since a test began."""

    def __init__(
        self, index: object, config: PipelineConfig | str = "team", **options: Any
    ) -> None:
        self.index, self.config, self.options = index, config, options
        self.deadlines: list[float | None] = []
        self.cancelled = self.closed = False
        type(self).made.append(self)

    @classmethod
    def from_documents(cls, source: object, preset: PipelineConfig | str, **rest: Any) -> Self:
        return cls(source, preset, **rest)

    async def aanswer(self, question: Query) -> RAGResult:
        match question.text.split()[0]:
            case "fail":
                raise ConnectionFailed("http://10.0.0.1 cannot be reached")
            case "none":
                return answered(question.text, question.id, text="", kind="none", failure="no key")
            case "wait":
                try:
                    await anyio.sleep_forever()
                finally:
                    self.cancelled = True
        return answered(question.conversation, question.id)

    def astream(self, question: Query, *, deadline: float | None = None) -> Stream[RAGEvent]:
        self.deadlines.append(deadline)

        async def produce(send: Callable[[RAGEvent], Awaitable[None]]) -> None:
            await send(StageStarted("retrieval"))
            await send(StageDone(STAGES[0]))
            await send(AnswerDone(await self.aanswer(question)))

        return Stream(produce)

    def aanswer_many(self, questions: Iterable[Query]) -> Stream[AnsweredQuestion]:
        async def produce(send: Callable[[AnsweredQuestion], Awaitable[None]]) -> None:
            for place, question in reversed(list(enumerate(questions))):
                try:
                    result = await self.aanswer(question)
                except MCRankerError as error:
                    await send(AnsweredQuestion(place, question, error=error))
                else:
                    await send(AnsweredQuestion(place, question, result))

        return Stream(produce)

    def estimate(self, question: Query) -> Estimate:
        table = UsageTable()
        table.add("score", "", "m", Usage(calls=3))
        return Estimate(table)

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def service(limits: Mapping[str, Any] | None = None, **others: Any) -> Settings:
    """A service with an index."""
    answer = AnswerSettings(index="papers.index", pipeline=PipelineConfig.load("naive"))
    return serving.settings(limits=limits, answer=answer, **others)
