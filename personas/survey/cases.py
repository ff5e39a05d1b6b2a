"""Passages that the team and the ranker compared with see differently (the paper's Fig. 5, 6)."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from personas.inspection.inspection import InspectedHit, Inspection, OtherPlace
from personas.survey.model import CASE_KINDS, Case, CaseKind
from personas.survey.query import DEPTH, MOST_NAME, MOST_TEXT
from personas.survey.sums import cut

MOST_CASES = 50
_MOST_EXCERPT = 400


@dataclass(slots=True)
class CaseTable:
    """The strongest cases of each kind, found query by query.

    Rank 10 is the last near the top; what stands lower is far down. Passages that no persona
    scored, and those that the other ranker does not have, are no case.

    A passage above grade 0 is relevant. Whether one without a judgement is not depends on the
    judgements: where they name passages that are not relevant (a grade of 0 or less, in any
    query), only those are shown as not relevant; where they name none, as in SciFact, every
    other passage counts as not relevant, as it does for NDCG, and the case's grade is None. The
    rule is the same for cases for the team and against it.
    """

    _compared: bool = False
    _names_irrelevant: bool = False
    _judged: dict[CaseKind, list[Case]] = field(default_factory=dict)
    _unjudged: dict[CaseKind, list[Case]] = field(default_factory=dict)

    def take(self, place: int, inspection: Inspection) -> None:
        """Look for cases in one query."""
        grades = inspection.grades
        if grades and not self._names_irrelevant:
            self._names_irrelevant = any(grade <= 0 for grade in grades.values())
        if inspection.other is None:
            return
        self._compared = True
        if not grades:
            return
        for hit in inspection.hits:
            if hit.other is None or not hit.known_scores:
                continue
            kind = _kind(hit, hit.other)
            if kind is None:
                continue
            kept = self._kept(hit.grade).setdefault(kind, [])
            strength = abs(_discount(hit.rank) - _discount(hit.other.rank))
            weakest = _order(kept[-1]) if len(kept) == MOST_CASES else None
            if weakest is None or (-strength, place, hit.rank) < weakest:
                _keep(kept, _case(kind, place, inspection, hit, hit.other, strength))

    def merge(self, other: CaseTable) -> None:
        """Take what the other found."""
        self._compared |= other._compared
        self._names_irrelevant |= other._names_irrelevant
        for mine, found in ((self._judged, other._judged), (self._unjudged, other._unjudged)):
            for kind, cases in found.items():
                kept = mine.setdefault(kind, [])
                for case in cases:
                    _keep(kept, case)

    def found(self) -> Mapping[CaseKind, tuple[Case, ...]]:
        """Kind -> its strongest cases, strongest first, ties by place and rank.

        Empty if no query had another ranking to compare with.
        """
        if not self._compared:
            return {}
        found: dict[CaseKind, tuple[Case, ...]] = {}
        for kind in CASE_KINDS:
            cases = list(self._judged.get(kind, ()))
            if not self._names_irrelevant:
                for case in self._unjudged.get(kind, ()):
                    _keep(cases, case)
            found[kind] = tuple(cases)
        return found

    def _kept(self, grade: int | None) -> dict[CaseKind, list[Case]]:
        # Apart, as only the end can tell whether those without a judgement are shown.
        return self._unjudged if grade is None else self._judged


def _kind(hit: InspectedHit, other: OtherPlace) -> CaseKind | None:
    near, other_near = hit.rank <= DEPTH, other.rank <= DEPTH
    if near == other_near:
        return None
    if hit.grade is not None and hit.grade > 0:
        return "recognised" if near else "overlooked"
    return "fooled" if near else "saw_through"


def _case(
    kind: CaseKind,
    place: int,
    inspection: Inspection,
    hit: InspectedHit,
    other: OtherPlace,
    strength: float,
) -> Case:
    return Case(
        kind=kind,
        place=place,
        query=cut(inspection.query, MOST_TEXT),
        doc_id=cut(hit.doc_id, MOST_NAME),
        rank=hit.rank,
        title=cut(hit.title, MOST_TEXT),
        excerpt=cut(hit.text, _MOST_EXCERPT),
        grade=hit.grade,
        scores={cut(name, MOST_NAME): score for name, score in hit.scores.items()},
        top=inspection.top,
        criteria=_heaviest_criteria(inspection),
        other_rank=other.rank,
        other_score=other.score,
        first_stage_rank=hit.first_stage_rank,
        strength=strength,
    )


def _heaviest_criteria(inspection: Inspection) -> dict[str, tuple[str, float]]:
    heaviest = {}
    for member in inspection.team.members if inspection.team else ():
        if member.rubric is not None and member.name in inspection.personas:
            criterion = max(member.rubric.criteria, key=lambda each: each.weight)
            heaviest[member.name] = (criterion.name, criterion.weight)
    return heaviest


def _discount(rank: int) -> float:
    return 1.0 / math.log2(1 + rank)


def _order(case: Case) -> tuple[float, int, int]:
    return -case.strength, case.place, case.rank


def _keep(cases: list[Case], case: Case) -> None:
    insort(cases, case, key=_order)
    del cases[MOST_CASES:]
