"""Differences over several collections, and the overlap of rankings: by hand."""

from __future__ import annotations

import math

import pytest

from beir_eval.measures.across import pooled
from beir_eval.measures.overlap import rank_biased_overlap


def two_queries(mean: float, error: float) -> dict[str, float]:
    """Two values with this mean and this standard error: mean +- error."""
    return {"q1": mean - error, "q2": mean + error}


def test_pooled_by_hand() -> None:
    # Means 0.1 and 0.3, both with variance 0.01: Q = (0.1^2 + 0.1^2) / 0.01 = 2, S1 = 200,
    # S2 = 20,000, variance between (2 - 1) / (200 - 100) = 0.01. Weights 1 / 0.02 = 50 each:
    # mean 0.2, q = 50 (0.1^2 + 0.1^2) / 1 = 1, error sqrt(1 / 100) = 0.1, t = 2 on 1 degree of
    # freedom: p = 1 - 2 / pi atan(2). t(1, 0.75) = 1, so half of the intervals are 0.1 wide.
    found = pooled([two_queries(0.1, 0.1), two_queries(0.3, 0.1)], level=0.5)
    assert found is not None
    assert (found.collections, found.better) == (2, 2)
    assert found.difference == pytest.approx(0.2)
    assert found.between == pytest.approx(0.1)
    assert found.p_value == pytest.approx(1 - 2 / math.pi * math.atan(2))
    assert (found.interval.low, found.interval.high) == pytest.approx((0.1, 0.3))


def test_exact_collections_count_more() -> None:
    # Alike, so nothing varies between them: weights 1 / 0.01 and 1 / 0.0001, (100 x 0.2 + 10,000 x
    # 0.1) / 10,100 = 0.100990. Q = 100 x 0.099010^2 + 10,000 x 0.00099^2 = 0.9901, below 1: the
    # error is not made smaller by that, 1 / sqrt(10,100).
    found = pooled([two_queries(0.2, 0.1), two_queries(0.1, 0.01)], level=0.5)
    assert found is not None
    assert found.difference == pytest.approx(0.1009901)
    assert found.between == 0.0
    assert found.interval.high - found.difference == pytest.approx(1 / math.sqrt(10_100))


def test_what_says_nothing_of_its_exactness_is_left_out() -> None:
    assert pooled([two_queries(0.1, 0.1), {"q": 0.5}, {"q1": 0.2, "q2": 0.2}, {}]) is None


def test_overlap_by_the_published_example() -> None:
    # Webber, Moffat and Zobel 2010, Table 1: <a b c d e f g> and <z c a v w x y> share 0, 0, 2, 2,
    # 2, 2, 2 among the first 1 to 7, so that they agree by 0, 0, 2/3, 1/2, 2/5, 1/3, 2/7.
    agreement = [0, 0, 2 / 3, 1 / 2, 2 / 5, 1 / 3, 2 / 7]
    seen = math.fsum(each * 0.9**depth for depth, each in enumerate(agreement, start=1))
    expected = agreement[-1] * 0.9**7 + 0.1 / 0.9 * seen
    assert rank_biased_overlap("abcdefg", "zcavwxy") == pytest.approx(expected)
    assert rank_biased_overlap("zcavwxy", "abcdefg") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("abc", "abc", 1.0),
        ("abc", "xyz", 0.0),
        ("", "", 1.0),
        ("", "a", 0.0),
        # Shared 0 of 1, 2 of 2: 1 x 0.25 + 0.5 / 0.5 (0 + 1 x 0.25).
        ("ab", "ba", 0.5),
        # As far as both go: 1 of 1, 2 of 2.
        ("abcd", "ab", 1.0),
    ],
)
def test_overlap_by_hand(one: str, other: str, expected: float) -> None:
    assert rank_biased_overlap(one, other, 0.5) == pytest.approx(expected)
