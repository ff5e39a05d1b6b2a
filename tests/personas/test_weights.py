"""Weights as people and models write them come out as percent that sum to 100."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personas import normalize_weights


@pytest.mark.parametrize(
    ("given_weights", "expected"),
    [
        ([35, 65], (35.0, 65.0)),
        (["35%", "65 %"], (35.0, 65.0)),
        ([0.35, 0.65], (35.0, 65.0)),
        (["0.25", ".75"], (25.0, 75.0)),
        # 3 + 2 + 1 = 6; 3/6, 2/6, 1/6 of 100
        ([3, 2, 1], (50.0, 100 / 3, 100 / 6)),
        # 50 + 30 = 80; 50/80 and 30/80 of 100
        ([50, 30], (62.5, 37.5)),
        (["60%", "60%"], (50.0, 50.0)),
        ([1], (100.0,)),
        ([0, 5], (0.0, 100.0)),
        ([None], (100.0,)),
        ([None, None, ""], (100 / 3,) * 3),
        # 100 - 40 = 60 for two
        ([40, None, " "], (40.0, 30.0, 30.0)),
        # 1 - 0.4 = 0.6 for two
        ([0.4, None, None], (40.0, 30.0, 30.0)),
        (["40%", None], (40.0, 60.0)),
        (["0.5%", None], (0.5, 99.5)),
        ([0, None], (0.0, 100.0)),
        # 1 is one percent, as nothing else says that fractions are meant
        ([1, None], (1.0, 99.0)),
        (["30%", 70], (30.0, 70.0)),
        ([1e-300, 3e-300], (25.0, 75.0)),
        ([5e-324], (100.0,)),
    ],
)
def test_weights_sum_to_100(
    given_weights: list[float | str | None], expected: tuple[float, ...]
) -> None:
    assert normalize_weights(given_weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("given_weights", "message"),
    [
        ([], "there is no criterion to weigh; write at least one"),
        ([30, -1], "weight 2 is -1; a weight is a number from 0 to"),
        ([math.nan], "weight 1 is nan; a weight is a number"),
        ([50, math.inf], "weight 2 is inf; a weight is a number"),
        ([10**400], "a weight is a number from 0 to"),
        ([1e308, 1e308], r"weight 1 is 1e\+308; a weight is a number"),
        (["9" * 400], "a weight is a number from 0 to"),
        (["much"], "weight 1 is 'much'; write a number, as 35, '35%' or 0.35"),
        (["-5"], "weight 1 is '-5'; write a number"),
        (["1,5"], "weight 1 is '1,5'; write a number"),
        ([True], "weight 1 is True; write a number"),
        ([[3]], r"weight 1 is \[3\]; write a number"),
        (["35%", 0.65], "percent signs and fractions are mixed"),
        ([0, 0], "all weights are zero"),
        (["0%"], "all weights are zero"),
        ([60, 40, None], "the weights given sum to 100, which leaves nothing for the 1 without"),
        ([80, 40, None, None], "sum to 120, which leaves nothing for the 2 without"),
        ([0.5, 0.5, None], "sum to 1, which leaves nothing"),
        # 1 - (0.21 + 0.12 + 0.04 + 0.06 + 0.57) is 1.1e-16 in binary, and nothing on paper
        ([0.21, 0.12, 0.04, 0.06, 0.57, None], "leaves nothing for the 1 without"),
    ],
)
def test_impossible_weights_are_refused(given_weights: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        normalize_weights(given_weights)  # type: ignore[arg-type]  # wrong types on purpose


numbers = st.floats(0, 1e12)


@given(st.lists(numbers | st.integers(0, 10**6), min_size=1, max_size=30))
def test_numbers_keep_their_proportions_and_sum_to_100(weights: list[float]) -> None:
    if not any(weights):
        with pytest.raises(ValueError, match="zero"):
            normalize_weights(weights)
        return
    normal = normalize_weights(weights)
    assert math.fsum(normal) == pytest.approx(100, abs=1e-9)
    assert all(weight >= 0 for weight in normal)
    total = math.fsum(weights)
    assert normal == pytest.approx([weight / total * 100 for weight in weights], rel=1e-9)


@given(st.lists(st.floats(allow_nan=True) | st.text() | st.none() | st.integers(), max_size=8))
def test_anything_sums_to_100_or_is_a_value_error(weights: list[float | str | None]) -> None:
    try:
        normal = normalize_weights(weights)
    except ValueError:
        return
    assert len(normal) == len(weights)
    assert math.fsum(normal) == pytest.approx(100, abs=1e-6)
