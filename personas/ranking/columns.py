"""The columns of a ranking, and what follows from them for its passages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any

from personas.ensembles import Ensemble, Rule, descending, distinct, find_ensemble, unit_range
from personas.ranking.orders import points, rule_of_points
from personas.ranking.types import (
    Comparisons,
    Orders,
    Passage,
    Query,
    Reason,
    ScoreMatrix,
    WindowCounts,
)
from personas.ranking.usage import UsageTable
from personas.ranking.weak_judges import WeakJudge, judge_note
from personas.schema import Member, Team

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from personas.ranking.suspicions import Suspicion


@dataclass(frozen=True, slots=True)
class OtherPlace:
    """Where another ranker has a passage: rank from 1, and score, None where it gave none."""

    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class OtherRanking:
    """The places, by document id, that another ranker gave; `top` is its highest score possible."""

    name: str
    top: float | None
    places: Mapping[str, OtherPlace]

    @classmethod
    def of(cls, name: str, top: float | None, ranking: RankingColumns | None) -> OtherRanking:
        """The places of a ranking; none if there is none."""
        if ranking is None:
            return cls(name, top, {})
        places = {}
        for rank, row in enumerate(ranking.order.tolist(), 1):
            score = float(ranking.final[row])
            places[ranking.passages[row].id] = OtherPlace(rank, None if isnan(score) else score)
        return cls(name, top, places)


@dataclass(frozen=True, eq=False)
class RankingColumns:
    """Columns of a ranking: questions, answers and counts, by passage and persona."""

    query: Query
    passages: tuple[Passage, ...]
    order: NDArray[np.intp]
    final: NDArray[np.float64]
    matrix: ScoreMatrix
    personas: tuple[str, ...]
    team: Team | None
    ranker: str
    config: Mapping[str, Any]
    models: Mapping[str, str]
    prompt_hashes: Mapping[str, str]
    calls: UsageTable
    seconds: Mapping[str, float]
    assessor_reasons: Mapping[int, str] = field(default_factory=dict)
    absolute: bool = False
    relevances: Mapping[int, float] = field(default_factory=dict)
    partial: bool = False
    failure: str = ""
    cut: Mapping[int, int] = field(default_factory=dict)
    comparisons: Comparisons | None = None
    dropped: Mapping[int, float] = field(default_factory=dict)
    windows: WindowCounts | None = None
    orders: Orders | None = None
    undecided: tuple[tuple[int, int], ...] = ()
    weak_judge: WeakJudge = ""
    reasons: Mapping[tuple[int, str], Reason] = field(default_factory=dict)
    false_quotes: int = 0
    has_texts: bool = True
    grades: Mapping[str, int] | None = None
    other: OtherRanking | None = None

    # Who judged

    @property
    def judges(self) -> tuple[str, ...]:
        """The personas whose scores count, or whose orders do, in team order."""
        if self.orders is None:
            return self.personas
        return tuple(name for name in self.orders.personas if name not in self.orders.left_out)

    @property
    def left_out(self) -> Mapping[str, str]:
        """Persona -> why its order does not count, where a team compared."""
        return self.orders.left_out if self.orders else {}

    @property
    def unfilled(self) -> int:
        """Recruits that lack, because fewer were named than asked for."""
        size = self.config.get("team_size")
        return max(0, size - len(self.team.members)) if self.team and isinstance(size, int) else 0

    @property
    def judge_note(self) -> str:
        """A sentence about a weak judge; empty if it is not known to be weak."""
        return judge_note(self.weak_judge, self.models.get("scoring", ""))

    def member(self, persona: str) -> Member | None:
        """The team's member of that name; None if there is none."""
        members = self.team.members if self.team else ()
        return next((each for each in members if each.name == persona), None)

    # What follows from the scores

    @property
    def ensemble(self) -> Ensemble | None:
        """The ensemble; None if it is not known here."""
        return find_ensemble(self.config)

    @cached_property
    def _returned(self) -> Sequence[int]:
        """Places in `hits` of those that the ranker, ``min_relevance`` and ``top_n`` leave."""
        least, most = self.config.get("min_relevance"), self.config.get("top_n")
        left = list(enumerate(self.order.tolist()))
        if isinstance(least, int | float) and self.relevances:
            left = [each for each in left if self.relevances.get(each[1], -1.0) >= least]
        few = most if isinstance(most, int) and most > 0 else None
        return [place for place, row in left if row not in self.dropped][:few]

    @cached_property
    def rule(self) -> Rule:
        """The rule by which scores, or points, become final scores."""
        return self._points_and_rule[1]

    @cached_property
    def _points_and_rule(self) -> tuple[Mapping[int, Mapping[str, float]], Rule]:
        """Row -> persona -> its points, where a team compared passages; and the rule for them."""
        members = self.team.members if self.team else ()
        rule = Rule.of(self.config).for_columns(members, self.judges)
        if self.orders is None or not self.judges:
            return {}, rule
        import numpy as np

        ranks = self.orders.counted
        judged = np.flatnonzero(np.isfinite(self.final) & ~np.isnan(ranks).any(axis=1))
        rows, group_of = distinct(self.passages[row].content for row in judged.tolist())
        found = points(ranks[judged[rows]])[group_of].tolist()
        by_row = {
            row: dict(zip(self.judges, each, strict=True))
            for row, each in zip(judged.tolist(), found, strict=True)
        }
        return by_row, rule_of_points(rule, len(rows))

    @cached_property
    def _leave_one_out(self) -> Mapping[int, tuple[int, Mapping[str, int]]]:
        """Row -> rank by all scores, and for each persona by those of the others."""
        import numpy as np

        # Without a persona, a passage that only it has scored comes among those without a score.
        lacking = self.assessor_reasons.keys() | {row for row, _ in self.matrix.reasons}
        scored = set(np.flatnonzero(np.isfinite(self.final)).tolist())
        asked = sorted(scored | (lacking - self.dropped.keys()))
        names = self.judges
        marks = self.matrix.values
        if self.orders is not None:
            marks = np.full((len(self.passages), len(names)), np.nan)
            for row, given in self._points_and_rule[0].items():
                marks[row] = list(given.values())
        # Passages that were judged as one have the same scores.
        judged_as = (
            (*self.passages[row].content, *map(repr, marks[row].tolist())) for row in asked
        )
        rows, group_of = distinct(judged_as)
        values = marks[[asked[row] for row in rows]]
        first_stage = [self.passages[row].score for row in asked]

        members = self.team.members if self.team else ()

        def ranks(columns: Sequence[int]) -> list[int]:
            rule = self.rule.for_columns(members, [names[place] for place in columns])
            order = descending(rule.final(values[:, columns], group_of, first_stage))
            return [int(place) + 1 for place in np.argsort(order)]

        left_out, every = names if len(names) > 1 else (), range(len(names))
        without = [ranks([each for each in every if each != place]) for place in every if left_out]
        return {
            row: (of_all, dict(zip(left_out, others, strict=True)))
            for row, of_all, *others in zip(asked, ranks(every), *without, strict=True)
        }

    @cached_property
    def _shares(self) -> Mapping[int, tuple[float, float]]:
        """Row -> what of the final score is the personas', and what the first stage's, 0 to 1."""
        weight = Rule.of(self.config).first_stage_weight
        import numpy as np

        judged = np.flatnonzero(np.isfinite(self.final)).tolist()
        given = [each for row in judged if (each := self.passages[row].score) is not None]
        if not weight or len(given) < len(judged):
            return {}
        found = {}
        for row, first in zip(judged, unit_range(np.array(given)).tolist(), strict=True):
            own = (float(self.final[row]) - weight * first) / (1 - weight) if weight < 1 else 0.0
            found[row] = min(max(own, 0.0), 1.0), first
        return found

    @cached_property
    def _suspicions_of(self) -> Callable[[str, str], tuple[Suspicion, ...]]:
        from personas.ranking.suspicions import SuspicionDetector

        return SuspicionDetector(self.query.text).suspicions
