"""Relevance from 0 to 1, and the options that go by it: ``top_n`` and ``min_relevance``."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcranker import (
    Capabilities,
    ChatReply,
    ChatRequest,
    ConfigError,
    DirectRanker,
    MCRanker,
    Passage,
    Ranker,
    Ranking,
    ScriptedChat,
    Usage,
)
from mcranker.method.answers import SCORINGS
from personas.ensembles import ENSEMBLES, Rule
from tests.support.known_scores import POLICIES
from tests.support.plugins import installed
from tests.support.scripted import RECRUITS, RUBRIC

OUTSIDE = """
import numpy as np
from mcranker import ReplySchema, Score, Scoring, Unreadable
from personas import Ensemble
MEDIAN = Ensemble("median", lambda scores: np.median(scores, axis=1), "Median.", monotone=True)
LOGARITHM = Ensemble(
    "logarithm", lambda scores: np.log(0.1 + scores).sum(axis=1), "Logs.", monotone=True
)
DEVIATION = Ensemble("deviation", lambda scores: (scores - scores.mean()).sum(axis=1), "From mean.")
BORDA = Ensemble(
    "borda",
    lambda scores: (scores[:, None] > scores[None]).mean(axis=(1, 2)),
    "Shares.",
    span=lambda personas: (0.0, 1.0),
)
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
ENSEMBLE_NAMES = (*BUILT_IN_ENSEMBLES, "median", "logarithm", "deviation", "borda")
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
        "missing": draws.choice(POLICIES),
        "missing_constant": draws.choice([0.0, 1.5]),
        "reask": 0,
        "depth": draws.choice([None, 8]),
    }
    if ensemble in ("sum", "median", "logarithm") and draws.random() < 0.3:
        chosen["top_k"] = 3
    else:
        chosen["first_stage_weight"] = draws.choice([0.0, 0.0, 0.3, 1.0])
    if scoring in ("expected", "peak") and draws.random() < 0.5:
        chosen["labels"] = ("No", "Perhaps", "Yes")
    return chosen


def ranker(seed: int, ensemble: str = "sum", scoring: str = "integer", **more: Any) -> MCRanker:
    chosen = {**options(seed, ensemble, scoring), **more}
    return MCRanker(model=model(seed), ledger=None, **chosen)


every_ensemble = pytest.mark.parametrize("ensemble", ENSEMBLE_NAMES)
every_scoring = pytest.mark.parametrize("scoring", SCORING_NAMES)
every_seed = pytest.mark.parametrize("seed", range(3))


def test_these_are_all_ensembles_and_scorings() -> None:
    assert set(ENSEMBLES.names) == set(ENSEMBLE_NAMES)
    assert set(SCORINGS.names) == set(SCORING_NAMES)


@every_ensemble
@every_scoring
@every_seed
def test_relevance_is_monotone_in_score(ensemble: str, scoring: str, seed: int) -> None:
    with ranker(seed, ensemble, scoring) as made:
        ranking = made.rank("q", DOCS)
    scored = sorted((hit.score, hit.relevance) for hit in ranking if hit.score is not None)
    assert len(scored) > 1
    values = [relevance for _, relevance in scored if relevance is not None]
    assert len(values) == len(scored)
    assert values == sorted(values)
    assert all(0 <= each <= 1 for each in values)
    if scored[0][0] < scored[-1][0]:
        assert values[0] < values[-1]
    assert all(hit.relevance is None for hit in ranking if hit.score is None)
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
    assert found.scale == (0.0, 30.0)
    assert [hit.score for hit in found] == [21, 6, 0]
    assert relevances(found) == {"0": 0.7, "1": 0.2, "2": 0}
    # Rank 1, 2 and 3 of each: 3/1, 3/2 and 3/3, of 3 at most.
    assert relevances(judged(7, 2, 0, ensemble="reciprocal_rank")) == pytest.approx(
        {"0": 1, "1": 1 / 2, "2": 1 / 3}
    )
    # Scores as shares of 7, ranks as 1, 1/2 and 0: half each.
    assert relevances(judged(7, 2, 0, first_stage_weight=0.5)) == pytest.approx(
        {"0": 1, "1": (2 / 7 + 1 / 2) / 2, "2": 0}
    )
    assert judged(7, 2, ensemble="median").scale == (0.0, 10.0)
    assert judged(3, 1, scale=4).scale == (0.0, 12.0)


def test_where_no_scale_is_known_the_rankings_own_scores_are_it() -> None:
    # Deviations from the mean 3: three times 4, -1 and -3.
    found = judged(7, 2, 0, ensemble="deviation")
    assert found.scale == (-9.0, 12.0)
    assert relevances(found) == {"0": 1, "1": pytest.approx(6 / 21), "2": 0}
    alone = judged(7, ensemble="deviation", min_relevance=0.5)
    assert (alone.scale, relevances(alone)) == (None, {"0": None})


def test_an_assessors_scale_is_its_own() -> None:
    def answer(request: ChatRequest) -> str:
        stage = request.tag.stage
        return RUBRIC if stage == "criteria" else json.dumps({"Score": 2, "Final score": 4})

    with MCRanker(model=ScriptedChat(answer), ledger=None, team=TEAM, ensemble="assessor") as made:
        found = made.rank("q", ["a"])
    assert (found.scale, found[0].relevance) == ((0.0, 10.0), 0.4)
    # Three grades are a scale of the team; the assessor's 10 is not among what is stored of it.
    with ranker(1, "assessor", "grades", missing="lowest", first_stage_weight=0) as made:
        found = made.rank("q", DOCS)
    assert found.config["scale"] == 3
    assert Ranking.from_dict(found.to_dict()).scale == found.scale == (0.0, 10.0)


def test_a_ranking_stored_before_there_was_a_scale_gets_its_own() -> None:
    data = judged(7, 2, 0).to_dict()
    for name in ("scale", "partial", "failure"):
        del data[name]
    for hit in data["hits"]:
        for name in ("relevance", "metadata", "cut"):
            del hit[name]
    for name in ("top_n", "min_relevance", "deadline", "on_failure", "max_passage_tokens"):
        del data["config"][name]
    assert relevances(Ranking.from_dict(data)) == {"0": 0.7, "1": 0.2, "2": 0}


def test_scores_combined_anew_have_another_scale() -> None:
    found = judged(7, 2, 0).reensemble("reciprocal_rank")
    assert found.scale == (0.0, 3.0)
    assert found[0].relevance == 1


def test_what_was_not_judged_has_no_relevance() -> None:
    found = judged(7, 2, 9, depth=2)
    assert relevances(found) == {"0": 0.7, "1": 0.2, "2": None}
    assert judged(7, 2, 9, depth=2, min_relevance=0).ids == ["0", "1"]
    assert judged(7, 2, 9, depth=2, top_n=3).ids == ["0", "1", "2"]


def test_a_ranking_of_what_is_left_looks_whole() -> None:
    found = judged(7, 2, 9, 4, top_n=2)
    assert (len(found), found.ids, found[-1].doc_id) == (2, ["2", "0"], "0")
    assert [hit.rank for hit in found] == [1, 2]
    assert found[:10] == list(found)
    assert len(found.to_trec("run").splitlines() if found.query.id else found.ids) == 2
    with pytest.raises(IndexError, match="there is no hit 2; the ranking has 2"):
        found[2]
    assert repr(found) == "<Ranking of 2 of 4 passages for 'q' by mcranker>"
    assert len(found.passages) == len(found.order) == 4
    # Numbers of the whole ranking are still there to be combined in another way.
    assert found.reensemble("reciprocal_rank").ids == ["2", "0"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("top_n", 0, "top_n=0: Input should be greater than or equal to 1"),
        ("min_relevance", 1.5, "min_relevance=1.5: Input should be less than or equal to 1"),
        ("min_relevance", -0.1, "min_relevance=-0.1: Input should be greater"),
        ("min_relevance", math.nan, "min_relevance=nan: Input should be"),
        ("deadline", 0, "deadline=0: Input should be greater than or equal to 0.001"),
        ("deadline", math.inf, "deadline=inf: Input should be"),
    ],
)
def test_impossible_limits_are_refused(name: str, value: float, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        MCRanker(model=scores(), **{name: value})  # type: ignore[arg-type]  # one of several
    with DirectRanker(model=scores()) as made, pytest.raises(ConfigError, match=said):
        made.rank("q", ["a"], **{name: value})  # type: ignore[arg-type]  # one of several


def test_a_ranker_of_another_package_has_them_too() -> None:
    class Longest(Ranker):
        name = "longest"
        needs_model = False

        async def _rank(self, query: Any, passages: Any, emit: Any) -> Ranking:
            return self.ranking_by_scores(query, passages, [len(each.text) for each in passages])

    docs = ["a", "aaa", "aaaaa"]
    found = Longest(top_n=2).rank("q", docs)
    assert [(hit.doc_id, hit.score, hit.relevance) for hit in found] == [("2", 5, 1), ("1", 3, 0.5)]
    assert Longest().rank("q", docs, min_relevance=0.6).ids == ["2"]


def test_no_persona_no_scale() -> None:
    assert Rule.of({"ensemble": "sum", "scale": 10}).span(0) is None
    assert Rule.of({"ensemble": "sum"}).span(3) is None
    # In rankings of before, what stands in for a missing score may be above all others: 3 * 20.
    old = {"scale": 10, "missing": "constant", "missing_constant": 20}
    assert Rule.of(old).span(3) == (0.0, 60.0)
    assert Rule.of({"first_stage_weight": 0.2}).span(0) == (0.0, 1.0)


def test_usage_is_that_of_the_whole_ranking() -> None:
    def answer(request: ChatRequest) -> ChatReply:
        return ChatReply('{"Score": 5}', usage=Usage(calls=1))

    with DirectRanker(model=ScriptedChat(answer), ledger=None, top_n=1) as made:
        assert made.rank("q", ["a", "b", "c"]).usage.calls == 3
        assert made.estimate("q", ["a", "b", "c"]).calls == 3
