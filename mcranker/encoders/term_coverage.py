"""Share of a query's words that a passage has, from 0 to 1.

Like a BM25 score, but divided by what the query's words weigh, so that it can be compared from
query to query. It counts index terms, so it knows no synonyms; `mcranker.llm.local.encoder_judge`
adds what texts mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources

from mcranker.inputs.tokens import tokenize
from mcranker.llm.chat import PassageStatistics

K1, B = 0.9, 0.4  # of BM25: saturation of repeated words, penalty of long passages, as first stages
LIST_PASSAGES = 20  # worth of the word list, in passages, beside those of the query
LIST_LENGTH = 100  # index terms of each of them
MOST_CHARACTERS = 20_000  # of a passage; what follows is not looked at


def statistics_of(query: str, texts: Iterable[str]) -> PassageStatistics:
    """Count the query's terms in the passages of a query."""
    wanted = set(tokenize(query))
    found: Counter[str] = Counter()
    passages = total = 0
    for text in texts:
        terms = _terms(text)
        passages += 1
        total += terms.total()
        found.update(wanted & terms.keys())
    return PassageStatistics(passages, total, dict(sorted(found.items())))


class Cover:
    """The share of a query's words that a passage has."""

    def __init__(self, query: str, statistics: PassageStatistics | None = None) -> None:
        own = statistics or PassageStatistics(0, 0, {})
        listed, count = _shares(), own.passages + LIST_PASSAGES
        self._weights: dict[str, float] = {}
        for term in dict.fromkeys(tokenize(query)):
            share = listed.get(term, 0.0)
            rare = _idf(own.frequencies.get(term, 0) + LIST_PASSAGES * share, count)
            self._weights[term] = rare * math.sqrt(_idf(1000 * share, 1000))
        self._total = math.fsum(self._weights.values())
        self._mean = (own.terms + LIST_PASSAGES * LIST_LENGTH) / count
        self.known = any(each in listed or each in own.frequencies for each in self._weights)

    def of(self, passage: str) -> float:
        """The cover of a passage, 0 to 1."""
        terms = _terms(passage)
        slow = K1 * (1 - B + B * terms.total() / self._mean)
        found = ((weight, terms[term]) for term, weight in self._weights.items() if term in terms)
        parts = math.fsum(weight * n / (n + slow) for weight, n in found)
        return parts / self._total if parts else 0.0


@lru_cache(maxsize=1000)
def _terms(passage: str) -> Counter[str]:
    return Counter(tokenize(passage[:MOST_CHARACTERS]))


def _idf(df: float, passages: float) -> float:
    return math.log(1 + (passages - df + 0.5) / (df + 0.5))


@cache
def _shares() -> Mapping[str, float]:
    """Stem -> share of English passages that have it; those that are rarer than all of these 0."""
    text = (resources.files("mcranker.encoders") / "english.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {stem: float(share) for share, *stems in lines for stem in stems}
