"""Where passages would rank if a persona had not been on the team.

The arithmetic of the ensembles (Eq. 4) on plain lists: missing scores filled in by the
ranking's own policy, scores summed or their reciprocal ranks, first-stage scores mixed in
where the ranking did so, ties broken by first-stage order. No call is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["HIGHEST_SCORE", "Row", "Rule", "ranks", "ranks_without"]

HIGHEST_SCORE = (2 - 2**-23) * 2.0**127
"""What a score may be, and its negative: TREC runs hold single precision, and squares and sums of
such scores are still finite in double precision."""


@dataclass(frozen=True, slots=True)
class Row:
    """One judged passage.

    Attributes:
        scores: one a persona, None where it is missing.
        first_stage_score: or None if not known.
        content: title and text; passages of equal content were judged as one.
    """

    scores: tuple[float | None, ...]
    first_stage_score: float | None = None
    content: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """How a ranking combined its scores.

    Attributes:
        reciprocal: sum of 1 / rank instead of sum of scores.
        stand_in: what a missing score counts; None for the mean of the passage's others,
            and 0 where there are none.
        first_stage_weight: share of the first stage's score, 0 to 1.
    """

    reciprocal: bool = False
    stand_in: float | None = None
    first_stage_weight: float = 0.0

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Rule:
        """The rule in a ranking's configuration; what it does not say is the default."""
        policy, stand_in = config.get("missing"), None
        if policy == "lowest":
            stand_in = 0.0
        elif policy == "constant":
            stand_in = _number(config.get("missing_constant"))
        return cls(
            reciprocal=config.get("ensemble") == "reciprocal_rank",
            stand_in=stand_in,
            first_stage_weight=min(_number(config.get("first_stage_weight")), 1.0),
        )


def ranks(rows: Sequence[Row], rule: Rule) -> list[int]:
    """Rank of each row, from 1; rows come in first-stage order, which breaks ties."""
    return _ranks([row.scores for row in rows], rows, rule)


def ranks_without(rows: Sequence[Row], column: int, rule: Rule) -> list[int]:
    """`ranks` with one persona's column left out."""
    after = column + 1
    return _ranks([row.scores[:column] + row.scores[after:] for row in rows], rows, rule)


def _ranks(
    scores: Sequence[tuple[float | None, ...]], rows: Sequence[Row], rule: Rule
) -> list[int]:
    filled = [_filled(each, rule) for each in scores]
    # Exactly rounded, as the ranker adds: equal scores from other personas stay equal totals.
    totals = _reciprocal_ranks(filled, rows) if rule.reciprocal else list(map(math.fsum, filled))
    if rule.first_stage_weight:
        totals = _mixed(totals, rows, rule.first_stage_weight)
    placed = [0] * len(rows)
    for rank, place in enumerate(_descending(totals), start=1):
        placed[place] = rank
    return placed


def _filled(scores: tuple[float | None, ...], rule: Rule) -> Sequence[float]:
    known = [score for score in scores if score is not None]
    if len(known) == len(scores):
        return known
    stand_in = rule.stand_in
    if stand_in is None:
        stand_in = _added(known) / len(known) if known else 0.0
    return [stand_in if score is None else score for score in scores]


def _mixed(totals: Sequence[float], rows: Sequence[Row], weight: float) -> list[float]:
    known = [row.first_stage_score for row in rows if row.first_stage_score is not None]
    other = known if len(known) == len(rows) else [float(n) for n in range(len(rows), 0, -1)]
    return [
        (1.0 - weight) * score + weight * first
        for score, first in zip(_unit_range(totals), _unit_range(other), strict=True)
    ]


def _reciprocal_ranks(filled: Sequence[Sequence[float]], rows: Sequence[Row]) -> list[float]:
    # Equal passages were ranked as one by each persona, so that they take one place, not two.
    first: dict[object, int] = {}
    same = [
        first.setdefault(place if row.content is None else row.content, place)
        for place, row in enumerate(rows)
    ]
    distinct = list(first.values())
    parts: dict[int, list[float]] = {place: [] for place in distinct}
    for column in range(len(filled[0]) if filled else 0):
        order = _descending([filled[place][column] for place in distinct])
        for rank, index in enumerate(order, start=1):
            parts[distinct[index]].append(1.0 / rank)
    totals = {place: math.fsum(each) for place, each in parts.items()}
    return [totals[place] for place in same]


def _descending(totals: Sequence[float]) -> list[int]:
    # Reversed, a sort still keeps equal ones in their order.
    return sorted(range(len(totals)), key=totals.__getitem__, reverse=True)


def _added(numbers: Sequence[float]) -> float:
    # Term by term, as the ranker takes its means; a compensated sum could differ in its last
    # digit and break a tie in another way.
    total = 0.0
    for number in numbers:
        total += number
    return total


def _unit_range(scores: Sequence[float]) -> list[float]:
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high > low else 0.0 for score in scores]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) and value >= 0 else 0.0
