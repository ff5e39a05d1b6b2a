"""REBEL from end to end on the embedded engine, which holds a model to the form of the reply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beir_eval import load
from mcranker import Query, RebelRanker
from tests.support.shallow_model import shallow_model

__all__ = ["shallow_model"]

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model


def three_queries() -> Iterator[tuple[Query, dict[str, str]]]:
    """Of the mini collection, each with two judged passages."""
    mini = load("mini")
    for query_id, text in list(mini.queries.items())[:3]:
        judged = list(mini.qrels[query_id])[:2]
        yield Query(text, query_id), {doc_id: mini.corpus[doc_id].text for doc_id in judged}


@pytest.mark.parametrize("team", [None, "clinician"])
def test_each_passage_has_all_scores_and_their_sum(team: Any, shallow_model: Path) -> None:
    options: dict[str, Any] = {"top_n": None, "first_stage_weight": 0.0, "team": team}
    with RebelRanker(model=f"local:{shallow_model}", ledger=None, **options) as ranker:
        for query, docs in three_queries():
            ranking = ranker.rank(query, docs)
            assert sorted(ranking.ids) == sorted(docs)
            assert ranking.windows is not None
            assert (ranking.windows.asked, ranking.windows.sums) == (1, 2)
            assert ranking.windows.odd == ranking.windows.failed == 0
            weights = [0.5] * 5
            if team:
                clinician = ranker.team.members[0].rubric if ranker.team else None
                assert clinician is not None
                # 0.5 on average
                weights = [
                    each.weight / 200 * len(clinician.criteria) for each in clinician.criteria
                ]
            for hit in ranking:
                relevance, *properties = hit.criteria["REBEL"].values()
                pairs = zip(weights, properties, strict=True)
                final = relevance + sum(weight * score for weight, score in pairs)
                assert hit.scores["REBEL"] == pytest.approx(final)
                dropped = relevance < 3
                assert (hit.dropped, hit.score is None) == (relevance if dropped else None, dropped)


def test_a_model_that_names_no_properties_is_told(shallow_model: Path) -> None:
    """Its first answer never ends, so it is cut, in words that mean nothing."""
    options: dict[str, Any] = {"variant": "two_turn", "max_tokens": 32, "top_n": None}
    options |= {"on_failure": "keep_order"}
    with RebelRanker(model=f"local:{shallow_model}", ledger=None, **options) as ranker:
        for query, docs in three_queries():
            ranking = ranker.rank(query, docs)
            assert ranking.ids == list(docs)
            assert "gave an unusable answer (it was cut at the token limit)" in ranking.failure
            assert ranking.usage.unreadable == 2
