"""A team of the embedded model that compares, over three queries of the mini collection."""

from __future__ import annotations

import pytest

from beir_eval import load
from beir_eval.data.first_stage import retrieve
from mcranker import SetwiseRanker
from tests.support.shallow_model import FULL

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model


def test_each_persona_chooses_by_probabilities() -> None:
    mini = load("mini")
    found = retrieve(mini, depth=4)
    with SetwiseRanker(model=f"local:{FULL}", ledger=None, team_size=2, ranks=1) as ranker:
        config = ranker.config
        for query_id in list(mini.queries)[:3]:
            docs = {doc: mini.corpus[doc].text for doc, _ in found[query_id]}
            ranking = ranker.rank(mini.queries[query_id], docs)
            orders = ranking.orders
            assert orders is not None
            assert sorted(ranking.ids) == sorted(docs)
            assert (len(orders.personas), orders.left_out) == (2, {})
            # Each has sorted out one passage; the others share the rank behind it.
            assert [sorted(ranks) for ranks in orders.ranks.T.tolist()] == [[1, 2, 2, 2]] * 2
            assert [each.failed for each in orders.comparisons.values()] == [0, 0]
            assert ranking.usage.unreadable == 0
    assert (config.recruiting, config.criteria, config.prompts) == ("library", "library", "compact")
    assert config.max_passage_words == 100
