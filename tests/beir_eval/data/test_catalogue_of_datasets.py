"""The paper's data sets: their names, and that what is said of them is so."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from beir_eval.data.catalogue import CATALOGUE, known
from beir_eval.measures.paper import DATASETS, paper_queries


def test_they_are_the_papers_in_its_order() -> None:
    assert tuple(CATALOGUE) == DATASETS
    assert all(name == entry.name for name, entry in CATALOGUE.items())
    assert {name: entry.queries for name, entry in CATALOGUE.items()} == {
        name: paper_queries(name) for name in DATASETS
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SciFact", "scifact"),
        ("TREC-COVID", "trec-covid"),
        ("webis-touche2020", "touche"),
        ("Touché", "touche"),
        ("Signal-1M", "signal"),
        ("dbpedia-entity", "dbpedia"),
        ("beir/nfcorpus/test", "nfcorpus"),
        ("beir/webis-touche2020/v2", "touche"),
    ],
)
def test_names_aliases_and_ids(name: str, expected: str) -> None:
    assert known(name) is CATALOGUE[expected]


def test_ids_are_those_of_ir_datasets_and_hold_as_many_queries() -> None:
    kept = resources.files("ir_datasets") / "etc" / "metadata.json"
    metadata = json.loads(kept.read_text(encoding="utf-8"))
    queries = {
        name: metadata[entry.ir_datasets]["queries"]["count"]
        for name, entry in CATALOGUE.items()
        if entry.ir_datasets
    }
    # Of the 60 topics of News and the 250 of Robust04, 57 and 249 have judgements.
    assert queries == {
        "trec-covid": 50,
        "touche": 49,
        "news": 60,
        "dbpedia": 400,
        "scifact": 300,
        "robust04": 250,
        "nfcorpus": 323,
    }
    grades = metadata["beir/webis-touche2020/v2"]["qrels"]["fields"]["relevance"]
    # Anserini's judgements for BEIR 1.0.0 are 932, all of grade 1 or 2.
    assert grades["counts_by_value"]["1"] + grades["counts_by_value"]["2"] == 932
