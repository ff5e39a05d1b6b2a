"""Measures: values by hand, missing queries, ties, and names that are none."""

from __future__ import annotations

import importlib
import math
import random
import sys
from typing import Any

import pytest

from beir_eval import MeasureError, RunError, evaluate
from beir_eval.measures.metrics import ceiling, judged_share

QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"x": 1}}
RUN = {"q1": [("b", 0.9), ("z", 0.8), ("a", 0.7)]}


def test_ndcg_by_hand() -> None:
    # Found:  b (grade 1) at 1, z (none) at 2, a (grade 2) at 3:
    #         DCG = 1 / log2(2) + 0 + 2 / log2(4) = 1 + 1 = 2
    # Ideal:  a at 1, b at 2: 2 / log2(2) + 1 / log2(3) = 2 + 0.630930 = 2.630930
    # NDCG = 2 / 2.630930 = 0.760188; q2 was not answered: 0. Mean: 0.380094.
    result = evaluate({**RUN, "q2": []}, QRELS)
    assert result.per_query == {
        "nDCG@10": {"q1": pytest.approx(2 / (2 + 1 / math.log2(3))), "q2": 0.0}
    }
    assert result.per_query["nDCG@10"]["q1"] == pytest.approx(0.760188, abs=1e-6)
    assert result.means == {"nDCG@10": pytest.approx(0.380094, abs=1e-6)}
    assert result.missing_queries == ("q2",)


def test_queries_without_judgements_do_not_count() -> None:
    both = {**RUN, "q9": [("a", 1.0)]}
    assert evaluate(both, {**QRELS, "q9": {}}) == evaluate(RUN, QRELS)


def test_a_query_with_nothing_relevant_counts_as_0() -> None:
    result = evaluate({"q": [("a", 1.0)]}, {"q": {"a": 0, "b": -1}})
    assert result.means == {"nDCG@10": 0.0}
    assert result.missing_queries == ()


def test_only_the_order_of_the_list_counts() -> None:
    # c is at 2, whatever its score: nDCG (3 / log2(3)) / (3 / log2(2)).
    run = {"q": [("a", 0.0), ("c", 1.0), ("b", 1.0), ("d", 0.5)]}
    assert evaluate(run, {"q": {"c": 3}}).means["nDCG@10"] == pytest.approx(1 / math.log2(3))


def test_programs_that_want_numbers_for_query_ids_get_them() -> None:
    # Gain 2**grade - 1: found 1 + 3 / log2(4) = 2.5, ideal 3 + 1 / log2(3) = 3.630930.
    gdeval = 'nDCG(dcg="exp-log2")@10'
    result = evaluate(RUN, QRELS, [gdeval])
    assert result.per_query[gdeval] == {"q1": pytest.approx(2.5 / 3.630930, abs=1e-5), "q2": 0.0}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("ndcg@10", r"measure 'ndcg@10': measure not found"),
        ("nDCG@0", r"measure 'nDCG@0': the cutoff 0 is below 1"),
        ("P(rel=0)@5", r"cannot compute P\(rel=0\)@5: .*positive"),
    ],
)
def test_a_name_that_is_no_measure(name: str, complaint: str) -> None:
    with pytest.raises(MeasureError, match=complaint):
        evaluate(RUN, QRELS, [name])


def test_no_measures_and_no_judgements() -> None:
    with pytest.raises(MeasureError, match="no measure is given"):
        evaluate(RUN, QRELS, [])
    with pytest.raises(MeasureError, match=r"give a list of names: \['RR'\]"):
        evaluate(RUN, QRELS, "RR")
    with pytest.raises(MeasureError, match="there are no judgements"):
        evaluate(RUN, {"q1": {}})


def test_a_document_twice() -> None:
    with pytest.raises(RunError, match="query 'q1': a document appears twice"):
        evaluate({"q1": [("a", 1.0), ("a", 0.5)]}, QRELS)


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(ImportError, match=r"'ir-measures'.*pip install \"mcranker\[eval\]\""):
        evaluate(RUN, QRELS)


def test_relevant_passages_of_a_query_without_results_are_counted_as_trec_eval_counts_them() -> (
    None
):
    # 2 of q1 and 1 of q2, for which nothing was found; trec_eval -c says num_rel 3.
    judged = {"q1": {"a": 1, "b": 2, "c": 0}, "q2": {"a": 1, "c": -1}}
    found = evaluate({"q1": [("a", 1.0)]}, judged, ["NumRel"])
    assert found.means["NumRel"] == 3
    assert found.per_query["NumRel"] == {"q1": 2, "q2": 1}


@pytest.mark.parametrize(
    ("measure", "judged"), [("nDCG@10", "Judged@10"), ("AP", "Judged"), ("RR@5", "Judged@5")]
)
def test_the_share_of_judged_documents_has_the_measures_cutoff(measure: str, judged: str) -> None:
    assert judged_share(measure) == judged


def test_judged_by_hand() -> None:
    # Of b, z and a two are judged.
    means = evaluate(RUN, {"q1": QRELS["q1"]}, [judged_share("nDCG@10")]).means
    assert means == {"Judged@10": pytest.approx(2 / 3)}


def test_ceiling_by_hand() -> None:
    # The best order of b, z, a is a, b, z, which is ideal; q2 was not answered.
    assert ceiling(RUN, QRELS, "nDCG@10") == {"q1": pytest.approx(1.0), "q2": 0.0}
    # Without a there is only b: 1 / (2 + 1 / log2(3)).
    less = {"q1": [("z", 0.8), ("b", 0.9)], "unjudged": [("z", 1.0)]}
    assert ceiling(less, QRELS, "nDCG@10")["q1"] == pytest.approx(1 / (2 + 1 / math.log2(3)))


def test_values_are_those_of_pytrec_eval() -> None:
    """300 queries, 1 to 5 relevant documents, 100 found; some found late, some not at all."""
    pytrec_eval: Any = importlib.import_module("pytrec_eval")
    draws = random.Random(11)
    run: dict[str, list[tuple[str, float]]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for query in map(str, range(300)):
        found = [f"d{number}" for number in draws.sample(range(5183), 100)]
        relevant = draws.randint(1, 5)
        judged = [*draws.sample(found, relevant), *(f"e{number}" for number in range(5))]
        qrels[query] = {doc_id: draws.choice((1, 1, 2)) for doc_id in judged[-relevant - 3 : -3]}
        run[query] = [(doc_id, float(100 - place)) for place, doc_id in enumerate(found)]
    names = {"nDCG@10": "ndcg_cut_10", "R@100": "recall_100", "AP": "map", "RR": "recip_rank"}
    asked = {"ndcg_cut.10", "recall.100", "map", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, asked).evaluate(
        {query: dict(documents) for query, documents in run.items()}
    )
    for name, values in evaluate(run, qrels, list(names)).per_query.items():
        expected = {query: theirs[query][names[name]] for query in qrels}
        assert values == pytest.approx(expected, rel=0, abs=1e-9)


def test_a_query_with_grades_below_0_alone_counts_0() -> None:
    run, qrels = {"q1": [("d1", 1.0)], "q2": [("d2", 1.0)]}, {"q1": {"d1": -2}, "q2": {"d2": 1}}
    found = evaluate(run, qrels, ["AP", "Bpref", "Judged@1"])  # trec_eval's code broke off here
    assert found.per_query["Bpref"] == found.per_query["AP"] == {"q1": 0.0, "q2": 1.0}
    assert found.per_query["Judged@1"] == {"q1": 1.0, "q2": 1.0}
