"""Ties at their worst and best: by hand, and beside every order there is."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beir_eval import RunError, evaluate
from beir_eval.experiment.run_folder import TieBounds
from beir_eval.measures.ties import Scored, missing_bounds, tie_bounds
from mcranker import ChatRequest, DirectRanker, Query, RankGPTRanker, ScriptedChat

QRELS = {"q": {"b": 1}}


def bounds(ranking: Scored, grades: dict[str, int] | None = None) -> TieBounds:
    return tie_bounds({"q": ranking}, {"q": grades or QRELS["q"]})["nDCG@10"]


def test_a_tie_by_hand() -> None:
    # b can be at 1 or at 2: nDCG 1 or 1 / log2(3).
    found = bounds([("a", 0.5), ("b", 0.5), ("c", 0.1)])
    assert found.worst == pytest.approx(1 / math.log2(3))
    assert found.best == 1.0


def test_passages_without_a_score_are_no_tie() -> None:
    # Neither with each other nor with those before: b stays at 3, where nDCG is 1 / log2(4).
    assert bounds([("a", 0.0), ("c", None), ("b", None)]) == TieBounds(
        worst=0.5, best=0.5, by_lot=0.5
    )


def test_measures_of_judged_documents_look_at_all_of_them() -> None:
    # b ties with y below the cutoff; among judged documents it is first in every order.
    found = tie_bounds(
        {"q": [("x", 2.0), ("y", 1.0), ("b", 1.0)]}, QRELS, ["nDCG@1", "nDCG(judged_only=True)@1"]
    )
    assert found["nDCG(judged_only=True)@1"] == TieBounds(worst=1.0, best=1.0, by_lot=1.0)
    assert found["nDCG@1"] == TieBounds(worst=0.0, best=0.0, by_lot=0.0)


def test_equal_scores_apart_are_no_tie() -> None:
    # The list is the ranking: b is after c, whose score is another.
    assert bounds([("a", 2.0), ("c", 1.0), ("b", 2.0)]) == TieBounds(
        worst=0.5, best=0.5, by_lot=0.5
    )


def test_means_are_over_all_judged_queries() -> None:
    # Query p has no ranking and counts 0; query x is not judged.
    rankings = {"q": [("a", 1.0), ("b", 1.0)], "x": [("b", 1.0)]}
    found = tie_bounds(rankings, {**QRELS, "p": {"b": 1}}, ["nDCG@10", "R@1"])
    assert found["nDCG@10"].worst == pytest.approx(0.5 / math.log2(3))
    assert found == {
        "nDCG@10": TieBounds(
            worst=found["nDCG@10"].worst, best=0.5, by_lot=found["nDCG@10"].by_lot
        ),
        "R@1": TieBounds(worst=0.0, best=0.5, by_lot=found["R@1"].by_lot),
    }


def test_a_document_twice() -> None:
    with pytest.raises(RunError, match="appears twice"):
        bounds([("a", 1.0), ("a", 1.0)])


IDEAL = 1 + 1 / math.log2(3)  # of two relevant documents


def test_missing_scores_may_be_anything() -> None:
    scores = {"a": 9, "c": 5, "e": 2}  # of b, which is relevant, and d there is none

    def answer(request: ChatRequest) -> str:
        return f'{{"Score": {scores.get(request.tag.doc_id, "none")}}}'

    ranker = DirectRanker(model=ScriptedChat(answer), ledger=None, first_stage_weight=0.0)
    ranking = ranker.rank(Query("pets", "q"), {each: f"text {each}" for each in "abcde"})
    assert {each.doc_id for each in ranking.missing} == {"b", "d"}
    (ends,) = missing_bounds([ranking], {"q": {"b": 1, "c": 1}}, "nDCG@10").values()
    # With b at 0 and d at 10: d a c e b. With b at 10 and d at 0: b a c e d.
    worst = (1 / math.log2(4) + 1 / math.log2(6)) / IDEAL
    assert ends == pytest.approx((worst, (1 + 1 / math.log2(4)) / IDEAL))
    assert missing_bounds([ranking], {"p": {"b": 1}}, "nDCG@10") == {}


def test_an_order_that_failed_may_be_any() -> None:
    asked = 0

    def answer(request: ChatRequest) -> str:
        nonlocal asked
        asked += 1
        return "no order" if asked <= 2 else "[2] > [1]"

    # The window of the last two fails, also when it is asked for again; the first two are swapped.
    ranker = RankGPTRanker(model=ScriptedChat(answer), ledger=None, window=2, step=1)
    ranking = ranker.rank(Query("pets", "q"), {each: f"text {each}" for each in "abc"})
    assert ranking.comparisons is not None
    assert ranking.comparisons.failed
    # c, at rank 3, or first: 1 / log2(4), or 1.
    assert missing_bounds([ranking], {"q": {"c": 1}}, "nDCG@10") == {"q": (0.5, 1.0)}


@given(
    scores=st.lists(st.sampled_from([None, 0.0, 1.0]), min_size=4, max_size=4),
    grades=st.lists(st.integers(-1, 2), min_size=4, max_size=4),
)
def test_the_bounds_are_those_of_all_orders(scores: list[float | None], grades: list[int]) -> None:
    ranking = list(zip("abcd", scores, strict=True))
    judged = {"q": dict(zip("abcd", grades, strict=True))}
    measures = ["nDCG@10", "nDCG@2", "R@2", "AP"]
    values: dict[str, list[float]] = {name: [] for name in measures}
    for order in permutations(range(4)):
        # An order is possible if it only moves passages within a row of equal scores.
        if all(_tied(scores, place, origin) for place, origin in enumerate(order)):
            run = {"q": [(ranking[origin][0], 0.0) for origin in order]}
            for name, mean in evaluate(run, judged, measures).means.items():
                values[name].append(mean)
    found = tie_bounds({"q": ranking}, judged, measures)
    for name in measures:
        assert found[name].worst == pytest.approx(min(values[name]))
        assert found[name].best == pytest.approx(max(values[name]))


def _tied(scores: list[float | None], one: int, other: int) -> bool:
    low, high = sorted((one, other))
    return low == high or (scores[one] is not None and len(set(scores[low : high + 1])) == 1)
