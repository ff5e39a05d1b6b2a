"""Our values, ranx's and pytrec_eval's are the same, query by query.

With the folder of SciFact in BEIR format in MCRANKER_SCIFACT, its BM25 run is one of the runs.
"""

from __future__ import annotations

import importlib
import os
import random
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from beir_eval import Run, evaluate, load, retrieve
from tests.support.ranx_support import start_ranx

Grades = Mapping[str, Mapping[str, int]]
Values = dict[str, dict[str, float]]

# Ours -> as ranx, as pytrec_eval, and as pytrec_eval's results name it.
NAMES = {
    "nDCG@10": ("ndcg@10", "ndcg_cut.10", "ndcg_cut_10"),
    "R@100": ("recall@100", "recall.100", "recall_100"),
    "AP": ("map", "map", "map"),
    "RR": ("mrr", "recip_rank", "recip_rank"),
}
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """A run and its judgements."""

    run: Run
    qrels: Grades


def mini() -> Case:
    dataset = load("mini")
    return Case(retrieve(dataset), dataset.qrels)


def like_scifact() -> Case:
    """300 queries, 1 to 5 relevant documents, 100 found; some found late, some not at all."""
    draws = random.Random(11)
    run: dict[str, list[tuple[str, float]]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for query in map(str, range(300)):
        found = [f"d{number}" for number in draws.sample(range(5183), 100)]
        relevant = draws.randint(1, 5)
        judged = [*draws.sample(found, relevant), *(f"e{number}" for number in range(5))]
        qrels[query] = {doc_id: draws.choice((1, 1, 2)) for doc_id in judged[-relevant - 3 : -3]}
        run[query] = [(doc_id, 30 - place / 7) for place, doc_id in enumerate(found)]
    return Case(run, qrels)


def scifact() -> Case:
    folder = os.environ.get("MCRANKER_SCIFACT")
    if not folder:
        pytest.skip("MCRANKER_SCIFACT does not name a folder with SciFact")
    dataset = load(folder)
    return Case(retrieve(dataset), dataset.qrels)


def ours(case: Case) -> Values:
    return {
        name: dict(values)
        for name, values in evaluate(case.run, case.qrels, list(NAMES)).per_query.items()
    }


def by_ranx(case: Case) -> Values:
    ranx = start_ranx()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = ranx.Run(falling(case))
        ranx.evaluate(
            ranx.Qrels({query: dict(grades) for query, grades in case.qrels.items()}),
            run,
            [theirs for theirs, *_ in NAMES.values()],
        )
    return {
        name: {query: float(value) for query, value in run.scores[theirs].items()}
        for name, (theirs, *_) in NAMES.items()
    }


def by_pytrec_eval(case: Case) -> Values:
    pytrec_eval: Any = importlib.import_module("pytrec_eval")
    evaluator = pytrec_eval.RelevanceEvaluator(
        {query: dict(grades) for query, grades in case.qrels.items()},
        {asked for _, asked, _ in NAMES.values()},
    )
    found = evaluator.evaluate(falling(case))
    return {
        name: {query: values[theirs] for query, values in found.items()}
        for name, (_, _, theirs) in NAMES.items()
    }


def falling(case: Case) -> dict[str, dict[str, float]]:
    """The run with scores that say its order, and say it to programs of single precision."""
    return {
        query: {doc_id: float(len(found) - place) for place, (doc_id, _) in enumerate(found)}
        for query, found in case.run.items()
    }


@pytest.mark.parametrize("theirs", [by_pytrec_eval, by_ranx])
@pytest.mark.parametrize("make", [mini, like_scifact, scifact])
def test_every_query_has_the_same_value(
    make: Callable[[], Case], theirs: Callable[[Case], Values]
) -> None:
    case = make()

    mine, other = ours(case), theirs(case)

    for name, values in mine.items():
        assert list(values) == list(case.qrels)
        assert other[name] == pytest.approx(values, rel=0, abs=TOLERANCE)
        # Values that are all alike would agree whatever the formula.
        assert len(set(values.values())) > 1 or name == "R@100"
