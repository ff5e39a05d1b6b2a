"""How much a run owes to the order of passages that it could not tell apart.

Passages with equal scores keep the order in which the ranker got them. The same scores could
as well have put them in any other order, so a run's value is one of a range: its ends are the
orders with the relevant passages of each tie last, and first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from beir_eval.experiment.run_folder import TieBounds
from beir_eval.measures.metrics import evaluate
from mcranker.trec import Run

Scored: TypeAlias = Sequence[tuple[str, float | None]]
"""(document id, score), best first; None where there is no score."""


def tie_bounds(
    rankings: Mapping[str, Scored],
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = ("nDCG@10",),
) -> dict[str, TieBounds]:
    """Means of `measures` over all judged queries, ties at their worst and at their best.

    A tie is a row of passages, one after the other in the list, with exactly the same score.
    Passages without a score are in no tie: their order is the first stage's, and stays. The ends
    are exact for measures that never fall when a better grade moves up, as NDCG, recall and
    average precision.

    Args:
        rankings: query id -> (document id, score), best first.
        qrels: query id -> document id -> grade; documents without a grade count as 0.
        measures: names as ir-measures writes them.

    Raises:
        MeasureError, RunError, ExtraMissing: as `beir_eval.measures.metrics.evaluate` says.
    """
    worst = _reordered(rankings, qrels, best=False)
    best = _reordered(rankings, qrels, best=True)
    at_worst = evaluate(worst, qrels, measures).means
    at_best = at_worst if best == worst else evaluate(best, qrels, measures).means
    return {name: TieBounds(worst=at_worst[name], best=at_best[name]) for name in at_worst}


def _reordered(
    rankings: Mapping[str, Scored], qrels: Mapping[str, Mapping[str, int]], *, best: bool
) -> Run:
    return {
        query_id: [
            (doc_id, 0.0) for doc_id in _by_grade(ranking, qrels.get(query_id, {}), best=best)
        ]
        for query_id, ranking in rankings.items()
    }


def _by_grade(ranking: Scored, grades: Mapping[str, int], *, best: bool) -> Iterable[str]:
    for score, tied in groupby(ranking, key=lambda each: each[1]):
        doc_ids = [doc_id for doc_id, _ in tied]
        if score is not None and len(doc_ids) > 1:
            doc_ids.sort(key=lambda doc_id: grades.get(doc_id, 0), reverse=best)
        yield from doc_ids
