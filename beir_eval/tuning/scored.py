"""Scores and judgements of ranked queries as arrays, and the nDCG@10 that weights give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from personas.ensembles import SUM, Rule
from personas.ranking.effectiveness import discounted
from personas.ranking.record import RankingRecord
from personas.schema import Member, Team

Numbers = NDArray[np.float64]

DEPTH = 10
"""Ranks that count, as in nDCG@10."""

_DIGITS = 9  # decimals of a score; what is equal on paper is equal here
_EXACT = 1e-6
_PERSONA_DIGITS, _CRITERION_DIGITS = 3, 2  # decimals of weights in files


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of a team: of its personas, then of each persona's criteria that can be fitted.

    Attributes:
        flat: all of them, of shape (weights,).
        groups: the part of the personas, and of the criteria of each; empty where a persona was
            not scored by criterion. Only proportions within a group count.
    """

    flat: Numbers
    groups: tuple[slice, ...]

    @classmethod
    def of(cls, team: Team, fitted: Sequence[bool]) -> Weights:
        """The weights that a team has; criteria only of the personas that are `fitted`."""
        parts = [[member.weight for member in team.members]]
        for member, wanted in zip(team.members, fitted, strict=True):
            criteria = member.rubric.criteria if member.rubric and wanted else ()
            parts.append([criterion.weight for criterion in criteria])
        ends = accumulate(map(len, parts), initial=0)
        groups = tuple(slice(*each) for each in pairwise(ends))
        return cls(np.array([each for part in parts for each in part]), groups)

    def times(self, logs: Numbers) -> Weights:
        """The weights times e to the power of `logs`, with the same sum in each group."""
        flat = self.flat * np.exp(logs)
        for group in self.groups:
            if total := flat[group].sum():
                flat[group] *= self.flat[group].sum() / total
        return Weights(flat, self.groups)

    def part(self, group: int) -> Numbers:
        """Proportions within a group, with the sum 1."""
        found = self.flat[self.groups[group]]
        return np.asarray(found / found.sum())

    def on(self, team: Team) -> Team:
        """The team with these weights, rounded as files hold them."""
        members: list[Member] = []
        personas = (self.part(0) * len(team.members)).round(_PERSONA_DIGITS).tolist()
        for place, (member, weight) in enumerate(zip(team.members, personas, strict=True), 1):
            update: dict[str, object] = {"weight": weight}
            group = self.groups[place]
            if member.rubric is not None and group.stop > group.start:
                percents = (100 * self.part(place)).round(_CRITERION_DIGITS)
                percents[np.argmax(percents)] += 100 - percents.sum()
                pairs = zip(member.rubric.criteria, percents.round(_CRITERION_DIGITS), strict=True)
                criteria = [each.model_copy(update={"weight": float(to)}) for each, to in pairs]
                update["rubric"] = member.rubric.model_copy(update={"criteria": tuple(criteria)})
            members.append(member.model_copy(update=update))
        return team.model_copy(update={"members": tuple(members)})


@dataclass(frozen=True, slots=True, eq=False)
class ScoredQueries:
    """Queries ranked by one team, of which scores and judgements are known.

    Arrays have a row a query and a column a passage, in first-stage order; rows of fewer passages
    are filled up.

    Attributes:
        rule: from scores to final ones, without the weights.
        values: scores, of shape (queries, passages, personas); NaN for missing ones.
        criteria: by persona, scores by criterion, of shape (queries, passages, criteria); None
            where a persona was not scored so.
        judged: True where the personas were asked about the passage.
        first_stage: the first stage's scores; NaN where unknown.
        gains: grades, 0 for passages without one and for grades below 0.
        best: DCG@10 of the best order of all judged documents; shape (queries,).
    """

    rule: Rule
    values: Numbers
    criteria: tuple[Numbers | None, ...]
    judged: NDArray[np.bool_]
    first_stage: Numbers
    gains: Numbers
    best: Numbers

    @classmethod
    def of(
        cls, rankings: Sequence[RankingRecord], qrels: Iterable[Mapping[str, int]], rule: Rule
    ) -> ScoredQueries:
        """The arrays of rankings with one and the same team, with the judgements of each."""
        team = rankings[0].team
        assert team is not None, "rankings of a team"
        shape = len(rankings), max(len(each.passages) for each in rankings)
        values = np.full((*shape, len(team.members)), np.nan)
        rubrics = [member.rubric.criteria if member.rubric else () for member in team.members]
        criteria = [np.full((*shape, len(each)), np.nan) for each in rubrics]
        judged, gains = np.zeros(shape, dtype=np.bool_), np.zeros(shape)
        first_stage, best = np.full(shape, np.nan), np.zeros(shape[0])
        for row, (ranking, grades) in enumerate(zip(rankings, qrels, strict=True)):
            count = len(ranking.passages)
            values[row, :count] = ranking.matrix.values
            judged[row, :count] = np.isfinite(ranking.final)
            for place, _ in ranking.matrix.reasons:
                judged[row, place] = True
            for (place, column), given in ranking.matrix.criteria.items():
                criteria[column][row, place] = given
            for place, passage in enumerate(ranking.passages):
                gains[row, place] = max(grades.get(passage.id, 0), 0)
                first_stage[row, place] = np.nan if passage.score is None else passage.score
            best[row] = discounted(sorted(grades.values(), reverse=True)[:DEPTH])
        by_criterion = []
        for column, (scores, listed) in enumerate(zip(criteria, rubrics, strict=True)):
            known = ~np.isnan(values[:, :, column])
            means = scores @ np.array([each.weight for each in listed]) / 100
            # Of a scheme that combines criteria otherwise, new weights would predict nothing.
            fits = known.any() and np.allclose(
                means[known], values[:, :, column][known], rtol=0, atol=_EXACT
            )
            by_criterion.append(scores if len(listed) > 1 and fits else None)
        return cls(rule, values, tuple(by_criterion), judged, first_stage, gains, best)

    def take(self, rows: NDArray[np.intp]) -> ScoredQueries:
        """Some of the queries."""
        criteria = tuple(None if each is None else each[rows] for each in self.criteria)
        others = (each[rows] for each in (self.first_stage, self.gains, self.best))
        return ScoredQueries(self.rule, self.values[rows], criteria, self.judged[rows], *others)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """True where a passage has a final score."""
        if self.rule.missing_policy == "constant":
            return self.judged
        return self.judged & ~np.isnan(self.values).all(axis=2)

    def scores(self, weights: Weights) -> Numbers:
        """Scores by persona with these weights of the criteria, as `values`."""
        found = self.values.copy()
        for column, scores in enumerate(self.criteria):
            if scores is not None:
                found[:, :, column] = scores @ weights.part(column + 1)
        return found

    def finals(self, weights: Weights) -> Numbers:
        """Final scores; minus infinity where a passage has none."""
        rule = self.rule.weighted(weights.part(0).tolist())
        values = self.scores(weights)
        weighed = rule.weigh(rule.filled(values.reshape(-1, values.shape[2])))
        finals = weighed.sum(axis=1).reshape(values.shape[:2])
        if rule.first_stage_weight:
            both = rule.first_stage_weight * self.first_units
            both += (1 - rule.first_stage_weight) * _unit_ranges(finals, self.scored)
            finals = np.where(np.isnan(self.first_units), finals, both)
        return np.where(self.scored, finals.round(_DIGITS), -np.inf)

    @property
    def first_units(self) -> Numbers:
        """The first stage's scores from 0 to 1 a query; NaN where it did not score all of them."""
        whole = ~(self.judged & np.isnan(self.first_stage)).any(axis=1, keepdims=True)
        return np.where(whole, _unit_ranges(self.first_stage, self.scored), np.nan)

    def ndcg(self, weights: Weights) -> Numbers:
        """NDCG@10 of each query; equal final scores keep first-stage order."""
        finals = self.finals(weights)
        queries, places = np.nonzero(self.gains)
        rows, own = finals[queries], finals[queries, places][:, None]
        earlier = np.arange(finals.shape[1]) < places[:, None]
        ranks = 1 + ((rows > own) | ((rows == own) & earlier)).sum(axis=1)
        gained = np.where(ranks <= DEPTH, self.gains[queries, places] / np.log2(ranks + 1), 0.0)
        found = np.bincount(queries, gained, len(self.best))
        return np.divide(found, self.best, out=np.zeros(len(found)), where=self.best > 0)


def why_unfit(ranking: RankingRecord) -> str:
    """The reason why weights cannot be fitted to a ranking by a team; empty if they can."""
    rule = Rule.of(ranking.config)
    if ranking.orders is not None or ranking.members or ranking.ranker != "mcranker":
        return "has no scores by persona; rank with MCRanker"
    if rule.ensemble.name != SUM.name:
        return f'was combined by {rule.ensemble.name!r}; rank with ensemble="sum"'
    if ranking.matrix.unasked[np.isfinite(ranking.final)].any() or ranking.bounds:
        return "lacks scores that top_k left out; rank without top_k"
    if ranking.config.get("instruction"):
        return "was ranked with an instruction, which is a criterion there; rank without it"
    return "leaves the team no share; lower first_stage_weight" * (rule.first_stage_weight == 1)


def _unit_ranges(scores: Numbers, where: NDArray[np.bool_]) -> Numbers:
    """Each row from 0 to 1 over the places of `where`; 0 where all are equal."""
    low = np.where(where, scores, np.inf).min(axis=1, keepdims=True)
    high = np.where(where, scores, -np.inf).max(axis=1, keepdims=True)
    spread = high - low
    shares = np.zeros(scores.shape)
    np.divide(scores - low, spread, out=shares, where=where & (spread > 0))
    return shares
