"""nDCG@10 without a persona, by hand."""

from __future__ import annotations

import math

import pytest

from personas.schema import Member, Persona
from personas.survey.model import PersonaFigures, Survey, Without
from tests.support.surveyor_support import about, hit, inspect, judge, survey_of

SECOND = 1 / math.log2(3)
"""The discount of rank 2; that of rank 1 is 1, of rank 3 1/2."""


def by_name(survey: Survey) -> dict[str, PersonaFigures]:
    return {persona.name: persona for persona in survey.personas}


def test_reciprocal_ranks_by_hand() -> None:
    # Ranks by Ann: d1 1, d2 2, d3 3; by Ben: d3 1, d1 2, d2 3; by Cleo: d3 1, d2 2, d1 3.
    # Together: d1 1 + 1/2 + 1/3 = 1.83, d2 1/2 + 1/3 + 1/2 = 1.33, d3 1/3 + 1 + 1 = 2.33
    # Without Ann:  d1 0.83, d2 0.83, d3 2     -> d3, then d1 before d2 by the first stage
    # Without Ben:  d1 1.33, d2 1, d3 1.33     -> d1 before d3 by the first stage, then d2
    # Without Cleo: d1 1.5, d2 0.83, d3 1.33   -> d1, d3, d2
    scores = {"Ann": (9, 5, 1), "Ben": (5, 1, 9), "Cleo": (1, 5, 9)}
    hits = [
        hit(rank, first, {name: each[first - 1] for name, each in scores.items()})
        for rank, first in enumerate((3, 1, 2), start=1)
    ]
    members = list(map(judge, scores))
    personas = by_name(
        survey_of(inspect(hits, members, grades={"d1": 1}, ensemble="reciprocal_rank"))
    )
    assert personas["Ann"].without == Without(1, about(SECOND), about(SECOND), exact=True)
    assert personas["Ben"].without == Without(1, about(SECOND), about(1.0), exact=True)
    assert personas["Ben"].without.worth == pytest.approx(SECOND - 1)
    assert personas["Cleo"].without == Without(1, about(SECOND), about(1.0), exact=True)


def test_an_assessor_is_stood_in_for_by_the_sum_with_and_without() -> None:
    # The assessor put d2 first; the sums are d1 14, d2 12: with_all is theirs, not the
    # ranking's. Without Ann d2 has 7 and d1 5.
    hits = [hit(1, 2, {"Ann": 5, "Ben": 7}, score=9.0), hit(2, 1, {"Ann": 9, "Ben": 5}, score=8.0)]
    members = [judge("Ann"), judge("Ben")]
    survey = survey_of(inspect(hits, members, grades={"d2": 1}, ensemble="assessor"))
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
    survey = survey_of(inspect(hits, [judge("Ann"), judge("Ben")], grades={"d3": 1}))
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
    survey = survey_of(inspect(hits, team, grades={"d2": 1}))
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
    survey = survey_of(*rankings)
    assert [persona.without for persona in survey.personas] == [None, None]
    assert survey.recruits is None
    survey = survey_of(*rankings, inspect(both, [ann, ben], grades={"d1": 1}))
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
    survey = survey_of(inspect(hits, members, grades={"d1": 1}, recruited_for=recruited_for))
    found = {each.name: each.recruited for each in survey.personas}
    assert found == {"Ann": recruited, "Ben": recruited, "Cid": 0}
    assert (survey.recruits is not None) is bool(recruited)
