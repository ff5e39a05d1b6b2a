"""Reciprocal rank fusion of rankings and of lists, with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker import ConfigError, RankGPTRanker, Ranking, fuse
from mcranker.retrieval.fusion import reciprocal_ranks
from tests.support.comparing import comparing

DOCS = {name: f"passage {name}" for name in "abc"}


def ranking_of(order: str, query: str = "q") -> Ranking:
    said = " > ".join(str("abc".index(name) + 1) for name in order)
    with RankGPTRanker(model=comparing(lambda _: said)[0], ledger=None) as ranker:
        return ranker.rank(query, DOCS, top_n=len(order))


def test_rankings_are_fused_by_their_ranks() -> None:
    # a 1/61 + 1/62, c 1/63 + 1/61, b 1/62 alone: it is not among the hits of the second.
    fused = fuse(ranking_of("abc"), ranking_of("ca"))
    assert [name for name, _ in fused] == ["a", "c", "b"]
    expected = [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62]
    assert [score for _, score in fused] == pytest.approx(expected, abs=1e-12)


def test_weights_and_k_by_hand() -> None:
    # k = 1: a 2/2 + 1/3, b 2/3, c 2/4 + 1/2.
    fused = fuse(ranking_of("abc"), ranking_of("ca"), k=1, weights=[2, 1])
    assert dict(fused) == pytest.approx({"a": 4 / 3, "b": 2 / 3, "c": 1.0})


def test_equal_sums_are_in_the_order_of_the_first_list() -> None:
    assert reciprocal_ranks(["w", "m"]) == [("w", 0.016393442623), ("m", 0.016393442623)]
    # The first has 1/61, the second 1/62 + 1/61, the third 1/62.
    found = [("b", 0.032522474881), ("a", 0.016393442623), ("c", 0.016129032258)]
    assert reciprocal_ranks(["ab", "bc"]) == found


@pytest.mark.parametrize(
    ("queries", "options", "said"),
    [
        ("q", {}, "1 rankings given"),
        ("qp", {}, "those of one query"),
        ("qq", {"k": -1}, "k=-1"),
        ("qq", {"weights": [1]}, "2 weights"),
        ("qq", {"weights": [1, float("nan")]}, "2 weights"),
    ],
)
def test_what_cannot_be_fused(queries: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fuse(*(ranking_of("abc", query) for query in queries), **options)
