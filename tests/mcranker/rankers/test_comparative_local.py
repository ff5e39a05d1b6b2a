"""Rankers that compare, from end to end on the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcranker.rankers import RANKERS
from tests.support.shallow_model import FULL, shallow_model

__all__ = ["shallow_model"]

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model

TEXTS = {f"d{place}": f"Masks of kind {place} keep out {90 + place} percent." for place in range(3)}


@pytest.mark.parametrize("name", ["rankgpt", "setwise", "pairwise", "tournament"])
def test_a_model_that_means_nothing_makes_no_order(name: str, shallow_model: Path) -> None:
    """It writes no list, and neither letter is among its likely answers."""
    make: Any = RANKERS.get(name)
    options = {"max_score_tokens": 16, "on_failure": "keep_order", "ledger": None}
    with make(model=f"local:{shallow_model}", **options) as ranker:
        ranking = ranker.rank("best masks against covid", TEXTS)
    assert ranking.ids == list(TEXTS)
    lists = name in ("rankgpt", "tournament")
    expected = "no list of numbers" if lists else "none of the labels"
    assert expected in ranking.failure
    assert ranking.usage.unreadable == (2 if lists else 0)


@pytest.mark.parametrize("name", ["setwise", "pairwise"])
def test_letters_are_chosen_by_probability(name: str) -> None:
    make: Any = RANKERS.get(name)
    with make(model=f"local:{FULL}", ledger=None, ranks=1) as ranker:
        ranking = ranker.rank("best masks against covid", {"a": TEXTS["d0"], "b": TEXTS["d1"]})
        assert ranker.config.max_passage_words == 100
    assert sorted(ranking.ids) == ["a", "b"]
    assert ranking.comparisons.failed == 0
    assert ranking.usage.calls == ranking.comparisons.asked > 0
