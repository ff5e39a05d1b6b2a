"""nDCG@10 without a persona, against the ranker's own arithmetic and ir-measures."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pytest

from beir_eval import evaluate
from personas.ensembles import (
    MissingPolicy,
    RankTies,
    descending,
    fill_missing,
    interpolate,
    reciprocal_rank,
    score_sum,
)
from personas.schema import Member, Persona
from personas.survey.model import PersonaFigures, Survey, Without
from tests.support.surveyor_support import about, hit, inspect, judge, survey_of

SECOND = 1 / math.log2(3)
"""The discount of rank 2; that of rank 1 is 1, of rank 3 1/2."""

RECRUITS = {"Ann", "Ben", "Cleo"}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A judged query: scores of the first passages of its first stage, the rest not judged."""

    names: tuple[str, ...]
    scores: list[list[float]]
    passages: int
    grades: dict[str, int]
    ensemble: str
    policy: MissingPolicy
    first_stage_weight: float
    rank_ties: RankTies

    def order(self, columns: Sequence[int]) -> list[int]:
        """First-stage ranks, best first, if only these personas had judged."""
        matrix = np.array(self.scores, dtype=np.float64)[:, list(columns)]
        filled = fill_missing(matrix, self.policy, constant=3.0)
        scored = ~np.isnan(matrix).all(axis=1) | (self.policy == "constant")
        totals = np.full(len(matrix), np.nan)
        totals[scored] = (
            reciprocal_rank(filled[scored], self.rank_ties)
            if self.ensemble == "reciprocal_rank"
            else score_sum(filled[scored])
        )
        if self.first_stage_weight:
            given = -np.flatnonzero(scored).astype(np.float64)
            totals[scored] = interpolate(totals[scored], given, self.first_stage_weight)
        judged = [int(place) + 1 for place in descending(totals)]
        return judged + list(range(len(judged) + 1, self.passages + 1))

    def ndcg(self, left_out: str | None = None) -> float:
        """nDCG@10 by ir-measures, with one persona left out."""
        columns = [place for place, name in enumerate(self.names) if name != left_out]
        run = {"q": [(f"d{first}", 0.0) for first in self.order(columns)]}
        return evaluate(run, {"q": self.grades}).per_query["nDCG@10"]["q"]

    def hits(self) -> list[dict[str, Any]]:
        """As the ranking would be stored."""
        hits = []
        for rank, first in enumerate(self.order(range(len(self.names))), start=1):
            judged = first <= len(self.scores)
            scores = self.scores[first - 1] if judged else [math.nan] * len(self.names)
            known = [None if math.isnan(score) else score for score in scores]
            named = dict(zip(self.names, known, strict=True))
            hits.append(
                hit(rank, first, named, score=1.0 if judged else None, first_stage_score=-first)
            )
        return hits


def drawn(draws: random.Random) -> Drawn:
    names = tuple(draws.sample(("Ann", "Ben", "Cleo", "Dora"), draws.randint(2, 4)))
    judged = draws.randint(3, 25)
    passages = judged + draws.choice((0, 0, 20))
    grid = draws.choice(([0, 1, 2, 3], [number / 10 for number in range(100)]))
    scores = [[draws.choice((*grid, math.nan)) for _ in names] for _ in range(judged)]
    known = [f"d{number}" for number in range(1, passages + 1)] + ["e1", "e2"]
    return Drawn(
        names=names,
        scores=scores,
        passages=passages,
        grades={doc_id: draws.choice((0, 1, 2)) for doc_id in draws.sample(known, 5)},
        ensemble=draws.choice(("sum", "reciprocal_rank")),
        policy=draws.choice(get_args(MissingPolicy)),
        first_stage_weight=draws.choice((0.0, 0.0, 0.25)),
        rank_ties=draws.choice(get_args(RankTies)),
    )


def taken(queries: Sequence[Drawn]) -> Survey:
    return survey_of(
        *(
            inspect(
                query.hits(),
                [judge(name, "recruited" if name in RECRUITS else "human") for name in query.names],
                grades=query.grades,
                ensemble=query.ensemble,
                missing_policy=query.policy,
                missing_constant=3.0,
                first_stage_weight=query.first_stage_weight,
                rank_ties=query.rank_ties,
            )
            for query in queries
        )
    )


def by_name(survey: Survey) -> dict[str, PersonaFigures]:
    return {persona.name: persona for persona in survey.personas}


def test_they_are_those_of_the_ranker_and_of_ir_measures() -> None:
    draws = random.Random(8)
    queries = [drawn(draws) for _ in range(300)]
    survey = taken(queries)
    changed = 0
    for query, row in zip(queries, survey.queries, strict=True):
        assert row.ndcg == pytest.approx(query.ndcg(), abs=1e-12)
    for name, persona in by_name(survey).items():
        own = [query for query in queries if name in query.names]
        with_all = sum(query.ndcg() for query in own) / len(own)
        without = sum(query.ndcg(name) for query in own) / len(own)
        assert persona.without == Without(len(own), about(with_all), about(without), exact=True)
        changed += any(query.ndcg(name) != query.ndcg() for query in own)
    assert changed == len(survey.personas) == 4
    # Each recruit of each query once.
    cases = [(query, name) for query in queries for name in query.names if name in RECRUITS]
    assert survey.recruits == Without(
        queries=sum(not RECRUITS.isdisjoint(query.names) for query in queries),
        with_all=about(sum(query.ndcg() for query, _ in cases) / len(cases)),
        without=about(sum(query.ndcg(name) for query, name in cases) / len(cases)),
        exact=True,
    )
    assert len(cases) > survey.recruits.queries


def test_a_query_alone_is_told_exactly() -> None:
    draws = random.Random(9)
    for _ in range(100):
        query = drawn(draws)
        personas = by_name(taken([query]))
        for name in query.names:
            expected = Without(1, about(query.ndcg()), about(query.ndcg(name)), exact=True)
            assert personas[name].without == expected


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
    # d3 could have come second, but nobody asked Ben; d4 and d5 were not judged at all.
    hits = [
        hit(1, 1, {"Ann": 9, "Ben": 4}, score=13.0),
        hit(2, 3, {"Ann": 8, "Ben": None}, score=None, skipped=["Ben"]),
        hit(3, 2, {"Ann": 1, "Ben": 6}, score=7.0),
        hit(4, 4, {"Ann": None, "Ben": None}, score=None, skipped=["Ann", "Ben"]),
    ]
    survey = survey_of(inspect(hits, [judge("Ann"), judge("Ben")], grades={"d3": 1}, top_k=1))
    assert survey.queries[0].ndcg == pytest.approx(SECOND)
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
