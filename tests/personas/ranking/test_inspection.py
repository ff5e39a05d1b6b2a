"""What an inspection works out: disagreement, leave-one-out, and what it refuses."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest

from mcranker import MCRanker, Passage, ScriptedChat
from mcranker.llm.chat import ChatRequest
from personas.errors import SchemaError
from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord

NAMES = ("Virologist", "Parent", "Editor")


def hit(rank: int, first: int, scores: list[float | None], **more: Any) -> dict[str, Any]:
    known = [score for score in scores if score is not None]
    mean = sum(known) / len(known) if known else 0.0
    names = NAMES[: len(scores)]
    return {
        "rank": rank,
        "doc_id": f"d{first}",
        "score": sum(mean if score is None else score for score in scores),
        "scores": dict(zip(names, scores, strict=True)),
        "missing": {
            name: "no number in the answer"
            for name, score in zip(names, scores, strict=True)
            if score is None
        },
        "criteria": {},
        "first_stage_rank": first,
        "first_stage_score": None,
        "title": f"Title {first}",
        "text": f"Text {first}.",
        **more,
    }


def stored(hits: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    counts = {"calls": 0, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    return {
        "version": 1,
        "query": {"text": "best masks", "id": "q1"},
        "ranker": "mcranker",
        "team": None,
        "personas": list(hits[0]["scores"]) if hits else [],
        "hits": hits,
        "config": {"scale": 10, "ensemble": "sum", "missing_policy": "mean_of_team"},
        "models": {},
        "prompt_hashes": {},
        "usage": {**counts, "cost": None, "by_stage": []},
        "seconds": {"total": 0.0},
        "absolute": True,
        **more,
    }


# Scores by Virologist, Parent, Editor, and their sums:
#   d1: 5 5 5 = 15,  d2: 9 2 6 = 17,  d3: 1 8 7 = 16,  d4: 4 - 4 = 8 + mean 4 = 12
# so the ranking is d2, d3, d1, d4.
FOUR = [hit(1, 2, [9, 2, 6]), hit(2, 3, [1, 8, 7]), hit(3, 1, [5, 5, 5]), hit(4, 4, [4, None, 4])]


def by_id(inspection: RankingRecord) -> dict[str, Any]:
    return {each.doc_id: each for each in inspection.hits}


def test_what_four_passages_tell() -> None:
    grades = {"d1": 2, "d2": 0, "elsewhere": 1}
    other = OtherRanking("DIRECT", 10.0, {"d3": OtherPlace(1, 9.0), "elsewhere": OtherPlace(2, 8)})
    inspection = RankingRecord.of(stored(FOUR)).beside(grades=grades, other=other)
    hits = by_id(inspection)
    # d2: mean 17/3; squares of the deviations: (10/3)² + (-11/3)² + (1/3)² = 222/9
    assert hits["d2"].disagreement == pytest.approx(math.sqrt(222 / 9 / 3))
    assert hits["d2"].score_range == 9 - 2
    # d4: the missing score does not count; 4 and 4 agree
    assert hits["d1"].disagreement == hits["d4"].disagreement == 0.0
    # d3: mean 16/3, squares (-13/3)² + (8/3)² + (5/3)² = 258/9, more than d2's 222/9
    assert [each.moved for each in inspection.hits] == [1, 1, -2, 0]
    assert [each.persona for each in inspection.missing] == ["Parent"]
    assert [each.grade for each in inspection.hits] == [0, None, 2, None]
    assert [each.other for each in inspection.hits] == [None, OtherPlace(1, 9.0), None, None]
    assert RankingRecord.of(stored(FOUR)).grades is None


def test_rank_without_each_persona_and_who_raised_and_sank() -> None:
    inspection = RankingRecord.of(stored(FOUR))
    hits = by_id(inspection)
    # Without Virologist: d1 10, d2 8, d3 15, d4 4 + 4 = 8 (mean of the rest is 4).
    #   d3, d1, then d2 before d4: both 8, and d2 came first in the first stage.
    # Without Parent:     d1 10, d2 15, d3 8, d4 8    ->  d2, d1, d3, d4 (tie by first stage)
    # Without Editor:     d1 10, d2 11, d3 9, d4 4 + 4 = 8  ->  d2, d1, d3, d4
    assert hits["d2"].rank_without == {"Virologist": 3, "Parent": 1, "Editor": 1}
    assert hits["d3"].rank_without == {"Virologist": 1, "Parent": 3, "Editor": 3}
    assert hits["d1"].rank_without == {"Virologist": 2, "Parent": 2, "Editor": 2}
    assert hits["d4"].rank_without == {"Virologist": 4, "Parent": 4, "Editor": 4}
    assert inspection.leave_one_out_exact
    # d3 is second; without Virologist first (he sank it by 1), without either of the others third.
    assert hits["d3"].effects == {"Virologist": -1, "Parent": 1, "Editor": 1}
    assert hits["d3"].raised_most_by == ("Parent", "Editor")
    assert hits["d3"].sunk_most_by == ("Virologist",)
    assert hits["d4"].raised_most_by == hits["d4"].sunk_most_by == ()


def test_a_persona_without_a_score_raised_and_sank_nothing() -> None:
    # Sums, with the mean for what is missing: d1 2 + 9 = 11, d2 5 + 5 = 10, d3 5 + 4 = 9. Without
    # Parent: 2, 5, 5, so d2 would be first, though Parent gave it no score. Without
    # Virologist: 9, 0, 4, so d2 would be last.
    three = [hit(1, 1, [2, 9]), hit(2, 2, [5, None]), hit(3, 3, [5, 4])]
    hits = by_id(RankingRecord.of(stored(three)))
    assert hits["d2"].effects == {"Virologist": 1, "Parent": -1}
    assert hits["d2"].raised_most_by == ("Virologist",)
    assert hits["d2"].sunk_most_by == ()
    assert hits["d1"].raised_most_by == ("Parent",)


def answers(request: ChatRequest) -> str:
    if request.tag.stage == "recruit":
        return '{"Identities": ["Virologist", "Parent"], "Reason": "both would ask"}'
    if request.tag.stage == "criteria":
        return json.dumps({"Criteria": [{"Criterion": "Fits", "Weight": 100}], "Reason": "r"})
    if request.tag.stage == "assess":
        return json.dumps({"Final score": len(request.tag.doc_id) * 3 % 10})
    place = sum(map(ord, request.tag.doc_id + request.tag.persona))
    return "no idea" if place % 13 == 0 else json.dumps({"Score": place * 7 % 11})


@pytest.mark.parametrize("first_stage_weight", [0.0, 0.3])
@pytest.mark.parametrize("ensemble", ["sum", "reciprocal_rank"])
@pytest.mark.parametrize("missing", ["mean_of_team", "lowest", "constant"])
def test_the_arithmetic_gives_the_rankers_own_ranking(
    missing: Any, ensemble: Any, first_stage_weight: float
) -> None:
    docs = [Passage(f"doc{place}", f"text {place % 17}", score=-place) for place in range(23)]
    with MCRanker(
        model=ScriptedChat(answers),
        missing_policy=missing,
        ensemble=ensemble,
        first_stage_weight=first_stage_weight,
        depth=20,
    ) as ranker:
        inspection = RankingRecord.of(ranker.rank("masks", docs).to_dict())
    assert inspection.missing
    assert len(inspection.judged) == 20
    assert inspection.leave_one_out_exact
    assert all(
        each.rank_without == {} and each.rank_of_all is None for each in inspection.hits[20:]
    )


def test_an_assessors_ranking_is_not_taken_for_a_sum() -> None:
    # By the sums 17, 16, 15; the assessor turned them around.
    turned = [
        hit(1, 1, [5, 5, 5], score=9.0),
        hit(2, 3, [1, 8, 7], score=8.0),
        hit(3, 2, [9, 2, 6], score=7.0),
    ]
    inspection = RankingRecord.of(stored(turned))
    assert not inspection.leave_one_out_exact
    # d2 has the highest sum; without Virologist: d1 10, d2 8, d3 15 -> third, so he raised
    # it by two, measured against the sum and not against the assessor's rank.
    assert by_id(inspection)["d2"].effects["Virologist"] == 2


def test_top_is_the_scale_or_the_labels() -> None:
    assert RankingRecord.of(stored(FOUR)).top == 10
    labelled = stored(FOUR, config={"scale": 10, "labels": ["No", "Yes"]})
    assert RankingRecord.of(labelled).top == 1
    assert RankingRecord.of(stored(FOUR, config={"top_score": 4.5, "scale": 10})).top == 4.5
    assert RankingRecord.of(stored(FOUR, config={})).top == 9
    assert RankingRecord.of(stored([], config={})).top == 10


def changed(hit: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    data = copy.deepcopy(stored(FOUR, **more))
    data["hits"][0] |= hit or {}
    return data


FIRST = FOUR[0]["scores"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed(version=2), "a ranking of version 2, and this program reads version 1"),
        (changed({"rank": 3}), "the hits' rank must be 1 to 4, each once"),
        (changed({"first_stage_rank": 9}), "the hits' first_stage_rank must be 1 to 4"),
        (changed({"scores": {**FIRST, "Stranger": 4}}), "the hit of rank 1 must have one score a"),
        (changed(personas=["Parent", "Parent", "Editor"]), "two score columns have the same name"),
        (changed({"score": math.nan}), "hits.0.score must be a finite number"),
        (changed({"scores": {**FIRST, "Parent": "4"}}), "hits.0.scores.Parent must be a"),
        (changed(team={"members": []}), "team.members"),
        (changed(config={"depth": 2**70}), "depth: holds what JSON and sums cannot hold"),
        (changed(comparisons={"asked": "4"}), "comparisons.asked must be a whole number"),
        (changed(windows={"odd": -1}), "windows.odd must be at least 0"),
    ],
)
def test_what_is_no_ranking_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        RankingRecord.of(data)


def test_an_error_does_not_repeat_the_passages() -> None:
    data = stored(FOUR) | {"hits": [{"text": "secret " * 1000}]}
    with pytest.raises(SchemaError) as caught:
        RankingRecord.of(data)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 1000
