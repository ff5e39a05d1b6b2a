"""``beir-eval retrieve``: the run that it writes, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval import DatasetError, MeasureError, load, read_trec, retrieve
from beir_eval.cli.first_stage import RETRIEVE


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


@pytest.mark.usefixtures("cache")
def test_options_reach_the_search() -> None:
    arguments = ("mini", "--out", "a.trec", "--k1", "2", "--b", "0")

    found = record(run(*arguments, "--depth", "1", "--output", "json"))

    expected = retrieve(load("mini"), 1, k1=2, b=0)
    assert found["first_stage"]["k1"] == 2
    assert {query: docs[0][0] for query, docs in read_trec("a.trec").items()} == {
        query: docs[0][0] for query, docs in expected.items()
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mini",), "Missing option '--out'"),
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
