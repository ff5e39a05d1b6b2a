"""``beir-eval retrieve``: the run that it writes, and what it says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval import DatasetError, MeasureError, load, read_trec, retrieve
from beir_eval.cli.first_stage import RETRIEVE
from mcranker.errors import ConfigError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MCRANKER_CACHE", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(RETRIEVE, arguments, standalone_mode=False)


def record(result: Result) -> dict[str, Any]:
    assert result.exception is None
    envelope: dict[str, Any] = json.loads(result.stdout)
    assert (envelope["status"], envelope["exit_code"], envelope["errors"]) == ("ok", 0, [])
    found: dict[str, Any] = envelope["retrieval"]
    return found


@pytest.mark.usefixtures("cache")
def test_the_run_is_written_and_measured() -> None:
    found = record(run("mini", "--out", "mini.trec", "--depth", "20", "--output", "json"))

    written = read_trec("mini.trec")
    expected = retrieve(load("mini"), depth=20)
    assert {query: [doc for doc, _ in docs] for query, docs in written.items()} == {
        query: [doc for doc, _ in docs] for query, docs in expected.items()
    }
    assert (found["dataset"], found["run"], found["queries"]) == ("mini", "mini.trec", 10)
    assert found["found"] == sum(map(len, expected.values()))
    assert found["first_stage"] == {
        "name": "BM25",
        "engine": "bm25s",
        "k1": 0.9,
        "b": 0.4,
        "depth": 20,
    }
    assert list(found["measures"]) == ["nDCG@10", "R@100"]
    assert found["measures"]["nDCG@10"] == pytest.approx(0.6046, abs=5e-5)
    assert set(found["seconds"]) == {"load", "search", "measure"}


@pytest.mark.usefixtures("cache")
def test_the_table_has_measures_counts_and_times() -> None:
    result = run("mini", "--out", "mini.trec", "--measures", "RR, P(rel=1,judged_only=False)@5")

    assert result.exception is None
    lines = result.stdout.splitlines()
    assert lines[0].startswith("mini: ")
    assert lines[1] == "BM25: 790 documents for 10 queries, in mini.trec"
    words = [line.split() for line in lines]
    assert ["measure", "BM25"] in words
    assert [row[0] for row in words if row][4:6] == ["RR", "P(rel=1,judged_only=False)@5"]
    assert lines[-1].startswith("load ")
    assert ", search " in lines[-1]


@pytest.mark.usefixtures("cache")
def test_options_reach_the_search() -> None:
    arguments = ("mini", "--out", "a.trec", "--k1", "2", "--b", "0", "--limit", "3")

    found = record(run(*arguments, "--depth", "1", "--output", "json"))

    first_three = list(load("mini").queries)[:3]
    expected = retrieve(load("mini"), 1, k1=2, b=0)
    assert found["queries"] == 3
    assert found["first_stage"]["k1"] == 2
    assert {query: docs[0][0] for query, docs in read_trec("a.trec").items()} == {
        query: expected[query][0][0] for query in first_three
    }


def test_what_was_found_is_kept_unless_told_otherwise(cache: Path) -> None:
    record(run("mini", "--out", "a.trec", "--no-cache", "--output", "json"))
    assert not cache.exists()

    record(run("mini", "--out", "b.trec", "--output", "json"))
    assert len(list((cache / "first_stage").iterdir())) == 1
    record(run("mini", "--out", "c.trec", "--output", "json"))
    assert Path("c.trec").read_bytes() == Path("b.trec").read_bytes() == Path("a.trec").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mini",), "Missing option '--out'"),
        (("mini", "--out", "a", "--b", "1.5"), "1.5 is not in the range 0<=x<=1"),
        (("mini", "--out", "a", "--depth", "0"), "0 is not in the range x>=1"),
    ],
)
@pytest.mark.usefixtures("cache")
def test_bad_usage(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(RETRIEVE, arguments)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("mini", "--measures", "NDGC@10"), MeasureError),
        (("mini", "--measures", " , "), MeasureError),
        (("nowhere-at-all/",), DatasetError),
    ],
)
def test_errors_leave_no_file(
    cache: Path, arguments: tuple[str, ...], error: type[Exception]
) -> None:
    result = run(*arguments, "--out", "a.trec")

    assert isinstance(result.exception, error)
    assert not Path("a.trec").exists()
    assert not cache.exists()  # and no work was done


@pytest.mark.usefixtures("cache")
def test_pyserini_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyserini" else find_spec(name)
    )

    result = run("mini", "--out", "a.trec", "--engine", "pyserini")

    assert isinstance(result.exception, ConfigError)
    assert "pip install 'mcranker[pyserini]'" in str(result.exception)
