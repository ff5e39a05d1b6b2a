"""Scores by criterion: equal on paper is equal here."""

from __future__ import annotations

from mcranker.replies.scoring import weighted_mean


def test_means_that_are_equal_on_paper_are_equal() -> None:
    # 33.3 x 7 + 33.3 x 3 + 33.4 x 5 = 500 = 33.3 x 5 + 33.3 x 5 + 33.4 x 5, as decimals.
    weights = [33.3, 33.3, 33.4]
    assert weighted_mean([7, 3, 5], weights) == weighted_mean([5, 5, 5], weights) == 5.0
    # 10.1 + 20.2 = 30.3: first and second criterion together weigh as much as the third.
    weights = [10.1, 20.2, 30.3, 39.4]
    assert weighted_mean([4, 4, 0, 1], weights) == weighted_mean([0, 0, 4, 1], weights)


def test_a_mean_stays_within_the_scores() -> None:
    for weights in ([33.3, 33.3, 33.4], [100 / 3] * 3, [100 / 7] * 7):
        assert weighted_mean([7] * len(weights), weights) == 7
