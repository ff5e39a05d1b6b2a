"""Paired tests, corrections and confidence intervals: by hand, and beside ranx's and scipy's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from beir_eval import SettingError
from beir_eval.measures.values import (
    Comparison,
    Interval,
    Values,
    adjust,
    compare_runs,
    confidence_intervals,
)

BASE = dict.fromkeys(["q1", "q2", "q3", "q4", "q5", "q6"], 1.0)
BETTER = {query: 1.0 + place for place, query in enumerate(BASE, 1)}  # by 1, 2, ..., 6


def by_query(values: list[float]) -> dict[str, float]:
    return {f"q{place}": value for place, value in enumerate(values)}


def compare(run: Values, baseline: Values) -> Comparison:
    return compare_runs({"": {"run": run, "": baseline}}, "")[""]["run"]


def compare_two(run: dict[str, float], baseline: dict[str, float]) -> Comparison:
    return compare(Values(run), Values(baseline))


def test_student_by_hand() -> None:
    # Differences 1 to 6: mean 3.5, standard deviation sqrt(3.5), t = 3.5 / sqrt(3.5 / 6) = 4.5826
    # = sqrt(21). With 5 degrees of freedom and x = atan(t / sqrt(5)):
    # p = 1 - 2 / pi (x + sin x (cos x + 2 / 3 cos^3 x)).
    x = math.atan(math.sqrt(21 / 5))
    p = 1 - 2 / math.pi * (x + math.sin(x) * (math.cos(x) + 2 / 3 * math.cos(x) ** 3))
    found = compare_two(BETTER, BASE)
    assert found.p_value == pytest.approx(p, abs=1e-12)
    assert (found.difference, found.p_adjusted) == (3.5, found.p_value)
    assert (found.wins, found.ties, found.losses, found.decision) == (6, 0, 0, "better")
    # t(5, 0.975) = 2.570582: 3.5 +- 2.570582 sqrt(3.5 / 6), or no further than the scale reaches.
    reach = 2.570582 * math.sqrt(3.5 / 6)
    assert (found.interval.low, found.interval.high) == pytest.approx((3.5 - reach, 3.5 + reach))
    near = compare(Values(BETTER, scale=(1.0, 5.0)), Values(BASE))
    assert near.interval.high == 4.0
    other = compare_two(BASE, BETTER)
    assert other.p_value == pytest.approx(found.p_value, abs=1e-15)
    assert (other.difference, other.decision) == (-3.5, "worse")


@pytest.mark.parametrize(
    ("run", "base"),
    [
        # Fewer than six queries, whatever they are.
        (dict(list(BETTER.items())[:5]), BASE),
        ({"q1": 1.0, "q2": 0.9}, {"q1": 0.0, "q2": 0.0}),
        # No spread: equal but for the last digits, or the same difference everywhere.
        ({query: 1.0 + 1e-12 * place for place, query in enumerate(BASE)}, BASE),
        (dict.fromkeys(BASE, 1.25), BASE),
    ],
)
def test_without_six_queries_or_spread_nothing_is_tested(
    run: dict[str, float], base: dict[str, float]
) -> None:
    found = compare_two(run, base)
    assert (found.p_value, found.p_adjusted, found.decision) == (None, None, "")


def test_one_query_tells_nothing() -> None:
    found = compare_two({"q": 1.0}, {"q": 0.0})
    assert (found.difference, found.effect, found.detectable) == (1.0, None, None)
    assert found.interval == Interval(-math.inf, math.inf)


def test_only_common_queries_count_and_the_sign_is_theirs() -> None:
    """A has the higher mean, over easy queries that B has no value for, and is worse elsewhere."""
    common = {f"q{n}": 0.3 + 0.01 * n for n in range(10)}
    a = Values({**common, **{f"easy{n}": 1.0 for n in range(20)}})
    b = Values({query: 0.6 - 0.005 * place for place, query in enumerate(common)})
    assert a.mean is not None
    assert b.mean is not None
    assert a.mean > b.mean
    found = compare(a, b)
    assert (found.queries, found.left_out, found.decision) == (10, 20, "worse")
    with pytest.raises(SettingError, match="no query in common"):
        compare(a, Values({"other": 1.0}))


def test_what_is_missing_counts_by_what_it_could_change() -> None:
    """0.6 against 0.4, but for two queries whose missing scores may hide anything, or nothing."""
    wave = {f"q{n}": 0.01 * (-1) ** n for n in range(20)}
    base = Values(dict.fromkeys(wave, 0.4), scale=(0.0, 1.0))
    run = Values({query: 0.6 + each for query, each in wave.items()}, scale=(0.0, 1.0))
    assert compare(run, base).decision == "better"
    lost = replace(run, missing=2, asked=2000, open={f"q{n}": (0.0, 1.0) for n in range(2)})
    found = compare(lost, base)
    # Two of 20 queries at 0 instead of 0.61 and 0.59, or at 1: 0.2 - 1.2 / 20, 0.2 + 0.8 / 20.
    assert (found.difference, found.worst, found.best) == pytest.approx((0.2, 0.14, 0.24))
    assert found.decision == "better"
    assert [*lost.ends] == pytest.approx([0.54, 0.64])
    (flaw,) = lost.flaws()
    assert flaw.kind == "missing"
    assert "between 0.540 and 0.640" in flaw.said
    more = replace(run, open={f"q{n}": (0.0, 1.0) for n in range(10)})
    assert compare(more, base).decision == ""
    assert compare(base, more).decision == ""
    # Better as it is, and worse in the worst case.
    either = {f"q{n}": (0.01 * (n % 2), 1 - 0.01 * (n % 2)) for n in range(20)}
    assert compare(replace(run, open=either), base).decision == ""
    harmless = replace(run, missing=400, asked=2000, open={"q0": (0.61, 0.61)})
    assert compare(harmless, base).decision == "better"
    assert not harmless.is_open


def test_values_go_by_lot_and_say_their_flaws() -> None:
    found = Values(
        {"a": 1.0, "b": 0.5, "c": 0.0},
        lots={"a": 0.4},
        failed={"c": "no reply"},
        open={"c": (0.0, 1.0)},
        undefined=2,
        judge="openai:m",
        own=True,
        cut=1,
        scale=(0.0, 1.0),
    )
    assert [found.mean, found.by_lot] == pytest.approx([0.5, 0.3])
    assert [*found.ends] == pytest.approx([0.3, 1.9 / 3])
    assert [each.kind for each in found.flaws()] == [
        "failed",
        "undefined",
        "own model",
        "cut",
        "few",
    ]
    assert Values({}).mean is None


def test_depths_and_judges_that_differ_are_said() -> None:
    found = compare(Values(BETTER, depth=20), Values(BASE, depth=8, judge="openai:m"))
    assert len(found.notes) == 2
    assert "20 passages against 8" in found.notes[0]
    assert "openai:m" in found.notes[1]


def test_wins_ties_and_losses() -> None:
    # +0.5, equal within 1e-9, -0.25, -0.25: mean 0.
    run = by_query([0.5, 0.5 + 5e-10, 0.25, 0.0])
    base = by_query([0.0, 0.5, 0.5, 0.25])
    found = compare_two(run, base)
    assert (found.wins, found.ties, found.losses) == (1, 1, 2)
    assert found.difference == pytest.approx(0.0, abs=1e-9)


def test_all_data_sets_are_one_family() -> None:
    # Holm's smallest of three is trebled, and the other is no smaller; what is not tested counts.
    values = {
        "one": {"base": BASE, "run": BETTER},
        "two": {"run": BETTER, "base": BASE},
        "few": {"run": {"q1": 2.0}, "base": BASE},
        "no baseline": {"run": BETTER},
    }
    found = compare_runs(values, "base")
    assert list(found) == ["one", "two", "few", "no baseline"]
    assert found["no baseline"] == {}
    for data in ("one", "two"):
        each = found[data]["run"]
        assert each.p_value is not None
        assert each.p_adjusted == pytest.approx(3 * each.p_value)


def test_holm_by_hand() -> None:
    # In order 0.01 x 3 = 0.03; 0.03 x 2 = 0.06; 0.04 x 1 = 0.04, no smaller than 0.06.
    assert adjust([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust([]) == []
    assert adjust([0.9, 1.0, 0.0])[1:] == [1.0, 0.0]


def test_effect_and_detectable_difference_by_hand() -> None:
    # Mean 0.2, sd 0.1: effect 2. With 2 degrees of freedom t(0.975) = 4.302653 and
    # t(0.8) = 0.6 sqrt(2 / (4 x 0.8 x 0.2)) = 1.060660: (4.302653 + 1.060660) x 0.1 / sqrt(3).
    run = {f"q{place}": 1.0 + 0.1 * place for place in (1, 2, 3)}
    found = compare_two(run, BASE)
    assert found.effect == pytest.approx(2.0)
    assert found.detectable == pytest.approx(0.309651, abs=1e-6)


def test_only_some_queries() -> None:
    values = Values(BETTER, lots={"q1": 0.5}, open={"q2": (0.0, 9.0)}, failed={"q3": "no"}, total=9)
    found = values.only(["q1", "q3", "other"])
    assert (found.of, found.mean) == ({"q1": 2.0, "q3": 4.0}, 3.0)
    assert (found.lots, found.open, found.failed) == ({"q1": 0.5}, {}, {"q3": "no"})
    assert values.only([*BETTER]) is values
    with pytest.raises(SettingError, match="there are no queries"):
        confidence_intervals({"run": {}})


def test_a_value_that_is_no_finite_number_is_refused() -> None:
    said = r"run 'run', query 'q2': the value nan is not a finite number"
    run = {**BASE, "q2": math.nan}
    with pytest.raises(SettingError, match=said):
        compare_runs({"": {"base": BASE, "run": run}}, "base")
    with pytest.raises(SettingError, match=said):
        confidence_intervals({"run": run})


def test_interval_by_hand() -> None:
    # Mean 0.5, sd sqrt(((0.25)^2 x 2 + 0) / 2) = 0.25, t(2, 0.975) = 4.302653:
    # 0.5 +- 4.302653 x 0.25 / sqrt(3) = 0.5 +- 0.621034, or no further than 0 and 1.
    values = {"run": {"q1": 0.25, "q2": 0.5, "q3": 0.75}}
    found = confidence_intervals(values)["run"]
    assert (found.low, found.high) == pytest.approx((-0.121034, 1.121034), abs=1e-6)
    assert confidence_intervals(values, low=0.0, high=1.0) == {"run": Interval(0.0, 1.0)}
