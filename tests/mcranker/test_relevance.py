"""Absolute relevance from 0 to 1, and the options ``top_n`` and ``min_relevance``."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcranker import Capabilities, ChatReply, ChatRequest, MCRanker, Passage, Ranking, ScriptedChat
from mcranker.replies.scoring import SCORINGS
from personas.ensembles import ENSEMBLES
from tests.support.known_scores import POLICIES
from tests.support.plugins import installed
from tests.support.scripted import RECRUITS, RUBRIC

OUTSIDE = """
import numpy as np
from mcranker import ReplySchema, Score, Scoring, Unreadable
from personas import Ensemble
MEDIAN = Ensemble("median", lambda scores: np.median(scores, axis=1), "Median.", by_row=True)
LOGARITHM = Ensemble(
    "logarithm", lambda scores: np.log(0.1 + scores).sum(axis=1), "Logs.", by_row=True
)
DEVIATION = Ensemble("deviation", lambda scores: (scores - scores.mean()).sum(axis=1), "From mean.")
class Grades(Scoring):
    instruction = "From 0 to 3?"
    schema = ReplySchema("grade", {"type": "object", "properties": {"Grade": {"type": "integer"}}})
    def read(self, reply):
        if not reply.text.isdigit():
            raise Unreadable("it is no grade.")
        return Score(float(reply.text))
    @classmethod
    def top(cls, config):
        return 3
"""
BUILT_IN_ENSEMBLES = ("sum", "reciprocal_rank", "rrf", "assessor")
ENSEMBLE_NAMES = (*BUILT_IN_ENSEMBLES, "median", "logarithm", "deviation")
SCORING_NAMES = ("integer", "expected", "peak", "per_criterion", "grades")
DOCS = [Passage(f"d{place}", f"text {place % 9}", score=float(-place)) for place in range(10)]


@pytest.fixture(scope="module", autouse=True)
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    names = {name: name.upper() for name in ENSEMBLE_NAMES[len(BUILT_IN_ENSEMBLES) :]}
    folder: Path = tmp_path_factory.mktemp("packages")
    with installed(folder, ENSEMBLES, OUTSIDE, **names):
        with next(folder.glob("*/entry_points.txt")).open("a", encoding="utf-8") as entries:
            entries.write("[mcranker.scorings]\ngrades = own_plugin:Grades\n")
        SCORINGS.__dict__.pop("_added", None)
        yield
    SCORINGS.__dict__.pop("_added", None)


def model(seed: int) -> ScriptedChat:
    """Scores at random, some of them unreadable; the same for the same question."""

    def answer(request: ChatRequest) -> ChatReply:
        draws = random.Random(f"{seed} {request.tag.persona} {request.messages[-1].content}")
        if request.tag.stage == "recruit":
            return ChatReply(RECRUITS)
        if request.tag.stage == "criteria":
            return ChatReply(RUBRIC)
        if request.labels:
            logprobs = {label: -5 * draws.random() for label in request.labels}
            return ChatReply("", label_logprobs=logprobs if draws.random() < 0.9 else {})
        if draws.random() < 0.1:
            return ChatReply("no score")
        if request.schema is not None and request.schema.name == "grade":
            return ChatReply(str(draws.randint(0, 3)))
        each = {"Score": draws.randint(0, 10), "Final score": draws.randint(0, 10)}
        return ChatReply(json.dumps({**each, "Scores": [draws.randint(0, 10) for _ in "ab"]}))

    abilities = Capabilities(json_schema=True, label_logprobs=True)
    return ScriptedChat(answer, capabilities=abilities)


def options(seed: int, ensemble: str, scoring: str) -> dict[str, Any]:
    draws = random.Random(f"{seed} {ensemble} {scoring}")
    chosen: dict[str, Any] = {
        "ensemble": ensemble,
        "scoring": scoring,
        "missing_policy": draws.choice(POLICIES),
        "missing_constant": draws.choice([0.0, 1.5]),
        "repair_attempts": 0,
        "depth": draws.choice([None, 8]),
        "first_stage_weight": draws.choice([0.0, 0.0, 0.3, 1.0]),
    }
    if scoring in ("expected", "peak") and draws.random() < 0.5:
        chosen["labels"] = ("No", "Perhaps", "Yes")
    return chosen


def ranker(seed: int, ensemble: str = "sum", scoring: str = "integer", **more: Any) -> MCRanker:
    chosen = {**options(seed, ensemble, scoring), **more}
    return MCRanker(model=model(seed), ledger=None, **chosen)


every_ensemble = pytest.mark.parametrize("ensemble", ENSEMBLE_NAMES)
every_scoring = pytest.mark.parametrize("scoring", SCORING_NAMES)
every_seed = pytest.mark.parametrize("seed", range(2))


@every_ensemble
@every_scoring
@every_seed
def test_relevance_is_the_mean_judges_score_by_k(ensemble: str, scoring: str, seed: int) -> None:
    with ranker(seed, ensemble, scoring) as made:
        ranking = made.rank("q", DOCS)
        top = made.config.top
    constant = min(ranking.config["missing_constant"], top)
    stands_in = {"lowest": 0.0, "constant": constant}.get(ranking.config["missing_policy"])
    for hit in ranking:
        known = [score for score in hit.scores.values() if score is not None]
        if hit.score is None:
            assert hit.relevance is None
        elif ensemble == "assessor":
            assert hit.relevance is not None
            assert 0 <= hit.relevance <= 1
        else:
            absent = len(hit.scores) - len(known)
            filled = known + [stands_in] * absent if stands_in is not None else known
            assert hit.relevance == pytest.approx(math.fsum(filled) / len(filled) / top)
    again = Ranking.from_dict(ranking.to_dict())
    assert [hit.relevance for hit in again] == [hit.relevance for hit in ranking]


@every_ensemble
@every_scoring
@every_seed
def test_limits_do_not_change_the_order(ensemble: str, scoring: str, seed: int) -> None:
    draws = random.Random(seed)
    with ranker(seed, ensemble, scoring) as made:
        whole = made.rank("q", DOCS)
        top_n, least = draws.randint(1, 12), draws.choice([0.0, 0.2, 0.5, 0.9, 1.0])
        some = made.rank("q", DOCS, top_n=top_n)
        good = made.rank("q", DOCS, min_relevance=least)
        both = made.rank("q", DOCS, top_n=top_n, min_relevance=least)
    expected = [hit for hit in whole if hit.relevance is not None and hit.relevance >= least]
    assert list(some) == whole[:top_n]
    assert list(good) == expected
    assert list(both) == expected[:top_n]
    for each in (some, good, both):
        assert each.to_dict()["hits"] == whole.to_dict()["hits"]
        assert Ranking.from_dict(each.to_dict()).ids == each.ids == [hit.doc_id for hit in each]


def scores(*each: int) -> ScriptedChat:
    """Every persona gives the passages these scores."""
    return ScriptedChat(lambda request: json.dumps({"Score": each[int(request.tag.doc_id)]}))


TEAM = ["Ann", "Ben", "Cleo"]


def judged(*each: int, **more: Any) -> Ranking:
    settings: dict[str, Any] = {"team": TEAM, "criteria": "none", **more}
    docs = [f"text {place}" for place in range(len(each))]
    with MCRanker(model=scores(*each), ledger=None, **settings) as made:
        return made.rank("q", docs)


def relevances(ranking: Ranking) -> dict[str, float | None]:
    return {hit.doc_id: hit.relevance for hit in ranking}


def test_by_hand() -> None:
    # Three personas give up to 10 each: 21 of 30, 6 of 30, 0 of 30.
    found = judged(7, 2, 0)
    assert (found.absolute, found.relevance_note) == (True, "")
    assert [hit.score for hit in found] == [21, 6, 0]
    expected = {"0": 0.7, "1": 0.2, "2": 0}
    assert relevances(found) == expected
    for ensemble in ("reciprocal_rank", "median", "deviation"):
        assert relevances(judged(7, 2, 0, ensemble=ensemble)) == expected
    assert relevances(judged(3, 1, scale=4)) == {"0": 0.75, "1": 0.25}
