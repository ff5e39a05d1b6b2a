"""What personas and criteria come to over many queries; grows with their different names only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import fsum
from typing import TypeVar

from personas.schema import Origin
from personas.survey.model import CriterionFigures, PairFigures, PersonaFigures, Without
from personas.survey.query import Judge, LeftOut, QueryFindings
from personas.survey.sums import (
    MOST_EXAMPLES,
    ExactMean,
    add_counts,
    first_places,
    usual,
)

MOST_ROWS = 5_000
MOST_PAIRS = 200

Name = TypeVar("Name", bound=str)


@dataclass(slots=True)
class WithoutSums:
    """nDCG@10 with and without somebody, added up."""

    queries: int = 0
    with_all: ExactMean = field(default_factory=ExactMean)
    without: ExactMean = field(default_factory=ExactMean)
    exact: bool = True

    def take(self, left_out: LeftOut, names: Iterable[str]) -> None:
        """Add one query, once with each of these personas left out."""
        known = [left_out.without[name] for name in names if name in left_out.without]
        if not known:
            return
        self.queries += 1
        self.exact &= left_out.exact
        for value in known:
            self.with_all.add(left_out.with_all)
            self.without.add(value)

    def merge(self, other: WithoutSums) -> None:
        """Add all queries of the other."""
        self.queries += other.queries
        self.exact &= other.exact
        self.with_all.merge(other.with_all)
        self.without.merge(other.without)

    def figures(self) -> Without | None:
        """The means; None of no query."""
        with_all, without = self.with_all.value, self.without.value
        if with_all is None or without is None:
            return None
        return Without(self.queries, with_all, without, self.exact)


@dataclass(slots=True)
class _PersonaSums:
    spellings: dict[str, int] = field(default_factory=dict)
    origins: dict[Origin, int] = field(default_factory=dict)
    queries: int = 0
    recruited: int = 0
    human: int = 0
    scores: ExactMean = field(default_factory=ExactMean)
    missing: int = 0
    tau: ExactMean = field(default_factory=ExactMean)
    without: WithoutSums = field(default_factory=WithoutSums)
    examples: list[int] = field(default_factory=list)

    def take(self, place: int, judge: Judge, top: float) -> None:
        add_counts(self.spellings, [(judge.name, 1)])
        add_counts(self.origins, [(judge.member.origin, 1)])
        self.queries += 1
        self.recruited += judge.recruited
        self.human += judge.hands.by_human
        known = [score for score in judge.scores if score is not None]
        self.scores.add(fsum(known) / top, len(known))
        self.missing += judge.missing
        first_places(self.examples, [place])

    def merge(self, other: _PersonaSums) -> None:
        add_counts(self.spellings, other.spellings.items())
        add_counts(self.origins, other.origins.items())
        self.queries += other.queries
        self.recruited += other.recruited
        self.human += other.human
        self.scores.merge(other.scores)
        self.missing += other.missing
        self.tau.merge(other.tau)
        self.without.merge(other.without)
        first_places(self.examples, other.examples)

    def figures(self) -> PersonaFigures:
        return PersonaFigures(
            name=usual(self.spellings),
            origins=_most_first(self.origins),
            queries=self.queries,
            recruited=self.recruited,
            human=self.human,
            mean_score=self.scores.value,
            missing=self.missing,
            tau=self.tau.value,
            without=self.without.figures(),
            examples=tuple(self.examples),
        )


@dataclass(slots=True)
class _PairSums:
    queries: int = 0
    tau: ExactMean = field(default_factory=ExactMean)


@dataclass(slots=True)
class PersonaTable:
    """Personas, by name without regard to case, and pairs of them."""

    _personas: dict[str, _PersonaSums] = field(default_factory=dict)
    _pairs: dict[tuple[str, str], _PairSums] = field(default_factory=dict)

    def take(self, findings: QueryFindings) -> None:
        """Add one query."""
        keys = [_key(judge.name) for judge in findings.judges]
        for key, judge in zip(keys, findings.judges, strict=True):
            sums = self._personas.setdefault(key, _PersonaSums())
            sums.take(findings.figures.place, judge, findings.top)
            if findings.left_out is not None:
                sums.without.take(findings.left_out, [judge.name])
        for (one, other), tau in findings.taus.items():
            pair = self._pairs.setdefault(_sorted(keys[one], keys[other]), _PairSums())
            pair.queries += 1
            if tau is not None:
                pair.tau.add(tau)
                self._personas[keys[one]].tau.add(tau)
                self._personas[keys[other]].tau.add(tau)

    def merge(self, other: PersonaTable) -> None:
        """Add all queries of the other."""
        for key, sums in other._personas.items():
            self._personas.setdefault(key, _PersonaSums()).merge(sums)
        for pair, found in other._pairs.items():
            mine = self._pairs.setdefault(pair, _PairSums())
            mine.queries += found.queries
            mine.tau.merge(found.tau)

    def __len__(self) -> int:
        return len(self._personas)

    def name(self, key: str) -> str:
        """How the persona is written most often."""
        return usual(self._personas[key].spellings)

    def personas(self) -> tuple[PersonaFigures, ...]:
        """The most frequent first, then by name; at most 5,000."""
        order = sorted(self._personas, key=lambda key: (-self._personas[key].queries, key))
        return tuple(self._personas[key].figures() for key in order[:MOST_ROWS])

    def pairs(self) -> tuple[PairFigures, ...]:
        """The most frequent first, then by their names; at most 200."""
        order = sorted(self._pairs, key=lambda pair: (-self._pairs[pair].queries, pair))
        return tuple(
            PairFigures(
                self.name(pair[0]),
                self.name(pair[1]),
                self._pairs[pair].queries,
                self._pairs[pair].tau.value,
            )
            for pair in order[:MOST_PAIRS]
        )


@dataclass(slots=True)
class _CriterionSums:
    spellings: dict[str, int] = field(default_factory=dict)
    human: int = 0
    personas: dict[str, int] = field(default_factory=dict)
    weight: ExactMean = field(default_factory=ExactMean)
    least: float = 100.0
    most: float = 0.0
    examples: list[int] = field(default_factory=list)

    def merge(self, other: _CriterionSums) -> None:
        add_counts(self.spellings, other.spellings.items())
        self.human += other.human
        add_counts(self.personas, other.personas.items())
        self.weight.merge(other.weight)
        self.least = min(self.least, other.least)
        self.most = max(self.most, other.most)
        first_places(self.examples, other.examples)

    @property
    def rubrics(self) -> int:
        return self.weight.count


@dataclass(slots=True)
class CriterionTable:
    """Criteria, by name without regard to case."""

    _criteria: dict[str, _CriterionSums] = field(default_factory=dict)

    def take(self, findings: QueryFindings) -> None:
        """Add one query's rubrics."""
        for judge in findings.judges:
            if judge.member.rubric is None:
                continue
            criteria = judge.member.rubric.criteria
            for criterion, hand in zip(criteria, judge.hands.criteria, strict=True):
                sums = self._criteria.setdefault(_key(criterion.name), _CriterionSums())
                add_counts(sums.spellings, [(criterion.name, 1)])
                add_counts(sums.personas, [(_key(judge.name), 1)])
                sums.human += hand == "human"
                sums.weight.add(criterion.weight)
                sums.least = min(sums.least, criterion.weight)
                sums.most = max(sums.most, criterion.weight)
                first_places(sums.examples, [findings.figures.place])

    def merge(self, other: CriterionTable) -> None:
        """Add all rubrics of the other."""
        for key, sums in other._criteria.items():
            self._criteria.setdefault(key, _CriterionSums()).merge(sums)

    def __len__(self) -> int:
        return len(self._criteria)

    def criteria(self, personas: PersonaTable) -> tuple[CriterionFigures, ...]:
        """The most frequent first, then by name; at most 5,000.

        Args:
            personas: those whose rubrics these are; they know how names are written.
        """
        order = sorted(self._criteria, key=lambda key: (-self._criteria[key].rubrics, key))
        return tuple(_figures(self._criteria[key], personas) for key in order[:MOST_ROWS])


def _figures(sums: _CriterionSums, personas: PersonaTable) -> CriterionFigures:
    return CriterionFigures(
        name=usual(sums.spellings),
        rubrics=sums.rubrics,
        human=sums.human,
        personas={
            personas.name(key): count
            for key, count in islice(_most_first(sums.personas).items(), MOST_EXAMPLES)
        },
        mean_weight=float(sums.weight.total / sums.weight.count),
        least_weight=sums.least,
        most_weight=sums.most,
        examples=tuple(sums.examples),
    )


def _key(name: str) -> str:
    return name.casefold()


def _sorted(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def _most_first(counts: Mapping[Name, int]) -> dict[Name, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
