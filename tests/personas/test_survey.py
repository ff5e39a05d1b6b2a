"""A survey of a few queries in which every number is worked out by hand, and its bounds."""

from __future__ import annotations

import math
import pickle
import random
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
    # The recruits are Parent and parent.
    assert survey.recruits == survey.personas[1].without


WORDS = ("Chemist", "chemist", "Parent", "Editor", "NLP scientist", "Nurse", "NURSE")


def drawn(draws: random.Random, place: int) -> RankingRecord:
    """A query with 2 to 4 personas and 30 passages; scores are no round numbers."""
    names = {name.casefold(): name for name in draws.sample(WORDS, draws.randint(2, 4))}
    members: list[Member] = []
    for name in names.values():
        own = rubric(**{draws.choice(("Clarity", "clarity")): draws.random(), "Source": 1})
        members.append(
            judge(name, draws.choice(("recruited", "human", "library")), draws.choice((own, None)))
        )
    orders = [draws.sample(range(1, 31), 30) for _ in range(2)]
    hits = [
        hit(
            rank,
            first,
            {name: draws.choice((None, draws.random() * 10)) for name in names.values()},
            score=draws.choice((1.0, 1.0, None)),
        )
        for rank, first in enumerate(orders[0], start=1)
    ]
    found = [f"d{number}" for number in orders[1]]
    return inspect(
        hits,
        members,
        query=f"query {place}",
        grades={doc_id: draws.choice((0, 0, 1, 2)) for doc_id in draws.sample(found, 24)},
        compared=other(**{doc_id: rank for rank, doc_id in enumerate(found, start=1)}),
        locked=draws.random() < 0.5,
        usage={"calls": 7, "cost": draws.random()},
        ensemble=draws.choice(("sum", "reciprocal_rank", "rrf", "assessor")),
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


def test_the_order_of_queries_changes_nothing() -> None:
    draws = random.Random(3)
    findings: list[QueryFindings | int] = [
        QueryFindings.of(place, drawn(draws, place)) if place % 10 else place
        for place in range(1, 61)
    ]
    once = sent(findings)
    for _ in range(2):
        draws.shuffle(findings)
        assert sent(findings) == once
    # What is compared is all there.
    assert [row.place for row in once.queries] == list(range(1, 61))
    assert once.totals.failed == 6
    assert once.recruits is not None
    assert not once.recruits.exact
    assert once.totals.alpha is not None
    assert {row.name.casefold() for row in once.personas} == {word.casefold() for word in WORDS}


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
    assert survey.recruits is None
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
    assert survey.recruits is None


def test_names_are_written_as_most_often_and_else_by_the_alphabet() -> None:
    surveyor = Taker()
    for place, name in enumerate(("nurse", "NURSE", "nurse", "editor", "Editor"), start=1):
        surveyor.take(place, inspect([hit(1, 1, {name: 8})], [judge(name)]))
    survey = surveyor.finish()
    assert [(each.name, each.queries) for each in survey.personas] == [("nurse", 3), ("Editor", 2)]


def test_tables_are_cut_and_say_how_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personas.survey.MOST_ROWS", 3)
    surveyor = Taker()
    for place, names in enumerate(("AB", "AC", "AD", "AB"), start=1):
        members = [judge(each) for each in names]
        surveyor.take(place, inspect([hit(1, 1, dict.fromkeys(names, 8.0))], members))
    survey = surveyor.finish()
    assert [(each.name, each.queries) for each in survey.personas] == [("A", 4), ("B", 2), ("C", 1)]
    assert survey.personas_in_all == 4


def by_name(survey: Survey) -> dict[str, PersonaFigures]:
    return {persona.name: persona for persona in survey.personas}


def test_reciprocal_ranks_by_hand() -> None:
    # Ranks by Ann: d1 1, d2 2, d3 3; by Ben: d3 1, d1 2, d2 3; by Cleo: d3 1, d2 2, d1 3.
    # Together: d1 1 + 1/2 + 1/3 = 1.83, d2 1/2 + 1/3 + 1/2 = 1.33, d3 1/3 + 1 + 1 = 2.33
    # Without Ann:  d1 0.83, d2 0.83, d3 2     -> d3, then d1 and d2 by lot
    # Without Ben:  d1 1.33, d2 1, d3 1.33     -> d1 and d3 by lot, then d2
    # Without Cleo: d1 1.5, d2 0.83, d3 1.33   -> d1, d3, d2
    scores = {"Ann": (9, 5, 1), "Ben": (5, 1, 9), "Cleo": (1, 5, 9)}
    hits = [
        hit(rank, first, {name: each[first - 1] for name, each in scores.items()})
        for rank, first in enumerate((3, 1, 2), start=1)
    ]
    members = list(map(judge, scores))
    personas = by_name(
        surveyed(inspect(hits, members, grades={"d1": 1}, ensemble="reciprocal_rank"))
    )
    assert personas["Ann"].without == Without(
        1, about(SECOND), about((SECOND + 1 / 2) / 2), exact=True
    )
    assert personas["Ben"].without == Without(1, about(SECOND), about((1 + SECOND) / 2), exact=True)
    assert personas["Ben"].without.worth == pytest.approx((SECOND - 1) / 2)
    assert personas["Cleo"].without == Without(1, about(SECOND), about(1.0), exact=True)


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


def test_an_assessor_is_stood_in_for_by_the_sum_with_and_without() -> None:
    # The assessor put d2 first; the sums are d1 14, d2 12: with_all is theirs, not the
    # ranking's. Without Ann d2 has 7 and d1 5.
    hits = [hit(1, 2, {"Ann": 5, "Ben": 7}, score=9.0), hit(2, 1, {"Ann": 9, "Ben": 5}, score=8.0)]
    members = [judge("Ann"), judge("Ben")]
    survey = surveyed(inspect(hits, members, grades={"d2": 1}, ensemble="assessor"))
    assert survey.queries[0].ndcg == 1.0
    assert by_name(survey)["Ann"].without == Without(1, about(SECOND), 1.0, exact=False)
    assert by_name(survey)["Ben"].without == Without(1, about(SECOND), about(SECOND), exact=False)
    assert survey.recruits == Without(1, about(SECOND), about((1 + SECOND) / 2), exact=False)


def test_passages_without_a_final_score_stand_behind_the_others() -> None:
    # d3 and d4 were not judged.
    hits = [
        hit(1, 1, {"Ann": 9, "Ben": 4}, score=13.0),
        hit(2, 2, {"Ann": 1, "Ben": 6}, score=7.0),
        hit(3, 3, {"Ann": None, "Ben": None}, score=None),
        hit(4, 4, {"Ann": None, "Ben": None}, score=None),
    ]
    survey = surveyed(inspect(hits, [judge("Ann"), judge("Ben")], grades={"d3": 1}))
    assert survey.queries[0].ndcg == about(1 / 2)
    # Whoever is left out, d1 and d2 stand first and d3 third.
    assert by_name(survey)["Ann"].without == Without(1, about(1 / 2), about(1 / 2), exact=True)
    # Not so if what was not judged came first.
    assert survey.recruits == by_name(survey)["Ben"].without


def test_who_was_taken_from_the_library_for_a_reason_is_a_recruit() -> None:
    chosen = Persona(name="Ann", reason="The query seems to be about chemistry.")
    team = [Member(persona=chosen, origin="library"), judge("Ben", "library")]
    # Without Ann d1 (Ben: 9) is first, without Ben d2 (Ann: 9); together d1, 9 + 2 against 10.
    hits = [hit(1, 1, {"Ann": 2, "Ben": 9}, score=11.0), hit(2, 2, {"Ann": 9, "Ben": 1}, score=10)]
    survey = surveyed(inspect(hits, team, grades={"d2": 1}))
    assert survey.recruits == Without(1, about(SECOND), about(SECOND), exact=True)
    assert by_name(survey)["Ben"].without == Without(1, about(SECOND), 1.0, exact=True)


def test_nobody_can_be_left_out_of_a_team_of_one_nor_without_judgements() -> None:
    alone = [hit(1, 1, {"Ann": 9}, score=9.0)]
    both = [hit(1, 1, {"Ann": 9, "Ben": 9}, score=18.0)]
    nothing = [hit(1, 1, {"Ann": None, "Ben": None}, score=None)]
    ann, ben = judge("Ann"), judge("Ben")
    rankings = (
        inspect(alone, [ann], grades={"d1": 1}),
        inspect(both, [ann, ben]),
        inspect(both, [ann, ben], grades={}),
        inspect(nothing, [ann, ben], grades={"d1": 1}),
    )
    survey = surveyed(*rankings)
    assert [persona.without for persona in survey.personas] == [None, None]
    assert survey.recruits is None
    survey = surveyed(*rankings, inspect(both, [ann, ben], grades={"d1": 1}))
    assert survey.recruits == Without(1, 1.0, 1.0, exact=True)


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
    assert (survey.recruits is not None) is bool(recruited)
