"""Makes a survey of ranked queries, one query at a time, in one process or several."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum

from personas.ranking.agreement import AlphaSums
from personas.ranking.record import Hit, OtherPlace, RankingRecord
from personas.survey.model import CASE_KINDS, Case, CaseKind, QueryFigures, Survey, Totals
from personas.survey.query import DEPTH, MOST_NAME, MOST_TEXT, QueryFindings
from personas.survey.sums import cut, mean
from personas.survey.tables import CriterionTable, PersonaTable, WithoutSums
from personas.weak_judges import WeakJudge

MOST_CASES = 50
_MOST_EXCERPT = 400


@dataclass(slots=True)
class CaseTable:
    """The strongest cases of each kind, found query by query.

    Rank 10 is the last near the top; what stands lower is far down. Passages that no persona
    scored or that are not judged, and those that the other ranker does not have, are no case. A
    passage above grade 0 is relevant.
    """

    _compared: bool = False
    _cases: dict[CaseKind, list[Case]] = field(default_factory=dict)

    def take(self, place: int, inspection: RankingRecord) -> None:
        """Look for cases in one query."""
        if inspection.other is None:
            return
        self._compared = True
        for hit in inspection.hits:
            if hit.other is None or hit.grade is None or not hit.known_scores:
                continue
            kind = _kind(hit.grade, hit.rank, hit.other.rank)
            if kind is None:
                continue
            kept = self._cases.setdefault(kind, [])
            strength = _strength(hit.rank, hit.other.rank)
            weakest = _order(kept[-1]) if len(kept) == MOST_CASES else None
            if weakest is None or (-strength, place, hit.rank) < weakest:
                _keep(kept, _case(kind, place, inspection, hit, hit.other))

    def merge(self, other: CaseTable) -> None:
        """Take what the other found."""
        self._compared |= other._compared
        for kind, cases in other._cases.items():
            kept = self._cases.setdefault(kind, [])
            for case in cases:
                _keep(kept, case)

    def found(self) -> Mapping[CaseKind, tuple[Case, ...]]:
        """Kind -> its strongest cases, strongest first, ties by place and rank.

        Empty if no query had another ranking to compare with.
        """
        if not self._compared:
            return {}
        return {kind: tuple(self._cases.get(kind, ())) for kind in CASE_KINDS}


def _kind(grade: int, rank: int, other_rank: int) -> CaseKind | None:
    near, other_near = rank <= DEPTH, other_rank <= DEPTH
    if near == other_near:
        return None
    if grade > 0:
        return "recognised" if near else "overlooked"
    return "fooled" if near else "saw_through"


def _case(
    kind: CaseKind, place: int, inspection: RankingRecord, hit: Hit, other: OtherPlace
) -> Case:
    assert hit.grade is not None, "only judged passages are cases"
    return Case(
        kind=kind,
        place=place,
        query=cut(inspection.query.text, MOST_TEXT),
        doc_id=cut(hit.doc_id, MOST_NAME),
        rank=hit.rank,
        title=cut(hit.title, MOST_TEXT),
        excerpt=cut(hit.text, _MOST_EXCERPT),
        grade=hit.grade,
        scores={cut(name, MOST_NAME): score for name, score in hit.scores.items() if not hit.ranks},
        top=inspection.top,
        effects={cut(name, MOST_NAME): ranks for name, ranks in hit.effects.items()},
        other_rank=other.rank,
        other_score=other.score,
        first_stage_rank=hit.first_stage_rank,
        strength=_strength(hit.rank, other.rank),
    )


def _strength(rank: int, other_rank: int) -> float:
    return abs(1.0 / math.log2(1 + rank) - 1.0 / math.log2(1 + other_rank))


def _order(case: Case) -> tuple[float, int, int]:
    return -case.strength, case.place, case.rank


def _keep(cases: list[Case], case: Case) -> None:
    insort(cases, case, key=_order)
    del cases[MOST_CASES:]


@dataclass(slots=True)
class Surveyor:
    """Takes inspections one by one and keeps what a survey shows of them.

    Of each query one row stays, of passages only the strongest cases; besides, memory grows
    with the different names of personas and criteria. The survey is the same, to the last bit,
    in whatever order queries are taken and surveyors merged. Workers may send theirs back:
    surveyors can be pickled.

    >>> surveyor = Surveyor()
    >>> surveyor.take(1, RankingRecord.from_dict(data, grades=grades))
    >>> survey = surveyor.finish(title="MC", dataset="scifact", ...)
    """

    _rows: dict[int, QueryFigures] = field(default_factory=dict)
    _personas: PersonaTable = field(default_factory=PersonaTable)
    _criteria: CriterionTable = field(default_factory=CriterionTable)
    _cases: CaseTable = field(default_factory=CaseTable)
    _alpha: AlphaSums = field(default_factory=AlphaSums)
    _recruits: WithoutSums = field(default_factory=WithoutSums)
    _reused: int = 0
    _locked: int = 0
    _weak: WeakJudge = ""

    def take(self, place: int, inspection: RankingRecord) -> None:
        """Add a ranked query.

        Args:
            place: its place among the queries, from 1.
            inspection: with judgements and another ranking, where there are any.

        Raises:
            ValueError: `place` is below 1 or was added before.
        """
        self._check(place)
        findings = QueryFindings.of(place, inspection)
        self._rows[place] = findings.figures
        self._personas.take(findings)
        self._criteria.take(findings)
        self._cases.take(place, inspection)
        self._alpha.merge(findings.alpha)
        if findings.left_out is not None:
            recruits = [judge.name for judge in findings.judges if judge.recruited]
            self._recruits.take(findings.left_out, recruits)
        self._reused += inspection.reused.calls
        self._locked += inspection.team is not None and inspection.team.locked
        self._weak = max(self._weak, inspection.weak_judge)

    def fail(
        self,
        place: int,
        query_id: str,
        query: str,
        reason: str,
        *,
        judged: bool,
        first_stage_ndcg: float | None = None,
        other_ndcg: float | None = None,
    ) -> None:
        """Add a query that was not ranked.

        Args:
            place: its place among the queries, from 1.
            query_id: its id.
            query: its text.
            reason: why it was not ranked.
            judged: whether it has judgements; then its nDCG@10 counts 0.
            first_stage_ndcg: nDCG@10 of the first stage, if known.
            other_ndcg: nDCG@10 of the ranker compared with, if known.

        Raises:
            ValueError: `place` is below 1 or was added before, or the reason is empty.
        """
        self._check(place)
        if not reason:
            raise ValueError(f"query {query_id!r} failed without a reason; say what went wrong")
        self._rows[place] = QueryFigures(
            place=place,
            query_id=cut(query_id, MOST_NAME),
            query=cut(query, MOST_TEXT),
            ndcg=0.0 if judged else None,
            first_stage_ndcg=first_stage_ndcg,
            other_ndcg=other_ndcg,
            error=cut(reason, MOST_TEXT),
        )

    def merge(self, other: Surveyor) -> None:
        """Add all queries of the other, which stays as it is.

        Raises:
            ValueError: both have a query of the same place.
        """
        twice = self._rows.keys() & other._rows.keys()
        if twice:
            raise ValueError(_taken(min(twice)))
        self._rows.update(other._rows)
        self._personas.merge(other._personas)
        self._criteria.merge(other._criteria)
        self._cases.merge(other._cases)
        self._alpha.merge(other._alpha)
        self._recruits.merge(other._recruits)
        self._reused += other._reused
        self._locked += other._locked
        self._weak = max(self._weak, other._weak)

    def finish(
        self,
        *,
        title: str,
        dataset: str,
        first_stage: str,
        other: str,
        models: Mapping[str, str],
        settings: Mapping[str, str],
        notes: Iterable[str],
    ) -> Survey:
        """The survey of all queries so far; the arguments are the fields of `Survey`."""
        rows = tuple(self._rows[place] for place in sorted(self._rows))
        return Survey(
            title=title,
            dataset=dataset,
            first_stage=first_stage,
            other=other,
            models=dict(models),
            settings=dict(settings),
            notes=tuple(notes),
            totals=self._totals(rows),
            queries=rows,
            personas=self._personas.personas(),
            personas_in_all=len(self._personas),
            pairs=self._personas.pairs(),
            criteria=self._criteria.criteria(self._personas),
            criteria_in_all=len(self._criteria),
            cases=self._cases.found(),
            recruits=self._recruits.figures(),
            weak_judge=self._weak,
        )

    def _totals(self, rows: tuple[QueryFigures, ...]) -> Totals:
        costs = [row.cost for row in rows if row.cost is not None]
        return Totals(
            queries=len(rows),
            failed=sum(bool(row.error) for row in rows),
            judged=sum(row.ndcg is not None and not row.error for row in rows),
            passages=sum(row.passages for row in rows),
            missing=sum(row.missing for row in rows),
            skipped=sum(row.skipped for row in rows),
            calls=sum(row.calls for row in rows),
            reused=self._reused,
            cost=fsum(costs) if len(costs) == len(rows) else None,
            ndcg=mean(row.ndcg for row in rows),
            first_stage_ndcg=mean(row.first_stage_ndcg for row in rows),
            other_ndcg=mean(row.other_ndcg for row in rows),
            alpha=self._alpha.alpha,
            tau=mean(row.tau for row in rows),
            disagreement=mean(row.disagreement for row in rows),
            locked=self._locked,
            human=sum(row.human for row in rows),
        )

    def _check(self, place: int) -> None:
        if place < 1:
            raise ValueError(f"place {place!r} is below 1; queries are counted from 1")
        if place in self._rows:
            raise ValueError(_taken(place))


def _taken(place: int) -> str:
    return f"place {place!r} was added before; give every query a place of its own"
