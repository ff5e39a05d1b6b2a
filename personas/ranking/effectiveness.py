"""Quality of an order of passages, where judgements are known: nDCG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def ndcg(
    ranked_grades: Sequence[float | None], all_grades: Iterable[float], depth: int = 10
) -> float | None:
    """NDCG at `depth` of one ranking, 0 to 1, as trec_eval and ir-measures compute it."""
    if depth < 1:
        raise ValueError(f"depth={depth!r} is below 1; give how many ranks count, e.g. 10")
    known = sorted(all_grades, reverse=True)
    if not known:
        return None
    best = _discounted(known[:depth])
    return _discounted(ranked_grades[:depth]) / best if best else 0.0


def _discounted(grades: Sequence[float | None]) -> float:
    """Sum of the grades above 0, each divided by log2(rank + 1)."""
    return sum(
        grade / math.log2(rank + 1)
        for rank, grade in enumerate(grades, start=1)
        if grade is not None and grade > 0
    )
