"""Intervals and tests of what a team has over other orders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from beir_eval.persona_report.differences import differences
from tests.support.survey_support import make_survey


def test_gains_over_both_orders_are_tested_query_by_query() -> None:
    made = make_survey(3, failed_every=0)
    values = ((0.5, 0.4, 0.5), (0.7, 0.4, 0.5), (0.6, 0.4, None))
    queries = tuple(
        replace(query, ndcg=ours, first_stage_ndcg=first, other_ndcg=other)
        for query, (ours, first, other) in zip(made.queries, values, strict=True)
    )
    over_first, over_other = differences(replace(made, queries=queries))
    assert (over_first.against, over_first.queries) == (made.first_stage, 3)
    # Gains 0.1, 0.3, 0.2: mean 0.2, sd 0.1; t(2) of 97.5% is 4.302653, over sqrt(3) 2.484138.
    assert over_first.mean == pytest.approx(0.2)
    assert over_first.low == pytest.approx(0.2 - 0.2484138)
    assert over_first.high == pytest.approx(0.2 + 0.2484138)
    assert over_first.sign == 0
    # t = 0.2 / (0.1 / sqrt(3)) = 3.464102 on 2 degrees: p = 1 - t / sqrt(2 + t²) = 0.074180.
    assert over_first.p_value == pytest.approx(2 * 0.0741799, abs=1e-6)  # Holm: the smaller of two
    assert (over_other.against, over_other.queries) == (made.other, 2)


def test_without_judgements_there_is_nothing_to_test() -> None:
    assert differences(make_survey(3, judged=False)) == ()
