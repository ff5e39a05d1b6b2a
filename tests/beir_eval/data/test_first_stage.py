"""First stages: settings, what is kept, runs from elsewhere, and the published figures."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beir_eval import Dataset, Document, RunError, SettingError, evaluate, load, retrieve
from beir_eval.data.first_stage import FirstStage, find
from mcranker.retrieval import bm25

PETS = {"d1": "The cat sat", "d2": "cat, cat and dog", "d3": "A bird"}


# --- the run of a data set


def test_title_and_text_are_searched_and_every_query_has_its_list() -> None:
    pets = Dataset(
        name="pets",
        corpus={"d1": Document("d1", "Cat", "It sleeps."), "d2": Document("d2", "", "A dog.")},
        queries={"q2": "cats", "q3": "sleeping", "q1": "unicorn"},
        qrels={},
        description="",
    )
    run = retrieve(pets, depth=5)
    assert list(run) == ["q2", "q3", "q1"]
    assert [doc_id for doc_id, _ in run["q2"]] == ["d1"]
    assert [doc_id for doc_id, _ in run["q3"]] == ["d1"]
    assert run["q1"] == []
    with pytest.raises(SettingError, match="depth=0"):
        retrieve(pets, depth=0)


# --- settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "lucene"}, r"engine='lucene' is unknown; give 'bm25s' or 'pyserini'"),
        ({"k1": -0.1}, r"k1=-0\.1 is out of range"),
        ({"engine": "file"}, r"engine='file' needs a run"),
        ({"run": "a.trec"}, r"run='a\.trec' goes with engine='file', not 'bm25s'"),
        ({"engine": "file", "run": "a", "b": 0.5}, r"b=0\.5 goes with engine='bm25s'"),
    ],
)
def test_impossible_first_stages(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        FirstStage(**options)


def test_notes_for_run_folders() -> None:
    usual = FirstStage().note()
    lucene = FirstStage("pyserini", k1=1.2).note()
    file = FirstStage("file", run=Path("/somewhere/else/mine.v3.trec")).note()
    assert (usual.name, usual.settings) == ("BM25", {"engine": "bm25s", "k1": 0.9, "b": 0.4})
    assert lucene.name == "BM25 (Lucene)"
    assert lucene.settings == {"engine": "pyserini", "k1": 1.2, "b": 0.4}
    assert (file.name, file.settings) == ("mine.v3", {"engine": "file", "run": "mine.v3.trec"})


# --- what is kept


@pytest.fixture
def pets() -> Dataset:
    return Dataset(
        name="pets",
        corpus={doc_id: Document(doc_id, "", text) for doc_id, text in PETS.items()},
        queries={"q1": "cats", "q2": "bird"},
        qrels={},
        description="",
    )


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for every index that is built."""
    done: list[int] = []
    build = bm25._build

    def counted(texts: Iterator[str], **settings: float) -> Any:
        done.append(1)
        return build(texts, **settings)

    monkeypatch.setattr(bm25, "_build", counted)
    return done


def test_a_run_is_made_once(pets: Dataset, builds: list[int], tmp_path: Path) -> None:
    first = find(pets, FirstStage(), cache=tmp_path)
    assert find(pets, FirstStage(), cache=tmp_path) == first
    assert len(builds) == 1
    assert first == retrieve(pets)


def test_another_corpus_depth_or_version_makes_another_run(
    pets: Dataset, builds: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {**pets.corpus, "d3": Document("d3", "A", "fish")}
    find(pets, FirstStage(), cache=tmp_path)
    assert find(replace(pets, corpus=changed), FirstStage(), cache=tmp_path)["q2"] == []
    find(pets, FirstStage(depth=1), cache=tmp_path)
    assert len(builds) == 3
    monkeypatch.setattr(importlib.metadata, "version", lambda package: f"{package} of tomorrow")
    find(pets, FirstStage(), cache=tmp_path)
    assert len(builds) == 4


# --- runs from elsewhere


def run_file(folder: Path, *lines: str) -> FirstStage:
    path = folder / "other.trec"
    path.write_text("".join(f"{line}\n" for line in lines))
    return FirstStage("file", run=path, depth=2)


def test_a_run_is_cut_at_the_depth_and_keeps_its_scores(
    pets: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = run_file(
        tmp_path,
        "q7 Q0 elsewhere 1 9 t",
        "q1 Q0 d3 1 -0.5 t",
        "q1 Q0 d1 2 -1.25 t",
        "q1 Q0 d9 3 -7 t",  # below the depth, so that it does not matter that it is unknown
    )
    run = find(pets, stage)
    assert list(run.items()) == [("q1", [("d3", -0.5), ("d1", -1.25)]), ("q2", [])]
    assert "1 of 2 queries are not in this run, e.g. 'q2'" in caplog.text


def test_a_run_with_an_unknown_document_is_refused(pets: Dataset, tmp_path: Path) -> None:
    stage = run_file(tmp_path, "q2 Q0 d8 1 5 t", "q1 Q0 d1 1 5 t", "q1 Q0 d9 2 4 t")
    with pytest.raises(RunError, match=r"other\.trec: document 'd9' of query 'q1' is not in the c"):
        find(pets, stage)


def test_a_run_of_other_queries_is_refused(pets: Dataset, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"none of the 2 queries of pets.*begins with query '17'"):
        find(pets, run_file(tmp_path, "17 Q0 d1 1 5 t"))
    with pytest.raises(RunError, match=r"cannot be read: No such file"):
        find(pets, FirstStage("file", run=tmp_path / "none.trec"))


# --- published figures


def test_scifact_gives_the_known_figures() -> None:
    dataset = load(scifact_folder())
    run = retrieve(dataset, depth=100)
    result = evaluate(run, dataset.qrels, ["nDCG@10", "R@100"])
    assert len(dataset.corpus) == 5183
    assert len(dataset.queries) == 300
    assert result.means["nDCG@10"] == pytest.approx(0.6777, abs=5e-4)
    assert result.means["R@100"] == pytest.approx(0.9253, abs=5e-4)
    assert result.missing_queries == ()


def scifact_folder() -> Path:
    """SciFact under $MCRANKER_DATA/beir, or under ../shared/data/beir beside the project."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    folder = Path(os.environ.get("MCRANKER_DATA", beside)) / "beir" / "scifact"
    if not folder.is_dir():
        pytest.skip(f"SciFact is not at {folder}; set MCRANKER_DATA to the folder above beir")
    return folder
