"""The findings of one ranked query: its judges, their agreement and nDCG@10."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

from personas.ranking.agreement import AlphaSums, ndcg
from personas.ranking.record import RankingRecord
from personas.ranking.types import WeakJudge
from personas.schema import Team
from personas.survey.model import QueryFigures

DEPTH = 10
"""Ranks that count: nDCG is nDCG@10."""
MOST_NAME = 200
MOST_TEXT = 300

_CUT = 19_000
"""A longer query may be in its team cut to the longest that a team can hold."""


class Judge(NamedTuple):
    """One persona of one query."""

    name: str
    recruited: bool  # written by a recruiter for this very query, or taken from the library


@dataclass(frozen=True, slots=True)
class LeftOut:
    """nDCG@10 by the arithmetic of leaving personas out."""

    with_all: float
    without: Mapping[str, float]
    exact: bool


@dataclass(frozen=True, slots=True)
class QueryFindings:
    """All that a survey takes from one query; one that failed has figures alone."""

    figures: QueryFigures
    judges: tuple[Judge, ...] = ()
    taus: Mapping[tuple[int, int], float | None] = field(default_factory=dict)
    alpha: AlphaSums = field(default_factory=AlphaSums)
    left_out: LeftOut | None = None
    reused: int = 0
    locked: bool = False
    weak_judge: WeakJudge = ""

    @classmethod
    def of(cls, place: int, ranking: RankingRecord) -> QueryFindings:
        """The findings; `place` is the query's, from 1."""
        judges, hits, other = _judges(ranking), ranking.hits, ranking.other
        places = {judge.name: number for number, judge in enumerate(judges)}
        taus = {
            (places[one], places[two]): tau
            for (one, two), tau in ranking.agreement.taus.items()
            if one in places and two in places
        }
        alpha = ranking.agreement.sums if judges else AlphaSums()
        spread = mean(hit.disagreement for hit in hits) if judges else None
        grades = ranking.grades or {}
        theirs = other.places.items() if other else ()
        figures = QueryFigures(
            place=place,
            query_id=cut(ranking.query.id, MOST_NAME),
            query=cut(ranking.query.text, MOST_TEXT),
            personas=tuple(judge.name for judge in judges),
            passages=len(hits),
            missing=len(ranking.missing),
            calls=ranking.usage.calls,
            cost=ranking.cost,
            disagreement=None if spread is None else spread / ranking.top,
            alpha=alpha.alpha,
            tau=mean(taus.values()),
            ndcg=_ndcg(ranking, ((hit.rank, hit.grade) for hit in hits)),
            first_stage_ndcg=_ndcg(ranking, ((hit.first_stage_rank, hit.grade) for hit in hits)),
            other_ndcg=_ndcg(ranking, ((found.rank, grades.get(doc)) for doc, found in theirs))
            if other
            else None,
        )
        return cls(
            figures=figures,
            judges=judges,
            taus=taus,
            alpha=alpha,
            left_out=_left_out(ranking, judges),
            reused=ranking.reused.calls,
            locked=ranking.team is not None and ranking.team.locked,
            weak_judge=ranking.weak_judge,
        )


def mean(numbers: Iterable[float | None]) -> float | None:
    """Mean of the numbers that are there, in any order; None of none."""
    known = [number for number in numbers if number is not None]
    return fsum(known) / len(known) if known else None


def cut(text: str, most: int) -> str:
    """The text in at most that many characters, the last one an ellipsis if some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _judges(ranking: RankingRecord) -> tuple[Judge, ...]:
    team = ranking.team
    members = {member.name: member for member in team.members} if team else {}
    for_this = team is not None and _made_for(team, ranking.query.text)
    found = []
    for name in ranking.judges:
        if (member := members.get(name)) is None:
            continue
        # Only a recruiter gives a reason to a member of the library.
        chosen = member.origin == "recruited" or (
            member.origin == "library" and bool(member.persona.reason)
        )
        found.append(Judge(name, for_this and chosen))
    return tuple(found)


def _made_for(team: Team, query: str) -> bool:
    """Return True if the team was recruited for the query, and is not that of another one."""
    asked, known = query.strip(), team.query
    return bool(known) and (asked == known or (len(known) >= _CUT and asked.startswith(known)))


def _left_out(ranking: RankingRecord, judges: tuple[Judge, ...]) -> LeftOut | None:
    if not ranking.judged or len(ranking.judges) < 2:
        return None
    judged = [(hit, hit.rank_of_all) for hit in ranking.hits if hit.rank_of_all is not None]
    others = (hit.grade for hit in ranking.hits if hit.rank_of_all is None)
    behind = list(enumerate(others, start=len(judged) + 1))
    with_all = _ndcg(ranking, [*((rank, hit.grade) for hit, rank in judged), *behind])
    if with_all is None:
        return None
    without = {}
    for judge in judges:
        placed = ((hit.rank_without[judge.name], hit.grade) for hit, _ in judged)
        if (value := _ndcg(ranking, [*placed, *behind])) is not None:
            without[judge.name] = value
    return LeftOut(with_all, without, ranking.leave_one_out_exact)


def _ndcg(ranking: RankingRecord, placed: Iterable[tuple[int, int | None]]) -> float | None:
    if ranking.grades is None:
        return None
    grades: list[int | None] = [None] * DEPTH
    for rank, grade in placed:
        if rank <= DEPTH:
            grades[rank - 1] = grade
    return ndcg(grades, ranking.grades.values(), DEPTH)
