"""What ``beir-eval evaluate`` has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beir_eval.measures.metrics import Evaluation
from beir_eval.measures.significance import Comparison, Interval

__all__ = ["LEVEL", "Findings"]

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that the verb shows.

    Attributes:
        judged: queries with judgements.
        evaluations: run's name -> its values.
        comparisons: measure -> run's name -> against the first run; empty if not asked for.
        intervals: measure -> run's name -> of its mean; empty if not asked for.
        test: of `comparisons`.
        correction: of `comparisons`.
        resamples: of `intervals`.
        seed: of both.
    """

    judged: int
    evaluations: Mapping[str, Evaluation]
    comparisons: Mapping[str, Mapping[str, Comparison]]
    intervals: Mapping[str, Mapping[str, Interval]]
    test: str
    correction: str
    resamples: int
    seed: int

    @property
    def baseline(self) -> str:
        """Name of the first run."""
        return next(iter(self.evaluations))

    @property
    def measures(self) -> Sequence[str]:
        """In the order in which they were asked for."""
        return list(next(iter(self.evaluations.values())).means)
