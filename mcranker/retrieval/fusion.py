"""Reciprocal rank fusion: one list of several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mcranker.errors import ConfigError
from personas.ensembles import RRF_K

if TYPE_CHECKING:
    from personas.ranking.record import RankingRecord

Id = TypeVar("Id")

_DIGITS = 12


def fuse(
    *rankings: RankingRecord, k: float = RRF_K, weights: Sequence[float] | None = None
) -> list[tuple[str, float]]:
    """Return the document ids of all rankings with their fused scores, best first.

    A ranking gives each of its hits its weight times ``1 / (k + rank)``; the score is the sum.
    "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods" (Cormack,
    Clarke and Buettcher 2009).

    >>> fuse(MCRanker().rank(query, docs), DirectRanker().rank(query, docs), weights=[2, 1])

    Args:
        rankings: two or more, of one query.
        k: 0 or more; the higher, the less the first ranks stand out.
        weights: one a ranking, 0 or more; None for 1 each.

    Raises:
        ConfigError: fewer than two rankings, rankings of several queries, or a `k` or weights that
            cannot be.
    """
    if len(rankings) < 2:
        raise ConfigError(f"{len(rankings)} rankings given; fusion takes two or more")
    queries = dict.fromkeys(ranking.query.text for ranking in rankings)
    if len(queries) > 1:
        first, second, *_ = queries
        raise ConfigError(f"the rankings are of {first!r} and {second!r}; fuse those of one query")
    given = [1.0] * len(rankings) if weights is None else list(weights)
    if len(given) != len(rankings) or not all(0 <= each < math.inf for each in (k, *given)):
        raise ConfigError(
            f"k={k!r}, weights={weights!r}: give a k of 0 or more, and {len(rankings)} weights of "
            "0 or more, one for each ranking"
        )
    return reciprocal_ranks([ranking.ids for ranking in rankings], k, given)


def reciprocal_ranks(
    lists: Sequence[Iterable[Id]], k: float = RRF_K, weights: Sequence[float] | None = None
) -> list[tuple[Id, float]]:
    """Fuse lists, best first; equal sums stay in the order of the first list that has them."""
    shares: dict[Id, list[float]] = {}
    for ids, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for rank, each in enumerate(ids, start=1):
            shares.setdefault(each, []).append(weight / (k + rank))
    # Rounded, so that the order of the lists makes no ranking.
    scores = [(each, round(math.fsum(given), _DIGITS)) for each, given in shares.items()]
    return sorted(scores, key=lambda pair: -pair[1])
