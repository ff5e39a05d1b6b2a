"""Agreement of judges: Kendall's tau-b for two of them, Krippendorff's alpha for a team."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, islice

MOST_PAIRS = 1000
"""Pairs of a team that are compared, at most: all up to 45 personas."""


def kendall_tau(first: Sequence[float | None], second: Sequence[float | None]) -> float | None:
    """Kendall's tau-b of two judges' scores: -1 (opposite orders) to 1 (the same order).

    With C pairs of passages in the same order, D in opposite orders, and X (Y) pairs which the
    first (second) judge told apart, it is ``(C - D) / sqrt(X · Y)`` (Kendall 1945, "The
    Treatment of Ties in Ranking Problems"). Time O(n log n); all counts are whole numbers.

    Args:
        first: one score a passage; None where it is missing.
        second: the other judge's, in the same order.

    Returns:
        tau-b over the passages that both judged; None for fewer than two such passages, and
        where one of the judges gave them all the same score.

    Raises:
        ValueError: the lists differ in length, or a score is not a number.
    """
    if len(first) != len(second):
        raise ValueError(
            f"{len(first)} scores and {len(second)}; give one a passage from each judge"
        )
    both = [
        (one, other)
        for one, other in zip(first, second, strict=True)
        if one is not None and other is not None
    ]
    if any(math.isnan(one) or math.isnan(other) for one, other in both):
        raise ValueError("a score is nan; give None where a score is missing")
    pairs = _pairs(len(both))
    tied_first = _tied(one for one, _ in both)
    tied_second = _tied(other for _, other in both)
    if pairs in (tied_first, tied_second):
        return None
    concordant_and_discordant = pairs - tied_first - tied_second + _tied(both)
    difference = concordant_and_discordant - 2 * _discordant(both)
    return difference / math.sqrt((pairs - tied_first) * (pairs - tied_second))


def krippendorff_alpha(units: Iterable[Sequence[float | None]]) -> float | None:
    """Krippendorff's alpha of a team's scores with the interval metric, at most 1.

    1 is full agreement, 0 what chance would give, below 0 is less than that. See `AlphaSums`.

    Args:
        units: for each passage the judges' scores, None where one is missing. Passages with
            fewer than two scores do not count.

    Returns:
        None where alpha is not defined: no passage has two scores, or all scores that count
        are equal.

    Raises:
        ValueError: a score is not a finite number.
    """
    sums = AlphaSums()
    for values in units:
        sums.add(values)
    return sums.alpha


@dataclass(slots=True)
class AlphaSums:
    """All that Krippendorff's alpha needs to know of any number of passages.

    ``alpha = 1 - Do / De``, where Do is the mean squared difference of two scores of the same
    passage, and De that of any two scores (Krippendorff 2011, "Computing Krippendorff's
    Alpha-Reliability", interval metric). For n scores v of passages u with m_u ≥ 2 scores each,

        Do = 2 / n · sum over u of (m_u · Σv² - (Σv)²) / (m_u - 1), the sums over u's scores
        De = 2 / (n · (n - 1)) · (n · Σv² - (Σv)²), the sums over all scores

    The sums are kept as whole multiples of a power of two, as every float is one: nothing is
    rounded before the last step, so that it does not matter in what order passages are added,
    nor how they were shared out among processes.
    """

    _denominator: int = 1
    """Scores are counted in this part of one, sums of squares in its square; a power of two."""
    _count: int = 0
    _total: int = 0
    _squares: int = 0
    _within: dict[int, int] = field(default_factory=dict)
    """Scores of a passage -> sum over such passages of m · Σv² - (Σv)²."""

    def add(self, values: Sequence[float | None]) -> None:
        """Add one passage's scores, None where one is missing; fewer than two do not count.

        Raises:
            ValueError: a score is not a finite number.
        """
        known = [value for value in values if value is not None]
        if len(known) < 2:
            return
        if not all(map(math.isfinite, known)):
            raise ValueError(f"scores {known!r}: not all are finite; give None for missing ones")
        ratios = [value.as_integer_ratio() for value in known]
        self._refine(max(denominator for _, denominator in ratios))
        scores = [
            numerator * (self._denominator // denominator) for numerator, denominator in ratios
        ]
        total, squares, count = sum(scores), sum(score * score for score in scores), len(scores)
        self._count += count
        self._total += total
        self._squares += squares
        self._within[count] = self._within.get(count, 0) + count * squares - total * total

    def merge(self, other: AlphaSums) -> None:
        """Add all passages of the other."""
        self._refine(other._denominator)
        factor = self._denominator // other._denominator
        self._count += other._count
        self._total += other._total * factor
        self._squares += other._squares * factor**2
        for count, within in other._within.items():
            self._within[count] = self._within.get(count, 0) + within * factor**2

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of all passages added; None where it is not defined."""
        apart = self._count * self._squares - self._total**2
        if not apart:
            return None
        within = sum(Fraction(each, count - 1) for count, each in self._within.items())
        return float(1 - (self._count - 1) * within / apart)

    def _refine(self, denominator: int) -> None:
        if denominator <= self._denominator:
            return
        factor = denominator // self._denominator
        self._denominator = denominator
        self._total *= factor
        self._squares *= factor**2
        for count in self._within:
            self._within[count] *= factor**2


@dataclass(frozen=True, slots=True)
class TeamAgreement:
    """Agreement of a team about the passages of one query.

    Attributes:
        taus: (persona, persona) -> Kendall's tau-b, None where it is not defined; the first
            `MOST_PAIRS` pairs in the order of the team.
        sums: what Krippendorff's alpha needs to know.
    """

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


def _pairs(number: int) -> int:
    return number * (number - 1) // 2


def _tied(values: Iterable[object]) -> int:
    return sum(_pairs(number) for number in Counter(values).values())


def _discordant(both: Sequence[tuple[float, float]]) -> int:
    # Passages in order of the first score: a pair is discordant where the second score falls.
    # A binary indexed tree counts the earlier passages whose second score is no higher; of
    # passages that tie in the first score, the lower second score comes first and none falls.
    levels = {
        score: level for level, score in enumerate(sorted({other for _, other in both}), start=1)
    }
    tree = [0] * (len(levels) + 1)
    found = 0
    for earlier, (_, other) in enumerate(sorted(both)):
        level = levels[other]
        place = level
        no_higher = 0
        while place:
            no_higher += tree[place]
            place &= place - 1
        found += earlier - no_higher
        place = level
        while place < len(tree):
            tree[place] += 1
            place += place & -place
    return found
