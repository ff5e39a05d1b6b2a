"""From a question to the writer's passages: queries, search, reranking, and the context's limit.

Each query searches each source; the lists are fused, diversified and united, each passage once.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import anyio
import numpy as np
from numpy.typing import NDArray

from mcranker.errors import FATAL_ERRORS, BudgetExceeded, ConfigError, ModelError, ReplyError
from mcranker.events import Emit, RankingDone, RankingStarted
from mcranker.llm.chat import ChatReply
from mcranker.method.ask import Asking, text_of
from mcranker.rag.config import (
    ContextStage,
    PipelineConfig,
    QueryStage,
    RerankStage,
    RetrievalStage,
)
from mcranker.rag.result import SentQuery, SourcePassage
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking
from mcranker.replies.loose_json import Unreadable
from mcranker.retrieval.bm25 import Found
from mcranker.retrieval.chunks import Chunk
from mcranker.retrieval.fusion import reciprocal_ranks
from mcranker.retrieval.index import Index
from personas.format import counted
from personas.ranking.types import Passage, Query
from personas.ranking.usage import UsageTable
from personas.sanitize import plain

LONGEST_SENT = 2_000  # characters of a query that a model wrote; the rest is cut off
# Of a reply without its thoughts.
_TEXT_TOKENS = 256
_CLASS_TOKENS = 16
_TOKENS_A_QUERY = 64
# Behind a number, bullet or quotation mark, with or without a number of its own and emphasis.
_QUERY = re.compile(
    r"^(?:[^\w\n]|_){0,10}(?:\d{1,3}[^\w\n]{1,10})?query(?:[ #]{0,2}\d{1,3})?[*_\"'` ]{0,4}:(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_AROUND = " \t\"'`*_\u2018\u2019\u201c\u201d"
_CLASS = re.compile(r"\b(SIMPLE|COMPOSITE)\b", re.IGNORECASE)
_WORD = re.compile(r"\S+")

Origin = Literal["question", "hypothetical answer", "variant", "rephrased", "sub-query"]
Source = Literal["bm25", "dense"]
Hits: TypeAlias = list[tuple[str, float]]  # chunk id and score, best first


ChunkLike: TypeAlias = Chunk | SourcePassage


class TextRetriever(Protocol):
    """A search of the user's own: ids with scores, and their texts."""

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found | Awaitable[Found]: ...
    def chunk(self, name: str, /) -> ChunkLike: ...


@runtime_checkable
class SearchIndex(Protocol):
    """Methods that a pipeline asks of a `mcranker.retrieval.index.Index`."""

    async def search(
        self, queries: Sequence[str], k: int, by: Source, usage: UsageTable | None = None
    ) -> list[Hits]: ...

    def chunk(self, name: str, /) -> ChunkLike: ...

    def vectors(self, ids: Sequence[str], /) -> NDArray[Any]: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Passages after a step: all of them, and those that go on."""

    passages: tuple[SourcePassage, ...] = ()
    kept: tuple[SourcePassage, ...] = ()
    ranking: Ranking | None = None
    failure: str = ""
    notes: tuple[str, ...] = ()
    partial: bool = False


@dataclass(slots=True)
class Queries:
    """Queries for a question, and what is to be said of them."""

    queries: tuple[SentQuery, ...] = ()
    rephrased: str = ""
    notes: tuple[str, ...] = ()

    def add(self, origin: Origin, texts: Sequence[str]) -> None:
        self.queries += tuple(SentQuery(text=text, origin=origin) for text in texts)


async def queries_for(question: str | Query, stage: QueryStage, asking: Asking | None) -> Queries:
    """Return the queries to search with for a question, each once.

    Case, space and closing marks make no other query.
    """
    query = question if isinstance(question, Query) else Query(question)
    own = SentQuery(text=query.all_texts, origin="question")
    found = Queries()
    if stage.transform == "none":
        return Queries((own,))
    if asking is None:
        raise ConfigError(
            f"transform={stage.transform!r} asks a model for queries; name one with query_model="
        )
    transform = {"hyde": _hyde, "variants": _variants, "decomposition": _decompose}
    try:
        await transform[stage.transform](found, query.conversation, stage, asking)
    except FATAL_ERRORS:
        raise
    except ModelError as error:
        found.notes += (f"The query transform broke off: {plain(str(error), 400)}",)
    sent: dict[str, SentQuery] = {}
    first = (own,) if stage.keep_question or not found.queries else ()
    for each in (*first, *found.queries):
        sent.setdefault(_key(each.text), each)
    found.queries = tuple(sent.values())
    return found


async def _hyde(found: Queries, question: str, _: QueryStage, asking: Asking) -> None:
    found.add("hypothetical answer", [await _line(asking, "rag_hyde", question=question)])


async def _variants(found: Queries, question: str, stage: QueryStage, asking: Asking) -> None:
    most, prompt = stage.variants, f"rag_variants_{stage.wording}"
    written = await _written(asking, prompt, most, question=question, count=str(most))
    found.add("variant", written[:most])
    if len(written) != most:
        found.notes += (f"Queries asked for: {most}; written by the model: {len(written)}.",)


async def _decompose(found: Queries, question: str, stage: QueryStage, asking: Asking) -> None:
    values = {"question": question}
    length = _most(asking, _TEXT_TOKENS)
    values["components"] = await asking.text("rag_components", values, max_tokens=length)
    found.rephrased = await _line(asking, "rag_rephrase", **values)
    try:
        most = _most(asking, _CLASS_TOKENS)
        asked = {"question": question}
        composite = await asking.read("rag_complexity", asked, _read_class, max_tokens=most)
    except ReplyError as error:
        composite = False
        found.notes += (f"The question was taken as a simple one: {plain(str(error), 400)}",)
    if not composite:
        await _variants(found, question, stage, asking)
        return
    # The authors' code goes on with what was to be taken apart where no query can be read.
    found.add("rephrased", [found.rephrased])
    most = stage.variants
    written = await _written(asking, "rag_subqueries", most, question=found.rephrased)
    found.queries = ()
    found.add("sub-query", written[:most])
    if len(written) > most:
        found.notes += (f"Of {len(written)} sub-queries the first {most} were sent.",)


async def _line(asking: Asking, prompt: str, **values: str) -> str:
    return _shortened(await asking.text(prompt, values, max_tokens=_most(asking, _TEXT_TOKENS)))


async def _written(asking: Asking, prompt: str, most: int, **values: str) -> list[str]:
    length = _most(asking, _TOKENS_A_QUERY * (most + 1))
    return await asking.read(prompt, values, _read_queries, max_tokens=length)


def _read_queries(reply: ChatReply) -> list[str]:
    text = text_of(reply)
    if reply.finish_reason == "length" and "\n" in text:
        text = text[: text.rindex("\n")]  # The last line may be half a query.
    lines = (_shortened(line.group(1).strip(_AROUND)) for line in _QUERY.finditer(text))
    queries: dict[str, str] = {}
    for query in filter(None, lines):
        queries.setdefault(_key(query), query)
    if not queries:
        raise Unreadable('no line in it begins with "query:".')
    return list(queries.values())


def _read_class(reply: ChatReply) -> bool:
    named = {word.upper() for word in _CLASS.findall(text_of(reply))}
    if len(named) != 1:
        raise Unreadable("it is neither SIMPLE nor COMPOSITE.")
    return named == {"COMPOSITE"}


def _most(asking: Asking, tokens: int) -> int:
    return max(tokens, asking.config.max_score_tokens)


def _shortened(text: str) -> str:
    """The text in one line, cut at a word if it is too long."""
    line = plain(text)
    cut = line[: LONGEST_SENT + 1].rpartition(" ")[0] or line[:LONGEST_SENT]
    return line if len(line) <= LONGEST_SENT else cut


def _key(query: str) -> str:
    return " ".join(query.casefold().split()).rstrip("?.! ")


def check_index(index: object, stage: RetrievalStage) -> None:
    """Refuse what a pipeline cannot search with."""
    if isinstance(index, SearchIndex):
        return
    for method in ("retrieve", "chunk"):
        if not callable(getattr(index, method, None)):
            raise ConfigError(
                f"{index!r} has no {method}(); give an Index, or a retriever with "
                "retrieve(queries, k) and chunk(id)"
            )
    if stage.mmr is not None:
        raise ConfigError(
            f"mmr={stage.mmr:g} compares vectors, and {type(index).__name__} is a retriever "
            "without any; give an Index, or leave out mmr"
        )


async def search(
    queries: Sequence[SentQuery],
    stage: RetrievalStage,
    index: SearchIndex | TextRetriever,
    *,
    usage: UsageTable,
    deadline: float = math.inf,
) -> Selection:
    """Search with each query and return the passages of all, in query order."""
    each = max(1, stage.documents // len(queries))
    depth = max(each, stage.per_source if stage.by == "hybrid" or stage.mmr is not None else 0)
    texts = [query.text for query in queries]
    failure, partial_, notes = "", False, list[str]()
    lists: dict[Source, list[Hits]] = {}
    own = not isinstance(index, SearchIndex)
    if own:
        notes.append(f"{type(index).__name__} searched in its own way.")
    ways: tuple[Source, ...] = ("dense",) if stage.by == "dense" else ("bm25",)
    for by in ("bm25", "dense") if stage.by == "hybrid" and not own else ways:
        with anyio.move_on_after(deadline - anyio.current_time()) as scope:
            try:
                if isinstance(index, SearchIndex):
                    lists[by] = await index.search(texts, depth, by, usage)
                else:
                    lists[by] = await _retrieved(index, texts, each)
            except (ModelError, BudgetExceeded) as error:
                if isinstance(error, FATAL_ERRORS) or own or stage.by != "hybrid":
                    raise
                failure = f"the search by meaning failed, and that by words counts: {error}"
        partial_ |= scope.cancelled_caught
    if partial_:
        notes.append("The deadline came before all searches had ended.")
    chosen: list[Hits] = []
    for place in range(len(texts) if lists else 0):
        hits = [found[place] for found in lists.values()]
        fused = hits[0]
        if len(hits) > 1:
            fused = reciprocal_ranks([[name for name, _ in each] for each in hits], stage.rrf_k)
        if stage.mmr is not None and isinstance(index, SearchIndex) and fused:
            fused = fused[: stage.per_source]
            relevance = np.array([score for _, score in fused])
            if stage.by != "dense" and (width := np.ptp(relevance / 2)) > 0:
                relevance = (relevance / 2 - relevance.min() / 2) / width
            vectors = index.vectors([name for name, _ in fused])
            best = diversified(relevance, vectors, stage.mmr, each)
            fused = [fused[place] for place in best]
        chosen.append(fused[:each])
    passages = united(chosen, index.chunk, stage.unique)
    return Selection(passages, passages, failure=failure, notes=tuple(notes), partial=partial_)


def diversified(
    relevance: Sequence[float] | NDArray[Any], vectors: NDArray[Any], share: float, count: int
) -> list[int]:
    """Return the places of up to `count` passages by maximal marginal relevance, as chosen."""
    directions = np.asarray(vectors, dtype=np.float64)
    nearest = np.zeros(len(relevance))
    left = np.ones(len(relevance), dtype=bool)
    taken: list[int] = []
    while len(taken) < min(count, len(relevance)):
        worth = share * np.asarray(relevance) - (1 - share) * nearest
        best = int(np.argmax(np.where(left, worth, -np.inf)))  # the first of equal ones
        likeness = directions @ directions[best]
        nearest = np.maximum(nearest, likeness) if taken else likeness
        left[best] = False
        taken.append(best)
    return taken


def united(
    lists: Sequence[Hits], chunk: Callable[[str], ChunkLike], unique: Literal["chunk", "document"]
) -> tuple[SourcePassage, ...]:
    """Return the passages of all queries' lists in query order, each once."""
    found_by: dict[str, list[int]] = {}
    scores: dict[str, float] = {}
    for query, hits in enumerate(lists):
        for name, score in hits:
            found_by.setdefault(name, []).append(query)
            scores.setdefault(name, score)
    passages: dict[str, SourcePassage] = {}
    for name, score in scores.items():
        each = chunk(name)
        fields = ("id", "document", "title", "text", "start", "end")
        given: dict[str, Any] = {key: getattr(each, key) for key in fields}
        by = tuple(dict.fromkeys(found_by[name]))
        passage = SourcePassage(**given, score=float(score), found_by=by)
        passages.setdefault(name if unique == "chunk" else each.document, passage)
    return tuple(passages.values())


async def _retrieved(retriever: TextRetriever, texts: Sequence[str], k: int) -> list[Hits]:
    """Return the lists of a retriever that blocks, or of one that is awaited."""
    named = {str(place): text for place, text in enumerate(texts)}
    if inspect.iscoroutinefunction(retriever.retrieve):
        found = await retriever.retrieve(named, k)
    else:
        work = partial(retriever.retrieve, named, k)
        found = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return [list(found.get(name, ()))[:k] for name in named]


async def likely_passages(
    query: Query, sent: Queries, config: PipelineConfig, index: SearchIndex | TextRetriever
) -> tuple[tuple[SourcePassage, ...], bool]:
    """Return passages that will be found, without a call; and whether they are these very ones."""
    stage, most = config.retrieval, config.retrieval.documents
    free = stage.by == "bm25" or not isinstance(index, SearchIndex)
    if isinstance(index, Index):
        free |= index.describe()["embedder"].partition(":")[0] == "local"
        most = min(most, len(index))
    changed = {} if free else {"by": "bm25", "mmr": None}
    question = (SentQuery(text=query.all_texts, origin="question"),)
    found = await search(question, stage.model_copy(update=changed), index, usage=UsageTable())
    known = found.passages
    if free and sent.queries == question and config.query.transform == "none":
        return known, True
    more = []
    for place in range(len(known), most if known else 0):
        each = known[place % len(known)]
        changes = {"id": f"{place} more", "text": f"{each.text} {place}"}
        more.append(each.model_copy(update=changes))
    return (*known, *more), False


async def rerank(
    question: Query,
    passages: Sequence[SourcePassage],
    stage: RerankStage,
    ranker: Ranker | None,
    *,
    usage: UsageTable,
    seconds: float | None = None,
    emit: Emit | None = None,
) -> Selection:
    """Rank the passages, and keep what the ranker and the stage leave."""
    if ranker is None or not passages:
        return in_order(passages, stage.keep)
    found = [
        Passage(each.id, each.text, each.title, each.score, {"document": each.document})
        for each in passages
    ]
    ranking: Ranking | None = None
    calls: list[UsageTable] = []
    try:
        floored = ranker.absolute and ranker.config.min_relevance is None
        least = (stage.min_relevance or None) if floored else None
        async with ranker.astream(question, found, deadline=seconds, min_relevance=least) as events:
            async for event in events:
                if isinstance(event, RankingDone):
                    ranking = event.ranking
                    continue
                if isinstance(event, RankingStarted):
                    calls.append(event.usage)
                if emit is not None:
                    await emit(event)
    except (ModelError, BudgetExceeded) as error:
        if isinstance(error, FATAL_ERRORS):
            raise
        for table in calls:
            usage.add_all(table)
        return replace(in_order(passages, stage.keep), failure=str(error))
    assert ranking is not None, "the last event of every ranking"
    usage.add_all(ranking.calls)
    return _by_ranking(passages, stage, ranking)


def in_order(passages: Sequence[SourcePassage], keep: int | None) -> Selection:
    """Return the passages in the order of retrieval, the first `keep` of them kept."""
    ranked = tuple(
        each.model_copy(update={"rank": rank, "dropped": _beyond(rank, keep)})
        for rank, each in enumerate(passages, 1)
    )
    return Selection(ranked, ranked[:keep])


def _by_ranking(
    passages: Sequence[SourcePassage], stage: RerankStage, ranking: Ranking
) -> Selection:
    notes = [ranking.unfinished] if ranking.partial else []
    if missing := len(ranking.missing):
        notes.append(f"{counted(missing, 'score')} of {ranking.matrix.size} missing.")
    left = list(ranking)
    ranks = {hit.index: rank for rank, hit in enumerate(left, 1)}
    all_of = tuple(
        each.model_copy(
            update={
                "rank": (rank := ranks.get(hit.index, 0)),
                "relevance": hit.relevance,
                "dropped": _beyond(rank, stage.keep) if rank else f"rerank: {hit.why_left_out}",
            }
        )
        for each, hit in zip(passages, ranking.as_given, strict=True)
    )
    kept = tuple(all_of[hit.index] for hit in left[: stage.keep])
    if not kept and stage.fallback:
        kept = in_order(all_of[: stage.fallback], None).passages
        all_of = (*kept, *all_of[stage.fallback :])
        notes.append(
            f"The ranker left no passage, so the first {len(kept)} retrieved went on as they were."
        )
    failure = ranking.failure
    if missing and missing == ranking.matrix.size:
        failure = failure or f"no passage has a score: {ranking.missing[0].reason}"
    return Selection(all_of, kept, ranking, failure, tuple(notes), ranking.partial)


def _beyond(rank: int, keep: int | None) -> str:
    if keep is None or rank <= keep:
        return ""
    return f"rerank: rank {rank}, and the first {keep} went on"


def context_of(passages: Sequence[SourcePassage], stage: ContextStage) -> Selection:
    """Return passages in their order until the next would pass the limit, numbered from 1."""
    limit, size, full = stage.limit, 0, ""
    kept: list[SourcePassage] = []
    found: list[SourcePassage] = []
    notes: tuple[str, ...] = ()
    for passage in passages:
        words = [] if full else [each.end() for each in _WORD.finditer(passage.text)]
        changes: dict[str, Any] = {}
        if not passage.text.strip():
            changes["dropped"] = "context: it is empty"
        elif full or (kept and size + len(words) > limit):
            changes["dropped"] = "context: " + (
                full
                or f"with its {len(words):,} words the context would have {size + len(words):,}, "
                f"and {limit:,} is the limit"
            )
            full = f"the limit of {limit:,} words was reached before it"
        else:
            changes["number"] = len(kept) + 1
            size += len(words)
            if size > limit:
                text = passage.text[: words[limit - 1]]
                changes |= {"text": text, "end": min(passage.end, passage.start + len(text))}
                notes = (f"Passage 1 has {size:,} words; it is cut to the limit of {limit:,}.",)
                size = limit
        found.append(passage.model_copy(update=changes))
        kept += found[-1:] if "number" in changes else []
    return Selection(tuple(found), tuple(kept), notes=notes)


def with_numbers(
    passages: Sequence[SourcePassage], context: Selection, *, seen: int
) -> tuple[SourcePassage, ...]:
    """Return all passages, with numbers if they are the first `seen` of the context."""
    reason = "context: the prompt was too long for the writer with it"
    changes = {
        each.id: {"dropped": reason}
        if each.number > seen
        else {"number": each.number, "dropped": each.dropped}
        for each in context.passages
    }
    return tuple(each.model_copy(update=changes.get(each.id)) for each in passages)
