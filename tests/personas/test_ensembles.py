"""Eq. 4 by hand: from a score matrix to one score a passage, and to an order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from personas.ensembles import (
    ENSEMBLES,
    HIGHEST_SCORE,
    Ensemble,
    Rule,
    descending,
    distinct,
    fill_missing,
    highest_score,
    interpolate,
    reciprocal_rank,
    score_sum,
)
from personas.errors import PersonasError

NAN = math.nan

# Five passages (rows) and three personas (columns).
SCORES = np.array(
    [[7.0, 3.0, 5.0], [9.0, 3.0, 0.0], [7.0, 10.0, 5.0], [0.0, 1.0, 5.0], [9.0, 0.0, 8.0]]
)
GAPS = np.array([[7.0, NAN, 5.0], [NAN, NAN, NAN], [1.0, 2.0, NAN]])


@pytest.mark.parametrize(
    ("found", "expected", "order"),
    [
        # 7+3+5, 9+3+0, 7+10+5, 0+1+5, 9+0+8
        (score_sum(SCORES), [15, 12, 22, 6, 17], [2, 4, 0, 1, 3]),
        # Ranks of 7 9 7 0 9, ties at their mean: 3.5 1.5 3.5 5 1.5
        # of 3 3 10 1 0: 2.5 2.5 1 4 5; of 5 0 5 5 8: 3 5 3 3 1
        (
            reciprocal_rank(SCORES),
            [
                1 / 3.5 + 1 / 2.5 + 1 / 3,
                1 / 1.5 + 1 / 2.5 + 1 / 5,
                1 / 3.5 + 1 / 1 + 1 / 3,
                1 / 5 + 1 / 4 + 1 / 3,
                1 / 1.5 + 1 / 5 + 1 / 1,
            ],
            [4, 2, 1, 0, 3],
        ),
        (score_sum(np.empty((0, 3))), [], []),
        (reciprocal_rank(np.empty((0, 3))), [], []),
        # 15 12 6 scaled: 1, (12-6)/9 = 2/3, 0; 2 8 5 scaled: 0, 1, (5-2)/6 = 1/2
        # 0.75 and 0.25 of them: 0.75, 0.5 + 0.25, 0.125
        (
            interpolate(np.array([15.0, 12, 6]), np.array([2.0, 8, 5]), 0.25),
            [0.75, 0.75, 0.125],
            [0, 1, 2],
        ),
        (interpolate(np.array([1.0, 2.0]), np.array([4.0, 3.0]), 0.0), [0, 1], [1, 0]),
        (interpolate(np.array([1.0, 2.0]), np.array([4.0, 3.0]), 1.0), [1, 0], [0, 1]),
        (interpolate(np.array([3.0]), np.array([1.0]), 0.5), [0], [0]),
        (interpolate(np.array([]), np.array([]), 0.5), [], []),
    ],
)
def test_scores_and_their_order(found: np.ndarray, expected: list[float], order: list[int]) -> None:
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    assert descending(found).tolist() == order


RANKS = np.array([[1, 3, 7], [2, 2, 2], [3, 7, 1], [4, 4, 4], [5, 5, 5], [6, 6, 6], [7, 1, 3]])


@pytest.mark.parametrize(
    ("totals", "tied"),
    [
        # In binary, 0.1 + 0.2 + 0.3 differs from 0.3 + 0.2 + 0.1 unless rounded once.
        (score_sum(np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1]])), [0, 1, 2]),
        # Weighted means of criteria: 20/3 three times, and 20 by three others.
        (score_sum(np.array([[20 / 3] * 3, [6.0, 7.0, 7.0], [7.3, 6.1, 6.6]])), [0, 1, 2]),
        # So do 1, 1/3 and 1/7, and means that stand in.
        (reciprocal_rank(-RANKS.astype(np.float64)), [0, 2, 6]),
        (score_sum(fill_missing(np.array([[0.1, 0.2, 0.3, NAN], [0.3, 0.2, 0.1, NAN]]))), [0, 1]),
    ],
)
def test_float_noise_breaks_no_tie(totals: np.ndarray, tied: list[int]) -> None:
    assert len(set(totals[tied].tolist())) == 1


@pytest.mark.parametrize(
    ("policy", "filled"),
    [
        # (7 + 5) / 2 = 6; nothing to take a mean of; (1 + 2) / 2 = 1.5
        ("mean_of_team", [[7, 6, 5], [0, 0, 0], [1, 2, 1.5]]),
        ("lowest", [[7, 0, 5], [0, 0, 0], [1, 2, 0]]),
        ("constant", [[7, 5, 5], [5, 5, 5], [1, 2, 5]]),
    ],
)
def test_missing_scores(policy: str, filled: list[list[float]]) -> None:
    given_gaps = GAPS.copy()
    assert fill_missing(given_gaps, policy, constant=5.0).tolist() == filled  # type: ignore[arg-type]  # plain strings
    assert np.array_equal(given_gaps, GAPS, equal_nan=True)
    assert fill_missing(np.empty((0, 3))).shape == (0, 3)
    assert fill_missing(GAPS, "constant").tolist() == fill_missing(GAPS, "lowest").tolist()


def test_the_first_stage_counts_only_where_it_has_scored_every_passage() -> None:
    rule = Rule.of({"first_stage_weight": 0.5, "scale": 10})
    values, rows = np.array([[4.0], [8.0]]), np.arange(2)
    assert rule.final(values, rows, [1.0, 0.0]).tolist() == [0.5, 0.5]
    assert rule.final(values, rows, [1.0, None]).tolist() == [4.0, 8.0]


def final(
    scores: Sequence[Sequence[float]],
    config: dict[str, Any],
    *,
    first_stage: list[float | None] | None = None,
    contents: str = "",
) -> list[int]:
    """Places, best first, of these passages; `contents` says which of them are equal."""
    rows, group_of = distinct(contents or range(len(scores)))
    values = np.array(scores)[rows]
    known = first_stage or [None] * len(scores)
    return [int(place) for place in descending(Rule.of(config).final(values, group_of, known))]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # a: 6 and missing, b: 5 and 4, c: 0 and 9. Means: a 12, b 9, c 9 -> a b c
        ({"missing_policy": "mean_of_team"}, [0, 1, 2]),
        # lowest: a 6, b 9, c 9 -> b c a
        ({"missing_policy": "lowest"}, [1, 2, 0]),
        # with "fail" nothing is missing, but for what somebody has changed
        ({"missing_policy": "fail"}, [1, 2, 0]),
        # constant 3: a 9, b 9, c 9 -> all equal, first-stage order
        ({"missing_policy": "constant", "missing_constant": 3.0}, [0, 1, 2]),
        # first stage 0, 0, 1 at weight 0.5 with means 12, 9, 9 scaled to 1, 0, 0:
        #   a 0.5, b 0, c 0.5 -> a c b
        ({"missing_policy": "mean_of_team", "first_stage_weight": 0.5}, [0, 2, 1]),
        # reciprocal rank, missing 0: first judge a b c, second c b a:
        #   a 1 + 1/3, b 1/2 + 1/2, c 1/3 + 1 -> a c b
        ({"missing_policy": "lowest", "ensemble": "reciprocal_rank"}, [0, 2, 1]),
        # the sum stands in for an assessor, and for what is not known here
        ({"missing_policy": "lowest", "ensemble": "assessor"}, [1, 2, 0]),
        ({"missing_policy": "lowest", "ensemble": "of somebody else"}, [1, 2, 0]),
        # what a hostile file may say
        ({"missing": [7], "ensemble": None, "first_stage_weight": "0.5"}, [0, 1, 2]),
        ({"missing_constant": 10**400, "missing_policy": "constant", "scale": -1}, [1, 2, 0]),
        ({"first_stage_weight": math.inf, "top_score": math.nan}, [0, 1, 2]),
    ],
)
def test_a_rule_is_that_of_a_configuration(config: dict[str, Any], expected: list[int]) -> None:
    scores: list[list[float]] = [[6, NAN], [5, 4], [0, 9]]
    assert final(scores, config, first_stage=[0.0, 0.0, 1.0]) == expected


def test_equal_passages_take_one_place_among_reciprocal_ranks() -> None:
    # a twice, then b and c. By the first judge a a b c, by the second b c a a, by the third
    # c b a a. Counted as one, a has 1 + 1/3 + 1/3 = 1.667, b 1/2 + 1 + 1/2 = 2, c 1/3 + 1/2
    # + 1 = 1.833: b c a a. Counted twice, the second a would have 1/2 + 1/4 + 1/4 = 1.
    scores: list[list[float]] = [[9, 1, 1], [9, 1, 1], [8, 9, 8], [7, 8, 9]]
    config = {"ensemble": "reciprocal_rank"}
    assert final(scores, config, contents="aabc") == [2, 3, 0, 1]


@pytest.mark.parametrize(
    ("config", "top"),
    [
        ({"scale": 10, "labels": []}, 10.0),
        ({"scale": 10, "labels": ["no", "in part", "yes"]}, 2.0),
        ({"scale": 10, "labels": ("no", "yes")}, 1.0),
        ({"top_score": 4.5, "scale": 10}, 4.5),
        ({"labels": "no"}, None),
        ({"scale": True}, None),
        ({"scale": 10**400}, None),
        ({}, None),
    ],
)
def test_the_highest_score_of_a_configuration(config: dict[str, Any], top: float | None) -> None:
    assert highest_score(config) == top


@pytest.mark.parametrize(
    "combined", [np.zeros(2), np.zeros((3, 1)), np.array([1, NAN, 2]), np.array([1, math.inf, 2])]
)
def test_an_ensemble_must_give_a_finite_score_a_passage(combined: np.ndarray) -> None:
    rule = Rule(Ensemble("odd", lambda _: combined, "Odd."))
    with pytest.raises(PersonasError, match="the ensemble 'odd' gave an array of shape"):
        rule.final(np.ones((3, 2)), np.arange(3), [None] * 3)
    # It is not asked about nothing.
    assert rule.final(np.ones((0, 2)), np.arange(0), []).tolist() == []
    assert np.isnan(rule.final(np.ones((2, 0)), np.arange(2), [None] * 2)).all()


def test_relevance_is_a_share_of_the_highest_score() -> None:
    # (6 + 9) / 2 of 10; none; (2 + 4) / 2 of 10. The assessor gave 4 of 5 to the first alone.
    values = np.array([[6.0, 9.0], [NAN, NAN], [2.0, 4.0]])
    assert Rule.of({"scale": 10}).relevance(values).tolist() == pytest.approx(
        [0.75, NAN, 0.3], nan_ok=True
    )
    rule = Rule.of({"top_score": 10, "scale": 5})
    assessed = np.array([4.0, NAN, NAN])
    assert rule.relevance(values, assessed).tolist() == pytest.approx([0.8, NAN, 0.3], nan_ok=True)
    lowest = Rule.of({"top_score": 10, "scale": 5, "missing_policy": "lowest"})
    assert lowest.relevance(values, assessed).tolist() == pytest.approx([0.8, NAN, 0], nan_ok=True)
    half = Rule.of(
        {"top_score": 10, "scale": 5, "missing_policy": "constant", "missing_constant": 2.5}
    )
    assert half.relevance(values, assessed).tolist() == [0.8, 0.5, 0.5]
    assert np.isnan(Rule.of({}).relevance(values)).all()


def test_a_first_stage_weight_above_1_is_1_and_scores_fit_single_precision() -> None:
    assert Rule.of({"first_stage_weight": 7}).first_stage_weight == 1
    assert np.float64(HIGHEST_SCORE) == np.finfo(np.float32).max


def test_weights_by_hand() -> None:
    # 3 and 1 with the mean 1: 1.5 and 0.5. 1.5 * 7 + 0.5 * 3 = 12; 1.5 * 9 + 0.5 * 0 = 13.5.
    rule = Rule(ENSEMBLES.get("sum"), top=10.0).weighted([3, 1])
    assert rule.weights == (1.5, 0.5)
    values = np.array([[7.0, 3.0], [9.0, 0.0], [10.0, 10.0]])
    rows = np.arange(3)
    assert rule.final(values, rows, [None] * 3).tolist() == [12, 13.5, 20]
    # Of 2 * 10: 0.6, 0.675, 1.
    assert rule.relevance(values).tolist() == pytest.approx([0.6, 0.675, 1.0], abs=1e-15)
    # A missing score is the mean of the others by weight, here of 9 by 2 and 3 by 1: 21 / 3 = 7.
    three = Rule(ENSEMBLES.get("sum"), top=10.0).weighted([2, 1, 3])
    assert three.filled(np.array([[9.0, 3.0, NAN]])).tolist() == [[9, 3, 7]]
    assert three.final(np.array([[9.0, 3.0, NAN]]), np.arange(1), [None]).tolist() == [3 * 7]


def test_weights_are_for_sums() -> None:
    rule = Rule(ENSEMBLES.get("rrf"), top=10.0).weighted([3, 1])
    with pytest.raises(PersonasError, match='ensemble="sum", or give all members'):
        rule.final(np.ones((2, 2)), np.arange(2), [None, None])
