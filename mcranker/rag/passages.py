"""From a question to the writer's passages: queries, search, reranking, and the context's limit.

Each query searches each source; the lists are fused, diversified and united, each passage once.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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
from mcranker.rag.record import SentQuery, SourcePassage
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking
from mcranker.replies.loose_json import Unreadable
from mcranker.retrieval.bm25 import Found
from mcranker.retrieval.fusion import reciprocal_ranks
from mcranker.retrieval.index import Index
from personas.format import counted
from personas.ranking.types import Passage, Query
from personas.ranking.usage import UsageTable
from personas.sanitize import plain

LONGEST_SENT = 2_000
"""Characters of a query that a model wrote; the rest is cut off."""

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
_BYTES_OF_A_TOKEN = 4

Origin = Literal["question", "hypothetical answer", "variant", "rephrased", "sub-query"]
Source = Literal["bm25", "dense"]
Hits: TypeAlias = list[tuple[str, float]]
"""Chunk id and score, best first."""


class ChunkLike(Protocol):
    """A piece of a document, as `mcranker.retrieval.chunks.Chunk` is one."""

    @property
    def id(self) -> str: ...
    @property
    def document(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


class TextRetriever(Protocol):
    """A search of the user's own: a `mcranker.retrieval.bm25.Retriever` that has the texts."""

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

    def add(self, origin: Origin, *texts: str) -> None:
        """Add queries that a model wrote."""
        self.queries += tuple(SentQuery(text=text, origin=origin) for text in texts)

    def note(self, text: str) -> None:
        """Add a sentence for the reader."""
        self.notes += (text,)


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
        found.note(f"The query transform broke off: {plain(str(error), 400)}")
    sent: dict[str, SentQuery] = {}
    first = (own,) if stage.keep_question or not found.queries else ()
    for each in (*first, *found.queries):
        sent.setdefault(_key(each.text), each)
    found.queries = tuple(sent.values())
    return found


async def _hyde(found: Queries, question: str, _: QueryStage, asking: Asking) -> None:
    most = _most(asking, _TEXT_TOKENS)
    text = await asking.text("rag_hyde", {"question": question}, max_tokens=most)
    found.add("hypothetical answer", _shortened(text))


async def _variants(found: Queries, question: str, stage: QueryStage, asking: Asking) -> None:
    most = stage.variants
    values = {"question": question, "count": str(most)}
    written = await asking.read(
        f"rag_variants_{stage.wording}",
        values,
        _read_queries,
        max_tokens=_most(asking, _TOKENS_A_QUERY * (most + 1)),
    )
    found.add("variant", *written[:most])
    if len(written) != most:
        found.note(f"Queries asked for: {most}; written by the model: {len(written)}.")


async def _decompose(found: Queries, question: str, stage: QueryStage, asking: Asking) -> None:
    values = {"question": question}
    length = _most(asking, _TEXT_TOKENS)
    components = await asking.text("rag_components", values, max_tokens=length)
    values_of_both = {**values, "components": components}
    rephrased = await asking.text("rag_rephrase", values_of_both, max_tokens=length)
    found.rephrased = _shortened(rephrased)
    try:
        composite = await asking.read(
            "rag_complexity", values, _read_class, max_tokens=_most(asking, _CLASS_TOKENS)
        )
    except ReplyError as error:
        composite = False
        found.note(f"The question was taken as a simple one: {plain(str(error), 400)}")
    if not composite:
        await _variants(found, question, stage, asking)
        return
    # The authors' code goes on with what was to be taken apart where no query can be read.
    found.add("rephrased", found.rephrased)
    most = stage.variants
    written = await asking.read(
        "rag_subqueries",
        {"question": found.rephrased},
        _read_queries,
        max_tokens=_most(asking, _TOKENS_A_QUERY * (most + 1)),
    )
    found.queries = ()
    found.add("sub-query", *written[:most])
    if len(written) > most:
        found.note(f"Of {len(written)} sub-queries the first {most} were sent.")


def _read_queries(reply: ChatReply) -> list[str]:
    text = text_of(reply)
    if reply.finish_reason == "length" and "\n" in text:
        text = text[: text.rindex("\n")]  # The last line may be half a query.
    if not (queries := list(_lines(text))):
        raise Unreadable('no line in it begins with "query:".')
    return queries


def _lines(text: str) -> Iterator[str]:
    seen = set[str]()
    for line in _QUERY.finditer(text):
        query = _shortened(line.group(1).strip(_AROUND))
        if query and _key(query) not in seen:
            seen.add(_key(query))
            yield query


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
    if len(line) <= LONGEST_SENT:
        return line
    return line[: LONGEST_SENT + 1].rpartition(" ")[0] or line[:LONGEST_SENT]


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
    if isinstance(index, SearchIndex):
        for by in ("bm25", "dense") if stage.by == "hybrid" else (stage.by,):
            with anyio.move_on_after(deadline - anyio.current_time()) as scope:
                try:
                    lists[by] = await index.search(texts, depth, by, usage)
                except (ModelError, BudgetExceeded) as error:
                    if isinstance(error, FATAL_ERRORS) or stage.by != "hybrid":
                        raise
                    failure = f"the search by meaning failed, and that by words counts: {error}"
            partial_ |= scope.cancelled_caught
    else:
        notes.append(f"{type(index).__name__} searched in its own way.")
        with anyio.move_on_after(deadline - anyio.current_time()) as scope:
            lists["bm25"] = await _retrieved(index, texts, each)
        partial_ = scope.cancelled_caught
    if partial_:
        notes.append("The deadline came before all searches had ended.")
    chosen: list[Hits] = []
    for place in range(len(texts) if lists else 0):
        hits = [found[place] for found in lists.values()]
        fused = hits[0] if len(hits) == 1 else _fused(hits, stage.rrf_k)
        if stage.mmr is not None and isinstance(index, SearchIndex) and fused:
            fused = fused[: stage.per_source]
            near = dict(fused) if stage.by == "dense" else _min_max(dict(fused))
            vectors = index.vectors(list(near))
            best = diversified(list(near.values()), vectors, stage.mmr, each)
            fused = [fused[place] for place in best]
        chosen.append(fused[:each])
    passages = united(chosen, index.chunk, stage.unique)
    return Selection(passages, passages, failure=failure, notes=tuple(notes), partial=partial_)


def _fused(lists: Sequence[Hits], k: int) -> Hits:
    return reciprocal_ranks([[name for name, _ in hits] for hits in lists], k)


def _min_max(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores between 0 for the lowest and 1 for the highest; all 0 if they are equal."""
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    # Halves: the difference of two numbers may be beyond the greatest one.
    width = high / 2 - low / 2
    return {
        key: (score / 2 - low / 2) / width if width > 0 else 0.0 for key, score in scores.items()
    }


def diversified(
    relevance: Sequence[float], vectors: NDArray[Any], share: float, count: int
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
    passages: list[SourcePassage] = []
    documents = set[str]()
    for name, score in scores.items():
        each = chunk(name)
        if unique == "document" and each.document in documents:
            continue
        documents.add(each.document)
        passages.append(
            SourcePassage(
                id=each.id,
                document=each.document,
                title=each.title,
                text=each.text,
                start=each.start,
                end=each.end,
                score=float(score),
                found_by=tuple(dict.fromkeys(found_by[name])),
            )
        )
    return tuple(passages)


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
    stage = config.retrieval
    free = stage.by == "bm25" or not isinstance(index, SearchIndex)
    if isinstance(index, Index):
        free |= index.describe()["embedder"].partition(":")[0] in ("local", "st")
    changed = {} if free else {"by": "bm25", "mmr": None}
    question = (SentQuery(text=query.all_texts, origin="question"),)
    found = await search(question, stage.model_copy(update=changed), index, usage=UsageTable())
    if free and sent.queries == question and config.query.transform == "none":
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
        async with ranker.astream(question, found, deadline=seconds) as events:
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
        first = all_of[: stage.fallback]
        kept = tuple(
            each.model_copy(update={"rank": rank, "dropped": ""})
            for rank, each in enumerate(first, 1)
        )
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


def context_of(
    passages: Sequence[SourcePassage],
    stage: ContextStage,
    count_tokens: Callable[[str], int] | None = None,
) -> Selection:
    """Return passages in their order until the next would pass the limit, numbered from 1."""
    count = _words if stage.unit == "words" else count_tokens or _tokens
    limit, size = stage.limit, 0
    kept: list[SourcePassage] = []
    found: list[SourcePassage] = []
    notes: tuple[str, ...] = ()
    full = ""
    for passage in passages:
        length = 0 if full else count(passage.text)
        if not passage.text.strip():
            reason = "it is empty"
        elif not full and length > limit and not kept:
            text = _cut(passage.text, limit, count)
            notes = (
                f"Passage 1 has {length:,} {stage.unit}; it is cut to the limit of {limit:,}.",
            )
            end = min(passage.end, passage.start + len(text))
            kept.append(passage.model_copy(update={"number": 1, "text": text, "end": end}))
            found.append(kept[-1])
            size = limit
            continue
        elif not full and size + length <= limit:
            kept.append(passage.model_copy(update={"number": len(kept) + 1}))
            found.append(kept[-1])
            size += length
            continue
        else:
            reason = full or (
                f"with its {length:,} {stage.unit} the context would have {size + length:,}, "
                f"and {limit:,} is the limit"
            )
            full = f"the limit of {limit:,} {stage.unit} was reached before it"
        found.append(passage.model_copy(update={"dropped": f"context: {reason}"}))
    return Selection(tuple(found), tuple(kept), notes=notes)


def with_numbers(
    passages: Sequence[SourcePassage], context: Selection, *, seen: int
) -> tuple[SourcePassage, ...]:
    """Return all passages, with numbers if they are the first `seen` of the context."""
    changes: dict[str, dict[str, Any]] = {}
    for each in context.passages:
        if each.number > seen:
            reason = "context: the prompt was too long for the writer with it"
            changes[each.id] = {"dropped": reason}
        else:
            changes[each.id] = {"number": each.number, "dropped": each.dropped}
    return tuple(each.model_copy(update=changes.get(each.id)) for each in passages)


def _words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="surrogatepass")) // _BYTES_OF_A_TOKEN)


def _cut(text: str, limit: int, count: Callable[[str], int]) -> str:
    """The beginning of a text within the limit, to the end of a word unless one alone passes it."""
    ends: Sequence[int] = [found.end() for found in _WORD.finditer(text)]
    if count(text[: ends[0]]) > limit:
        ends = range(1, ends[0] + 1)
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[: ends[middle]]) <= limit else (low, middle - 1)
    return text[: ends[low]]
