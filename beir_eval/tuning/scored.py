"""Scores and judgements of ranked queries as arrays, and the nDCG@10 that weights give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from personas.ensembles import SUM, Rule, interpolate, unit_range
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
            not scored by criterion. The sum of each is 1.
    """

    flat: Numbers
    groups: tuple[slice, ...]

    @classmethod
    def of(cls, team: Team, fitted: Iterable[bool]) -> Weights:
        """The weights that a team has; criteria only of the personas that are `fitted`."""
        parts = [[member.weight for member in team.members]]
        for member, wanted in zip(team.members, fitted, strict=True):
            criteria = member.rubric.criteria if member.rubric and wanted else ()
            parts.append([criterion.weight for criterion in criteria])
        ends = accumulate(map(len, parts), initial=0)
        flat = np.concatenate(parts)
        return cls(flat, tuple(slice(*each) for each in pairwise(ends))).times(np.zeros(len(flat)))

    def times(self, logs: Numbers) -> Weights:
        """The weights times e to the power of `logs`, with the sum 1 in each group."""
        flat = self.flat * np.exp(logs)
        for group in self.groups:
            flat[group] /= flat[group].sum()
        return Weights(flat, self.groups)

    def part(self, group: int) -> Numbers:
        """Proportions within a group."""
        return self.flat[self.groups[group]]

    def on(self, team: Team) -> Team:
        """The team with these weights, rounded as files hold them."""
        members: list[Member] = []
        personas = (self.part(0) * len(team.members)).round(_PERSONA_DIGITS).tolist()
        for place, (member, weight) in enumerate(zip(team.members, personas, strict=True), 1):
            rubric, percents = member.rubric, (100 * self.part(place)).round(_CRITERION_DIGITS)
            if rubric is not None and len(percents):
                percents[np.argmax(percents)] += 100 - percents.sum()
                pairs = zip(rubric.criteria, percents.round(_CRITERION_DIGITS), strict=True)
                criteria = [each.model_copy(update={"weight": float(to)}) for each, to in pairs]
                rubric = rubric.model_copy(update={"criteria": tuple(criteria)})
            members.append(member.model_copy(update={"weight": weight, "rubric": rubric}))
        return team.model_copy(update={"members": tuple(members)})


@dataclass(frozen=True, slots=True, eq=False)
class ScoredQueries:
    """Queries ranked by one team, of which scores and judgements are known.

    Arrays have a row a query and a column a passage, in first-stage order; rows of fewer passages
    are filled up.

    Attributes:
        rule: from scores to final ones, without the weights.
        values: scores, of shape (queries, passages, personas); NaN for missing ones.
        criteria: by persona, scores by criterion, of shape (queries, passages, criteria); of no
            criteria where a persona was not scored so.
        scored: True where a passage has a final score.
        first_units: the first stage's scores from 0 to 1 a query; NaN where it did not score all.
        gains: grades by DCG@10 of the best order of all judged documents; 0 for passages without a
            grade and for grades below 0.
    """

    rule: Rule
    values: Numbers
    criteria: tuple[Numbers, ...]
    scored: NDArray[np.bool_]
    first_units: Numbers
    gains: Numbers

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
        scored, gains = np.zeros(shape, dtype=np.bool_), np.zeros(shape)
        first_units = np.full(shape, np.nan)
        for row, (ranking, grades) in enumerate(zip(rankings, qrels, strict=True)):
            passages, own = ranking.passages, slice(len(ranking.passages))
            values[row, own] = ranking.matrix.values
            scored[row, own] = final = np.isfinite(ranking.final)
            for (place, column), given in ranking.matrix.criteria.items():
                criteria[column][row, place] = given
            first = np.array([each.score for each in passages], dtype=np.float64)
            if not np.isnan(first[~ranking.matrix.unasked.all(axis=1)]).any():
                first_units[row] = 0.0
                first_units[row, own][final] = unit_range(first[final])
            best = discounted(sorted(grades.values(), reverse=True)[:DEPTH])
            gains[row, own] = [max(grades.get(each.id, 0), 0) / (best or 1.0) for each in passages]
        for column, listed in enumerate(rubrics):
            known = ~np.isnan(values[:, :, column])
            means = criteria[column] @ np.array([each.weight for each in listed]) / 100
            # Of a scheme that combines criteria otherwise, new weights would predict nothing.
            fits = known.any() and np.allclose(
                means[known], values[:, :, column][known], rtol=0, atol=_EXACT
            )
            if len(listed) < 2 or not fits:
                criteria[column] = criteria[column][:, :, :0]
        return cls(rule, values, tuple(criteria), scored, first_units, gains)

    def take(self, rows: NDArray[np.intp]) -> ScoredQueries:
        """Some of the queries."""
        criteria = tuple(each[rows] for each in self.criteria)
        others = (self.first_units[rows], self.gains[rows])
        return ScoredQueries(self.rule, self.values[rows], criteria, self.scored[rows], *others)

    def weights(self, team: Team) -> Weights:
        """The weights of their team that can be fitted to them."""
        return Weights.of(team, [each.shape[2] > 0 for each in self.criteria])

    def filled(self, weights: Weights) -> Numbers:
        """Scores by persona with these weights, none missing, as `values`."""
        found, personas = self.values.copy(), weights.part(0).tolist()
        for column, scores in enumerate(self.criteria):
            if scores.shape[2]:
                found[:, :, column] = scores @ weights.part(column + 1)
        filled = self.rule.weighted(personas).filled(found.reshape(-1, len(personas)))
        return filled.reshape(found.shape)

    def finals(self, weights: Weights) -> Numbers:
        """Final scores; minus infinity where a passage has none."""
        personas, share = weights.part(0), self.rule.first_stage_weight
        finals = len(personas) * (self.filled(weights) @ personas)
        for row in np.flatnonzero(~np.isnan(self.first_units[:, 0])) if share else ():
            own = self.scored[row]
            finals[row, own] = interpolate(finals[row, own], self.first_units[row, own], share)
        return np.where(self.scored, finals.round(_DIGITS), -np.inf)

    def ndcg(self, weights: Weights) -> Numbers:
        """NDCG@10 of each query; equal final scores keep first-stage order."""
        order = np.argsort(-self.finals(weights), axis=1, kind="stable")[:, :DEPTH]
        gains = np.take_along_axis(self.gains, order, axis=1)
        found = gains @ (1 / np.log2(np.arange(order.shape[1]) + 2))
        return np.asarray(found.round(12))  # so that the best order has 1


def why_unfit(ranking: RankingRecord, first: RankingRecord) -> str:
    """The reason why weights cannot be fitted to a ranking, or not together with the first one.

    Empty if they can.
    """
    rule, team, other = Rule.of(ranking.config), ranking.team, first.team
    if ranking.orders is not None or ranking.ranker != "mcranker":
        return "has no scores by persona; rank with MCRanker"
    if rule.ensemble.name != SUM.name:
        return f'was combined by {rule.ensemble.name!r}; rank with ensemble="sum"'
    if ranking.config.get("instruction"):
        return "was ranked with an instruction, which is a criterion there; rank without it"
    if rule.first_stage_weight == 1:
        return "leaves the team no share; lower first_stage_weight"
    if team is None or other is None or team.members != other.members:
        return (
            f"has another team than {first.query.id!r}, and weights belong to one team; "
            "rank all queries with --team FILE or --team NAME ('personas list --teams' lists them)"
        )
    if rule != Rule.of(first.config):
        return (
            f"combines scores by other settings than {first.query.id!r}, such as the scale or "
            "first_stage_weight; tune the runs apart"
        )
    return ""
