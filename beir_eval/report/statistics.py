"""Intervals and comparisons of all cells of a section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from beir_eval.measures.significance import Comparison, Interval, bootstrap_intervals, compare_runs

__all__ = ["Settings", "Statistics", "Values", "statistics"]

Values: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Data set -> label -> query id -> value."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How it is tested, as `beir_eval.measures.significance` takes it."""

    test: str
    correction: str
    level: float
    resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """By data set and label.

    Attributes:
        intervals: of the values.
        comparisons: with the baseline's; none for the baseline itself, and where it is missing.
        differences: intervals of the differences of `comparisons`.
    """

    intervals: Mapping[tuple[str, str], Interval]
    comparisons: Mapping[tuple[str, str], Comparison]
    differences: Mapping[tuple[str, str], Interval]


def statistics(values: Values, baseline: str, settings: Settings) -> Statistics:
    """Intervals of all values, and comparisons with the baseline as one family.

    Raises:
        SettingError: one of the settings is unknown or out of its range.
        ExtraMissing: the test needs a package that is not installed.
    """
    compared = compare_runs(
        values,
        baseline,
        test=settings.test,
        correction=settings.correction,
        seed=settings.seed,
    )
    intervals: dict[tuple[str, str], Interval] = {}
    differences: dict[tuple[str, str], Interval] = {}
    for data, runs in values.items():
        # Differences are resampled beside the values: they get the same draws, which are made once.
        rows = {("value", label): of_run for label, of_run in runs.items()}
        for label in compared[data]:
            base = runs[baseline]
            rows["difference", label] = {
                query_id: value - base[query_id] for query_id, value in runs[label].items()
            }
        found = bootstrap_intervals(
            rows, level=settings.level, resamples=settings.resamples, seed=settings.seed
        )
        for (kind, label), interval in found.items():
            (intervals if kind == "value" else differences)[data, label] = interval
    return Statistics(
        intervals=intervals,
        comparisons={
            (data, label): comparison
            for data, by_label in compared.items()
            for label, comparison in by_label.items()
        },
        differences=differences,
    )
