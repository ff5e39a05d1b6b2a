"""Where passages stand without a persona, against ranking once more without it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcranker import Passage
from mcranker.ranking import combined
from personas.ensembles import ENSEMBLES, Rule
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from tests.support.known_scores import MEDIAN, POLICIES, Judged
from tests.support.plugins import installed

NAN = math.nan


@pytest.fixture(autouse=True)
def median(tmp_path: Path) -> Iterator[None]:
    with installed(tmp_path, ENSEMBLES, MEDIAN, median="MEDIAN"):
        yield


def without(inspection: RankingRecord, name: str) -> list[str]:
    """Ids of the passages that all have judged, in their order without this persona."""
    hits = sorted(inspection.judged, key=lambda hit: hit.rank_without[name])
    return [hit.doc_id for hit in hits]


@pytest.mark.parametrize("seed", range(24))
def test_it_is_ranking_once_more_without_the_persona(seed: int) -> None:
    judged = Judged(seed)
    ranking = judged.rank()
    inspection = RankingRecord.of(ranking.to_dict())
    assert inspection.leave_one_out_exact
    if len(judged.names) < 2:
        return
    name = random.Random(seed).choice(judged.names)
    again = judged.rank(name)
    known = {hit.doc_id for hit in inspection.judged}
    # Those that nobody else scored are behind the others.
    assert without(inspection, name) == [each for each in again.ids if each in known]


@pytest.mark.parametrize("seed", range(12))
def test_it_is_so_with_weights(seed: int) -> None:
    judged = Judged(seed, weighted=True)
    inspection = RankingRecord.of(judged.rank(ensemble="sum").to_dict())
    assert inspection.leave_one_out_exact
    assert inspection.rule.weights
    name = random.Random(seed).choice(judged.names)
    again = judged.rank(name, ensemble="sum")
    known = {hit.doc_id for hit in inspection.judged}
    assert without(inspection, name) == [each for each in again.ids if each in known]


def near_ties(rng: np.random.Generator) -> np.ndarray:
    """Rows of the same numbers in other orders, and some of them missing."""
    rows, personas = int(rng.integers(2, 7)), int(rng.integers(8, 21))
    numbers = rng.choice([0.1, 0.2, 0.3, 0.7], personas)
    scores = np.array([rng.permutation(numbers) for _ in range(rows)])
    scores[rng.random(scores.shape) < 0.1] = NAN
    return scores


@pytest.mark.parametrize("ensemble", ["sum", "reciprocal_rank", "median"])
@pytest.mark.parametrize("missing", POLICIES)
def test_near_ties_are_broken_as_the_ranker_breaks_them(ensemble: str, missing: str) -> None:
    rng = np.random.default_rng(7)
    config = {"ensemble": ensemble, "missing_policy": missing, "missing_constant": 0.2}
    for _ in range(150):
        scores = near_ties(rng)
        inspection = inspected(scores, config)
        assert inspection.leave_one_out_exact
        for column, name in enumerate(inspection.personas[:3]):
            fewer = np.array([np.delete(row, column) for row in scores])
            expected = [f"d{place}" for place in ranked(fewer, config)[0]]
            assert without(inspection, name) == expected


def ranked(scores: np.ndarray, config: dict[str, Any]) -> tuple[list[int], list[float]]:
    """Order and final scores, in first-stage order, that the ranker makes of these scores."""
    hits = [Hit.of(Passage(f"d{place}", str(place)), place) for place in range(len(scores))]
    found = combined(Rule.of(config), hits, scores, range(len(scores)))
    final = {hit.index: math.nan if hit.score is None else hit.score for hit in found}
    return [hit.index for hit in found], [final[place] for place in range(len(scores))]


def inspected(scores: np.ndarray, config: dict[str, Any]) -> RankingRecord:
    """The inspection of a ranking with these scores."""
    names = [f"Judge {column}" for column in range(scores.shape[1])]
    made = ranked(scores, config)
    counts = {"calls": 0, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    hits = [
        {
            "rank": rank,
            "doc_id": f"d{row}",
            "score": float(made[1][row]),
            "scores": {
                name: None if math.isnan(score) else float(score)
                for name, score in zip(names, scores[row], strict=True)
            },
            "missing": {},
            "criteria": {},
            "first_stage_rank": int(row) + 1,
            "first_stage_score": None,
            "title": "",
            "text": str(row),
        }
        for rank, row in enumerate(made[0], start=1)
    ]
    return RankingRecord.of(
        {
            "version": 1,
            "query": {"text": "q", "id": ""},
            "ranker": "mcranker",
            "team": None,
            "personas": names,
            "hits": hits,
            "config": config,
            "models": {},
            "prompt_hashes": {},
            "usage": {**counts, "cost": None, "by_stage": []},
            "seconds": {},
            "absolute": True,
        }
    )


@pytest.mark.parametrize("ensemble", ["assessor", "of a package that is not here"])
def test_what_cannot_be_combined_again_says_so(ensemble: str) -> None:
    # By the sums the order is d0, d1, which is the ranking's too; without Judge 0 it is not.
    scores = np.array([[0.9, 0.1], [0.1, 0.3]])
    inspection = inspected(scores, {"ensemble": ensemble})
    assert [hit.rank_of_all for hit in inspection.hits] == [1, 2]
    assert not inspection.leave_one_out_exact
    assert without(inspection, "Judge 0") == ["d1", "d0"]
    one = inspected(scores[:1], {"ensemble": ensemble})
    assert one.leave_one_out_exact
