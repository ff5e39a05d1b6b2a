"""Whether a difference between two runs may be chance: paired tests and confidence intervals.

Three tests, all two-sided and query by query:

    student     paired Student's t-test: t = mean(d) / (sd(d) / sqrt(n)) of the differences d,
                sd with n - 1, on n - 1 degrees of freedom. ranx's test of that name to 1e-12,
                without ranx's long start.
    fisher      ranx's randomization test: how many of 10,000 random swaps of the two values of
                each query make a difference of the means as large as the one found.
    tukey       ranx's Tukey HSD over all runs of a data set. It corrects by itself for all
                pairs of these runs, and does not pair the values by query.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from beir_eval.errors import ExtraMissing, SettingError
from beir_eval.ranges import check_number, check_whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

Test = Literal["student", "fisher", "tukey"]
Correction = Literal["holm", "bonferroni", "bh", "none"]
TESTS: tuple[str, ...] = get_args(Test)
CORRECTIONS: tuple[str, ...] = get_args(Correction)

EQUAL = 1e-9
"""Two values that differ by no more are a tie."""

HIGHEST_SEED = 2**32 - 1

_SWAPS = 10_000

Data = TypeVar("Data", bound=Hashable)
Label = TypeVar("Label", bound=Hashable)


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


def usual_correction(test: str) -> Correction:
    """The correction when none is asked for: Holm's, or none for Tukey's test."""
    return "none" if test == "tukey" else "holm"


def compare_runs(
    values: Mapping[Data, Mapping[Label, Mapping[str, float]]],
    baseline: Label,
    *,
    test: str = "student",
    correction: str | None = None,
    seed: int = 0,
) -> dict[Data, dict[Label, Comparison]]:
    """Compare every run with the baseline, on every data set.

    All comparisons are one family: p-values are corrected for all of them together. A data set
    without the baseline has none. With one query, or with no difference on any query, p is 1;
    where all differences are the same and not 0, Student's t is infinite and p is 0.

    Args:
        values: data set -> run -> query id -> value of one measure; all runs of a data set have
            the same queries.
        baseline: the run that the others are compared with.
        test: one of `TESTS`.
        correction: one of `CORRECTIONS`; None for `usual_correction`.
        seed: of the randomization test, from 0 to 2**32 - 1; the others draw nothing.

    Raises:
        SettingError: `test` or `correction` is unknown, ``"tukey"`` is to be corrected again,
            `seed` is out of range, two runs of a data set do not have the same queries, or a
            value is not a finite number.
        ExtraMissing: a package that the test needs is not installed.
    """
    _check_choice("test", test, TESTS)
    correction = usual_correction(test) if correction is None else correction
    _check_choice("correction", correction, CORRECTIONS)
    _check_seed(seed)
    if test == "tukey" and correction != "none":
        raise SettingError(
            f"correction={correction!r}: Tukey's test corrects by itself; leave it out"
        )
    found: list[tuple[Data, Label, Numbers, float]] = []
    for data, runs in values.items():
        others = [label for label in runs if label != baseline]
        if baseline not in runs or not others:
            continue
        # Always in the same order, so that the last digits do not depend on the runs' order.
        query_ids = sorted(runs[baseline])
        table = _table({baseline: runs[baseline], **runs}, query_ids)
        differences = table[1:] - table[0]
        p_values = _p_values(test, table, differences, seed)
        found += zip([data] * len(others), others, differences, p_values, strict=True)
    adjusted = adjust([p_value for *_, p_value in found], correction)
    compared: dict[Data, dict[Label, Comparison]] = {data: {} for data in values}
    for (data, label, difference, p_value), corrected in zip(found, adjusted, strict=True):
        wins, losses = int((difference > EQUAL).sum()), int((difference < -EQUAL).sum())
        compared[data][label] = Comparison(
            difference=float(difference.mean()) if len(difference) else 0.0,
            p_value=p_value,
            p_adjusted=corrected,
            wins=wins,
            ties=len(difference) - wins - losses,
            losses=losses,
        )
    return compared


def adjust(p_values: Sequence[float], method: str = "holm") -> list[float]:
    """Correct the p-values of one family for their number m, in their order; at most 1.

    Args:
        p_values: 0 to 1.
        method: ``"holm"``: the i-th smallest times m - i + 1, and no smaller than the one
            before it. ``"bonferroni"``: each times m. ``"bh"`` (Benjamini and Hochberg, which
            bounds the false discovery rate): the i-th smallest times m / i, and no larger than
            the one after it. ``"none"``: as they are.

    Raises:
        SettingError: `method` is unknown, or a p-value is not within 0 to 1.
    """
    _check_choice("correction", method, CORRECTIONS)
    for p_value in p_values:
        if not 0 <= p_value <= 1:
            raise SettingError(f"p-value {p_value!r} is out of range; it lies within 0 to 1")
    count = len(p_values)
    if method == "none":
        return [float(p_value) for p_value in p_values]
    if method == "bonferroni":
        return [min(1.0, p_value * count) for p_value in p_values]
    places = sorted(range(count), key=lambda place: p_values[place])
    adjusted = [1.0] * count
    if method == "holm":
        bound = 0.0
        for before, place in enumerate(places):
            bound = max(bound, min(1.0, p_values[place] * (count - before)))
            adjusted[place] = bound
    else:
        bound = 1.0
        for rank in range(count, 0, -1):
            place = places[rank - 1]
            bound = min(bound, p_values[place] * count / rank)
            adjusted[place] = bound
    return adjusted


def confidence_intervals(
    values: Mapping[Label, Mapping[str, float]],
    *,
    level: float = 0.95,
    low: float = -math.inf,
    high: float = math.inf,
) -> dict[Label, Interval]:
    """Student's intervals of the means over queries: mean +- t * sd / sqrt(n), sd with n - 1.

    An interval is the same whichever other runs stand beside it. For the interval of a
    difference, give the differences as a run of their own. Where all values are equal the ends
    are too. One query says nothing of others: its interval goes from `low` to `high`.

    Intervals from resampled queries (bootstrap) are too narrow for few queries: see
    docs/evaluation.md for the coverage of both.

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
    if not 0 < level < 1:
        raise SettingError(
            f"level={level!r} is out of range; give a number above 0 and below 1, e.g. 0.95"
        )
    if not values:
        return {}
    query_ids = sorted(next(iter(values.values())))
    if not query_ids:
        raise SettingError("there are no queries, so there is no mean to have an interval")
    table = _table(values, query_ids)
    count = len(query_ids)
    if count == 1:
        return dict.fromkeys(values, Interval(low, high))
    stdtrit = _import("scipy.special", "a confidence interval", extra="eval").stdtrit
    reach = float(stdtrit(count - 1, (1 + level) / 2)) / math.sqrt(count)
    return {
        label: Interval(max(low, mean - reach * spread), min(high, mean + reach * spread))
        for label, mean, spread in zip(
            values, table.mean(axis=1).tolist(), table.std(axis=1, ddof=1).tolist(), strict=True
        )
    }


def _table(runs: Mapping[Label, Mapping[str, float]], query_ids: Sequence[str]) -> Numbers:
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


def _p_values(test: str, table: Numbers, differences: Numbers, seed: int) -> list[float]:
    """One a row of `differences`; those that no test can tell apart are 1."""
    import numpy as np

    differ = (np.abs(differences) > EQUAL).any(axis=1)
    p_values = np.ones(len(differences))
    if table.shape[1] >= 2 and differ.any():
        computed: Callable[[], Numbers] = {
            "student": lambda: _student(differences[differ]),
            "fisher": lambda: _fisher(table[0], table[1:][differ], seed),
            "tukey": lambda: _tukey(table)[differ],
        }[test]
        p_values[differ] = computed()
    return [float(p_value) for p_value in np.clip(p_values, 0.0, 1.0)]


def _student(differences: Numbers) -> Numbers:
    import numpy as np

    # Not scipy.stats, which takes three times as long to import.
    stdtr = _import("scipy.special", "Student's test", extra="eval").stdtr
    count = differences.shape[1]
    errors = differences.std(axis=1, ddof=1) / math.sqrt(count)
    with np.errstate(divide="ignore"):
        t_values = np.abs(differences.mean(axis=1)) / errors
    p_values: Numbers = 2 * stdtr(count - 1, -t_values)
    return p_values


def _fisher(baseline: Numbers, runs: Numbers, seed: int) -> Numbers:
    import numpy as np

    test = _randomization_test()
    return np.array([test(baseline, run, _SWAPS, 0.05, seed)[0] for run in runs])


@cache
def _randomization_test() -> Any:
    """Control, treatment, permutations, level and seed -> p, and whether it is within level."""
    ranx_tests = _import("ranx.statistical_tests", "the randomization test", extra="ranx")
    numba = _import("numba", "the randomization test", extra="ranx")
    test = ranx_tests.fisher_randomization_test
    # ranx compiles it for several threads and seeds the first of them only, so that p differs
    # from call to call; the same code on one thread gives the same p every time.
    return numba.njit(getattr(test, "py_func", test))  # without: numba's compiler is off


def _tukey(table: Numbers) -> Numbers:
    """For every row but the first, p against the first."""
    import numpy as np

    means = table.mean(axis=1)
    if np.abs(table - means[:, None]).max() <= EQUAL:  # no spread: any difference is beyond chance
        return np.where(np.abs(means[1:] - means[0]) > EQUAL, 0.0, 1.0)
    ranx_tests = _import("ranx.statistical_tests", "Tukey's test", extra="ranx")
    pairs = ranx_tests.tukey_hsd_test(list(range(len(table))), list(table), 0.05)
    found = {pair["treatment"]: pair["p-value"] for pair in pairs if pair["control"] == 0}
    return np.array([found[row] for row in range(1, len(table))])


def _import(module: str, purpose: str, *, extra: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranx's sources have escapes that Python warns of
        try:
            return import_module(module)
        except ImportError as missing:
            raise ExtraMissing(module.partition(".")[0], purpose, extra=extra) from missing


def _check_seed(seed: int) -> None:
    check_whole("seed", seed, 0, HIGHEST_SEED)


def _check_choice(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise SettingError(f"{what}={value!r} is none; give one of {', '.join(known)}")
