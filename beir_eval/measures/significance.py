"""Tests of the difference between two runs: paired t-tests and confidence intervals.

Tests go query by query: t = mean(d) / (sd(d) / sqrt(n)) of the differences d over n queries, sd
with n - 1, on n - 1 degrees of freedom (scipy's Student distribution).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from beir_eval.errors import ExtraMissing, SettingError, check_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

Correction = Literal["holm", "bonferroni", "bh", "none"]
CORRECTIONS: tuple[str, ...] = get_args(Correction)

EQUAL = 1e-9
"""Two values that differ by no more are a tie."""

SIGNIFICANT = 0.05
"""Corrected p-values below it are significant."""

POWER = 0.8
"""Share of experiments in which a difference of `Comparison.detectable` would be found."""

Data = TypeVar("Data", bound=Hashable)
Label = TypeVar("Label", bound=Hashable)
Query = TypeVar("Query", str, int)


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
        interval: Student's confidence interval of it.
        p_value: of the paired t-test, two-sided; 1 where all differences are 0.
        p_adjusted: `p_value` after the correction for all comparisons of its family.
        wins: queries on which the run is better by more than 1e-9.
        ties: queries on which they are equal.
        losses: the others.
        effect: mean difference over its standard deviation (Cohen's d of paired values); None
            where that is 0, and for one query.
        detectable: the smallest difference that a two-sided test at 0.05, uncorrected, finds in
            80% of experiments with as many queries and such a spread; None for one query.
    """

    difference: float
    interval: Interval
    p_value: float
    p_adjusted: float
    wins: int
    ties: int
    losses: int
    effect: float | None
    detectable: float | None


def compare_runs(
    values: Mapping[Data, Mapping[Label, Mapping[str, float]]],
    baseline: Label,
    *,
    correction: str = "holm",
    level: float = 0.95,
    farthest: float = math.inf,
) -> dict[Data, dict[Label, Comparison]]:
    """Compare every run with the baseline, on every data set.

    All comparisons are one family: p-values are corrected for all of them together. A data set
    without the baseline has none. With one query every p is 1, and so is `Comparison.p_value` where
    no query differs; where all differences are the same and not 0, t is infinite.

    Args:
        values: data set -> run -> query id -> value of one measure; all runs of a data set have
            the same queries.
        baseline: the run that the others are compared with.
        correction: one of `CORRECTIONS`.
        level: of the intervals, above 0 and below 1.
        farthest: no interval goes beyond it in either direction.

    Raises:
        SettingError: `correction` is unknown, `level` is out of its range, two runs of a data set
            do not have the same queries, or a value is not a finite number.
        ExtraMissing: scipy is not installed.
    """
    _check_correction(correction)
    found: list[tuple[Data, Label, Numbers]] = []
    for data, runs in values.items():
        others = [label for label in runs if label != baseline]
        if baseline not in runs or not others:
            continue
        # Always in the same order, so that the last digits do not depend on the runs' order.
        table = _table({baseline: runs[baseline], **runs}, sorted(runs[baseline]))
        found += zip([data] * len(others), others, table[1:] - table[0], strict=True)
    p_values = [_p_value(differences) for *_, differences in found]
    corrected = adjust(p_values, correction)
    compared: dict[Data, dict[Label, Comparison]] = {data: {} for data in values}
    for place, (data, label, differences) in enumerate(found):
        wins, losses = int((differences > EQUAL).sum()), int((differences < -EQUAL).sum())
        mean, spread = _mean_and_spread(differences)
        ends = confidence_intervals(
            {"": dict(enumerate(differences.tolist()))}, level=level, low=-farthest, high=farthest
        )
        compared[data][label] = Comparison(
            difference=mean,
            interval=ends[""],
            p_value=p_values[place],
            p_adjusted=corrected[place],
            wins=wins,
            ties=len(differences) - wins - losses,
            losses=losses,
            effect=mean / spread if spread else None,
            detectable=None if spread is None else _detectable(spread, len(differences)),
        )
    return compared


def adjust(p_values: Sequence[float], method: str = "holm") -> list[float]:
    """Correct the p-values of one family for their number m, in their order; at most 1."""
    _check_correction(method)
    for p_value in p_values:
        if not 0 <= p_value <= 1:
            raise SettingError(f"p-value {p_value!r} is out of range; it lies within 0 to 1")
    import numpy as np

    given, count = np.array(p_values, dtype=np.float64), len(p_values)
    order, ranks = np.argsort(given, kind="stable"), np.arange(1, count + 1)
    if method == "bonferroni":
        given = given * count
    elif method == "holm":
        given[order] = np.maximum.accumulate(given[order] * (count + 1 - ranks))
    elif method == "bh":
        given[order] = np.minimum.accumulate((given[order] * count / ranks)[::-1])[::-1]
    return [float(each) for each in np.minimum(given, 1.0)]


def confidence_intervals(
    values: Mapping[Label, Mapping[Query, float]],
    *,
    level: float = 0.95,
    low: float = -math.inf,
    high: float = math.inf,
) -> dict[Label, Interval]:
    """Student's intervals of the means over queries: mean +- t * sd / sqrt(n), sd with n - 1.

    An interval is the same whichever other runs appear beside it. For the interval of a
    difference, give the differences as a run of their own. Where all values are equal the ends
    are too. One query says nothing of others: its interval goes from `low` to `high`.

    Intervals from resampled queries (bootstrap) are too narrow for few queries, see
    docs/evaluation.md.

    Args:
        values: run -> query id -> value; all runs have the same queries, one or more.
        level: above 0 and below 1.
        low: the least possible mean; no interval goes below it.
        high: the greatest possible mean.

    Raises:
        SettingError: `level` is out of its range, two runs do not have the same queries, there
            are no queries, or a value is not a finite number.
        ExtraMissing: scipy is not installed.
    """
    check_number("level", level, 0, 1, example=0.95)
    if level in (0, 1):
        raise SettingError(f"level={level!r} is out of range; give a number within 0 and 1")
    if not values:
        return {}
    query_ids = sorted(next(iter(values.values())))
    if not query_ids:
        raise SettingError("there are no queries, so there is no mean to have an interval")
    table = _table(values, query_ids)
    count = len(query_ids)
    if count == 1:
        return dict.fromkeys(values, Interval(low, high))
    reach = _quantile((1 + level) / 2, count - 1) / math.sqrt(count)
    return {
        label: Interval(max(low, mean - reach * spread), min(high, mean + reach * spread))
        for label, mean, spread in zip(
            values, table.mean(axis=1).tolist(), table.std(axis=1, ddof=1).tolist(), strict=True
        )
    }


def _quantile(probability: float, degrees: int) -> float:
    """The value that Student's t stays below with that probability."""
    return float(_scipy().stdtrit(degrees, probability))


def _p_value(differences: Numbers) -> float:
    """Two-sided p of no difference by the paired t-test."""
    mean, spread = _mean_and_spread(differences)
    if spread is None:
        return 1.0
    if not spread:
        return 1.0 if abs(mean) <= EQUAL else 0.0
    t_value = abs(mean) / (spread / math.sqrt(len(differences)))
    return 2 * float(_scipy().stdtr(len(differences) - 1, -t_value))


def _mean_and_spread(differences: Numbers) -> tuple[float, float | None]:
    """Return mean and standard deviation; 0 if only rounding differs, None for one value."""
    import numpy as np

    mean = float(differences.mean()) if len(differences) else 0.0
    if len(differences) < 2:
        return mean, None
    same = np.abs(differences - mean).max() <= EQUAL
    return mean, 0.0 if same else float(differences.std(ddof=1))


def _detectable(spread: float, count: int) -> float:
    reach = _quantile(1 - SIGNIFICANT / 2, count - 1) + _quantile(POWER, count - 1)
    return reach * spread / math.sqrt(count)


def _table(runs: Mapping[Label, Mapping[Query, float]], query_ids: Sequence[Query]) -> Numbers:
    """A row a run, a column a query."""
    import numpy as np

    for label, of_run in runs.items():
        if len(of_run) == len(query_ids) and all(each in of_run for each in query_ids):
            continue
        odd = sorted(set(query_ids) ^ set(of_run))
        raise SettingError(
            f"run {label!r} does not have the queries of the others, e.g. {odd[0]!r}; measure "
            "all runs by the same judgements"
        )
    table = np.array(
        [[of_run[query_id] for query_id in query_ids] for of_run in runs.values()],
        dtype=np.float64,
    ).reshape(len(runs), len(query_ids))
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise SettingError(
            f"run {list(runs)[row]!r}, query {query_ids[column]!r}: the value "
            f"{float(table[row, column])!r} is not a finite number"
        )
    return table


def _scipy() -> Any:
    try:
        from scipy import special
    except ImportError as missing:
        raise ExtraMissing("scipy", "significance tests and intervals", extra="eval") from missing
    return special


def _check_correction(correction: str) -> None:
    if correction not in CORRECTIONS:
        raise SettingError(
            f"correction={correction!r} is unknown; give one of {', '.join(CORRECTIONS)}"
        )
