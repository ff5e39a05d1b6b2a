"""A survey of many ranked queries; pages and terminals only show what is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from personas.ranking.types import WeakJudge, judge_note

SIGNIFICANT = 0.05
"""Corrected p-values below it are significant."""


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One query. Figures that cannot be computed are None; nDCG@10 needs judgements."""

    place: int
    query_id: str
    query: str
    personas: tuple[str, ...] = ()
    passages: int = 0
    missing: int = 0
    calls: int = 0
    cost: float | None = 0.0
    disagreement: float | None = None
    alpha: float | None = None
    tau: float | None = None
    ndcg: float | None = None
    first_stage_ndcg: float | None = None
    other_ndcg: float | None = None
    error: str = ""

    @property
    def gain(self) -> float | None:
        """nDCG@10 over the first stage's, -1 to 1."""
        return self._over(self.first_stage_ndcg)

    @property
    def gain_over_other(self) -> float | None:
        """nDCG@10 over that of the ranker compared with, -1 to 1."""
        return self._over(self.other_ndcg)

    def _over(self, theirs: float | None) -> float | None:
        return None if self.ndcg is None or theirs is None else self.ndcg - theirs


@dataclass(frozen=True, slots=True)
class Without:
    """Mean nDCG@10 with and without a persona, over the judged queries where both exist."""

    queries: int
    with_all: float
    without: float
    exact: bool

    @property
    def worth(self) -> float:
        """The persona's part of nDCG@10; negative if the team is better without."""
        return self.with_all - self.without


@dataclass(frozen=True, slots=True)
class PersonaFigures:
    """One persona, by name without regard to case."""

    name: str
    queries: int
    recruited: int
    without: Without | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The team's nDCG@10 and that of another order, over judged queries, with ties by lot."""

    against: str
    queries: int
    ours: float
    theirs: float
    low: float
    high: float
    p_value: float | None
    why_not: str = ""

    @property
    def mean(self) -> float:
        """Of the differences, -1 to 1."""
        return self.ours - self.theirs

    @property
    def sign(self) -> int:
        """1 where the team is significantly better, -1 where it is worse, else 0."""
        if self.p_value is None or self.p_value >= SIGNIFICANT:
            return 0
        return (self.mean > 0) - (self.mean < 0)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums and means over all queries, of the fields of `QueryFigures`."""

    queries: int
    failed: int
    judged: int
    passages: int
    missing: int
    calls: int
    reused: int
    cost: float | None
    ndcg: float | None
    first_stage_ndcg: float | None
    other_ndcg: float | None
    alpha: float | None
    tau: float | None
    disagreement: float | None
    locked: int


@dataclass(frozen=True, slots=True)
class Survey:
    """One run of a team over a data set."""

    totals: Totals
    queries: tuple[QueryFigures, ...]
    personas: tuple[PersonaFigures, ...]
    personas_in_all: int
    recruits: Without | None
    weak_judge: WeakJudge = ""
    title: str = ""
    dataset: str = ""
    collection: str = ""
    first_stage: str = ""
    other: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def judge(self) -> str:
        """A sentence about a weak judge; empty for others."""
        return judge_note(self.weak_judge, self.models.get("scoring", ""))
