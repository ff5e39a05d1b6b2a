"""Makes a survey of ranked queries, one query at a time, in one process or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum

from personas.inspection.agreement import AlphaSums
from personas.inspection.inspection import Inspection
from personas.survey.cases import CaseTable
from personas.survey.model import QueryFigures, Survey, Totals
from personas.survey.query import MOST_NAME, MOST_TEXT, QueryFindings
from personas.survey.sums import cut, mean
from personas.survey.tables import CriterionTable, PersonaTable, WithoutSums


@dataclass(slots=True)
class Surveyor:
    """Takes inspections one by one and keeps what a survey shows of them.

    Of each query one row stays, of passages only the strongest cases; besides, memory grows
    with the different names of personas and criteria. The survey is the same, to the last bit,
    in whatever order queries are taken and surveyors merged. Workers may send theirs back:
    surveyors can be pickled.

    >>> surveyor = Surveyor()
    >>> surveyor.take(1, Inspection.from_dict(data, grades=grades))
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

    def take(self, place: int, inspection: Inspection) -> None:
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
        self._reused += inspection.reused
        self._locked += inspection.team is not None and inspection.team.locked

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
            judged: whether it has judgements; then its NDCG@10 counts 0.
            first_stage_ndcg: NDCG@10 of the first stage, if known.
            other_ndcg: NDCG@10 of the ranker compared with, if known.

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
