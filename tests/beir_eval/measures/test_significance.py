"""Paired tests, corrections and confidence intervals: by hand, and beside ranx's own."""

from __future__ import annotations

import importlib
import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from beir_eval import ExtraMissing, SettingError
from beir_eval.measures.significance import (
    Comparison,
    Interval,
    adjust,
    compare_runs,
    confidence_intervals,
    usual_correction,
)
from tests.support.ranx_support import start_ranx

BASE = {"q1": 1.0, "q2": 2.0, "q3": 4.0}
BETTER = {"q1": 2.0, "q2": 4.0, "q3": 7.0}  # by 1, 2 and 3


def by_query(values: list[float]) -> dict[str, float]:
    return {f"q{place}": value for place, value in enumerate(values)}


def compare_two(run: dict[str, float], baseline: dict[str, float], test: str) -> Comparison:
    return compare_runs({"": {"base": baseline, "run": run}}, "base", test=test)[""]["run"]


def test_student_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, standard deviation 1, t = 2 / (1 / sqrt(3)) = sqrt(12).
    # With 2 degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 - sqrt(12 / 14) = 0.0741799.
    found = compare_two(BETTER, BASE, "student")

    assert found.p_value == pytest.approx(1 - math.sqrt(12 / 14), abs=1e-12)
    assert found == Comparison(2.0, found.p_value, found.p_value, wins=3, ties=0, losses=0)
    # Two-sided: the other way round p is the same.
    assert compare_two(BASE, BETTER, "student").p_value == pytest.approx(found.p_value, abs=1e-15)


def test_student_is_that_of_ranx() -> None:
    start_ranx()
    theirs = importlib.import_module("ranx.statistical_tests").paired_student_t_test
    draws = random.Random(4)
    for count in (2, 3, 30, 300):
        base = [draws.random() for _ in range(count)]
        for shift in (0.0, 0.01, 0.3):
            run = [value + draws.gauss(shift, 0.2) for value in base]
            expected, _ = theirs(np.array(base), np.array(run))

            ours = compare_two(by_query(run), by_query(base), "student").p_value

            assert ours == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_student_does_not_wait_for_ranx_or_scipy_stats() -> None:
    code = (
        "import sys\n"
        "from beir_eval.measures.significance import compare_runs\n"
        "assert 'numpy' not in sys.modules\n"
        "runs = {'b': {'1': 0.0, '2': 0.0}, 'r': {'1': 1.0, '2': 0.5}}\n"
        "compare_runs({'d': runs}, 'b')\n"
        "assert 'scipy.special' in sys.modules\n"
        "assert not {'ranx', 'numba', 'scipy.stats'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("test", ["student", "fisher", "tukey"])
def test_no_difference_is_chance(test: str) -> None:
    # Differences within 1e-9 are none, whatever the last digits say.
    noisy = {query: value + 1e-12 * place for place, (query, value) in enumerate(BASE.items())}

    found = compare_two(noisy, BASE, test)

    assert found == Comparison(found.difference, 1.0, 1.0, wins=0, ties=3, losses=0)
    assert found.difference == pytest.approx(0, abs=1e-11)


def test_the_same_difference_everywhere_is_no_chance() -> None:
    # The standard deviation is 0, so t is infinite.
    found = compare_two({query: value + 0.25 for query, value in BASE.items()}, BASE, "student")

    assert (found.p_value, found.p_adjusted, found.difference) == (0.0, 0.0, 0.25)


@pytest.mark.parametrize("test", ["student", "fisher", "tukey"])
def test_one_query_tells_nothing(test: str) -> None:
    found = compare_two({"q": 1.0}, {"q": 0.0}, test)

    assert found == Comparison(1.0, 1.0, 1.0, wins=1, ties=0, losses=0)


def test_wins_ties_and_losses() -> None:
    # +0.5, equal within 1e-9, -0.25, -0.25: mean 0.
    run = by_query([0.5, 0.5 + 5e-10, 0.25, 0.0])
    base = by_query([0.0, 0.5, 0.5, 0.25])

    found = compare_two(run, base, "student")

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


def test_randomization_by_hand() -> None:
    # Of the 8 ways to sign the differences 1, 2, 3 only two have a sum as far from 0 as 6:
    # p = 2 / 8. Of 10,000 draws the share has a standard deviation of 0.0043.
    start_ranx()

    first = compare_two(BETTER, BASE, "fisher").p_value

    assert first == pytest.approx(0.25, abs=0.02)
    assert compare_two(BETTER, BASE, "fisher").p_value == first
    runs = {"": {"base": BASE, "run": BETTER}}
    seeds = {compare_runs(runs, "base", test="fisher", seed=s)[""]["run"].p_value for s in range(3)}
    assert len(seeds) > 1


def test_randomization_repeats_when_it_is_compiled() -> None:
    # ranx's own compiled function gives another p at each call, whatever its seed.
    pytest.importorskip("ranx")
    code = (
        "from beir_eval.measures.significance import compare_runs\n"
        "base = {str(each): each * 7 % 11 / 11 for each in range(40)}\n"
        "runs = {name: {q: v + (int(q) * step % 13 - 5.5) / 40 for q, v in base.items()}\n"
        "        for name, step in (('x', 3), ('y', 5))}\n"
        "for _ in range(2):\n"
        "    found = compare_runs({'': {'base': base, **runs}}, 'base', test='fisher', seed=7)\n"
        "    print([each.p_value for each in found[''].values()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
    )

    first, second = done.stdout.splitlines()
    assert first == second
    assert "0.0" < first.strip("[]").split(",")[0] < "1.0"


def test_tukey_is_that_of_scipy_over_all_runs() -> None:
    start_ranx()
    scipy_stats = importlib.import_module("scipy.stats")
    draws = random.Random(9)
    runs = {
        name: by_query([draws.gauss(mean, 0.2) for _ in range(20)])
        for name, mean in (("a", 0.4), ("base", 0.5), ("b", 0.7))
    }
    expected = scipy_stats.tukey_hsd(*(list(each.values()) for each in runs.values())).pvalue

    found = compare_runs({"": runs}, "base", test="tukey")[""]

    assert found["a"].p_value == pytest.approx(expected[0, 1], abs=1e-9)
    assert found["b"].p_value == pytest.approx(expected[2, 1], abs=1e-9)
    assert found["b"].p_adjusted == found["b"].p_value
    assert usual_correction("tukey") == "none"


def test_tukey_without_any_spread() -> None:
    flat = {name: by_query([value] * 3) for name, value in (("base", 0.5), ("x", 0.75), ("y", 0.5))}

    found = compare_runs({"": flat}, "base", test="tukey")[""]

    assert [found[name].p_value for name in ("x", "y")] == [0.0, 1.0]


def test_bad_choices() -> None:
    runs = {"d": {"base": BASE, "run": BETTER}}
    with pytest.raises(SettingError, match=r"test='wilcoxon' is none; give one of student, fish"):
        compare_runs(runs, "base", test="wilcoxon")
    with pytest.raises(SettingError, match=r"correction='sidak' is none; give one of holm"):
        compare_runs(runs, "base", correction="sidak")
    with pytest.raises(SettingError, match=r"correction='holm': Tukey's test corrects by itself"):
        compare_runs(runs, "base", test="tukey", correction="holm")
    with pytest.raises(SettingError, match=r"seed=-1 is out of range"):
        compare_runs(runs, "base", seed=-1)


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
        compare_two(run, BASE, "student")
    with pytest.raises(SettingError, match=r"finite|queries of the others"):
        confidence_intervals({"base": BASE, "run": run})


@pytest.mark.parametrize(("test", "complaint"), [("fisher", "randomization"), ("tukey", "Tukey")])
def test_without_ranx(test: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from beir_eval.measures import significance

    monkeypatch.setitem(sys.modules, "ranx.statistical_tests", None)
    significance._randomization_test.cache_clear()

    with pytest.raises(ExtraMissing, match=rf"{complaint}.*'ranx'; run: .*mcranker\[ranx\]"):
        compare_two(BETTER, BASE, test)


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


def test_interval_of_many_queries_is_near_the_normal_interval() -> None:
    # 300 values spread evenly over 0 to 1: standard deviation 1 / sqrt(12), so the interval is
    # 0.5 +- 1.96 / sqrt(12 x 300) = 0.5 +- 0.03267.
    values = {"run": by_query([(place + 0.5) / 300 for place in range(300)])}

    found = confidence_intervals(values)["run"]

    assert found.low == pytest.approx(0.5 - 0.03267, abs=0.0002)
    assert found.high == pytest.approx(0.5 + 0.03267, abs=0.0002)


def test_an_interval_depends_on_nothing_beside() -> None:
    draws = random.Random(2)
    runs = {name: by_query([draws.random() for _ in range(50)]) for name in "abcde"}
    backwards = {
        name: dict(reversed(list(values.items()))) for name, values in reversed(list(runs.items()))
    }

    found = confidence_intervals(runs)

    assert confidence_intervals(backwards) == found
    assert confidence_intervals({"c": runs["c"]}) == {"c": found["c"]}


def test_one_query_says_nothing_of_others() -> None:
    assert confidence_intervals({"run": {"q": 0.5}}, low=0.0, high=1.0) == {
        "run": Interval(0.0, 1.0)
    }


@pytest.mark.parametrize("level", [1.0, math.nan])
def test_levels_that_are_none(level: float) -> None:
    with pytest.raises(SettingError, match=rf"level={level} is out of range"):
        confidence_intervals({"run": BASE}, level=level)


def test_intervals_of_nothing() -> None:
    assert confidence_intervals({}) == {}
    with pytest.raises(SettingError, match="there are no queries"):
        confidence_intervals({"run": {}})
