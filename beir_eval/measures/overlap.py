"""Rank-biased overlap: how alike two rankings are, above all near the top.

No package does it well enough to depend on: rbo's last release is of 2023 with open reports of
wrong values, and others have one release or fail on lists of different lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

PERSISTENCE = 0.9
"""Probability of going on to the next rank; the first 10 ranks then have 86% of the weight."""


def rank_biased_overlap(
    one: Sequence[str], other: Sequence[str], persistence: float = PERSISTENCE
) -> float:
    """RBO, 0 to 1, extrapolated from the ranks that both lists have (Webber et al. 2010, Eq. 23).

    With X_d the number of ids that both have among their first d, p the persistence and k the
    shorter length: X_k / k p^k + (1 - p) / p sum over d = 1 .. k of X_d / d p^d. Two empty lists
    are alike (1), an empty one and another are not (0).
    """
    depth = min(len(one), len(other))
    if not depth:
        return float(len(one) == len(other))
    seen_one, seen_other = set[str](), set[str]()
    shared, total, weight = 0, 0.0, 1.0
    for rank, (first, second) in enumerate(zip(one, other, strict=False), start=1):
        shared += (first == second) + (first in seen_other) + (second in seen_one)
        seen_one.add(first)
        seen_other.add(second)
        weight *= persistence
        total += shared / rank * weight
    return min(1.0, shared / depth * weight + (1 - persistence) / persistence * total)
