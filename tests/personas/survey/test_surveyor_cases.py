"""Which passages are cases, of which kind, in what order, and how many stay."""

from __future__ import annotations

import math

import pytest

from personas.survey.model import Case, CaseKind
from personas.survey.surveyor import Surveyor
from tests.support.surveyor_support import finish, hit, inspect, judge, other

Found = dict[CaseKind, list[tuple[str, int, int]]]


def found(surveyor: Surveyor) -> Found:
    """Kind -> document id, rank and other rank of its cases; kinds without are left out."""
    return {
        kind: [(case.doc_id, case.rank, case.other_rank) for case in cases]
        for kind, cases in finish(surveyor).cases.items()
        if cases
    }


def twelve(**more: object) -> list[dict[str, object]]:
    """d1 to d12 in first-stage order, which is the ranking's."""
    return [{**hit(rank, rank, {"A": 5.0}), **more} for rank in range(1, 13)]


def test_kinds_of_judged_passages() -> None:
    # Ranks 1 to 10 are near the top. d1, d2, d5 and d6 were far down at the other; d11 and d12
    # were near its top. d5, and d7, are on the same side in both.
    places = {"d1": 11, "d2": 30, "d5": 10, "d6": 40, "d7": 1, "d10": 11, "d11": 2, "d12": 10}
    surveyor = Surveyor()
    surveyor.take(
        1,
        inspect(
            twelve(),
            grades={"d1": 1, "d2": 0, "d5": 1, "d7": 0, "d10": 1, "d11": -1, "d12": 2},
            compared=other(**places),
        ),
    )
    assert found(surveyor) == {
        "recognised": [("d1", 1, 11), ("d10", 10, 11)],
        "fooled": [("d2", 2, 30)],  # not d6: nobody judged it
        "saw_through": [("d11", 11, 2)],
        "overlooked": [("d12", 12, 10)],
    }


def test_passages_that_nobody_judged_are_no_case() -> None:
    surveyor = Surveyor()
    surveyor.take(1, inspect(twelve(), grades={"d1": 1}, compared=other(d1=11, d2=30, d11=2)))
    assert found(surveyor) == {"recognised": [("d1", 1, 11)]}


def test_what_cannot_be_told_is_no_case() -> None:
    compared = other(d1=50, d11=1)
    surveyor = Surveyor()
    surveyor.take(1, inspect(twelve(), compared=compared))
    surveyor.take(2, inspect(twelve(), compared=compared, grades={}))
    # Nobody scored these passages, so that the team made nothing of them.
    unscored = twelve(scores={"A": None})
    surveyor.take(3, inspect(unscored, compared=compared, grades={"d1": 1, "d11": 1}))
    # The other ranker does not have these.
    surveyor.take(4, inspect(twelve(), compared=other(e=1), grades={"d1": 1, "d11": 1}))
    assert found(surveyor) == {}
    assert set(finish(surveyor).cases) == {"saw_through", "recognised", "fooled", "overlooked"}


def test_without_another_ranker_there_are_no_kinds() -> None:
    surveyor = Surveyor()
    surveyor.take(1, inspect(twelve(), grades={"d1": 1}))
    assert finish(surveyor, compared="").cases == {}


def test_the_strongest_fifty_stay_strongest_first() -> None:
    surveyor = Surveyor()
    grades = {f"d{rank}": 1 for rank in range(1, 13)}
    for place in range(40, 0, -1):
        # d1 and d2 were at rank 11 + place; the further down, the stronger.
        compared = other(d1=11 + place, d2=11 + place)
        surveyor.take(place, inspect(twelve(), grades=grades, compared=compared))
    surveyor.take(41, inspect(twelve(), grades=grades, compared=other(d1=51)))
    cases = finish(surveyor).cases["recognised"]

    def strength(rank: int, other_rank: int) -> float:
        return abs(1 / math.log2(1 + rank) - 1 / math.log2(1 + other_rank))

    every = [(-strength(1, 11 + place), place, 1) for place in range(1, 41)]
    every += [(-strength(2, 11 + place), place, 2) for place in range(1, 41)]
    every += [(-strength(1, 51), 41, 1)]
    assert [(-case.strength, case.place, case.rank) for case in cases] == sorted(every)[:50]
    # The tie at rank 51 goes by place.
    assert [case.place for case in cases[:3]] == [40, 41, 39]


def test_texts_of_a_case_are_cut() -> None:
    hits = twelve(title="t" * 1000, text="x" * 1_000_000, doc_id="d" * 1000)
    places = other(**{"d" * 1000: 90})
    surveyor = Surveyor()
    surveyor.take(1, inspect(hits, grades={"d" * 1000: 1}, compared=places, query="q" * 1000))
    case = finish(surveyor).cases["recognised"][0]
    assert (case.title, case.excerpt) == ("t" * 299 + "…", "x" * 399 + "…")
    assert (case.query, case.doc_id) == ("q" * 299 + "…", "d" * 199 + "…")


@pytest.fixture
def judged_by_two() -> Case:
    hits = [hit(1, 1, {"A": 5.0, "B": None})]
    members = [judge("A"), judge("B")]
    surveyor = Surveyor()
    surveyor.take(
        1, inspect(hits, members, grades={"d1": 3}, compared=other(d1=15), labels=["No", "Yes"])
    )
    return finish(surveyor).cases["recognised"][0]


def test_a_case_shows_scores_and_effects(judged_by_two: Case) -> None:
    assert judged_by_two.scores == {"A": 5.0, "B": None}
    assert judged_by_two.effects == {"A": 0, "B": 0}  # nothing else is there to pass it
    assert judged_by_two.top == 1.0  # two labels
    assert (judged_by_two.grade, judged_by_two.other_score) == (3, 85.0)
