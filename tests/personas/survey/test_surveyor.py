"""A survey of four queries in which every number is worked out by hand."""

from __future__ import annotations

import math

import pytest

from personas.survey.model import PersonaFigures, QueryFigures, Survey, Without
from tests.support.surveyor_support import Taker, about, hit, inspect, judge, other, rubric

SECOND = 1 / math.log2(3)
"""The discount of rank 2; that of rank 1 is 1, of rank 3 1/2."""

# First query. Scores by NLP scientist, Parent and Editor, and their sums:
#   d1: 5 5 5 = 15,  d2: 9 2 6 = 17,  d3: 1 8 7 = 16,  d4: 4 - 4 = 8 + mean 4 = 12
# so the ranking is d2, d3, d1, d4. Only d3 is relevant, and x, which was not found; the best
# order is both first: 1 + SECOND. Ours has d3 second, the first stage third.
NAMES = ("NLP scientist", "Parent", "Editor")
FIRST = [
    hit(1, 2, dict(zip(NAMES, (9, 2, 6), strict=True)), score=17.0),
    hit(2, 3, dict(zip(NAMES, (1, 8, 7), strict=True)), score=16.0),
    hit(3, 1, dict(zip(NAMES, (5, 5, 5), strict=True)), score=15.0),
    hit(4, 4, dict(zip(NAMES, (4, None, 4), strict=True)), score=12.0),
]
FIRST_BEST = 1 + SECOND
# Second query. Scores by NLP scientist and parent, and their sums:
#   d1: 3 1 = 4,  d2: 6 1 = 7,  d3: 6 10 = 16
# so the ranking is d3, d2, d1. Grades: d2 2, d3 1; best: 2 + SECOND.
SECOND_QUERY = [
    hit(1, 3, {"NLP scientist": 6, "parent": 10}, score=16.0),
    hit(2, 2, {"NLP scientist": 6, "parent": 1}, score=7.0),
    hit(3, 1, {"NLP scientist": 3, "parent": 1}, score=4.0),
]
SECOND_BEST = 2 + SECOND
# Third query: one persona, one score missing, no judgements.
THIRD = [hit(1, 2, {"NLP scientist": 8}, score=8.0), hit(2, 1, {"NLP scientist": None}, score=0.0)]


@pytest.fixture(scope="module")
def survey() -> Survey:
    scientist = judge("NLP scientist")
    editor = judge("Editor", "human", rubric(Clarity=75, Sources=25))
    surveyor = Taker()
    surveyor.take(
        1,
        inspect(
            FIRST,
            [scientist, judge("Parent"), editor],
            query="first",
            grades={"d1": 0, "d3": 1, "x": 1},
            compared=other(x=1, d3=12, d2=15, d1=20),
            usage={"calls": 12, "cost": 0.25},
        ),
    )
    surveyor.take(
        2,
        inspect(
            SECOND_QUERY,
            [scientist, judge("parent", own=rubric(clarity=50, Safety=50))],
            query="second",
            grades={"d2": 2, "d3": 1},
            locked=True,
            usage={"calls": 6, "cost": 0.5, "reused": [REUSED]},
        ),
    )
    surveyor.take(3, inspect(THIRD, [scientist], query="third"))
    surveyor.fail(4, "fourth", judged=True)
    return surveyor.finish()


REUSED = {
    "stage": "recruit",
    "persona": "",
    "model": "scripted",
    "calls": 3,
    "input_tokens": 1,
    "cached_input_tokens": 0,
    "output_tokens": 1,
    "cost": None,
}


def test_a_query_of_three_personas(survey: Survey) -> None:
    assert survey.queries[0] == QueryFigures(
        place=1,
        query_id="id of first",
        query="first",
        personas=NAMES,
        passages=4,
        missing=1,
        calls=12,
        cost=0.25,
        # d1 agrees. d2: mean 17/3, squares (10/3)² + (-11/3)² + (1/3)² = 74/3, over 3: 74/9.
        # d3: mean 16/3, squares (-13/3)² + (8/3)² + (5/3)² = 86/3: 86/9. d4: 4 and 4 agree.
        # Mean of 0, √74/3, √86/3 and 0, as a share of 10.
        disagreement=about((math.sqrt(74) + math.sqrt(86)) / 3 / 4 / 10),
        # m · Σv² - (Σv)², over m - 1: d1 0; d2 (3 · 121 - 17²) / 2 = 37; d3 (3 · 114 - 16²) / 2
        # = 43; d4 2 · 32 - 8² = 0; together 80. All 11 scores: Σv = 56, Σv² = 342:
        # 11 · 342 - 56² = 626. 1 - 10 · 80 / 626
        alpha=about(-87 / 313),
        # Pairs of d1 to d4 in the same and in opposite orders: scientist and Parent, who did
        # not score d4: 0 and 3; scientist and Editor 3 and 3; Parent and Editor 2 and 1.
        tau=about((-1 + 0 + 1 / 3) / 3),
        ndcg=about(SECOND / FIRST_BEST),
        first_stage_ndcg=about(1 / 2 / FIRST_BEST),
        # x first, d3 twelfth
        other_ndcg=about(1 / FIRST_BEST),
    )
    assert survey.queries[0].gain == about((SECOND - 1 / 2) / FIRST_BEST)
    assert survey.queries[0].gain_over_other == about((SECOND - 1) / FIRST_BEST)


def test_a_query_of_two_personas(survey: Survey) -> None:
    assert survey.queries[1] == QueryFigures(
        place=2,
        query_id="id of second",
        query="second",
        personas=("NLP scientist", "parent"),
        passages=3,
        calls=6,
        cost=0.5,
        # Half the differences 2, 5 and 4, over 3 passages, as a share of 10
        disagreement=about(5.5 / 3 / 10),
        # (v - w)²: 4 + 25 + 16 = 45. 6 scores: Σv = 27, Σv² = 183: 6 · 183 - 27² = 369.
        # 1 - 5 · 45 / 369
        alpha=about(16 / 41),
        # d1 and d2 tie for parent, d2 and d3 for the scientist, d1 and d3 are in the same
        # order; each tells 2 pairs apart: 1 / sqrt(2 · 2)
        tau=0.5,
        # d3 with grade 1 first, d2 with grade 2 second; the first stage has d2 second, d3 third
        ndcg=about((1 + 2 * SECOND) / SECOND_BEST),
        first_stage_ndcg=about((2 * SECOND + 1 / 2) / SECOND_BEST),
    )


def test_a_query_without_judgements_and_one_that_failed(survey: Survey) -> None:
    assert survey.queries[2] == QueryFigures(
        place=3,
        query_id="id of third",
        query="third",
        personas=("NLP scientist",),
        passages=2,
        missing=1,
    )
    assert survey.queries[3] == QueryFigures(
        place=4, query_id="fourth", query="fourth", ndcg=0.0, error="why"
    )


def test_totals(survey: Survey) -> None:
    totals = survey.totals
    assert (totals.queries, totals.failed, totals.judged) == (4, 1, 2)
    assert (totals.passages, totals.missing) == (4 + 3 + 2, 2)
    assert (totals.calls, totals.reused, totals.cost) == (18, 3, 0.75)
    # The failed query has judgements and counts 0.
    first, second = SECOND / FIRST_BEST, (1 + 2 * SECOND) / SECOND_BEST
    assert totals.ndcg == about((first + second + 0) / 3)
    first, second = 1 / 2 / FIRST_BEST, (2 * SECOND + 1 / 2) / SECOND_BEST
    assert totals.first_stage_ndcg == about((first + second) / 2)
    assert totals.other_ndcg == about(1 / FIRST_BEST)
    # Within passages 80 + 45. All 17 scores: Σv = 56 + 27, Σv² = 342 + 183:
    # 17 · 525 - 83² = 2036. 1 - 16 · 125 / 2036
    assert totals.alpha == about(36 / 2036)
    assert totals.tau == about((-2 / 9 + 1 / 2) / 2)
    means = ((math.sqrt(74) + math.sqrt(86)) / 120, 5.5 / 30)
    assert totals.disagreement == about(sum(means) / 2)
    assert totals.locked == 1


def test_personas(survey: Survey) -> None:
    # First query. Without the scientist (5 + 5, 2 + 6, 8 + 7, 4 + 4) d3 is first; without
    # Parent (10, 15, 8, 4 + 4) and without Editor (10, 11, 9, 4 + 4) third.
    # Second query. Without the scientist (1, 1, 10) it is d3, d1, d2: d1 was first of the tied.
    # Without parent (3, 6, 6) it is d2, d3, d1, the best order.
    together = (SECOND / FIRST_BEST + (1 + 2 * SECOND) / SECOND_BEST) / 2
    scientist = (1 / FIRST_BEST + (1 + 2 * 1 / 2) / SECOND_BEST) / 2
    parent = (1 / 2 / FIRST_BEST + 1) / 2
    assert survey.personas_in_all == 3
    assert survey.personas == (
        PersonaFigures(
            name="NLP scientist",
            queries=3,
            recruited=0,
            without=Without(2, about(together), about(scientist), exact=True),
        ),
        PersonaFigures(
            name="Parent",  # as often as "parent"; the first in the alphabet
            queries=2,
            recruited=2,
            without=Without(2, about(together), about(parent), exact=True),
        ),
        PersonaFigures(
            name="Editor",
            queries=1,
            recruited=0,
            without=Without(1, about(SECOND / FIRST_BEST), about(0.5 / FIRST_BEST), exact=True),
        ),
    )
    # The recruits are Parent and parent.
    assert survey.recruits == survey.personas[1].without
