"""The arithmetic of fusion: what a list of documents gives to each of them.

`mcranker.rankers.fused` fuses rankers by it, and ``beir-eval fuse`` runs. A document's fused score
is the sum of what the lists give to it; a list that has it not gives nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from personas.ensembles import RRF_K

Id = TypeVar("Id")

_DIGITS = 12


def reciprocal_rank(rank: int, k: float = RRF_K) -> float:
    """``1 / (k + rank)``, of a rank from 1.

    "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods" (Cormack,
    Clarke and Buettcher 2009), where k is 60.
    """
    return 1 / (k + rank)


def min_max(scores: Mapping[Id, float]) -> dict[Id, float]:
    """Scores between 0 for the lowest and 1 for the highest; all 0 if they are equal."""
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    # Halves: the difference of two numbers may be beyond the greatest one.
    width = high / 2 - low / 2
    return {
        key: (score / 2 - low / 2) / width if width > 0 else 0.0 for key, score in scores.items()
    }


def weighted(scores: Mapping[Id, float], weight: float) -> dict[Id, float]:
    """Each score times `weight`."""
    return {key: weight * score for key, score in scores.items()}


def summed(lists: Sequence[Mapping[Id, float]], ids: Iterable[Id]) -> dict[Id, float]:
    """Return the sum of the lists' values for each of `ids`.

    Rounded to 12 digits after the point, so that the order of the lists makes no ranking.
    """
    return {
        key: round(math.fsum(each[key] for each in lists if key in each), _DIGITS) for key in ids
    }
