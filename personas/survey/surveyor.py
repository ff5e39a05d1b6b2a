"""Makes a survey of ranked queries, one query at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import fsum

from personas.ranking.agreement import AlphaSums
from personas.ranking.types import WeakJudge
from personas.survey.model import PersonaFigures, QueryFigures, Survey, Totals, Without
from personas.survey.query import LeftOut, QueryFindings, mean

MOST_ROWS = 5_000


class Surveyor:
    """A survey in the making; queries come in any order and give the same survey."""

    def __init__(self) -> None:
        self._rows: dict[int, QueryFigures] = {}
        self._personas: dict[str, _Persona] = {}
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
        for judge in findings.judges:
            persona = self._personas.setdefault(judge.name.casefold(), _Persona())
            persona.spellings[judge.name] += 1
            persona.recruited += judge.recruited
            if findings.left_out is not None:
                persona.without.add(findings.left_out, [judge.name])
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
        personas = self._personas
        order = sorted(personas, key=lambda key: (-personas[key].spellings.total(), key))
        return Survey(
            totals=self._totals(rows),
            queries=rows,
            personas=tuple(personas[key].figures() for key in order[:MOST_ROWS]),
            personas_in_all=len(self._personas),
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
        )


@dataclass(slots=True)
class _Mean:
    """A mean whose sum is never rounded, so that it comes out the same in any order."""

    count: int = 0
    total: Fraction = Fraction(0)

    def add(self, number: float) -> None:
        self.total += Fraction(number)
        self.count += 1

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
class _Persona:
    """A name in many queries, by its spellings."""

    spellings: Counter[str] = field(default_factory=Counter)
    recruited: int = 0
    without: _Without = field(default_factory=_Without)

    def figures(self) -> PersonaFigures:
        """Under the most frequent spelling; of several the first in the alphabet."""
        counts = self.spellings
        return PersonaFigures(
            name=min(counts, key=lambda name: (-counts[name], name)),
            queries=counts.total(),
            recruited=self.recruited,
            without=self.without.figures(),
        )
