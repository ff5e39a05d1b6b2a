"""From a question to an answer with its sources."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Self

from mcranker.config import RankerConfig
from mcranker.errors import InputError, MCRankerError
from mcranker.estimate import Estimate, Estimator
from mcranker.inputs.passages import as_query
from mcranker.llm.chat import ChatModel
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.limits.budget import Budget
from mcranker.llm.models import NO_MODELS, Layers, LedgerSpec, ModelSpec
from mcranker.logs import safe_logger
from mcranker.method.ask import Asking
from mcranker.rag.answer import write_answer
from mcranker.rag.answering import Answering
from mcranker.rag.config import LIMITS, PipelineConfig, without_writer
from mcranker.rag.passages import (
    SearchIndex,
    TextRetriever,
    check_index,
    context_of,
    in_order,
    likely_passages,
    queries_for,
)
from mcranker.rag.result import AnswerDone, AnsweredQuestion, EmitAnswer, RAGEvent, RAGResult
from mcranker.rankers import RANKERS, Ranker
from mcranker.rankers.keys import check_names, keys_of
from mcranker.retrieval.bm25 import digest_of, key_of
from mcranker.retrieval.embedders import Embedder, connect_embedder
from mcranker.retrieval.index import VERSION, Index, cached_index
from mcranker.retrieval.readers import Skipped, Source, read_documents
from mcranker.runtime.bridge import Bridge, check_loop
from mcranker.runtime.service import Service, Stream, dispatch, named, note_failure
from personas import PromptSet
from personas.errors import shown
from personas.ranking.types import Passage, Query
from personas.ranking.usage import UsageTable

_Closable = ChatModel | Embedder | Index | Ledger | Ranker

STAGES = PipelineConfig.model_fields.keys()

logger = safe_logger("mcranker")


class RAGPipeline(Service):
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
        answer_model: writes the answer.
        ranker: reranks instead of the one that `config` names; closed by its maker.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        ledger: the file that keeps every answer of a model, as for `Ranker`.
        prompts: wording of all prompts, as for `Ranker`; None for the usual one.
        embedder_url: address of the service whose vectors an index has that is opened here.
        budget: what all calls are paid from, instead of ``max_calls`` and ``max_cost``; for an
            index whose embedder has the same.
        options: a stage's values, such as ``answer={"style": "extract"}``, or for all stages
            together those fields of `RankerConfig` that `LIMITS` lists.

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
        **options: Any,
    ) -> None:
        check_names(options, {*STAGES, *LIMITS}, "a pipeline")
        changes = {name: options.pop(name) for name in STAGES & options.keys()}
        given = options
        if prompts is not None:
            given["prompts"] = prompts
        self.config = PipelineConfig.load(config, **changes)
        self.config = without_writer(self.config, answer_model or model)
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
        self._asking = {
            task: Asking(
                model=chat,
                config=self._limits,
                prompts=PromptSet.load(self._limits.prompts),
                usage=UsageTable(),
                stage="transform" if task == "query" else "answer",
            )
            for task, chat in self.models.items()
        }
        distinct = {id(each): each for each in self.models.values()}
        rest = [each for each in (own, layers.ledger) if each is not None]
        self._owned: list[_Closable] = [*distinct.values(), *rest, *opened]
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
        changes = {name: options.pop(name) for name in STAGES & options.keys()}
        config = PipelineConfig.load(preset, **changes)
        limits = RankerConfig(**{name: options[name] for name in LIMITS if name in options})
        budget = Budget(max_calls=limits.max_calls, max_cost=limits.max_cost)
        connected = connect_embedder(embedder, base_url=embedder_url, config=limits, budget=budget)
        added = source
        if index is None:
            with closing(read_documents(source, on_skip=_log_skipped)) as read:
                added = documents = list(read)
            rows = ((each.id, each.title, each.text) for each in documents)
            made_as = {"version": VERSION, "mark": connected.mark, "chunks": config.chunks}
            key = key_of({**made_as, "of": digest_of(rows)})
            index = cached_index(key)
        made = Index.create(index, embedder=connected, chunks=config.chunks)
        try:
            pipeline = cls(made, config, budget=budget, **options)
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
        if self.config.rerank.keep is not None:
            chosen.setdefault("top_n", None)  # else REBEL's own 3 would be the most
        ranker = kind(**{**options, **chosen})
        if self._layers.budget.limited:
            ranker = ranker.within(self._layers.budget)
        known: dict[object, ChatModel] = {}
        if kind.needs_model and "base_url" not in chosen:
            for role in kind.roles:
                spec = chosen.get(f"{role}_model") or chosen.get("model") or options["model"]
                known[spec if spec is None or isinstance(spec, str) else id(spec)] = getattr(
                    ranker.models, role
                )
        return ranker, known

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

    async def _answered(
        self, question: str | Query, deadline: float | None, emit: EmitAnswer | None = None
    ) -> RAGResult:
        check_loop()
        query = as_query(question, "question")
        limits = self._limits if deadline is None else RankerConfig(deadline=deadline)
        answering = Answering(self.config, self.index, self.ranker, self._asking)
        return await answering.run(query, limits.deadline, emit)

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
        return self._items(self.aanswer_many(questions, deadline=deadline))

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

        Calls are exact as long as replies can be read, a passage is left to answer from, no answer
        has to be shortened, and the number of passages is known: without a query transform, and
        with BM25 or an embedder in this process. Otherwise as many as there may be are counted, and
        `Estimate.calls_at_least` counts one passage. Calls for vectors do not count.

        Raises:
            InputError: the question is empty, or no text.
            LedgerError: the ledger cannot be read.
        """
        return self._bridge.call(lambda: self.aestimate(question))

    async def aestimate(self, question: str | Query) -> Estimate:
        """`estimate` for callers with an event loop."""
        check_loop()
        query, config = as_query(question, "question"), self.config
        estimator = Estimator(self._limits)
        roles = {"query": "recruiter", "answer": "scoring"}
        chats: dict[str, Any] = {roles[task]: chat for task, chat in self.models.items()}
        made_up = estimator.models(replace(NO_MODELS, ledger=self._layers.ledger, **chats))
        asking = {
            task: replace(each, model=getattr(made_up, roles[task]), usage=UsageTable())
            for task, each in self._asking.items()
        }
        sent = await queries_for(query, config.query, asking.get("query"))
        passages, exact = await likely_passages(query, sent, config, self.index)
        ranked = in_order(passages, config.rerank.keep)
        estimate = Estimate()
        if self.ranker is not None and passages:
            docs = [Passage(each.id, each.text, each.title, each.score) for each in passages]
            estimate = await self.ranker.aestimate(query, docs)
            if not exact:
                least = await self.ranker.aestimate(query, docs[:1])
                estimate = replace(estimate, calls_at_least=least.calls_at_least)
        context = context_of(ranked.kept, config.context).kept
        if "answer" in asking:
            await write_answer(query, context, config.answer, asking["answer"])
        estimator.end_query()
        return estimate + estimator.estimate()

    def _at_once(self) -> int:
        most = [self._limits.queries_at_once]
        if self.ranker is not None:
            most.append(self.ranker._queries_at_once())  # noqa: SLF001 - which makes them too
        if "query_concurrency" not in self._limits.model_fields_set:
            slots = (chat.capabilities.prefix_slots for chat in self.models.values())
            most += [each for each in slots if each is not None]
        return min(most)


async def _close_all(owned: Iterable[_Closable]) -> None:
    """Close what a pipeline has made; not the pipeline's, which could not be dropped then."""
    for each in owned:
        if isinstance(each, Index):
            each.close()
        else:
            await each.aclose()


def _log_skipped(skipped: Skipped) -> None:
    logger.warning("%s is left out: %s", skipped.path, skipped.reason)
