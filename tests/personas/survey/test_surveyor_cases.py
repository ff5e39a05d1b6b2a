"""Which passages are cases, of which kind, in what order, and how many stay."""

from __future__ import annotations

import math

from personas.ranking.record import RankingRecord
from personas.survey.model import CASE_KINDS
from tests.support.surveyor_support import hit, inspect, other, survey_of


def found(*rankings: RankingRecord) -> dict[str, list[tuple[str, int, int]]]:
    """Kind -> document id, rank and other rank of its cases; kinds without are left out."""
    return {
        kind: [(case.doc_id, case.rank, case.other_rank) for case in cases]
        for kind, cases in survey_of(*rankings).cases.items()
        if cases
    }


def twelve(**more: object) -> list[dict[str, object]]:
    """d1 to d12 in first-stage order, which is the ranking's."""
    return [{**hit(rank, rank, {"A": 5.0}), **more} for rank in range(1, 13)]


def test_kinds_of_judged_passages() -> None:
    # Ranks 1 to 10 are near the top. d1, d2, d5 and d6 were far down at the other; d11 and d12
    # were near its top. d5, and d7, are on the same side in both.
    places = {"d1": 11, "d2": 30, "d5": 10, "d6": 40, "d7": 1, "d10": 11, "d11": 2, "d12": 10}
    grades = {"d1": 1, "d2": 0, "d5": 1, "d7": 0, "d10": 1, "d11": -1, "d12": 2}
    assert found(inspect(twelve(), grades=grades, compared=other(**places))) == {
        "recognised": [("d1", 1, 11), ("d10", 10, 11)],
        "fooled": [("d2", 2, 30)],  # not d6: it has no judgement
        "saw_through": [("d11", 11, 2)],
        "overlooked": [("d12", 12, 10)],
    }


def test_what_is_not_known_is_no_case() -> None:
    compared, grades = other(d1=50, d11=1), {"d1": 1, "d11": 1}
    rankings = (
        inspect(twelve(), compared=compared),
        inspect(twelve(), compared=compared, grades={}),
        # No persona scored these passages; and the other ranker does not have these.
        inspect(twelve(scores={"A": None}), compared=compared, grades=grades),
        inspect(twelve(), compared=other(e=1), grades=grades),
    )
    assert survey_of(*rankings).cases == dict.fromkeys(CASE_KINDS, ())


def test_the_strongest_fifty_stay_strongest_first() -> None:
    grades = {f"d{rank}": 1 for rank in range(1, 13)}
    # d1 and d2 were at rank 11 + place; the further down, the stronger.
    compared = [other(d1=11 + place, d2=11 + place) for place in range(1, 41)]
    rankings = [inspect(twelve(), grades=grades, compared=each) for each in compared]
    last = inspect(twelve(), grades=grades, compared=other(d1=51))
    cases = survey_of(*rankings, last).cases["recognised"]

    def strength(rank: int, other_rank: int) -> float:
        return abs(1 / math.log2(1 + rank) - 1 / math.log2(1 + other_rank))

    every = [(-strength(rank, 11 + at), at, rank) for at in range(1, 41) for rank in (1, 2)]
    every += [(-strength(1, 51), 41, 1)]
    assert [(-case.strength, case.place, case.rank) for case in cases] == sorted(every)[:50]
    # The tie at rank 51 goes by place.
    assert [case.place for case in cases[:3]] == [40, 41, 39]


def test_texts_of_a_case_are_cut() -> None:
    hits = twelve(title="t" * 1000, text="x" * 1_000_000, doc_id="d" * 1000)
    compared, grades = other(**{"d" * 1000: 90}), {"d" * 1000: 1}
    ranking = inspect(hits, grades=grades, compared=compared, query="q" * 1000)
    case = survey_of(ranking).cases["recognised"][0]
    assert (case.title, case.excerpt) == ("t" * 299 + "…", "x" * 399 + "…")
    assert (case.query, case.doc_id) == ("q" * 299 + "…", "d" * 199 + "…")
