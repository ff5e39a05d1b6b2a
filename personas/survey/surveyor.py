"""Makes a survey of ranked queries, one query at a time."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from math import fsum
from typing import TypeVar

from personas.ranking.agreement import AlphaSums
from personas.ranking.weak_judges import WeakJudge
from personas.schema import Origin
from personas.survey.model import (
    CASE_KINDS,
    Case,
    CaseKind,
    CriterionFigures,
    PairFigures,
    PersonaFigures,
    QueryFigures,
    Survey,
    Totals,
    Without,
)
from personas.survey.query import LeftOut, QueryFindings, mean

MOST_CASES = 50
MOST_ROWS = 5_000
MOST_PAIRS = 200
_MOST_EXAMPLES = 20

Name = TypeVar("Name", bound=str)


class Surveyor:
    """A survey in the making; queries come in any order and give the same survey."""

    def __init__(self) -> None:
        self._rows: dict[int, QueryFigures] = {}
        self._personas: dict[str, _Persona] = {}
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._criteria: dict[str, _Criterion] = {}
        self._cases: dict[CaseKind, list[Case]] = {kind: [] for kind in CASE_KINDS}
        self._alpha = AlphaSums()
        self._recruits = _Without()
        self._reused = self._locked = 0
        self._weak: WeakJudge = ""

    def add(self, findings: QueryFindings) -> None:
        """Add the findings of a query."""
        place = findings.figures.place
        if place < 1:
            raise ValueError(f"place {place!r} is below 1; queries are counted from 1")
        if place in self._rows:
            raise ValueError(f"place {place!r} was added before; give each query its own place")
        self._rows[place] = findings.figures
        self._add_judges(findings)
        for case in findings.cases:
            kept = self._cases[case.kind]
            insort(kept, case, key=lambda each: (-each.strength, each.place, each.rank))
            del kept[MOST_CASES:]
        self._alpha.merge(findings.alpha)
        if findings.left_out is not None:
            recruits = [judge.name for judge in findings.judges if judge.recruited]
            self._recruits.add(findings.left_out, recruits)
        self._reused += findings.reused
        self._locked += findings.locked
        self._weak = max(self._weak, findings.weak_judge)

    def finish(self) -> Survey:
        """The survey of all queries so far, without the words about the run."""
        rows = tuple(self._rows[place] for place in sorted(self._rows))
        pairs = sorted(self._pairs.items(), key=lambda each: (-each[1].queries, each[0]))
        names = {key: persona.name for key, persona in self._personas.items()}
        return Survey(
            totals=self._totals(rows),
            queries=rows,
            personas=tuple(each.figures() for each in _most_frequent(self._personas)),
            personas_in_all=len(self._personas),
            pairs=tuple(
                PairFigures(names[one], names[two], pair.queries, pair.tau.value)
                for (one, two), pair in pairs[:MOST_PAIRS]
            ),
            criteria=tuple(each.figures(names) for each in _most_frequent(self._criteria)),
            criteria_in_all=len(self._criteria),
            cases={kind: tuple(cases) for kind, cases in self._cases.items()},
            recruits=self._recruits.figures(),
            weak_judge=self._weak,
        )

    def _add_judges(self, findings: QueryFindings) -> None:
        place, sums = findings.figures.place, []
        for judge in findings.judges:
            key = judge.name.casefold()
            persona = self._personas.setdefault(key, _Persona())
            sums.append((key, persona))
            persona.see(judge.name, place, human=judge.hands.by_human)
            persona.origins[judge.member.origin] += 1
            persona.recruited += judge.recruited
            persona.scores.add(judge.scores, judge.scored)
            persona.missing += judge.missing
            if findings.left_out is not None:
                persona.without.add(findings.left_out, [judge.name])
            if judge.member.rubric is None:
                continue
            criteria = judge.member.rubric.criteria
            for criterion, hand in zip(criteria, judge.hands.criteria, strict=True):
                known = self._criteria.setdefault(criterion.name.casefold(), _Criterion())
                known.see(criterion.name, place, human=hand == "human")
                known.personas[key] += 1
                known.weight.add(criterion.weight)
                known.least = min(known.least, criterion.weight)
                known.most = max(known.most, criterion.weight)
        for two, tau in findings.taus.items():
            (one_key, one), (other_key, other) = (sums[number] for number in two)
            names = (one_key, other_key) if one_key <= other_key else (other_key, one_key)
            pair = self._pairs.setdefault(names, _Pair())
            pair.queries += 1
            if tau is not None:
                for each in (pair, one, other):
                    each.tau.add(tau)

    def _totals(self, rows: tuple[QueryFigures, ...]) -> Totals:
        costs = [row.cost for row in rows if row.cost is not None]
        return Totals(
            queries=len(rows),
            failed=sum(bool(row.error) for row in rows),
            judged=sum(row.ndcg is not None and not row.error for row in rows),
            passages=sum(row.passages for row in rows),
            missing=sum(row.missing for row in rows),
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


@dataclass(slots=True)
class _Mean:
    """A mean whose sum is never rounded, so that it comes out the same in any order."""

    count: int = 0
    total: Fraction = Fraction(0)

    def add(self, total: float, count: int = 1) -> None:
        """Add one number, or the sum of `count` numbers."""
        self.total += Fraction(total)
        self.count += count

    @property
    def value(self) -> float | None:
        return float(self.total / self.count) if self.count else None


@dataclass(slots=True)
class _Without:
    queries: int = 0
    with_all: _Mean = field(default_factory=_Mean)
    without: _Mean = field(default_factory=_Mean)
    exact: bool = True

    def add(self, left_out: LeftOut, names: Iterable[str]) -> None:
        """Add one query, once with each of these personas left out."""
        known = [left_out.without[name] for name in names if name in left_out.without]
        if not known:
            return
        self.queries += 1
        self.exact &= left_out.exact
        for value in known:
            self.with_all.add(left_out.with_all)
            self.without.add(value)

    def figures(self) -> Without | None:
        with_all, without = self.with_all.value, self.without.value
        if with_all is None or without is None:
            return None
        return Without(self.queries, with_all, without, self.exact)


@dataclass(slots=True)
class _Pair:
    queries: int = 0
    tau: _Mean = field(default_factory=_Mean)


@dataclass(slots=True)
class _Named:
    """A name in many queries, by its spellings."""

    spellings: Counter[str] = field(default_factory=Counter)
    human: int = 0
    examples: list[int] = field(default_factory=list)

    def see(self, name: str, place: int, *, human: bool) -> None:
        self.spellings[name] += 1
        self.human += human
        if place not in self.examples:
            insort(self.examples, place)
            del self.examples[_MOST_EXAMPLES:]

    @property
    def name(self) -> str:
        """The most frequent spelling; of several the first in the alphabet."""
        return next(iter(_most_first(self.spellings)))

    @property
    def frequency(self) -> int:
        return self.spellings.total()


@dataclass(slots=True)
class _Persona(_Named):
    origins: Counter[Origin] = field(default_factory=Counter)
    recruited: int = 0
    scores: _Mean = field(default_factory=_Mean)
    missing: int = 0
    tau: _Mean = field(default_factory=_Mean)
    without: _Without = field(default_factory=_Without)

    def figures(self) -> PersonaFigures:
        return PersonaFigures(
            name=self.name,
            origins=_most_first(self.origins),
            queries=self.frequency,
            recruited=self.recruited,
            human=self.human,
            mean_score=self.scores.value,
            missing=self.missing,
            tau=self.tau.value,
            without=self.without.figures(),
            examples=tuple(self.examples),
        )


@dataclass(slots=True)
class _Criterion(_Named):
    personas: Counter[str] = field(default_factory=Counter)
    weight: _Mean = field(default_factory=_Mean)
    least: float = 100.0
    most: float = 0.0

    def figures(self, names: Mapping[str, str]) -> CriterionFigures:
        personas = islice(_most_first(self.personas).items(), _MOST_EXAMPLES)
        return CriterionFigures(
            name=self.name,
            rubrics=self.frequency,
            human=self.human,
            personas={names[key]: count for key, count in personas},
            mean_weight=self.weight.value or 0.0,
            least_weight=self.least,
            most_weight=self.most,
            examples=tuple(self.examples),
        )


_Table = TypeVar("_Table", bound=_Named)


def _most_frequent(table: Mapping[str, _Table]) -> list[_Table]:
    """The most frequent first, then by name; at most 5,000."""
    order = sorted(table, key=lambda key: (-table[key].frequency, key))
    return [table[key] for key in order[:MOST_ROWS]]


def _most_first(counts: Mapping[Name, int]) -> dict[Name, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
