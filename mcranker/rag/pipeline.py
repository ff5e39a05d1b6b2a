"""From a question to an answer with its sources."""

from __future__ import annotations

import math
import os
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Self, TypedDict, Unpack

import anyio

from mcranker.config import RankerConfig
from mcranker.errors import BudgetExceeded, InputError, MCRankerError
from mcranker.estimate import Estimate, Estimator
from mcranker.inputs.passages import as_query
from mcranker.llm.chat import ChatModel
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.limits.budget import Budget
from mcranker.llm.models import NO_MODELS, Layers, LedgerSpec, ModelSpec
from mcranker.llm.prices import cost
from mcranker.logs import safe_logger
from mcranker.rag.answer import Answer, check_support, write_answer, write_team_answer
from mcranker.rag.asking import Asking
from mcranker.rag.citations import check_citations, cited_sentences
from mcranker.rag.config import PipelineConfig
from mcranker.rag.context import Context, context_of
from mcranker.rag.events import AnswerDone, EmitAnswer, RAGEvent, StageDone, StageStarted
from mcranker.rag.keys import without_writer
from mcranker.rag.queries import Queries, queries_for
from mcranker.rag.record import Citation, Draft, SentQuery, SourcePassage, StageName, StageRecord
from mcranker.rag.rerank import Reranked, in_order, rerank
from mcranker.rag.result import RAGResult
from mcranker.rag.search import Retrieved, SearchIndex, TextRetriever, check_index, search
from mcranker.rankers import RANKERS, Ranker
from mcranker.rankers.dispatch import dispatch, named, note_failure
from mcranker.rankers.keys import check_names, keys_of
from mcranker.retrieval.cache import digest_of, index_place, key_of
from mcranker.retrieval.embedders import Embedder, connect_embedder
from mcranker.retrieval.index import Index
from mcranker.retrieval.index_file import VERSION
from mcranker.retrieval.readers import Skipped, Source, read_documents
from mcranker.runtime.bridge import Bridge, Stream
from mcranker.tracing import answer_span
from personas import PromptSet
from personas.errors import shown
from personas.ranking.types import Passage, Query
from personas.ranking.usage import Stage, UsageTable

TRANSFORMED_BY, RANKED_BY = 0.25, 0.75
"""Shares of the deadline after which the query transform and the reranking are given up, so that
there is time for an answer."""

_SHORTEST = 0.001  # seconds that a ranking can be given
_Closable = ChatModel | Embedder | Index | Ledger | Ranker

logger = safe_logger("mcranker")
_numbers = count(1)


class PipelineOptions(TypedDict, total=False):
    """Values to change in the stages, and fields of `RankerConfig` for all stages together."""

    query: Mapping[str, Any]
    retrieval: Mapping[str, Any]
    rerank: Mapping[str, Any]
    context: Mapping[str, Any]
    answer: Mapping[str, Any]
    max_calls: int | None
    max_cost: float | None
    deadline: float | None
    concurrency: int | None
    query_concurrency: int
    timeout: float
    requests_per_minute: float | None
    tokens_per_minute: float | None
    batch: bool
    temperature: float | None
    seed: int | None
    cache_variant: int
    repair_attempts: int


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """One question of many: its answer, or the error that stopped it.

    Attributes:
        place: place of the question among those given, from 0.
        question: the question; its text is empty if it could not be read.
        answer: the result, or None.
        error: what went wrong, or None.
    """

    place: int
    question: Query
    answer: RAGResult | None = None
    error: MCRankerError | None = None

    def result(self) -> RAGResult:
        """The answer; raises the error if there is none."""
        if self.answer is None:
            raise self.error or MCRankerError("the question was not answered")
        return self.answer


class RAGPipeline:
    """Answers questions from an index: query transform, search, reranking, answer, citations.

    >>> pipeline = RAGPipeline.from_documents("papers/", preset="team")
    >>> result = pipeline.answer("What is NSP?")
    >>> print(result.text, result.citations)

    Usable as ``with`` and ``async with``, from several threads and event loops. If a stage fails,
    the others go on with what there is, and `RAGResult.stages` says so.

    Args:
        index: where passages are searched for; the file of an index, which is opened and closed
            by the pipeline; or a retriever of your own, with ``retrieve(queries, k)`` and
            ``chunk(id)``.
        config: the stages: a preset, a TOML file, or a `PipelineConfig`.
        model: asked by all stages that have no model of their own. None for the default: with no
            API key the embedded encoder ranks, and the answer is an extract.
        query_model: transforms queries.
        answer_model: writes the answer and judges its support.
        ranker: reranks instead of the one that `config` names; closed by its maker.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        ledger: the file that keeps every answer of a model, as for `Ranker`.
        prompts: wording of all prompts, as for `Ranker`; None for the usual one.
        embedder_url: address of the service whose vectors an index has that is opened here.
        budget: what all calls are paid from, instead of ``max_calls`` and ``max_cost``; for an
            index whose embedder has the same.
        options: see `PipelineOptions`: a stage's values, such as ``answer={"style": "extract"}``,
            or a limit, as in `RankerConfig`, for all stages together.

    Attributes:
        config: the stages.
        index: where passages are searched for.
        ranker: None if the order of retrieval is kept.
        models: task -> the model that is asked, ``"query"`` and ``"answer"``, where one is.
        ledger: of the replies; None without.
        budget: what all calls are paid from.

    Raises:
        ConfigError: an option is unknown or impossible, or does not go with another.
        AuthenticationFailed, ModelNotFound, DownloadError: there is no such model for you.
        UnsupportedCapability: a model cannot do what its stage needs.
        PersonasError: the prompt folder cannot be used.
    """

    def __init__(
        self,
        index: SearchIndex | TextRetriever | str | os.PathLike[str],
        config: PipelineConfig | str | os.PathLike[str] = "team",
        *,
        model: ModelSpec = None,
        query_model: ModelSpec = None,
        answer_model: ModelSpec = None,
        ranker: Ranker | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        ledger: LedgerSpec = "default",
        prompts: str | os.PathLike[str] | None = None,
        embedder_url: str | None = None,
        budget: Budget | None = None,
        **options: Unpack[PipelineOptions],
    ) -> None:
        check_names(options, PipelineOptions.__annotations__, "a pipeline")
        changes, given = _divided(options)
        if prompts is not None:
            given["prompts"] = prompts
        self.config = PipelineConfig.load(config, **changes)
        if model is None and answer_model is None:
            self.config = without_writer(self.config)
        self._limits = RankerConfig(**given)
        self._layers = layers = Layers(self._limits, ledger, budget)
        self.ledger, self.budget = layers.ledger, layers.budget
        opened: list[_Closable] = []
        if isinstance(index, str | os.PathLike):
            index = Index.open(index)
            opened.append(index)
            if self.config.retrieval.by != "bm25":
                limits = {"config": self._limits, "budget": layers.budget}
                opened.append(index.connect(base_url=embedder_url, **limits))
        check_index(index, self.config.retrieval)
        self.index = index
        where = {"base_url": base_url, "api_key": api_key}
        own = None
        known: dict[object, ChatModel] = {}
        if ranker is None and self.config.rerank.ranker is not None:
            for name in ("max_calls", "max_cost", "deadline"):
                given.pop(name, None)
            shared = {"model": model, **where, "ledger": ledger, **given}
            ranker, known = self._made(self.config.rerank.ranker, shared)
            own = ranker
        elif ranker is not None and layers.budget.limited:
            ranker = ranker.within(layers.budget)
        self.ranker = ranker
        named = {"query": query_model, "answer": answer_model}
        specs: dict[str, ModelSpec] = {
            task: model if named[task] is None else named[task] for task in self.config.tasks
        }
        self.models: Mapping[str, ChatModel] = layers.connect(specs, model, known=known, **where)
        self._asking = {task: self._asked(task, chat) for task, chat in self.models.items()}
        self._owned: list[_Closable] = [*{id(each): each for each in self.models.values()}.values()]
        self._owned += [each for each in (own, layers.ledger) if each is not None]
        self._owned += opened
        self._bridge = Bridge(partial(_close_all, self._owned))

    @classmethod
    def from_documents(
        cls,
        source: Source,
        preset: PipelineConfig | str | os.PathLike[str] = "team",
        *,
        embedder: str | Embedder | None = None,
        embedder_url: str | None = None,
        index: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Self:
        """Index documents and return a pipeline over them, which closes the index.

        Args:
            source: a file, a folder, or documents, as `Index.add` takes them.
            preset: the stages, as `config` of the class; its ``chunks`` divide the documents.
            embedder: makes the vectors, as `connect_embedder` takes it.
            embedder_url: of a service; the address before ``/embeddings``.
            index: file of the index; documents that it has from before stay in it. None for one in
                the user's cache folder, named by the content, so that the same documents are
                indexed once; it goes when it is not used for 30 days, or beyond 5 GB of them.
            options: all other arguments of the class.

        Raises:
            InputError: there is no such file or folder, or no document in it.
            OSError: the index cannot be written.
            ConfigError, ModelError, PersonasError: as the class, and as the embedder.
        """
        changes, rest = _divided(options)
        config = PipelineConfig.load(preset, **changes)
        names = PipelineOptions.__annotations__.keys() & rest.keys()
        limits = RankerConfig(**{name: rest[name] for name in names})
        budget = Budget(max_calls=limits.max_calls, max_cost=limits.max_cost)
        connected = connect_embedder(embedder, base_url=embedder_url, config=limits, budget=budget)
        added = source
        if index is None:
            with closing(read_documents(source, on_skip=_log_skipped)) as read:
                added = documents = list(read)
            rows = ((each.id, each.title, each.text) for each in documents)
            made_as = {"version": VERSION, "mark": connected.mark, "chunks": config.chunks}
            key = key_of({**made_as, "of": digest_of(rows)})
            index = index_place(key)
        made = Index.create(index, embedder=connected, chunks=config.chunks)
        try:
            pipeline = cls(made, config, budget=budget, **rest)
            pipeline._owned += [made, connected]
            pipeline._bridge.call(lambda: made.add(added, on_skip=_log_skipped))
            if not len(made):
                raise InputError(f"{shown(source)} holds no document with a text")
        except BaseException:
            made.close()
            raise
        return pipeline

    def _made(self, name: str, options: dict[str, Any]) -> tuple[Ranker, dict[object, ChatModel]]:
        """Make the ranker of the configuration; return it, and its models by their names."""
        chosen, kind = dict(self.config.rerank.options), RANKERS.get(name)
        check_names(chosen, keys_of(name), f"rerank.options of the ranker {name!r}")
        takes, both = kind.takes(), {**options, **chosen}
        both = {key: value for key, value in both.items() if key in takes or key in chosen}
        if self.config.rerank.keep is not None and "top_n" in takes:
            both.setdefault("top_n", None)  # else REBEL's own 3 would be the most
        ranker = kind(**both)
        if self._layers.budget.limited:
            ranker = ranker.within(self._layers.budget)
        known: dict[object, ChatModel] = {}
        if kind.needs_model and "base_url" not in chosen:
            for role in kind.roles:
                spec = both.get(f"{role}_model") or both.get("model")
                known[spec if spec is None or isinstance(spec, str) else id(spec)] = getattr(
                    ranker.models, role
                )
        return ranker, known

    def _asked(self, task: str, chat: ChatModel) -> Asking:
        config = self._limits
        stage: Stage = "transform" if task == "query" else "answer"
        prompts = PromptSet.load(config.prompts)
        return Asking(model=chat, config=config, prompts=prompts, usage=UsageTable(), stage=stage)

    def answer(self, question: str | Query, *, deadline: float | None = None) -> RAGResult:
        """Answer a question, and wait for the result.

        Works in a plain script, in a thread, and where an event loop is running already; that
        loop is blocked meanwhile (use `aanswer` there instead).

        Args:
            question: the text, or a `Query` with an id, and in a conversation its earlier turns.
            deadline: seconds, after which the answer is made of what is there
                (`RAGResult.partial` says so); None for that of the pipeline.

        Raises:
            ConfigError: the deadline is impossible.
            InputError: the question is empty, or no text.
            ModelError: nothing could be searched for, or the error is one that all questions would
                meet, such as a wrong key. Where one stage alone fails, its record says why.
            LedgerError: the ledger cannot be used.
        """
        return self._bridge.call(lambda: self.aanswer(question, deadline=deadline))

    async def aanswer(self, question: str | Query, *, deadline: float | None = None) -> RAGResult:
        """`answer` for callers with an event loop."""
        return await self._answered(question, deadline)

    def astream(self, question: str | Query, *, deadline: float | None = None) -> Stream[RAGEvent]:
        """The events of answering one question, the last of which is `AnswerDone`.

        An async iterator; leaving it cancels the work. Errors are those of `answer`.
        """

        async def produce(send: EmitAnswer) -> None:
            await send(AnswerDone(await self._answered(question, deadline, send)))

        return Stream(produce)

    def answer_many(
        self, questions: Iterable[str | Query], *, deadline: float | None = None
    ) -> Iterator[AnsweredQuestion]:
        """Answer many questions; results come as they finish.

        ``query_concurrency`` questions are in progress at once, and `questions` is read no faster
        than that. A question that fails is reported in its place; the others go on. A `deadline`
        counts from the beginning of each.
        """
        return self._bridge.items(self.aanswer_many(questions, deadline=deadline))

    def aanswer_many(
        self,
        questions: Iterable[str | Query] | AsyncIterable[str | Query],
        *,
        deadline: float | None = None,
        emit: EmitAnswer | None = None,
    ) -> Stream[AnsweredQuestion]:
        """`answer_many` as an async iterator; leaving it cancels what is in progress.

        `emit` takes the events of all questions as they happen, without `AnswerDone`.
        """

        async def answer(place: int, question: str | Query) -> AnsweredQuestion:
            known = named(question)
            try:
                result = await self._answered(question, deadline, emit)
            except MCRankerError as error:
                note_failure(known, error, "was not answered")
                return AnsweredQuestion(place, known, error=error)
            return AnsweredQuestion(place, known, result)

        return dispatch(questions, answer, self._at_once())

    def estimate(self, question: str | Query) -> Estimate:
        """Estimate the calls, tokens and US dollars of `answer` without sending anything.

        Calls are exact as long as replies can be read, no answer has to be shortened, and the
        number of passages is known: without a query transform, and with BM25 or an embedder in
        this process. Otherwise as many as there may be are counted, and `Estimate.calls_at_least`
        counts one passage. A draft of a team counts as an answer; support checks do not count,
        nor do calls for vectors.

        Raises:
            InputError: the question is empty, or no text.
            LedgerError: the ledger cannot be read.
        """
        return self._bridge.call(lambda: self.aestimate(question))

    async def aestimate(self, question: str | Query) -> Estimate:
        """`estimate` for callers with an event loop."""
        query, config, estimator = (
            as_query(question, "question"),
            self.config,
            Estimator(self._limits),
        )
        asked = {"recruiter": "query", "scoring": "answer"}
        chats: dict[str, Any] = {
            role: self.models[task] for role, task in asked.items() if task in self.models
        }
        made_up = estimator.models(replace(NO_MODELS, ledger=self._layers.ledger, **chats))
        asking = {
            task: replace(self._asking[task], model=getattr(made_up, role), usage=UsageTable())
            for role, task in asked.items()
            if role in chats
        }
        sent = await queries_for(query, config.query, asking.get("query"))
        passages, exact = await self._likely(query, sent)
        ranked = in_order(passages, config.rerank.keep)
        estimate = Estimate()
        if self.ranker is not None and passages:
            found = [(each.id, each.text, each.title, each.score) for each in passages]
            docs = [Passage(*each) for each in found]
            estimate = await self.ranker.aestimate(query, docs)
            if not exact:
                least = await self.ranker.aestimate(query, docs[:1])
                estimate = replace(estimate, calls_at_least=least.calls_at_least)
        context = context_of(ranked.kept, config.context)
        drafts = self.ranker.config.team_size if config.answer.by_team and self.ranker else 0
        for number in range(drafts + 1):
            each = replace(query, text=f"{query.text} ({number})") if number else query
            if "answer" in asking or config.answer.style == "extract":
                await write_answer(each, context, config.answer, asking.get("answer"))
        estimator.end_query()
        return estimate + estimator.estimate()

    async def _likely(self, query: Query, sent: Queries) -> tuple[tuple[SourcePassage, ...], bool]:
        """Passages that will be found, without a call; and whether they are these very ones."""
        stage, index = self.config.retrieval, self.index
        free = stage.by == "bm25" or not isinstance(index, SearchIndex)
        if isinstance(index, Index):
            free |= index.describe()["embedder"].partition(":")[0] in ("local", "st")
        changed = {} if free else {"by": "bm25", "mmr": None}
        question = (SentQuery(text=query.all_texts, origin="question"),)
        found = await search(question, stage.model_copy(update=changed), index, usage=UsageTable())
        if free and sent.queries == question and self.config.query.transform == "none":
            return found.passages, True
        known = found.passages
        most = min(stage.documents, len(index) if isinstance(index, Index) else stage.documents)
        more = (
            known[place % len(known)].model_copy(
                update={"id": f"{place} more", "text": f"{known[place % len(known)].text} {place}"}
            )
            for place in range(len(known), most if known else 0)
        )
        return (*known, *more), False

    def _at_once(self) -> int:
        most = [self._limits.queries_at_once]
        if self.ranker is not None:
            most.append(self.ranker._queries_at_once())  # noqa: SLF001 - which makes them too
        if "query_concurrency" not in self._limits.model_fields_set:
            slots = (chat.capabilities.prefix_slots for chat in self.models.values())
            most += [each for each in slots if each is not None]
        return min(most)

    async def _answered(
        self, question: str | Query, deadline: float | None, emit: EmitAnswer | None = None
    ) -> RAGResult:
        query = as_query(question, "question")
        limits = self._limits if deadline is None else RankerConfig(deadline=deadline)
        return await _Answering(self, query, limits.deadline, emit).run()

    def close(self) -> None:
        """Release connections, processes and threads."""
        self._bridge.end()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        await _close_all(self._owned)
        self._bridge.close(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@dataclass(slots=True)
class _Effort:
    """Work of a stage so far."""

    usage: UsageTable = field(default_factory=UsageTable)
    failure: str = ""
    notes: tuple[str, ...] = ()


class _Answering:
    """One question on its way through the stages."""

    def __init__(
        self, pipeline: RAGPipeline, query: Query, seconds: float | None, emit: EmitAnswer | None
    ) -> None:
        self._pipeline = pipeline
        self._config = pipeline.config
        self._query = query
        self._emit = emit
        self._seconds = math.inf if seconds is None else seconds
        self._begun = anyio.current_time()
        self._number = next(_numbers)
        self._stages: list[StageRecord] = []
        self._partial = False

    async def run(self) -> RAGResult:
        """Return the answer."""
        with answer_span(self._query) as self._trace:
            result = await self._run()
            facts = {"mcranker.kind": result.kind, "mcranker.partial": result.partial}
            self._trace.end(result.text, facts)
            return result

    async def _run(self) -> RAGResult:
        sent = await self._queries()
        found = await self._search(sent)
        ranked = await self._rerank(sent, found)
        async with self._stage("context") as effort:
            context = context_of(ranked.kept, self._config.context)
            effort.notes = (context.note,) if context.note else ()
        answer, drafts = await self._answer(ranked, context)
        citations = await self._cite(answer, context)
        return self._result(sent, ranked, context, answer, drafts, citations)

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
            self._partial |= bool(sent.notes) and asking is not None and self._late(asking)
        return sent

    async def _search(self, sent: Queries) -> Retrieved:
        async with self._stage("retrieval") as effort:
            with self._trace.retrieval() as traced:
                found = await search(
                    sent.queries,
                    self._config.retrieval,
                    self._pipeline.index,
                    usage=effort.usage,
                    deadline=self._moment(1),
                )
                traced([(each.id, each.text, each.score) for each in found.passages])
            effort.failure, effort.notes = found.failure, found.notes
            self._partial |= found.partial
        return found

    async def _rerank(self, sent: Queries, found: Retrieved) -> Reranked:
        stage, ranker = self._config.rerank, self._pipeline.ranker
        async with self._stage("rerank") as effort:
            share = RANKED_BY if "answer" in self._pipeline.models else 1
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
                seconds=None if left == math.inf else max(left, _SHORTEST),
                emit=self._emit,
            )
            effort.usage.add_all(ranked.usage)
            effort.failure, effort.notes = ranked.failure, ranked.notes
            self._partial |= ranked.ranking is not None and ranked.ranking.partial
        return ranked

    async def _answer(self, ranked: Reranked, context: Context) -> tuple[Answer, tuple[Draft, ...]]:
        stage, question = self._config.answer, self._query
        drafts: tuple[Draft, ...] = ()
        index, dense = self._pipeline.index, self._config.retrieval.by != "bm25"
        embedder = index.connect() if dense and isinstance(index, Index) else None
        async with self._stage("answer") as effort:
            asking = self._asking("answer", effort, self._moment(1))
            if self._moment(1) <= anyio.current_time() and asking is not None:
                answer = Answer(failure="the deadline came before it")
            elif stage.by_team and asking is not None:
                answer, drafts = await write_team_answer(
                    question.conversation, ranked.ranking, context, stage, asking
                )
            else:
                answer = await write_answer(question, context, stage, asking, embedder)
            effort.failure = answer.failure
            if answer.failure and self._moment(1) <= anyio.current_time():
                self._partial = True
                extracts = stage.model_copy(update={"style": "extract"})
                answer = await write_answer(question, context, extracts, None)
            effort.notes = answer.notes
        return answer, drafts

    async def _cite(self, answer: Answer, context: Context) -> tuple[Citation, ...]:
        async with self._stage("citations") as effort:
            citations = check_citations(answer.claims, context.passages)
            asking = self._asking("answer", effort, self._moment(1))
            if self._config.answer.check_support and asking is not None:
                citations, effort.notes = await check_support(
                    self._query.conversation, citations, asking
                )
        return citations

    def _asking(self, task: str, effort: _Effort, deadline: float) -> Asking | None:
        if (asking := self._pipeline._asking.get(task)) is None:  # noqa: SLF001 - its own
            return None
        return replace(
            asking,
            model=self._trace.around(asking.model),
            usage=effort.usage,
            query_id=self._query.id,
            number=self._number,
            deadline=deadline,
        )

    def _late(self, asking: Asking) -> bool:
        return asking.deadline <= anyio.current_time()

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
        record = _record(name, effort, time.perf_counter() - begun)
        self._stages.append(record)
        if self._emit is not None:
            await self._emit(StageDone(record))

    def _result(
        self,
        sent: Queries,
        ranked: Reranked,
        context: Context,
        answer: Answer,
        drafts: tuple[Draft, ...],
        citations: tuple[Citation, ...],
    ) -> RAGResult:
        pipeline, config = self._pipeline, self._config.model_dump(mode="json")
        models = {task: chat.name for task, chat in pipeline.models.items()}
        if pipeline.ranker is not None:
            config["rerank"]["ranker"] = pipeline.ranker.name
        if ranked.ranking is not None:
            models |= ranked.ranking.models
        return RAGResult(
            question=self._query.conversation,
            id=self._query.id,
            text=answer.text,
            kind=answer.kind,
            failure=answer.failure,
            sentences=cited_sentences(answer.sentences, citations),
            all_citations=citations,
            queries=sent.queries,
            passages=_with_numbers(ranked.passages, context, answer),
            drafts=drafts,
            stages=tuple(self._stages),
            models=models,
            config=config,
            partial=self._partial,
            stored_ranking=None if ranked.ranking is None else ranked.ranking.to_dict(),
            warnings=tuple(self._warnings(ranked, answer)),
        )

    def _warnings(self, ranked: Reranked, answer: Answer) -> Iterator[str]:
        for each in self._stages:
            if each.failure:
                yield f"{_FAILED[each.name]}: {each.failure}"
        if self._partial:
            yield "The deadline came before all was done, so this is made of what was there."
        if ranked.ranking is not None and ranked.ranking.judge_note:
            yield ranked.ranking.judge_note


def _divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide options into changes of stages and the others."""
    stages = PipelineConfig.model_fields.keys() & options.keys()
    return {name: options[name] for name in stages}, {
        name: value for name, value in options.items() if name not in stages
    }


_FAILED: Mapping[StageName, str] = {
    "query": "The question was not transformed",
    "retrieval": "One of two searches is missing",
    "rerank": "The passages are in the order of retrieval",
    "context": "There is no context",
    "answer": "There is no written answer",
    "citations": "Citations were not judged",
}


def _record(name: StageName, effort: _Effort, seconds: float) -> StageRecord:
    total, reused = effort.usage.total, effort.usage.reused.total
    return StageRecord(
        name=name,
        seconds=seconds,
        calls=total.calls,
        reused=reused.calls,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        reused_tokens=(reused.input_tokens, reused.output_tokens),
        cost=_cost(effort.usage),
        reused_cost=_cost(effort.usage.reused),
        failure=effort.failure,
        notes=effort.notes,
    )


def _cost(usage: UsageTable) -> float | None:
    costs = [cost(model, each) for (_, _, model), each in usage.items()]
    known = [each for each in costs if each is not None]
    return math.fsum(known) if len(known) == len(costs) else None


def _with_numbers(
    passages: Iterable[SourcePassage], context: Context, answer: Answer
) -> tuple[SourcePassage, ...]:
    """All passages, with their numbers in the context that the writer saw, or why without."""
    seen = answer.seen if answer.kind == "answer" else len(context.passages)
    changes: dict[str, dict[str, Any]] = {
        each.id: {"number": each.number}
        if each.number <= seen
        else {"dropped": "context: the prompt was too long for the writer with it"}
        for each in context.passages
    }
    changes |= {each.id: {"dropped": each.dropped} for each in context.dropped}
    return tuple(
        each.model_copy(update=changes[each.id]) if each.id in changes else each
        for each in passages
    )


async def _close_all(owned: Iterable[_Closable]) -> None:
    """Close what a pipeline has made; not the pipeline's, which could not be dropped then."""
    for each in owned:
        if isinstance(each, Index):
            each.close()
        else:
            await each.aclose()


def _log_skipped(skipped: Skipped) -> None:
    logger.warning("%s is left out: %s", skipped.path, skipped.reason)
