"""Kappa, rates and tau of a judge, by hand."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from beir_eval.errors import SettingError
from beir_eval.judging.agreement import agreement, default_mapping, kappa, system_order
from beir_eval.judging.judge import System, judged_pairs, pooled
from beir_eval.measures.values import Interval

# Rows are people's grades (5, 4, 5, 6 pairs), columns the judge's (5, 4, 5, 6).
TABLE = ((3, 1, 1, 0), (1, 2, 1, 0), (1, 1, 2, 1), (0, 0, 1, 5))
# Agree: 3 + 2 + 2 + 5 = 12 of 20. By chance: (25 + 16 + 25 + 36) / 400 = 0.255.
KAPPA = (0.6 - 0.255) / (1 - 0.255)
# Squared disagreements: six of 1 and two of 4 = 14, so 14 / 20 = 0.7. By chance twice the variance
# of 0 to 3 with these shares: mean 32 / 20, mean of squares 78 / 20, 2 (3.9 - 2.56) = 2.68.
WEIGHTED = 1 - 0.7 / 2.68


def graded(queries: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Judgements of people and a judge that make `TABLE` for each query."""
    pairs = [
        (theirs, ours)
        for theirs, row in enumerate(TABLE)
        for ours, count in enumerate(row)
        for _ in range(count)
    ]
    people = {f"d{place}": theirs for place, (theirs, _) in enumerate(pairs)}
    judge = {f"d{place}": ours for place, (_, ours) in enumerate(pairs)}
    names = [f"q{number}" for number in range(queries)]
    return dict.fromkeys(names, people), {key: {**judge, "unjudged": 3} for key in names}


def test_kappa_is_one_less_the_disagreement_over_that_by_chance() -> None:
    table = np.array(TABLE, dtype=np.float64)
    assert float(kappa(table)) == pytest.approx(KAPPA)
    assert float(kappa(table, quadratic=True)) == pytest.approx(WEIGHTED)
    assert np.isnan(kappa(np.array([[7.0, 0.0], [0.0, 0.0]])))  # agreement by chance is certain


def test_agreement_has_each_figure_with_its_interval_over_queries() -> None:
    people, judge = graded(3)
    found = agreement(people, judge)
    assert (found.pairs, found.queries) == (60, 3)
    assert found.confusion == {row: [3 * each for each in TABLE[row]] for row in range(4)}
    assert found.kappa.value == pytest.approx(KAPPA)
    assert found.weighted_kappa.value == pytest.approx(WEIGHTED)
    # Relevant by people from 1, by the judge from 2: 4 and 10 of 20 agree, 5 + 15 and 9 + 11 are
    # the sums, so (0.7 - (45 + 165) / 400) / (1 - 0.525).
    assert found.binary_kappa.value == pytest.approx(0.175 / 0.475)
    assert found.false_positives.value == pytest.approx(1 / 5)
    assert found.recall.value == pytest.approx(10 / 15)
    # All queries are alike, so that resampling changes nothing.
    assert found.recall.interval is not None
    assert found.recall.interval.low == pytest.approx(found.recall.interval.high)


def test_interval_is_of_queries_and_not_of_pairs() -> None:
    # One query all right, one all wrong: of two drawn, a quarter has both right, a quarter none.
    people = {"q1": {"a": 1, "b": 1}, "q2": {"a": 1, "b": 1}}
    judge = {"q1": {"a": 3, "b": 3}, "q2": {"a": 0, "b": 0}}
    found = agreement(people, judge)
    assert (found.recall.value, found.recall.interval) == (0.5, Interval(0.0, 1.0))
    assert found.false_positives.value is None, "people gave no 0"
    assert found.kappa.value is None, "people say no more than yes and no"
    assert found.binary_kappa.value is None, "people only say yes"
    assert agreement({"q1": people["q1"]}, judge).recall.interval is None


def test_other_scales_are_mapped() -> None:
    assert default_mapping([0, 1, 2]) == {0: 0, 1: 2, 2: 3}  # 3 · 1 / 2 = 1.5
    assert default_mapping([4, 3, 2, 1, 0]) == {0: 0, 1: 1, 2: 2, 3: 2, 4: 3}
    assert default_mapping([-2, 0, 1]) == {-2: 0, 0: 0, 1: 3}
    people = {"q": {"a": 0, "b": 1, "c": 2}}
    judge = {"q": {"a": 0, "b": 1, "c": 3}}
    # As 0, 2, 3 against 0, 1, 3: two of three agree; by chance (1 · 1 + 1 · 0 + 1 · 1) / 9.
    assert agreement(people, judge).kappa.value == pytest.approx((2 / 3 - 2 / 9) / (1 - 2 / 9))
    assert agreement(people, judge, mapping={0: 0, 1: 1, 2: 3}).kappa.value == 1
    with pytest.raises(SettingError, match="people's grade 2 has no place"):
        agreement(people, judge, mapping={0: 0, 1: 2})
    with pytest.raises(SettingError, match="no pair"):
        agreement(people, {"other": {"a": 1}})


def test_order_of_systems_is_kendalls_tau_b_of_their_means() -> None:
    ranks = {"A": "ab", "B": "ba", "C": "c", "D": "d"}
    systems = [
        System(name, {"q": [(doc_id, -place) for place, doc_id in enumerate(listed)]})
        for name, listed in ranks.items()
    ]
    people, judge = {"q": {"a": 1}}, {"q": {"b": 2, "a": 0, "c": 0, "d": 0}, "other": {"a": 1}}
    found = system_order(systems, people, judge)
    second = 1 / np.log2(3)
    assert found.means["A"] == pytest.approx((1, second))
    assert found.means["B"] == pytest.approx((second, 1))
    # A and B are the other way round, four pairs agree, C and D tie in both: 3 / sqrt(5 · 5).
    assert found.tau.value == pytest.approx(3 / sqrt(25))
    with pytest.raises(SettingError, match="two systems"):
        system_order(systems[:1], people, judge)


def test_pool_and_sample() -> None:
    one = System("one", {"q": [("a", 3.0), ("b", 2.0), ("c", 1.0)]})
    two = System("two", {"q": [("d", 2.0), ("a", 1.0)], "r": [("a", 1.0)]})
    pool = pooled([one, two], 2)
    assert pool == {"q": ["a", "d", "b"], "r": ["a"]}
    qrels = {f"q{number}": {"x": 0, "y": 0, "z": 0, "w": number % 2} for number in range(50)}
    sample = judged_pairs(qrels, 40, seed=1)
    grades = [qrels[key][doc_id] for key, found in sample.items() for doc_id in found]
    assert (len(grades), sum(grades)) == (40, 5)  # 25 of 200 are 1: 40 / 8
    assert sample == judged_pairs(qrels, 40, seed=1) != judged_pairs(qrels, 40, seed=2)
    assert sum(map(len, judged_pairs(qrels).values())) == 200
