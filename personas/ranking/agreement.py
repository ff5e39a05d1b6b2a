"""Agreement of judges (Kendall's tau-b, Krippendorff's alpha), and with people's: nDCG."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, islice

MOST_PAIRS = 1000
"""Pairs of a team that are compared, at most: all up to 45 personas."""

_BITS = 1074  # every float is a whole number of 2 ** -1074; scores are counted in it


def kendall_tau(first: Sequence[float | None], second: Sequence[float | None]) -> float | None:
    """Kendall's tau-b of two judges' scores: -1 (opposite orders) to 1 (the same order)."""
    if len(first) != len(second):
        raise ValueError(
            f"{len(first)} scores and {len(second)}; give one a passage from each judge"
        )
    pairs = zip(first, second, strict=True)
    both = sorted((one, two) for one, two in pairs if one is not None and two is not None)
    if any(math.isnan(one) or math.isnan(two) for one, two in both):
        raise ValueError("a score is nan; give None where a score is missing")
    told_first = _told_apart(one for one, _ in both)
    told_second = _told_apart(two for _, two in both)
    if not told_first or not told_second:
        return None
    # In order of the first score, a pair is discordant where the second falls; of passages that
    # tie in the first, the lower second score comes first and none falls.
    earlier: list[float] = []
    discordant = 0
    for _, two in both:
        place = bisect_right(earlier, two)
        discordant += len(earlier) - place
        earlier.insert(place, two)
    # Pairs that neither ties: told apart by the first, and by the second, less by any of the two.
    decided = told_first + told_second - _told_apart(both)
    return (decided - 2 * discordant) / math.sqrt(told_first * told_second)


@dataclass(slots=True)
class AlphaSums:
    """Krippendorff's alpha of any number of passages, at most 1: what it needs to know of them."""

    _count: int = 0
    _total: int = 0
    _squares: int = 0
    _within: dict[int, int] = field(default_factory=dict)
    """Scores of a passage -> sum over such passages of m · Σv² - (Σv)²."""

    def add(self, values: Sequence[float | None]) -> None:
        """Add one passage's scores, None where one is missing; fewer than two do not count."""
        known = [value for value in values if value is not None]
        if len(known) < 2:
            return
        if not all(map(math.isfinite, known)):
            raise ValueError(f"scores {known!r}: not all are finite; give None for missing ones")
        ratios = [value.as_integer_ratio() for value in known]
        scores = [over << _BITS + 1 - under.bit_length() for over, under in ratios]
        total, squares, count = sum(scores), sum(score * score for score in scores), len(scores)
        self._add(count, total, squares, {count: count * squares - total * total})

    def merge(self, other: AlphaSums) -> None:
        """Add all passages of the other."""
        self._add(other._count, other._total, other._squares, other._within)

    @property
    def alpha(self) -> float | None:
        """Alpha of all passages added; None without two of two scores, or if all are equal."""
        apart = self._count * self._squares - self._total**2
        if not apart or self._count in self._within:  # one passage has all scores: Do = De
            return None
        within = sum(Fraction(each, count - 1) for count, each in self._within.items())
        return float(1 - (self._count - 1) * within / apart)

    def _add(self, count: int, total: int, squares: int, within: Mapping[int, int]) -> None:
        self._count += count
        self._total += total
        self._squares += squares
        for size, each in within.items():
            self._within[size] = self._within.get(size, 0) + each


@dataclass(frozen=True, slots=True)
class TeamAgreement:
    """Agreement of a team about the passages of one query."""

    taus: Mapping[tuple[str, str], float | None]
    sums: AlphaSums

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[float | None]]) -> TeamAgreement:
        """The agreement of these personas' scores, one a passage and None where it is missing."""
        sums = AlphaSums()
        for scores in zip(*columns.values(), strict=True):
            sums.add(scores)
        pairs = islice(combinations(columns, 2), MOST_PAIRS)
        return cls(
            {(one, other): kendall_tau(columns[one], columns[other]) for one, other in pairs}, sums
        )


def _told_apart(values: Iterable[object]) -> int:
    """Pairs of values that differ."""
    counts = Counter(values)
    return math.comb(counts.total(), 2) - sum(math.comb(each, 2) for each in counts.values())


def ndcg(
    ranked_grades: Sequence[float | None], all_grades: Iterable[float], depth: int = 10
) -> float | None:
    """NDCG at `depth` of one ranking, 0 to 1, as trec_eval and ir-measures compute it."""
    if depth < 1:
        raise ValueError(f"depth={depth!r} is below 1; give how many ranks count, e.g. 10")
    known = sorted(all_grades, reverse=True)
    if not known:
        return None
    best = _discounted(known[:depth])
    return _discounted(ranked_grades[:depth]) / best if best else 0.0


def _discounted(grades: Sequence[float | None]) -> float:
    """Sum of the grades above 0, each divided by log2(rank + 1)."""
    return sum(
        grade / math.log2(rank + 1)
        for rank, grade in enumerate(grades, start=1)
        if grade is not None and grade > 0
    )
