"""From a score matrix to one score a passage, and from that to an order. Pure; no call.

Rows are passages in first-stage order, columns are personas; NaN is a missing score.
Re-ensembling a finished ranking's matrix costs nothing but this arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcranker.errors import MissingScoreError

__all__ = [
    "MissingPolicy",
    "descending",
    "fill_missing",
    "interpolate",
    "reciprocal_rank",
    "score_sum",
    "upper_bounds",
]

MissingPolicy = Literal["mean_of_team", "lowest", "constant", "fail"]
Matrix = NDArray[np.float64]


def fill_missing(
    values: Matrix, policy: MissingPolicy = "mean_of_team", *, constant: float = 0.0
) -> Matrix:
    """The matrix without NaN.

    Args:
        values: shape (passages, personas).
        policy: ``mean_of_team`` takes the mean of the passage's other scores, and 0 for a
            passage that has none; ``lowest`` takes 0; ``constant`` takes `constant`;
            ``fail`` raises.
        constant: the score that stands in with ``policy="constant"``.

    Raises:
        MissingScoreError: something is missing and the policy is ``fail``.
    """
    gaps = np.isnan(values)
    if not gaps.any():
        return values
    if policy == "fail":
        raise MissingScoreError(
            f'{int(gaps.sum())} of {gaps.size} scores are missing and missing="fail"; '
            "see the reasons in the log, or choose another policy"
        )
    if policy == "constant":
        return np.where(gaps, constant, values)
    if policy == "lowest":
        return np.where(gaps, 0.0, values)
    known = (~gaps).sum(axis=1)
    sums = np.where(gaps, 0.0, values).sum(axis=1)
    means = np.divide(sums, known, out=np.zeros(len(values)), where=known > 0)
    return np.where(gaps, means[:, None], values)


def score_sum(values: Matrix) -> Matrix:
    """Sum of the personas' scores, one a passage (Eq. 4, left)."""
    # Exactly rounded, so that equal scores from other personas stay equal totals.
    return np.array([math.fsum(row) for row in values.tolist()], dtype=np.float64)


def upper_bounds(
    values: Matrix,
    unasked: NDArray[np.bool_],
    policy: MissingPolicy = "mean_of_team",
    *,
    constant: float = 0.0,
    top: float,
) -> Matrix:
    """The highest sums that passages can reach, whatever scores are still to come or missing.

    The bound holds for the rounded sums too: what stands in for a score is at least as high as
    anything that may come in its place, and `score_sum` rounds a higher sum no lower.

    Args:
        values: shape (passages, personas).
        unasked: where a score is still open; the other NaN are missing for good. Without any
            in a row, the row's bound is the very sum of its scores.
        policy: what stands in for missing scores, and `constant`, as for `fill_missing`.
        constant: the score that stands in with ``policy="constant"``.
        top: the highest score a persona can give.

    Raises:
        MissingScoreError: as `fill_missing`.
    """
    best = max(top, constant) if policy == "constant" else top
    filled = np.where(unasked, best, values)
    if policy == "mean_of_team":
        # What will stand in for a missing score depends on the open ones; it is no higher.
        filled = np.where(unasked.any(axis=1, keepdims=True) & np.isnan(filled), top, filled)
    return score_sum(fill_missing(filled, policy, constant=constant))


def reciprocal_rank(values: Matrix) -> Matrix:
    """Sum over the personas of 1 / rank, ranks from 1, ties by row order (Eq. 4, middle)."""
    ranks = np.empty(values.shape)
    for column, scores in enumerate(values.T):
        ranks[descending(scores), column] = np.arange(1, len(values) + 1)
    return score_sum(1.0 / ranks)


def interpolate(scores: Matrix, first_stage: Sequence[float | None], weight: float) -> Matrix:
    """``(1 - weight) · scores + weight · first stage``, both scaled to 0..1 over the passages.

    First-stage scores are scaled from their least to their greatest; where any is unknown,
    the rank stands in: 1 for the first passage, falling evenly to 0 for the last.
    """
    known = [score for score in first_stage if score is not None]
    if len(known) == len(first_stage):
        other = np.asarray(known, dtype=np.float64)
    else:
        other = np.arange(len(first_stage), 0, -1, dtype=np.float64)
    return (1.0 - weight) * _unit_range(scores) + weight * _unit_range(other)


def descending(scores: Matrix) -> NDArray[np.intp]:
    """Row numbers by falling score; equal scores stay in row order (first-stage order)."""
    return np.argsort(-scores, kind="stable")


def _unit_range(scores: Matrix) -> Matrix:
    if not len(scores):
        return scores
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / (high - low) if high > low else np.zeros(len(scores))
