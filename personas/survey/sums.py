"""Means that come out the same in whatever order, and by however many processes, they are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import fsum
from typing import TypeVar

MOST_EXAMPLES = 20

Name = TypeVar("Name", bound=str)


@dataclass(slots=True)
class ExactMean:
    """A mean whose sum is never rounded: every float is a fraction."""

    count: int = 0
    total: Fraction = Fraction(0)

    def add(self, total: float, count: int = 1) -> None:
        """Add one number, or the sum of `count` numbers."""
        self.total += Fraction(total)
        self.count += count

    def merge(self, other: ExactMean) -> None:
        """Add all numbers of the other."""
        self.total += other.total
        self.count += other.count

    @property
    def value(self) -> float | None:
        """The mean; None of no numbers."""
        return float(self.total / self.count) if self.count else None


def mean(numbers: Iterable[float | None]) -> float | None:
    """Mean of the numbers that are there, in any order; None of none."""
    known = [number for number in numbers if number is not None]
    return fsum(known) / len(known) if known else None


def add_counts(counts: dict[Name, int], more: Iterable[tuple[Name, int]]) -> None:
    """Add to `counts` in place."""
    for name, count in more:
        counts[name] = counts.get(name, 0) + count


def usual(counts: dict[str, int]) -> str:
    """The most frequent name; of several the first in the alphabet."""
    return min(counts, key=lambda name: (-counts[name], name))


def first_places(places: list[int], more: Iterable[int]) -> None:
    """Add to `places` in place and keep the first 20, rising, each once."""
    new = [
        place for place in more if len(places) < MOST_EXAMPLES or place < places[MOST_EXAMPLES - 1]
    ]
    if new:
        places[:] = sorted({*places, *new})[:MOST_EXAMPLES]


def cut(text: str, most: int) -> str:
    """The text in at most that many characters, the last one an ellipsis if some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
