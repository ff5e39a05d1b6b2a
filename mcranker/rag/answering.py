"""One question on its way through the stages of a pipeline."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count

import anyio

from mcranker.errors import BudgetExceeded
from mcranker.estimate import cost_of
from mcranker.method.ask import Asking
from mcranker.rag.answer import Answer, write_answer
from mcranker.rag.citations import check_citations, cited_sentences
from mcranker.rag.config import PipelineConfig
from mcranker.rag.passages import (
    Queries,
    SearchIndex,
    Selection,
    TextRetriever,
    context_of,
    in_order,
    queries_for,
    rerank,
    search,
    with_numbers,
)
from mcranker.rag.result import (
    Citation,
    EmitAnswer,
    RAGResult,
    SentQuery,
    StageDone,
    StageName,
    StageRecord,
    StageStarted,
)
from mcranker.rankers import Ranker
from mcranker.retrieval.index import Index
from mcranker.tracing import answer_span
from personas.ranking.types import Query
from personas.ranking.usage import UsageTable

TRANSFORMED_BY, RANKED_BY = 0.25, 0.75
"""Shares of the deadline after which the query transform and the reranking are given up, so that
there is time for an answer."""

_SHORTEST = 0.001  # seconds that a ranking can be given
_numbers = count(1)


@dataclass(slots=True)
class _Effort:
    """Work of a stage so far."""

    usage: UsageTable = field(default_factory=UsageTable)
    failure: str = ""
    notes: tuple[str, ...] = ()


class Answering:
    """One question on its way through the stages."""

    def __init__(
        self,
        config: PipelineConfig,
        index: SearchIndex | TextRetriever,
        ranker: Ranker | None,
        models: Mapping[str, Asking],
    ) -> None:
        self._config = config
        self._index = index
        self._ranker = ranker
        self._models = models
        self._begun = anyio.current_time()
        self._number = next(_numbers)
        self._stages: list[StageRecord] = []
        self._partial = False

    async def run(
        self, query: Query, seconds: float | None, emit: EmitAnswer | None = None
    ) -> RAGResult:
        """Return the answer, made of what is there after these seconds."""
        self._query = query
        self._emit = emit
        self._seconds = math.inf if seconds is None else seconds
        with answer_span(self._query) as self._trace:
            sent = await self._queries()
            ranked = await self._rerank(sent, await self._search(sent))
            async with self._stage("context") as effort:
                context = context_of(ranked.kept, self._config.context)
                effort.notes = context.notes
            answer = await self._answer(context)
            async with self._stage("citations"):
                citations = check_citations(answer.claims, context.kept)
            result = self._result(sent, ranked, context, answer, citations)
            facts = {"mcranker.kind": result.kind, "mcranker.partial": result.partial}
            self._trace.end(result.text, facts)
            return result

    async def _queries(self) -> Queries:
        async with self._stage("query") as effort:
            asking = self._asking("query", effort, self._moment(TRANSFORMED_BY))
            try:
                sent = await queries_for(self._query, self._config.query, asking)
            except BudgetExceeded as error:
                effort.failure = str(error)
                return Queries((SentQuery(text=self._query.all_texts, origin="question"),))
            effort.notes = sent.notes
            if sent.notes and all(each.origin == "question" for each in sent.queries):
                effort.failure = sent.notes[0]
            late = asking is not None and asking.deadline <= anyio.current_time()
            self._partial |= bool(sent.notes) and late
        return sent

    async def _search(self, sent: Queries) -> Selection:
        async with self._stage("retrieval") as effort:
            with self._trace.retrieval() as traced:
                found = await search(
                    sent.queries,
                    self._config.retrieval,
                    self._index,
                    usage=effort.usage,
                    deadline=self._moment(1),
                )
                traced([(each.id, each.text, each.score) for each in found.passages])
            effort.failure, effort.notes = found.failure, found.notes
            self._partial |= found.partial
        return found

    async def _rerank(self, sent: Queries, found: Selection) -> Selection:
        stage, ranker = self._config.rerank, self._ranker
        async with self._stage("rerank") as effort:
            share = RANKED_BY if "answer" in self._models else 1
            left = self._moment(share) - anyio.current_time()
            if left <= 0 and ranker is not None:
                self._partial = True
                effort.failure = "the deadline came before it"
                return in_order(found.passages, stage.keep)
            ranked = await rerank(
                Query(sent.rephrased, self._query.id) if sent.rephrased else self._query,
                found.passages,
                stage,
                ranker,
                usage=effort.usage,
                seconds=None if left == math.inf else max(left, _SHORTEST),
                emit=self._emit,
            )
            effort.failure, effort.notes = ranked.failure, ranked.notes
            self._partial |= ranked.partial
        return ranked

    async def _answer(self, context: Selection) -> Answer:
        stage, index, end = self._config.answer, self._index, self._moment(1)
        dense = self._config.retrieval.by != "bm25"
        embedder = index.connect() if dense and isinstance(index, Index) else None
        async with self._stage("answer") as effort:
            asking = self._asking("answer", effort, end)
            if asking is not None and end <= anyio.current_time():
                answer = Answer(failure="the deadline came before it")
            else:
                answer = await write_answer(self._query, context.kept, stage, asking, embedder)
            effort.failure = answer.failure
            if answer.failure and end <= anyio.current_time():
                self._partial = True
                extracts = stage.model_copy(update={"style": "extract"})
                answer = await write_answer(self._query, context.kept, extracts, None)
            effort.notes = answer.notes
        return answer

    def _asking(self, task: str, effort: _Effort, deadline: float) -> Asking | None:
        if (asking := self._models.get(task)) is None:
            return None
        return replace(
            asking,
            model=self._trace.around(asking.model),
            usage=effort.usage,
            query_id=self._query.id,
            number=self._number,
            deadline=deadline,
        )

    def _moment(self, share: float) -> float:
        """The end of a share of the time that there is, on the clock of `anyio.current_time`."""
        return self._begun + share * self._seconds

    @asynccontextmanager
    async def _stage(self, name: StageName) -> AsyncIterator[_Effort]:
        """Take down what happens in the block."""
        if self._emit is not None:
            await self._emit(StageStarted(name))
        effort, begun = _Effort(), time.perf_counter()
        yield effort
        total, reused = effort.usage.total, effort.usage.reused
        record = StageRecord(
            name=name,
            seconds=time.perf_counter() - begun,
            calls=total.calls,
            reused=reused.total.calls,
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            reused_tokens=(reused.total.input_tokens, reused.total.output_tokens),
            cost=cost_of(effort.usage),
            reused_cost=cost_of(reused),
            failure=effort.failure,
            notes=effort.notes,
        )
        self._stages.append(record)
        if self._emit is not None:
            await self._emit(StageDone(record))

    def _result(
        self,
        sent: Queries,
        ranked: Selection,
        context: Selection,
        answer: Answer,
        citations: tuple[Citation, ...],
    ) -> RAGResult:
        config = self._config.model_dump(mode="json")
        models = {task: each.model.name for task, each in self._models.items()}
        if self._ranker is not None:
            config["rerank"]["ranker"] = self._ranker.name
        if (ranking := ranked.ranking) is not None:
            models |= ranking.models
        warnings = [
            f"{_FAILED[each.name]}: {each.failure}" for each in self._stages if each.failure
        ]
        if self._partial:
            warnings.append(
                "The deadline came before all was done, so this is made of what was there."
            )
        if ranking is not None and ranking.judge_note:
            warnings.append(ranking.judge_note)
        return RAGResult(
            question=self._query.conversation,
            id=self._query.id,
            text=answer.text,
            kind=answer.kind,
            failure=answer.failure,
            sentences=cited_sentences(answer.sentences, citations),
            all_citations=citations,
            queries=sent.queries,
            passages=with_numbers(
                ranked.passages,
                context,
                seen=answer.seen if answer.kind == "answer" else len(context.kept),
            ),
            stages=tuple(self._stages),
            models=models,
            config=config,
            partial=self._partial,
            stored_ranking=None if ranking is None else ranking.to_dict(),
            warnings=tuple(warnings),
        )


_FAILED: Mapping[StageName, str] = {
    "query": "The question was not transformed",
    "retrieval": "One of two searches is missing",
    "rerank": "The passages are in the order of retrieval",
    "context": "There is no context",
    "answer": "There is no written answer",
}
