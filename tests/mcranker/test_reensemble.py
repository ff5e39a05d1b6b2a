"""Scores that are there, combined in another way: as if ranked so from the start, at no call."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest, ConfigError, MCRanker, MissingScoreError, Ranking
from personas.ensembles import ENSEMBLES
from tests.support.known_scores import MEDIAN, POLICIES, Judged
from tests.support.plugins import installed
from tests.support.scripted import scripted


def finals(ranking: Ranking) -> list[float | None]:
    """The final scores in first-stage order."""
    return [hit.score for hit in ranking.as_given]


@pytest.fixture(autouse=True)
def median(tmp_path: Path) -> Iterator[None]:
    with installed(tmp_path, ENSEMBLES, MEDIAN, median="MEDIAN"):
        yield


def choices(seed: int) -> dict[str, Any]:
    draws = random.Random(seed)
    options = {
        "ensemble": draws.choice(["sum", "reciprocal_rank", "median"]),
        "missing_policy": draws.choice(POLICIES),
        "missing_constant": 0.25,
        "first_stage_weight": draws.choice([0.0, 0.5, 1.0]),
    }
    return {name: value for name, value in options.items() if draws.random() < 0.7}


def comparable(ranking: Ranking) -> dict[str, Any]:
    return {**ranking.to_dict(), "seconds": {}, "usage": {}}


@pytest.mark.parametrize("seed", range(16))
def test_it_is_the_ranking_by_these_choices(seed: int) -> None:
    judged = Judged(seed)
    ranking, options = judged.rank(), choices(seed)
    before = ranking.to_json()
    again = ranking.reensemble(**options)
    assert comparable(again) == comparable(judged.rank(**options))
    assert ranking.to_json() == before
    assert again.usage == ranking.usage
    # And back again, from a file.
    back = {name: ranking.config[name] for name in options}
    assert comparable(Ranking.from_dict(again.to_dict()).reensemble(**back)) == comparable(ranking)


def test_by_hand() -> None:
    # Three judges give d0 9 1 1, d1 1 8 8 and d2 5 5 5: sums 11, 17 and 15; ranks of each judge
    # 1 3 3, 3 1 1 and 2 2 2: 1.67, 2.33 and 1.5; medians 1, 8 and 5.
    scores = {"A": (9, 1, 5), "B": (1, 8, 5), "C": (1, 8, 5)}

    def answer(request: ChatRequest) -> str:
        return f'{{"Score": {scores[request.tag.persona][int(request.tag.doc_id)]}}}'

    with MCRanker(team=list(scores), criteria="none", model=scripted(answer)) as ranker:
        ranking = ranker.rank("q", ["a", "b", "c"])
    assert (ranking.ids, finals(ranking)) == (["1", "2", "0"], [11, 17, 15])
    assert ranking.reensemble("reciprocal_rank").ids == ["1", "0", "2"]
    assert finals(ranking.reensemble("median")) == [1, 8, 5]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ensemble": "medan"}, "there is no ensemble 'medan'; did you mean 'median'"),
        ({"ensemble": "assessor"}, "ensemble='assessor' asks a model; rank again with it"),
        ({"missing_policy": "zero"}, "missing_policy must be"),
        ({"missing_constant": -1.0}, "missing_constant must be at least 0"),
        ({"first_stage_weight": 1.5}, "first_stage_weight must be at most 1"),
    ],
)
def test_impossible_choices_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Judged(3).rank().reensemble(**options)


def test_a_missing_score_may_be_refused_and_an_assessors_goes_back_to_the_scores() -> None:
    lacking = next(made for seed in range(9) if (made := Judged(seed).rank()).missing)
    with pytest.raises(
        MissingScoreError, match='scores are missing and missing_policy="fail"; see'
    ):
        lacking.reensemble(missing_policy="fail")
    judged = Judged(2)
    by_sum = judged.rank(ensemble="sum", depth=None)
    ranking = judged.rank(ensemble="assessor", depth=None)
    assert [hit.missing["(assessor)"] for hit in ranking]  # it gave no final score at all
    assert comparable(ranking.reensemble("sum")) == {**comparable(by_sum), "models": ranking.models}
    with pytest.raises(ConfigError, match="asks a model"):
        ranking.reensemble(first_stage_weight=0.5)
