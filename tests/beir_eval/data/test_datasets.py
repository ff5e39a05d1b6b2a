"""Data sets: what is loaded, and that every bad file names its place."""

from __future__ import annotations

import gzip
import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import beir_eval
from beir_eval import Dataset, DatasetError, Document, load
from beir_eval.data import catalogue
from beir_eval.data.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Sequence

CORPUS = [
    {"_id": "d1", "title": "Cats", "text": "A cat sat.", "metadata": {}},
    {"_id": "d2", "title": None, "text": "Dogs bark."},
    {"_id": "d3", "text": "caf\u00e9"},
]
QUERIES = [
    {"_id": "q1", "text": "cats"},
    {"_id": "q2", "text": "not judged"},
    {"_id": "q3", "text": "dogs"},
]
QRELS = "query-id\tcorpus-id\tscore\nq3\td2\t2\nq1\td1\t1\nq1\td2\t0\n"


def as_jsonl(entries: Sequence[object]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "pets"
    (home / "qrels").mkdir(parents=True)
    (home / "corpus.jsonl").write_text(as_jsonl(CORPUS), encoding="utf-8")
    (home / "queries.jsonl").write_text(as_jsonl(QUERIES), encoding="utf-8")
    (home / "qrels" / "test.tsv").write_text(QRELS, encoding="utf-8")
    return home


def test_a_folder_is_loaded_whole(folder: Path) -> None:
    dataset = load(folder)

    assert dataset == Dataset(
        name="pets",
        corpus={
            "d1": Document("d1", "Cats", "A cat sat."),
            "d2": Document("d2", "", "Dogs bark."),
            "d3": Document("d3", "", "caf\u00e9"),
        },
        queries={"q1": "cats", "q3": "dogs"},
        qrels={"q3": {"d2": 2}, "q1": {"d1": 1, "d2": 0}},
        description="pets: a folder in BEIR format; 3 documents, 2 queries, "
        "3 judgements in split test",
    )
    assert list(dataset.queries) == ["q1", "q3"]  # the file's order, not that of the qrels


def test_byte_order_mark_blank_lines_and_windows_line_ends(folder: Path) -> None:
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_bytes(
            b"\xef\xbb\xbf" + text.replace("\n", "\r\n\r\n").encode() + b"  \n"
        )

    (folder / "qrels" / "dev.tsv").write_text("q2\td3\t1\n", encoding="utf-8")  # no headings

    dataset = load(folder)

    assert load(folder, split="dev").qrels == {"q2": {"d3": 1}}
    assert list(dataset.corpus) == ["d1", "d2", "d3"]
    assert dataset.qrels == {"q3": {"d2": 2}, "q1": {"d1": 1, "d2": 0}}


def test_strangers_in_the_judgements_are_counted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "qrels" / "test.tsv").write_text(
        QRELS + "q8\td1\t1\nq8\td2\t1\nq9\td1\t1\nq1\td77\t1\n", encoding="utf-8"
    )

    with caplog.at_level(logging.WARNING, logger="mcranker.beir_eval.datasets"):
        dataset = load(folder)

    assert list(dataset.qrels) == ["q3", "q1"]
    assert dataset.qrels["q1"] == {"d1": 1, "d2": 0, "d77": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "pets: 2 judged queries are not among the queries and are left out, e.g. 'q8'",
        "pets: 1 judgements are of documents outside the corpus",
    ]


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("corpus.jsonl", '{"_id": "d4", "text": ', r"corpus\.jsonl:4: not JSON"),
        ("corpus.jsonl", '{"text": "x"}', r"corpus\.jsonl:4: the key '_id' is missing"),
        ("corpus.jsonl", '{"_id": 4, "text": "x"}', r"corpus\.jsonl:4: '_id' is 4; .* text"),
        (
            "corpus.jsonl",
            '{"_id": "d1", "text": "x"}',
            r"corpus\.jsonl:4: the id 'd1' is at .*:1 already",
        ),
        ("corpus.jsonl", '{"_id": "d 4", "text": "x"}', r"corpus\.jsonl:4: _id 'd 4' .* space"),
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "x"}',
            r"queries\.jsonl:4: the id 'q1' is at .*:1 already",
        ),
        ("qrels/test.tsv", "q1\td3", r"test\.tsv:5: 2 columns"),
        ("qrels/test.tsv", "q1\td1\t2", r"test\.tsv:5: .*'d1' were given grade 1 before, now 2"),
    ],
)
def test_a_bad_line_is_named(folder: Path, file: str, line: str, complaint: str) -> None:
    with (folder / file).open("a", encoding="utf-8") as target:
        target.write(line + "\n")

    with pytest.raises(DatasetError, match=complaint):
        load(folder)


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("corpus.jsonl", "the corpus is empty"),
        ("queries.jsonl", "none of its queries has a judgement in split 'test'"),
        ("qrels/test.tsv", "no judgement in it"),
    ],
)
def test_an_empty_file(folder: Path, file: str, complaint: str) -> None:
    (folder / file).write_text("\n", encoding="utf-8")

    with pytest.raises(DatasetError, match=complaint):
        load(folder)


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~/nowhere"])
def test_a_folder_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=rf"no folder '{name}'; .* holds corpus\.jsonl"):
        load(name)
    with pytest.raises(DatasetError, match=r"no folder .*scifact"):
        load(tmp_path / "scifact")  # a path is never a name


def small(entry: catalogue.Known, dataset: Dataset) -> catalogue.Known:
    """A data set of the paper as if it were as small as this one."""
    return replace(entry, documents=len(dataset.corpus), queries=len(dataset.qrels))


@pytest.mark.parametrize(
    ("folder_name", "paper"),
    [("touche", "touche"), ("Webis-Touche2020", "touche"), ("signal1m", "signal"), ("pet", None)],
)
def test_a_folder_called_like_a_data_set_of_the_paper_is_that_one(
    folder: Path, folder_name: str, paper: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load(folder)
    for name, entry in catalogue._BY_WORD.items():
        monkeypatch.setitem(catalogue._BY_WORD, name, small(entry, whole))
    dataset = load(folder.rename(folder.with_name(folder_name)))

    assert (dataset.name, dataset.paper, dataset.split) == (folder_name, paper, "test")
    assert dataset.about == (CATALOGUE[paper].about if paper else "")


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("bm25s", "ir_measures", "ir_datasets", "numpy", "pydantic", "Stemmer")
    code = f"import sys, beir_eval; print([name for name in {heavy!r} if name in sys.modules])"
    root = Path(beir_eval.__file__).parents[1]

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_a_name_alone_makes_no_data_set_of_the_paper(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="mcranker.beir_eval"):
        dataset = load(folder.rename(folder.with_name("scifact")))
    assert dataset.paper is None
    assert "judged queries, not 5183 and 300: it is not taken for it" in caplog.text


def test_packed_files(folder: Path) -> None:
    plain = load(folder)
    for name in ("corpus.jsonl", "queries.jsonl"):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))

    assert load(folder) == plain
