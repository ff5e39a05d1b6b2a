"""The transformer in PyTerrier's pipelines and experiments."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker import MCRanker, Ranking
from tests.support.adapting import QUERY, PyTerrier, scripted_options

pytest.importorskip("pyterrier")

import pandas as pd

from mcranker.integrations.pyterrier import MCRankerTransformer

ROWS = [
    ("q1", QUERY, "c", "Cloth masks", 9.0),
    ("q2", "hand wash", "g", "Gloves", 3.0),
    ("q1", QUERY, "n", "N95 masks", 7.0),
    ("q2", "hand wash", "l", "Lamp", 4.0),
    ("q1", QUERY, "g", "Gloves", 8.0),
]
FOUND = pd.DataFrame(ROWS, columns=["qid", "query", "docno", "text", "score"])


def made(**given: Any) -> MCRankerTransformer:
    return MCRankerTransformer(options=scripted_options(), **given)


def test_queries_keep_their_order_and_passages_are_ranked() -> None:
    transformer = made()
    found = transformer(FOUND)
    transformer.close()
    assert list(found.columns) == [
        *("qid", "query", "docno", "text"),
        *("score", "rank", "relevance", "mcranker"),
    ]
    rows = found[["qid", "docno", "score", "rank"]].to_records(index=False).tolist()
    assert rows == [
        ("q1", "n", 27.0, 0),
        ("q1", "c", 12.0, 1),
        ("q1", "g", 3.0, 2),
        ("q2", "l", 9.0, 0),
        ("q2", "g", 3.0, 1),
    ]


def test_the_first_stage_is_the_order_of_ranks_or_else_of_scores() -> None:
    seen: list[Ranking] = []
    transformer = made(on_ranking=seen.append)
    transformer(FOUND[FOUND["qid"] == "q1"])
    transformer(FOUND[FOUND["qid"] == "q1"].assign(rank=[2, 0, 1]))
    transformer(FOUND[FOUND["qid"] == "q1"].drop(columns="score"))
    transformer.close()
    orders = [[(each.id, each.score) for each in ranking.passages] for ranking in seen]
    assert orders == [
        [("c", 9.0), ("g", 8.0), ("n", 7.0)],
        [("n", 7.0), ("g", 8.0), ("c", 9.0)],
        [("c", None), ("n", None), ("g", None)],
    ]


def test_passages_without_a_score_sort_last_and_have_no_relevance() -> None:
    with MCRanker(**scripted_options(depth=1)) as ranker:
        found = MCRankerTransformer(ranker)(FOUND[FOUND["qid"] == "q1"])
    assert list(found["docno"]) == ["c", "g", "n"]
    assert found["score"].is_monotonic_decreasing
    assert found["score"].is_unique
    assert found["relevance"].isna().tolist() == [False, True, True]
    assert [why["score"] for why in found["mcranker"]] == [12.0, None, None]


def test_numbers_may_be_ids() -> None:
    frame = PyTerrier().few().assign(qid=7, docno=[3, 1, 2])
    transformer = made()
    found = transformer(frame)
    transformer.close()
    assert found[["qid", "docno"]].to_numpy().tolist() == [[7, 1], [7, 3], [7, 2]]
