"""Whether a difference between two runs may be chance: paired tests and confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Comparison", "Interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: its lower and upper end."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against a baseline, query by query.

    Attributes:
        difference: mean of the run less mean of the baseline.
        p_value: of the paired test, two-sided; 1 where all differences are 0.
        p_adjusted: `p_value` after the correction for all comparisons of its family.
        wins: queries on which the run is better by more than 1e-9.
        ties: queries on which they are equal.
        losses: the others.
    """

    difference: float
    p_value: float
    p_adjusted: float
    wins: int
    ties: int
    losses: int
