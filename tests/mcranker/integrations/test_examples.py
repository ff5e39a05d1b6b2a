"""The examples with the embedded model."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Example -> the module that it needs beside the project and its benchmark tools.
EXAMPLES = {
    "beir": "ir_measures",
    "haystack_rerank": "haystack",
    "langchain_rerank": "langchain_classic",
    "llamaindex_rerank": "llama_index.core",
    "pyterrier_experiment": "pyterrier",
    "rag": "onnxruntime",
    "rank": "onnxruntime",
    "ray_dataset": "ray",
    "traces": "opentelemetry.sdk",
    "two_stage": "onnxruntime",
}
OF_A_PROCESS = ("ray_dataset", "traces")  # these set what a process has once


def test_every_example_is_run_here_and_names_extras_that_exist() -> None:
    files = {path.stem: path for path in (ROOT / "examples").glob("*.py")}
    del files["record"]  # which takes a large model
    trained = {"distil", "rankrag_train"}  # by tests/beir_eval/test_training_examples.py
    assert files.keys() == EXAMPLES.keys() | trained
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for path in files.values():
        pattern = r"^ *pip install ['\"]\.\[(.*)\]['\"]"
        (extras,) = re.findall(pattern, path.read_text(), re.MULTILINE)
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors")


@pytest.mark.local_model
@pytest.mark.filterwarnings("default")  # of other libraries
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_without_a_key(
    name: str,
    vectors: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(EXAMPLES[name])
    for key in ("MCRANKER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("MCRANKER_VECTORS", str(vectors))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    path = str(ROOT / "examples" / f"{name}.py")
    if name in OF_A_PROCESS:
        subprocess.run([sys.executable, path], check=True, timeout=180)
    else:
        monkeypatch.setattr(sys, "argv", [path, *(["local"] if name == "beir" else [])])
        runpy.run_path(path, run_name="__main__")
    said = capfd.readouterr().out
    match name:
        case "rank":
            assert {path.name for path in tmp_path.iterdir()} == {"why.html", "team.yaml"}
        case "rag":
            assert re.search(r"^  \[1\] .+: '.+'$", said, re.MULTILINE)
            assert {path.name for path in tmp_path.iterdir()} == {"answer.html"}
        case "beir":
            assert "| MC: NLP scientist + 2 recruits |" in said
        case "ray_dataset":
            assert "\nbest masks against covid ['n95', " in f"\n{said}"
            assert "\nhow long to wash hands ['hands', " in said
        case "traces":
            assert said.endswith("of particles and seal against the face.\n")
        case "pyterrier_experiment":
            # 0.605 is BM25's nDCG@10 on the mini collection, as `mcranker demo` has it.
            header, first, team = (line.split() for line in said.splitlines()[-3:])
            assert header[:3] == ["name", "recip_rank", "ndcg_cut_10"]
            assert (first[0], first[2]) == ("BM25", "0.605")
            assert float(team[4]) > 0.605
        case "two_stage":
            lines = re.findall(r"^(\d) \w+ [\d.]+ DIRECT gave [\d.]+$", said, re.MULTILINE)
            assert lines == [str(rank) for rank in range(1, len(lines) + 1)]
            assert len(lines) > 4
        case _:
            hits = re.findall(r"^(\d\.\d{3})  was +\d+ .+$", said, re.MULTILINE)
            assert len(hits) == 5
            assert hits == sorted(hits, reverse=True)
            assert "'NLP scientist': " in said
