"""A survey is the same in any order of the queries; its bounds."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import pytest

from personas.ranking.record import RankingRecord
from personas.schema import Member
from personas.survey.model import Survey
from personas.survey.query import QueryFindings
from tests.support.surveyor_support import Taker, hit, inspect, judge, other, rubric

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
            surveyor.add(pickle.loads(pickle.dumps(each)))
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


def test_a_place_is_given_once() -> None:
    surveyor = Taker()
    surveyor.take(7, inspect([]))
    for place, words in ((7, "place 7 was added before"), (0, "place 0 is below 1")):
        with pytest.raises(ValueError, match=words):
            surveyor.take(place, inspect([]))
        with pytest.raises(ValueError, match=words):
            surveyor.fail(place, "lost", judged=False)
    surveyor.take(1, inspect([]))
    assert [row.place for row in surveyor.finish().queries] == [1, 7]


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
    monkeypatch.setattr("personas.survey.surveyor.MOST_ROWS", 3)
    surveyor = Taker()
    for place, names in enumerate(("AB", "AC", "AD", "AB"), start=1):
        members = [judge(each) for each in names]
        surveyor.take(place, inspect([hit(1, 1, dict.fromkeys(names, 8.0))], members))
    survey = surveyor.finish()
    assert [(each.name, each.queries) for each in survey.personas] == [("A", 4), ("B", 2), ("C", 1)]
    assert survey.personas_in_all == 4
