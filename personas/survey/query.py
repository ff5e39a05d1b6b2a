"""What one ranked query adds to a survey: who judged, how they agreed, and nDCG@10."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from personas.provenance import Provenance, provenance
from personas.ranking.agreement import AlphaSums
from personas.ranking.effectiveness import ndcg
from personas.ranking.record import RankingRecord
from personas.schema import Member, Team
from personas.survey.model import QueryFigures
from personas.survey.sums import cut, mean

DEPTH = 10
"""Ranks that count: nDCG is nDCG@10, and what stands higher is near the top."""
MOST_NAME = 200
MOST_TEXT = 300

_CUT = 19_000
"""A query of so many characters may stand in its team cut to the longest that a team can hold."""

# Teams that are used for many queries would be compared with the library anew for each.
_hands = lru_cache(maxsize=256)(provenance)


@dataclass(frozen=True, slots=True)
class Judge:
    """One persona of one query.

    Attributes:
        member: who.
        hands: who wrote which part of it.
        scores: one a passage, best first; None where it is missing or was not asked for.
        missing: scores that were asked for and did not come.
        recruited: whether a recruiter chose it for this very query: wrote it, or took it from
            the library.
    """

    member: Member
    hands: Provenance
    scores: tuple[float | None, ...]
    missing: int
    recruited: bool

    @property
    def name(self) -> str:
        """The persona's name."""
        return self.member.name


@dataclass(frozen=True, slots=True)
class LeftOut:
    """nDCG@10 by the arithmetic of leaving personas out.

    Passages without a final score stand behind the others, in the ranking's order.

    Attributes:
        with_all: with nobody left out.
        without: persona -> nDCG@10 without it.
        exact: as `RankingRecord.leave_one_out_exact`.
    """

    with_all: float
    without: Mapping[str, float]
    exact: bool


@dataclass(frozen=True, slots=True)
class QueryFindings:
    """All that a survey takes from one query.

    Attributes:
        figures: its row.
        judges: the team's members who judged; empty for rankers without a team.
        top: the highest score one of them could give.
        taus: Kendall's tau-b of each two, by their places in `judges`; None if not defined.
        alpha: what Krippendorff's alpha needs to know of the passages.
        left_out: None without judgements, and where fewer than two personas judged.
    """

    figures: QueryFigures
    judges: tuple[Judge, ...]
    top: float
    taus: Mapping[tuple[int, int], float | None]
    alpha: AlphaSums
    left_out: LeftOut | None

    @classmethod
    def of(cls, place: int, inspection: RankingRecord) -> QueryFindings:
        """The findings; `place` is the query's, from 1."""
        judges = _judges(inspection)
        places = {judge.name: place for place, judge in enumerate(judges)}
        taus = {
            (places[one], places[other]): tau
            for (one, other), tau in inspection.agreement.taus.items()
            if one in places and other in places
        }
        alpha = inspection.agreement.sums if judges else AlphaSums()
        top = inspection.top
        spread = mean(hit.disagreement for hit in inspection.hits) if judges else None
        hits, other = inspection.hits, inspection.other
        figures = QueryFigures(
            place=place,
            query_id=cut(inspection.query.id, MOST_NAME),
            query=cut(inspection.query.text, MOST_TEXT),
            personas=tuple(judge.name for judge in judges),
            passages=len(hits),
            missing=len(inspection.missing),
            skipped=inspection.skipped,
            calls=inspection.usage.calls,
            cost=inspection.cost,
            human=any(judge.hands.by_human for judge in judges),
            disagreement=None if spread is None else spread / top,
            alpha=alpha.alpha,
            tau=mean(taus.values()),
            ndcg=_ndcg(inspection, ((hit.rank, hit.grade) for hit in hits)),
            first_stage_ndcg=_ndcg(inspection, ((hit.first_stage_rank, hit.grade) for hit in hits)),
            other_ndcg=None
            if other is None
            else _ndcg(
                inspection,
                (
                    (found.rank, (inspection.grades or {}).get(doc_id))
                    for doc_id, found in other.places.items()
                ),
            ),
        )
        return cls(figures, judges, top, taus, alpha, _left_out(inspection, judges))


def _judges(inspection: RankingRecord) -> tuple[Judge, ...]:
    team = inspection.team
    members = {member.name: member for member in team.members} if team else {}
    for_this = team is not None and _made_for(team, inspection.query.text)
    return tuple(
        Judge(
            members[name],
            _hands(members[name]),
            tuple(hit.scores.get(name) for hit in inspection.hits),
            sum(name in hit.missing for hit in inspection.hits),
            for_this and _chosen(members[name]),
        )
        for name in inspection.judges
        if name in members
    )


def _made_for(team: Team, query: str) -> bool:
    """Whether the team was recruited for the query, and is not that of another one."""
    asked = query.strip()
    return bool(team.query) and (
        team.query == asked
        or (len(asked) > len(team.query) >= _CUT and asked.startswith(team.query))
    )


def _chosen(member: Member) -> bool:
    # Only a recruiter gives a reason to a member of the library.
    return member.origin == "recruited" or (
        member.origin == "library" and bool(member.persona.reason)
    )


def _left_out(inspection: RankingRecord, judges: tuple[Judge, ...]) -> LeftOut | None:
    judged = [hit for hit in inspection.hits if hit.rank_of_all is not None]
    if not inspection.judged or len(inspection.judges) < 2:
        return None
    behind = [
        (rank, hit.grade)
        for rank, hit in enumerate(
            (hit for hit in inspection.hits if hit.rank_of_all is None), start=len(judged) + 1
        )
    ]
    with_all = _ndcg(
        inspection,
        [(hit.rank_of_all, hit.grade) for hit in judged if hit.rank_of_all is not None] + behind,
    )
    without = {
        judge.name: _ndcg(
            inspection, [(hit.rank_without[judge.name], hit.grade) for hit in judged] + behind
        )
        for judge in judges
    }
    if with_all is None:
        return None
    return LeftOut(
        with_all,
        {name: value for name, value in without.items() if value is not None},
        inspection.leave_one_out_exact,
    )


def _ndcg(inspection: RankingRecord, placed: Iterable[tuple[int, int | None]]) -> float | None:
    if inspection.grades is None:
        return None
    grades: list[int | None] = [None] * DEPTH
    for rank, grade in placed:
        if rank <= DEPTH:
            grades[rank - 1] = grade
    return ndcg(grades, inspection.grades.values(), DEPTH)
