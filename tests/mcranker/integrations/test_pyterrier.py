"""The transformer in PyTerrier's pipelines and experiments."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker import ChatRequest, InputError, MCRanker, Ranking
from tests.support.adapting import QUERY, PyTerrier, by_word, scripted_options

pytest.importorskip("pyterrier")

import pandas as pd
import pyterrier as pt

from mcranker.integrations.pyterrier import MCRankerTransformer

ROWS = [
    ("q1", QUERY, "c", "Cloth masks", 9.0),
    ("q2", "hand wash", "g", "Gloves", 3.0),
    ("q1", QUERY, "n", "N95 masks", 7.0),
    ("q2", "hand wash", "l", "Lamp", 4.0),
    ("q1", QUERY, "g", "Gloves", 8.0),
]
FOUND = pd.DataFrame(ROWS, columns=["qid", "query", "docno", "text", "score"])
TOPICS = FOUND[["qid", "query"]].drop_duplicates()
QRELS = pd.DataFrame([("q1", "n", 1), ("q2", "l", 1)], columns=["qid", "docno", "label"])


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


def test_an_experiment_beside_the_first_stage() -> None:
    bm25 = pt.Transformer.from_df(FOUND)
    transformer = made()
    measures = pt.Experiment(
        [bm25, bm25 >> transformer, bm25 >> transformer % 1],
        TOPICS,
        QRELS,
        ["recip_rank", "num_ret"],
        names=["BM25", "team", "best"],
        plan="tree",
    )
    transformer.close()
    rows = measures.set_index("name")
    # BM25: third of q1, first of q2.
    assert rows["recip_rank"].to_dict() == {
        "BM25": pytest.approx((1 / 3 + 1) / 2),
        "team": 1.0,
        "best": 1.0,
    }
    assert rows["num_ret"].to_dict() == {"BM25": 5, "team": 5, "best": 2}


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of PyTerrier, with pandas 3.1
def test_operators_of_pipelines() -> None:
    first = pt.Transformer.from_df(FOUND)
    transformer = made()
    team = first >> transformer
    assert len((team | first).transform(TOPICS)) == 5
    assert len((team & first).transform(TOPICS)) == 5
    mixed = (0.5 * team + first).transform(TOPICS).set_index(["qid", "docno"])["score"]
    assert mixed["q1", "n"] == pytest.approx(0.5 * 27 + 7)
    features = (first >> transformer ** pt.Transformer.identity()).transform(TOPICS)
    assert len(features["features"].iloc[0]) == 2
    assert list((first >> transformer).search(QUERY, "q1")["docno"]) == ["n", "c", "g"]
    assert list(transformer(FOUND.to_dict("records"))[0])[:3] == ["qid", "query", "docno"]
    transformer.close()


def test_passages_without_a_score_sort_last_and_have_no_relevance() -> None:
    with MCRanker(**scripted_options(depth=1)) as ranker:
        found = MCRankerTransformer(ranker)(FOUND[FOUND["qid"] == "q1"])
    assert list(found["docno"]) == ["c", "g", "n"]
    assert found["score"].is_monotonic_decreasing
    assert found["score"].is_unique
    assert found["relevance"].isna().tolist() == [False, True, True]
    assert [why["score"] for why in found["mcranker"]] == [12.0, None, None]


def test_other_columns() -> None:
    seen: list[str] = []

    def noting(request: ChatRequest) -> str:
        seen.append(request.messages[-1].content)
        return by_word(request)

    frame = FOUND.rename(columns={"text": "body"}).assign(title="Kinds of mask")
    transformer = MCRankerTransformer(options=scripted_options(noting), text="body", title="title")
    found = transformer(frame)
    transformer.close()
    assert {"body", "title"} <= set(found.columns)
    assert any("Kinds of mask" in prompt for prompt in seen)


def test_what_comes_out_is_known_without_running() -> None:
    columns = pt.inspect.transformer_outputs(made(), list(FOUND.columns))
    assert columns[-4:] == ["score", "rank", "relevance", "mcranker"]
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        made()(FOUND.drop(columns="text"))


def test_a_text_that_is_none_is_an_error() -> None:
    with pytest.raises(InputError, match=r"docs\[0\] has a title or text that is not a string"):
        made()(FOUND.assign(text=None))


def test_numbers_may_be_ids() -> None:
    frame = PyTerrier().few().assign(qid=7, docno=[3, 1, 2])
    transformer = made()
    found = transformer(frame)
    transformer.close()
    assert found[["qid", "docno"]].to_numpy().tolist() == [[7, 1], [7, 3], [7, 2]]
