"""Fusion and the tournament over three queries of the mini collection, on the embedded engine."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import beir_eval
from mcranker import FusedRanker, Passage, Query, TournamentRanker
from mcranker.rankers.fused import MemberSpec
from tests.support.shallow_model import FULL, shallow_model

__all__ = ["shallow_model"]

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model

QUERIES, DEPTH = 3, 3


def work() -> list[tuple[Query, list[Passage]]]:
    dataset = beir_eval.load("mini")
    run = beir_eval.retrieve(dataset, DEPTH)
    return [
        (
            Query(text, query_id),
            [
                Passage(doc_id, dataset.corpus[doc_id].text, score=score)
                for doc_id, score in run[query_id]
            ],
        )
        for query_id, text in itertools.islice(dataset.queries.items(), QUERIES)
    ]


def test_two_rankers_and_the_first_stage_fused() -> None:
    members: list[MemberSpec] = [
        {"ranker": "direct", "scoring": "expected"},
        {"ranker": "setwise", "ranks": 1},
        "bm25",
    ]
    with FusedRanker(members=members, model=f"local:{FULL}", ledger=None) as ranker:
        rankings = [each.result() for each in ranker.rank_many(work())]
    for ranking, (_, docs) in zip(rankings, work(), strict=True):
        assert sorted(ranking.ids) == sorted(each.id for each in docs)
        direct, setwise, first = ranking.members
        assert sorted(rank or 0 for rank in direct.ranks) == [1, 2, 3]
        assert sorted(rank or 0 for rank in setwise.ranks) == [1, 2, 3]
        assert first.ranks == (1, 2, 3)
        assert None not in direct.scores
        assert ranking.comparisons is not None
        assert ranking.usage.calls == DEPTH + ranking.comparisons.asked
        for place, hit in enumerate(sorted(ranking, key=lambda hit: hit.index)):
            given = [1 / (60 + (each.ranks[place] or 0)) for each in ranking.members]
            assert hit.score == pytest.approx(sum(given))


def test_a_tournament_of_a_model_that_writes_no_list(shallow_model: Path) -> None:
    """Each answer is asked for again once; then the passages keep their order, and it says so."""
    with TournamentRanker(
        model=f"local:{shallow_model}",
        ledger=None,
        window=2,
        max_score_tokens=16,
        on_failure="keep_order",
    ) as ranker:
        for query, docs in work():
            ranking = ranker.rank(query, docs)
            assert ranking.ids == [each.id for each in docs]
            assert "no list of numbers" in ranking.failure
            assert ranking.usage.unreadable == ranking.usage.calls > 0
