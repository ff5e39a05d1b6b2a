"""A team over a whole data set: its members, their agreement and what each of them is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from math import fsum
from typing import Any

from personas.ensembles import descending
from personas.ranking.agreement import AlphaSums, ndcg
from personas.ranking.record import RankingRecord
from personas.ranking.types import WeakJudge, judge_note
from personas.schema import Team

DEPTH = 10  # ranks that count: nDCG is nDCG@10
MOST_NAME, MOST_TEXT = 200, 300  # characters
SIGNIFICANT = 0.05  # corrected p-values below it are significant


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


@dataclass(frozen=True, slots=True)
class QueryFindings:
    """All that a survey takes from one query; one that failed has figures alone."""

    figures: QueryFigures
    recruited: frozenset[str] = frozenset()
    taus: Mapping[tuple[str, str], float | None] = field(default_factory=dict)
    alpha: AlphaSums = field(default_factory=AlphaSums)
    with_all: float | None = None
    without: Mapping[str, float] = field(default_factory=dict)
    exact: bool = True
    reused: int = 0
    locked: bool = False
    weak_judge: WeakJudge = ""

    @classmethod
    def of(cls, place: int, ranking: RankingRecord) -> QueryFindings:
        """The findings; `place` is the query's, from 1."""
        hits, other, team = ranking.hits, ranking.other, ranking.team
        members = {member.name: member for member in team.members} if team else {}
        judges = tuple(name for name in ranking.personas if name in members)
        taus = {
            pair: tau for pair, tau in ranking.agreement.taus.items() if members.keys() >= {*pair}
        }
        alpha = ranking.agreement.sums if judges else AlphaSums()
        spread = mean(hit.disagreement for hit in hits) if judges else None
        grades = ranking.grades or {}
        theirs = other.places.items() if other else ()
        figures = QueryFigures(
            place=place,
            query_id=cut(ranking.query.id, MOST_NAME),
            query=cut(ranking.query.text, MOST_TEXT),
            personas=judges,
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
        with_all, without = _left_out(ranking, judges)
        return cls(
            figures=figures,
            # Only a recruiter gives a reason to a member of the library.
            recruited=frozenset(
                name
                for name in judges
                if team is not None
                and _made_for(team, ranking.query.text)
                and (
                    members[name].origin == "recruited"
                    or (members[name].origin == "library" and bool(members[name].persona.reason))
                )
            ),
            taus=taus,
            alpha=alpha,
            with_all=with_all,
            without=without,
            exact=with_all is None or ranking.leave_one_out_exact,
            reused=ranking.reused.calls,
            locked=team is not None and team.locked,
            weak_judge=ranking.weak_judge,
        )


def survey_of(findings: Iterable[QueryFindings], **about: Any) -> Survey:
    """The survey of these queries, in any order; `about` are fields of `Survey` about the run."""
    found = sorted(findings, key=lambda each: each.figures.place)
    rows = tuple(each.figures for each in found)
    spellings: dict[str, Counter[str]] = {}
    recruited: Counter[str] = Counter()
    without: dict[str, list[tuple[QueryFindings, float]]] = {}
    alpha = AlphaSums()
    for each in found:
        alpha.merge(each.alpha)
        for name in each.figures.personas:
            key = name.casefold()
            spellings.setdefault(key, Counter())[name] += 1
            recruited[key] += name in each.recruited
            if name in each.without:
                without.setdefault(key, []).append((each, each.without[name]))
    order = sorted(spellings, key=lambda key: (-spellings[key].total(), key))
    costs = [row.cost for row in rows if row.cost is not None]
    return Survey(
        totals=Totals(
            queries=len(rows),
            failed=sum(bool(row.error) for row in rows),
            judged=sum(row.ndcg is not None and not row.error for row in rows),
            passages=sum(row.passages for row in rows),
            missing=sum(row.missing for row in rows),
            calls=sum(row.calls for row in rows),
            reused=sum(each.reused for each in found),
            cost=fsum(costs) if len(costs) == len(rows) else None,
            ndcg=mean(row.ndcg for row in rows),
            first_stage_ndcg=mean(row.first_stage_ndcg for row in rows),
            other_ndcg=mean(row.other_ndcg for row in rows),
            tau=mean(row.tau for row in rows),
            disagreement=mean(row.disagreement for row in rows),
            alpha=alpha.alpha,
            locked=sum(each.locked for each in found),
        ),
        queries=rows,
        personas=tuple(
            PersonaFigures(
                # The most frequent spelling; of several the first in the alphabet.
                name=min(spellings[key], key=lambda name: (-spellings[key][name], name)),
                queries=spellings[key].total(),
                recruited=recruited[key],
                without=_without(without.get(key, ())),
            )
            for key in order
        ),
        personas_in_all=len(order),
        weak_judge=max((each.weak_judge for each in found), default=""),
        **about,
    )


def mean(numbers: Iterable[float | None]) -> float | None:
    """Mean of the numbers that are there, in any order; None of none."""
    known = [number for number in numbers if number is not None]
    return fsum(known) / len(known) if known else None


def cut(text: str, most: int) -> str:
    """The text in at most that many characters, the last one an ellipsis if some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _without(found: Iterable[tuple[QueryFindings, float]]) -> Without | None:
    """Means over queries, each as often as a persona was left out of it."""
    known = [(each, each.with_all, value) for each, value in found]
    with_all, without = mean(each[1] for each in known), mean(each[2] for each in known)
    if with_all is None or without is None:
        return None
    queries = {each.figures.place for each, _, _ in known}
    return Without(len(queries), with_all, without, all(each.exact for each, _, _ in known))


def _made_for(team: Team, query: str) -> bool:
    """True if the team was recruited for the query, and is not that of another one."""
    asked, known = query.strip(), team.query
    # A long query may be in its team cut to the longest that a team can hold.
    return bool(known) and (asked == known or (len(known) >= 19_000 and asked.startswith(known)))


def _left_out(
    ranking: RankingRecord, judges: Iterable[str]
) -> tuple[float | None, dict[str, float]]:
    """NDCG@10 with all personas, and without each, by the arithmetic of leaving one out.

    Equal scores count by lot: a team of fewer has more of them, and their order as given is none of
    a persona's doing.
    """
    if ranking.grades is None or not ranking.judged or len(ranking.personas) < 2:
        return None, {}
    asked, finals = ranking.left_out_scores
    gains = [max(hit.grade or 0, 0) for hit in asked]
    there = {hit.rank for hit in asked}
    behind = [hit.grade for hit in ranking.hits if hit.rank not in there]
    found = {}
    for name, scores in finals.items():
        placed = list[float | None]()
        order = descending(scores).tolist()
        for _, tied in groupby(order, key=lambda row: scores[row]):
            rows = list(tied)
            placed += [fsum(gains[row] for row in rows) / len(rows)] * len(rows)
        value = ndcg([*placed, *behind], ranking.grades.values(), DEPTH)
        if value is not None:
            found[name] = value
    with_all = found.pop(None, None)
    return with_all, {name: found[name] for name in judges if name in found}


def _ndcg(ranking: RankingRecord, placed: Iterable[tuple[int, int | None]]) -> float | None:
    if ranking.grades is None:
        return None
    grades: list[int | None] = [None] * DEPTH
    for rank, grade in placed:
        if rank <= DEPTH:
            grades[rank - 1] = grade
    return ndcg(grades, ranking.grades.values(), DEPTH)
