"""A survey of a few queries in which every number is worked out by hand, and its bounds."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from personas import Criterion, Member, Persona, Rubric, Team, library
from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord
from personas.schema import Origin
from personas.survey import PersonaFigures, QueryFigures, QueryFindings, Survey, Without, survey_of


def about(number: float) -> Any:
    """Equal to every float within a millionth of it; stands where a float does."""
    return pytest.approx(number)


def rubric(**weights: float) -> Rubric:
    """Criteria by name; weights in percent."""
    return Rubric(
        criteria=tuple(Criterion(name=name, weight=weight) for name, weight in weights.items())
    )


def judge(name: str, origin: Origin = "recruited", own: Rubric | None = None) -> Member:
    """A member; the name ``NLP scientist`` stands for the fixed one of the library."""
    if name == "NLP scientist":
        return library.nlp_scientist().model_copy(update={"rubric": own})
    return Member(persona=Persona(name=name), rubric=own, origin=origin)


def hit(
    rank: int,
    first: int,
    scores: Mapping[str, float | None],
    *,
    score: float | None = 0.0,
    first_stage_score: float | None = None,
) -> dict[str, Any]:
    """A stored passage ``d{first}``; what is not there is missing."""
    return {
        "rank": rank,
        "doc_id": f"d{first}",
        "score": score,
        "scores": dict(scores),
        "missing": {
            name: "no number in the answer"
            for name, each in scores.items()
            if each is None and score is not None
        },
        "criteria": {},
        "first_stage_rank": first,
        "first_stage_score": first_stage_score,
        "title": f"Title {first}",
        "text": f"Text {first}.",
    }


def inspect(
    hits: Sequence[Mapping[str, Any]],
    members: Sequence[Member] = (),
    *,
    query: str = "best masks",
    grades: Mapping[str, int] | None = None,
    compared: OtherRanking | None = None,
    locked: bool = False,
    recruited_for: str | None = None,
    usage: Mapping[str, Any] | None = None,
    **config: Any,
) -> RankingRecord:
    """The inspection of these hits, judged by these members or, without, by no team.

    The team was recruited for this query unless `recruited_for` names another.
    """
    team_query = query if recruited_for is None else recruited_for
    counts = {"calls": 0, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    took = {**counts, "cost": 0.0, **(usage or {})}
    data = {
        "version": 1,
        "query": {"text": query, "id": f"id of {query}"},
        "ranker": "mcranker",
        "team": Team(members=tuple(members), locked=locked, query=team_query) if members else None,
        "personas": list(hits[0]["scores"]) if hits else [],
        "hits": hits,
        "config": {"scale": 10, "ensemble": "sum", "missing_policy": "mean_of_team", **config},
        "models": {},
        "prompt_hashes": {},
        "usage": {**took, "by_stage": [{"stage": "score", "persona": "", "model": "m", **took}]},
        "seconds": {"total": 0.0},
        "absolute": True,
    }
    return RankingRecord.of(data).beside(grades=grades, other=compared)


def other(**places: int) -> OtherRanking:
    """Another ranking: document id -> rank; its scores are 100 less the rank."""
    return OtherRanking(
        "DIRECT(0,10)",
        10.0,
        {doc_id: OtherPlace(rank, 100.0 - rank) for doc_id, rank in places.items()},
    )


class Taker:
    """The survey of stored rankings, in the making."""

    def __init__(self) -> None:
        self.found: list[QueryFindings] = []

    def take(self, place: int, ranking: RankingRecord) -> None:
        self.found.append(QueryFindings.of(place, ranking))

    def fail(self, place: int, query: str, *, judged: bool) -> None:
        ndcg = 0.0 if judged else None
        figures = QueryFigures(place=place, query_id=query, query=query, ndcg=ndcg, error="why")
        self.found.append(QueryFindings(figures))

    def finish(self) -> Survey:
        return survey_of(self.found)


def surveyed(*rankings: RankingRecord) -> Survey:
    """The survey of these queries, in this order."""
    return survey_of(QueryFindings.of(place, each) for place, each in enumerate(rankings, start=1))


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
    # Parent (10, 15, 8, 4 + 4) third or fourth by lot; without Editor (10, 11, 9, 4 + 4) third.
    # Second query. Without the scientist (1, 1, 10) it is d3, and d2 is second or third by lot.
    # Without parent (3, 6, 6) d2 and d3 are first by lot, with a mean grade of 1.5.
    together = (SECOND / FIRST_BEST + (1 + 2 * SECOND) / SECOND_BEST) / 2
    scientist = (1 / FIRST_BEST + (1 + 2 * (SECOND + 1 / 2) / 2) / SECOND_BEST) / 2
    third_or_fourth = (1 / 2 + 1 / math.log2(5)) / 2
    parent = (third_or_fourth / FIRST_BEST + 1.5 * (1 + SECOND) / SECOND_BEST) / 2
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


def sent(findings: list[QueryFindings | int]) -> Survey:
    """The findings of ranked queries, sent from another process; places of those that failed."""
    surveyor = Taker()
    for each in findings:
        if isinstance(each, int):
            surveyor.fail(each, f"q{each}", judged=each % 20 == 0)
        else:
            surveyor.found.append(pickle.loads(pickle.dumps(each)))
    return surveyor.finish()


def test_failed_queries_count_zero() -> None:
    surveyor = Taker()
    surveyor.fail(1, "q", judged=True)
    surveyor.fail(2, "r", judged=False)
    survey = surveyor.finish()
    assert (survey.totals.ndcg, survey.totals.judged, survey.totals.failed) == (0.0, 0, 2)
    assert survey.queries[1].ndcg is None
    behind = replace(survey.queries[0], first_stage_ndcg=0.5, other_ndcg=0.25)
    assert (behind.gain, behind.gain_over_other) == (-0.5, -0.25)
    assert (survey.queries[0].gain, survey.queries[0].gain_over_other) == (None, None)


def test_a_survey_of_nothing() -> None:
    survey = Taker().finish()
    assert survey.totals.queries == 0
    assert survey.totals.ndcg is survey.totals.alpha is None
    assert survey.totals.cost == 0.0
    assert {survey.queries, survey.personas} == {()}


def test_a_price_that_is_not_known_is_no_price_of_zero() -> None:
    surveyor = Taker()
    surveyor.take(1, inspect([], usage={"cost": 0.5}))
    surveyor.take(2, inspect([], usage={"cost": None}))
    assert surveyor.finish().totals.cost is None


def test_a_ranker_without_a_team_has_no_personas() -> None:
    hits = [
        hit(1, 2, {"DIRECT": 9, "again": 7}, score=9.0),
        hit(2, 1, {"DIRECT": 4, "again": 6}, score=4.0),
    ]
    surveyor = Taker()
    surveyor.take(1, inspect(hits, grades={"d2": 1}))
    survey = surveyor.finish()
    row = survey.queries[0]
    assert {row.personas, survey.personas} == {()}
    assert row.disagreement is row.alpha is row.tau is survey.totals.alpha is None
    assert row.ndcg == 1.0


def by_name(survey: Survey) -> dict[str, PersonaFigures]:
    return {persona.name: persona for persona in survey.personas}


def test_ties_that_leaving_out_makes_are_no_worth() -> None:
    # Ann tells d1 and d2 apart, and wrongly; Ben tells nothing apart. Without Ann both are tied:
    # by lot d1, which is relevant, is first in half of the draws, wherever the first stage had it.
    hits = [hit(1, 2, {"Ann": 9, "Ben": 5}), hit(2, 1, {"Ann": 1, "Ben": 5})]
    for relevant, with_all in (("d1", SECOND), ("d2", 1.0)):
        found = surveyed(inspect(hits, [judge("Ann"), judge("Ben")], grades={relevant: 1}))
        without = by_name(found)
        assert without["Ann"].without == Without(
            1, about(with_all), about((1 + SECOND) / 2), exact=True
        )
        assert without["Ben"].without == Without(1, about(with_all), about(with_all), exact=True)


@pytest.mark.parametrize(("recruited_for", "recruited"), [(None, 1), ("best soap", 0), ("", 0)])
def test_a_team_that_is_used_again_was_not_recruited_for_the_query(
    recruited_for: str | None, recruited: int
) -> None:
    hits = [hit(1, 1, {"Ann": 9, "Ben": 8, "Cid": 7}), hit(2, 2, {"Ann": 1, "Ben": 3, "Cid": 2})]
    picked = judge("Ben", "library")
    reasoned = picked.model_copy(
        update={"persona": picked.persona.model_copy(update={"reason": "Knows masks."})}
    )
    members = [judge("Ann", "recruited"), reasoned, judge("Cid", "library")]
    survey = surveyed(inspect(hits, members, grades={"d1": 1}, recruited_for=recruited_for))
    found = {each.name: each.recruited for each in survey.personas}
    assert found == {"Ann": recruited, "Ben": recruited, "Cid": 0}
