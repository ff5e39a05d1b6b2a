"""Reranking by any ranker: what goes on to the answer, and why the rest does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mcranker.errors import BudgetExceeded, ModelError
from mcranker.events import Emit, RankingDone, RankingStarted
from mcranker.options import CallOptions
from mcranker.rag.config import RerankStage
from mcranker.rag.record import SourcePassage
from mcranker.rankers.base import Ranker
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.ranking import Ranking
from personas.format import counted
from personas.ranking.types import Passage, Query
from personas.ranking.usage import UsageTable


@dataclass(frozen=True, slots=True)
class Reranked:
    """Passages after reranking."""

    passages: tuple[SourcePassage, ...]
    kept: tuple[SourcePassage, ...]
    ranking: Ranking | None = None
    usage: UsageTable = field(default_factory=UsageTable)
    failure: str = ""
    notes: tuple[str, ...] = ()


async def rerank(
    question: Query,
    passages: Sequence[SourcePassage],
    stage: RerankStage,
    ranker: Ranker | None,
    *,
    seconds: float | None = None,
    emit: Emit | None = None,
) -> Reranked:
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
        async with ranker.astream(question, found, **CallOptions(deadline=seconds)) as events:
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
        usage = UsageTable()
        for table in calls:
            usage.add_all(table)
        return replace(in_order(passages, stage.keep), usage=usage, failure=str(error))
    assert ranking is not None, "the last event of every ranking"
    return _by_ranking(passages, stage, ranking)


def in_order(passages: Sequence[SourcePassage], keep: int | None) -> Reranked:
    """Return the passages in the order of retrieval, the first `keep` of them kept."""
    ranked = tuple(
        each.model_copy(update={"rank": rank, "dropped": _beyond(rank, keep)})
        for rank, each in enumerate(passages, 1)
    )
    return Reranked(ranked, ranked[:keep])


def _by_ranking(
    passages: Sequence[SourcePassage], stage: RerankStage, ranking: Ranking
) -> Reranked:
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
    return Reranked(all_of, kept, ranking, ranking.calls, failure=failure, notes=tuple(notes))


def _beyond(rank: int, keep: int | None) -> str:
    if keep is None or rank <= keep:
        return ""
    return f"rerank: rank {rank}, and the first {keep} went on"
