"""What can be worked out from the ranks that a team has given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from personas.ensembles import Rule, distinct
from personas.orders import points, rule_of_points
from personas.ranking.stored import StoredHit


def points_of(
    ranked: Sequence[StoredHit], names: Sequence[str], rule: Rule
) -> tuple[dict[int, dict[str, float]], Rule]:
    """Rank -> persona -> its points, and the rule for them.

    Args:
        ranked: the passages that the personas have put in order, in first-stage order.
        names: the personas.
        rule: of the ranking.
    """
    rows, group_of = distinct((hit.title, hit.text) for hit in ranked)
    ranks = [[ranked[row].ranks[name] for name in names] for row in rows]
    found = points(np.array(ranks, dtype=np.float64).reshape(len(rows), len(names)))
    by_rank = {
        hit.rank: dict(zip(names, found[row].tolist(), strict=True))
        for hit, row in zip(ranked, group_of.tolist(), strict=True)
    }
    return by_rank, rule_of_points(rule, len(rows))


def tails_of(hits: Sequence[StoredHit], names: Sequence[str]) -> dict[str, int]:
    """Persona -> its last rank, where several passages that differ share it."""
    tails = {}
    for name in names:
        last = max((hit.ranks.get(name, 0) for hit in hits), default=0)
        if len({(hit.title, hit.text) for hit in hits if hit.ranks.get(name) == last}) > 1:
            tails[name] = last
    return tails
