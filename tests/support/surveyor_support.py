"""Ranked queries in few words, as plain values and inspections, for tests of surveyors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from personas import Criterion, Member, Persona, Rubric, Team, library
from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord
from personas.schema import Origin
from personas.survey.model import QueryFigures, Survey
from personas.survey.query import QueryFindings
from personas.survey.surveyor import Surveyor

__all__ = ["Taker", "about", "hit", "inspect", "judge", "other", "rubric", "survey_of"]


def about(number: float) -> Any:
    """Equal to every float within a millionth of it; stands where a float does."""
    return pytest.approx(number)


def rubric(**weights: float) -> Rubric:
    """Criteria by name; weights in percent."""
    return Rubric(
        criteria=tuple(Criterion(name=name, weight=weight) for name, weight in weights.items())
    )


def judge(name: str, origin: Origin = "recruited", own: Rubric | None = None) -> Member:
    """A member; the name ``NLP scientist`` stands for the fixed one of the library."""
    if name == "NLP scientist":
        return library.nlp_scientist().model_copy(update={"rubric": own})
    return Member(persona=Persona(name=name), rubric=own, origin=origin)


def hit(
    rank: int,
    first: int,
    scores: Mapping[str, float | None],
    *,
    score: float | None = 0.0,
    first_stage_score: float | None = None,
) -> dict[str, Any]:
    """A stored passage ``d{first}``; what is not there is missing."""
    return {
        "rank": rank,
        "doc_id": f"d{first}",
        "score": score,
        "scores": dict(scores),
        "missing": {
            name: "no number in the answer"
            for name, each in scores.items()
            if each is None and score is not None
        },
        "criteria": {},
        "first_stage_rank": first,
        "first_stage_score": first_stage_score,
        "title": f"Title {first}",
        "text": f"Text {first}.",
    }


def inspect(
    hits: Sequence[Mapping[str, Any]],
    members: Sequence[Member] = (),
    *,
    query: str = "best masks",
    grades: Mapping[str, int] | None = None,
    compared: OtherRanking | None = None,
    locked: bool = False,
    recruited_for: str | None = None,
    usage: Mapping[str, Any] | None = None,
    **config: Any,
) -> RankingRecord:
    """The inspection of these hits, judged by these members or, without, by no team.

    The team was recruited for this query unless `recruited_for` names another.
    """
    team_query = query if recruited_for is None else recruited_for
    counts = {"calls": 0, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    took = {**counts, "cost": 0.0, **(usage or {})}
    data = {
        "version": 1,
        "query": {"text": query, "id": f"id of {query}"},
        "ranker": "mcranker",
        "team": Team(members=tuple(members), locked=locked, query=team_query) if members else None,
        "personas": list(hits[0]["scores"]) if hits else [],
        "hits": hits,
        "config": {"scale": 10, "ensemble": "sum", "missing_policy": "mean_of_team", **config},
        "models": {},
        "prompt_hashes": {},
        "usage": {**took, "by_stage": [{"stage": "score", "persona": "", "model": "m", **took}]},
        "seconds": {"total": 0.0},
        "absolute": True,
    }
    return RankingRecord.of(data).beside(grades=grades, other=compared)


def other(**places: int) -> OtherRanking:
    """Another ranking: document id -> rank; its scores are 100 less the rank."""
    return OtherRanking(
        "DIRECT(0,10)",
        10.0,
        {doc_id: OtherPlace(rank, 100.0 - rank) for doc_id, rank in places.items()},
    )


class Taker(Surveyor):
    """A surveyor of stored rankings."""

    def take(self, place: int, ranking: RankingRecord) -> None:
        self.add(QueryFindings.of(place, ranking))

    def fail(self, place: int, query: str, *, judged: bool) -> None:
        ndcg = 0.0 if judged else None
        figures = QueryFigures(place=place, query_id=query, query=query, ndcg=ndcg, error="why")
        self.add(QueryFindings(figures))


def survey_of(*rankings: RankingRecord) -> Survey:
    """The survey of these queries, in this order."""
    taker = Taker()
    for place, ranking in enumerate(rankings, start=1):
        taker.take(place, ranking)
    return taker.finish()
