"""Criteria of different personas that ask for the same thing, told by their words.

Two criteria overlap by twice the weight of the words that they share as a share of the weight of
all their words (Dice), 0 to 1. Words are compared without case and ending. A word weighs
log((1 + n) / (1 + m)) if m of the n criteria of the library have it. Words that a twentieth of them
have, such as "passage", and the commonest words of English do not count.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from personas import library
from personas.schema import Criterion, Member

ALIKE = 0.4
"""From which overlap on two criteria are taken to ask for the same thing."""

MOST_COMPARED = 1000
"""Criteria of a team that are compared with one another."""

_WORD = re.compile(r"[^\W_]+")
_LEAST = 3  # letters of a word that counts
_MOST_WORDS = 300  # of a criterion that are compared
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "es", "ed", "s", "ly", "y")
_STEM = 4  # letters that stay when an ending is taken off
_COMMON = 0.05  # of the library's criteria; a more common word shows nothing
_EMPTY = frozenset(
    """about above after all also and any are been before being below both but can could did does
    each either every few for from had has have how into its just less many may more most much must
    nor not off only other out over own same should since some such than that the their them then
    there these they this those through under until upon very was were what when where whether which
    while who whose why will with within without would you your""".split()  # noqa: SIM905 - a list
    # of a hundred lines would be no easier to read
)
_LEAST_SHARED = 2  # words; one alone may be an accident


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two criteria of two personas, the one that stands first on the team first.

    Attributes:
        share: how much they overlap, 0 to 1.
        words: what both say, as the first one writes it, the most telling first.
    """

    first: str
    first_criterion: str
    second: str
    second_criterion: str
    share: float
    words: tuple[str, ...]


def overlaps(members: Sequence[Member], *, least: float = ALIKE) -> tuple[Overlap, ...]:
    """Pairs of criteria of different personas that overlap by at least `least`, the most first.

    They share two words at least. Of a team with more than `MOST_COMPARED` criteria, the first so
    many are compared.
    """
    known = [
        (member.name, criterion.name, _words(criterion)) for member, criterion in _criteria(members)
    ][:MOST_COMPARED]
    weights, rare = _weights()
    sums = [math.fsum(weights.get(stem, rare) for stem in words) for _, _, words in known]
    found = []
    for one, other in combinations(range(len(known)), 2):
        name, criterion, words = known[one]
        other_name, other_criterion, other_words = known[other]
        shared = [stem for stem in words if stem in other_words and weights.get(stem, rare)]
        if name == other_name or len(shared) < _LEAST_SHARED:
            continue
        both = math.fsum(weights.get(stem, rare) for stem in shared)
        share = 2 * both / (sums[one] + sums[other])
        if share >= least:
            telling = sorted(shared, key=lambda stem: -weights.get(stem, rare))
            said = tuple(words[stem] for stem in telling)
            found.append(Overlap(name, criterion, other_name, other_criterion, share, said))
    return tuple(sorted(found, key=lambda each: -each.share))


@cache
def _weights() -> tuple[Mapping[str, float], float]:
    """Stem -> its weight, of the words in the library's criteria; and of any other word."""
    criteria = [criterion for _, criterion in _criteria(library.members())]
    counts = Counter(stem for criterion in criteria for stem in _words(criterion))
    whole = 1 + len(criteria)
    common = _COMMON * len(criteria)
    weights = {
        stem: 0.0 if count >= common else math.log(whole / (1 + count))
        for stem, count in counts.items()
    }
    return weights, math.log(whole)


def _criteria(members: Sequence[Member]) -> Iterator[tuple[Member, Criterion]]:
    for member in members:
        for criterion in member.rubric.criteria if member.rubric else ():
            yield member, criterion


def _words(criterion: Criterion) -> dict[str, str]:
    """Stem -> the word."""
    found: dict[str, str] = {}
    for word in _WORD.findall(f"{criterion.name} {criterion.description}")[:_MOST_WORDS]:
        folded = word.casefold()
        if len(folded) >= _LEAST and folded not in _EMPTY:
            found.setdefault(_stem(folded), word)
    return found


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word[: -len(ending)]
    return word
