"""Search for passages: each query in each source, fused, diversified, united, each once."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import anyio
import numpy as np
from numpy.typing import NDArray

from mcranker.errors import BudgetExceeded, ConfigError, ModelError
from mcranker.rag.config import RetrievalStage
from mcranker.rag.record import SentQuery, SourcePassage
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.retrieval.bm25 import Found
from mcranker.retrieval.fusion import reciprocal_ranks
from personas.ranking.usage import UsageTable

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
class Retrieved:
    """Passages that were found."""

    passages: tuple[SourcePassage, ...]
    failure: str = ""
    notes: tuple[str, ...] = ()
    partial: bool = False


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
) -> Retrieved:
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
    return Retrieved(united(chosen, index.chunk, stage.unique), failure, tuple(notes), partial_)


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
