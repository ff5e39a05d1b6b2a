"""The share of a query's words that a passage has, against sums by hand."""

from __future__ import annotations

import math

import pytest

from mcranker.encoders.term_coverage import Cover, statistics_of
from mcranker.llm.chat import PassageStatistics

QUERY = "best masks against covid"  # index terms: best, mask, against, covid
TEXTS = ("Masks help against covid", "a mask, and another mask", "Bananas are yellow.")


def test_counts_by_hand() -> None:
    # mask help against covid (4), mask anoth mask (3), banana yellow (2)
    found = statistics_of(QUERY, TEXTS)
    assert found == PassageStatistics(3, 9, {"against": 1, "covid": 1, "mask": 2})
    assert list(found.frequencies) == sorted(found.frequencies)


def test_covers_by_hand() -> None:
    # 20 passages of the list beside: N = 23, mean length (9 + 2000) / 23 = 87.348.
    # On the list, best is in 0.061 of passages, against in 0.032, mask in 0.0025, covid in none.
    # df: best 20 * 0.061 = 1.22, mask 2 + 0.05, against 1 + 0.64, covid 1
    def weight(df: float, share: float) -> float:
        idf = math.log(1 + (23 - df + 0.5) / (df + 0.5))
        return idf * math.sqrt(math.log(1 + (1000.5 - 1000 * share) / (1000 * share + 0.5)))

    weights = {
        "best": weight(1.22, 0.061),
        "mask": weight(2.05, 0.0025),
        "against": weight(1.64, 0.032),
        "covid": weight(1, 0),
    }
    total = sum(weights.values())
    # Of 4 terms: 0.9 * (0.6 + 0.4 * 4 / 87.348) = 0.5565; of 3: 0.5524
    slow4, slow3 = 0.9 * (0.6 + 0.4 * 4 / (2009 / 23)), 0.9 * (0.6 + 0.4 * 3 / (2009 / 23))
    first = (weights["mask"] + weights["against"] + weights["covid"]) / (1 + slow4) / total
    second = weights["mask"] * 2 / (2 + slow3) / total
    cover = Cover(QUERY, statistics_of(QUERY, TEXTS))
    assert cover.known
    assert [cover.of(text) for text in TEXTS] == pytest.approx([first, second, 0.0])


def test_a_word_is_known_by_the_passages_as_well() -> None:
    texts = ["ποιες μάσκες;"]
    assert Cover("ποιες", statistics_of("ποιες", texts)).known
    assert Cover("covid", statistics_of("covid", TEXTS)).known
