"""Paired tests, corrections and confidence intervals: by hand, and beside ranx's and scipy's."""

from __future__ import annotations

import math

import pytest

from beir_eval import SettingError
from beir_eval.measures.significance import (
    Comparison,
    Interval,
    adjust,
    compare_runs,
    confidence_intervals,
)

BASE = {"q1": 1.0, "q2": 2.0, "q3": 4.0}
BETTER = {"q1": 2.0, "q2": 4.0, "q3": 7.0}  # by 1, 2 and 3


def by_query(values: list[float]) -> dict[str, float]:
    return {f"q{place}": value for place, value in enumerate(values)}


def compare_two(run: dict[str, float], baseline: dict[str, float]) -> Comparison:
    return compare_runs({"": {"base": baseline, "run": run}}, "base")[""]["run"]


def test_student_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, standard deviation 1, t = 2 / (1 / sqrt(3)) = sqrt(12).
    # With 2 degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 - sqrt(12 / 14) = 0.0741799.
    found = compare_two(BETTER, BASE)
    assert found.p_value == pytest.approx(1 - math.sqrt(12 / 14), abs=1e-12)
    assert (found.difference, found.p_adjusted) == (2.0, found.p_value)
    assert (found.wins, found.ties, found.losses) == (3, 0, 0)
    # t(2, 0.975) = 4.302653: 2 +- 4.302653 / sqrt(3) = 2 +- 2.484138, or no further than 4.
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.484138, 4.484138))
    near = compare_runs({"": {"base": BASE, "run": BETTER}}, "base", farthest=4.0)[""]["run"]
    assert near.interval.high == 4.0
    # Two-sided: the other way round p is the same.
    assert compare_two(BASE, BETTER).p_value == pytest.approx(found.p_value, abs=1e-15)


def test_no_difference_is_chance() -> None:
    # Differences within 1e-9 are none, whatever the last digits say.
    noisy = {query: value + 1e-12 * place for place, (query, value) in enumerate(BASE.items())}
    found = compare_two(noisy, BASE)
    assert (found.p_value, found.p_adjusted, found.ties) == (1.0, 1.0, 3)
    assert found.difference == pytest.approx(0, abs=1e-11)


def test_the_same_difference_everywhere_is_no_chance() -> None:
    # The standard deviation is 0, so t is infinite.
    found = compare_two({query: value + 0.25 for query, value in BASE.items()}, BASE)
    assert (found.p_value, found.p_adjusted, found.difference) == (0.0, 0.0, 0.25)


def test_one_query_tells_nothing() -> None:
    found = compare_two({"q": 1.0}, {"q": 0.0})
    assert (found.difference, found.p_value, found.p_adjusted) == (1.0, 1.0, 1.0)
    assert (found.effect, found.detectable) == (None, None)
    assert found.interval == Interval(-math.inf, math.inf)


def test_wins_ties_and_losses() -> None:
    # +0.5, equal within 1e-9, -0.25, -0.25: mean 0.
    run = by_query([0.5, 0.5 + 5e-10, 0.25, 0.0])
    base = by_query([0.0, 0.5, 0.5, 0.25])
    found = compare_two(run, base)
    assert (found.wins, found.ties, found.losses) == (1, 1, 2)
    assert found.difference == pytest.approx(0.0, abs=1e-9)


def test_all_data_sets_are_one_family() -> None:
    # Both have p = 0.07418; Holm's smallest of two is doubled, and the other is no smaller.
    values = {
        "one": {"base": BASE, "run": BETTER},
        "two": {"run": BETTER, "base": BASE},
        "no baseline": {"run": BETTER},
    }
    found = compare_runs(values, "base")
    assert list(found) == ["one", "two", "no baseline"]
    assert found["no baseline"] == {}
    for data in ("one", "two"):
        assert found[data]["run"].p_adjusted == pytest.approx(2 * (1 - math.sqrt(12 / 14)))
    plain = compare_runs(values, "base", correction="none")
    assert plain["one"]["run"].p_adjusted == plain["one"]["run"].p_value


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # In order 0.01 x 3 = 0.03; 0.03 x 2 = 0.06; 0.04 x 1 = 0.04, no smaller than 0.06.
        ("holm", [0.03, 0.06, 0.06]),
        ("bonferroni", [0.03, 0.12, 0.09]),
        # From the largest: 0.04 x 3 / 3 = 0.04; 0.03 x 3 / 2 = 0.045, no larger than 0.04; 0.03.
        ("bh", [0.03, 0.04, 0.04]),
        ("none", [0.01, 0.04, 0.03]),
    ],
)
def test_corrections_by_hand(method: str, expected: list[float]) -> None:
    assert adjust([0.01, 0.04, 0.03], method) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["holm", "bonferroni", "bh", "none"])
def test_corrected_p_values_stay_p_values(method: str) -> None:
    assert adjust([], method) == []
    assert adjust([0.9, 1.0, 0.0], method)[1:] == [1.0, 0.0]
    with pytest.raises(SettingError, match=r"p-value nan is out of range"):
        adjust([math.nan], method)


def test_effect_and_detectable_difference_by_hand() -> None:
    # Mean 0.2, sd 0.1: effect 2. With 2 degrees of freedom t(0.975) = 4.302653 and
    # t(0.8) = 0.6 sqrt(2 / (4 x 0.8 x 0.2)) = 1.060660: (4.302653 + 1.060660) x 0.1 / sqrt(3).
    run = {query: value + 0.1 * place for place, (query, value) in enumerate(BASE.items(), 1)}
    found = compare_two(run, BASE)
    assert found.effect == pytest.approx(2.0)
    assert found.detectable == pytest.approx(0.309651, abs=1e-6)


def test_bad_choices() -> None:
    runs = {"d": {"base": BASE, "run": BETTER}}
    with pytest.raises(SettingError, match=r"correction='sidak' is unknown; give one of holm"):
        compare_runs(runs, "base", correction="sidak")
    for level in (1.0, math.nan):
        with pytest.raises(SettingError, match=rf"level={level} is out of range"):
            confidence_intervals(runs["d"], level=level)
    assert confidence_intervals({}) == {}
    with pytest.raises(SettingError, match="there are no queries"):
        confidence_intervals({"run": {}})


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        ({"q1": 1.0, "q2": 1.0}, r"run 'run' does not have the queries of the others, e\.g\. 'q3'"),
        ({**BASE, "q4": 1.0}, r"does not have the queries of the others, e\.g\. 'q4'"),
        ({**BASE, "q2": math.nan}, r"run 'run', query 'q2': the value nan is not a finite number"),
    ],
)
def test_runs_over_other_queries(run: dict[str, float], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        compare_two(run, BASE)
    with pytest.raises(SettingError, match=r"finite|queries of the others"):
        confidence_intervals({"base": BASE, "run": run})


def test_interval_by_hand() -> None:
    # Mean 0.5, sd sqrt(((0.25)^2 x 2 + 0) / 2) = 0.25, t(2, 0.975) = 4.302653:
    # 0.5 +- 4.302653 x 0.25 / sqrt(3) = 0.5 +- 0.621034, or no further than 0 and 1.
    values = {"run": {"q1": 0.25, "q2": 0.5, "q3": 0.75}}
    found = confidence_intervals(values)["run"]
    assert (found.low, found.high) == pytest.approx((-0.121034, 1.121034), abs=1e-6)
    assert confidence_intervals(values, low=0.0, high=1.0) == {"run": Interval(0.0, 1.0)}
    # t(2, 0.75) = 0.816497: +- 0.117851.
    half = confidence_intervals(values, level=0.5)["run"]
    assert (half.low, half.high) == pytest.approx((0.382149, 0.617851), abs=1e-6)
