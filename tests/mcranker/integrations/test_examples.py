"""The examples with the embedded model."""

from __future__ import annotations

import os
import re
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


def test_every_example_is_run_here_and_names_extras_that_exist() -> None:
    files = {path.stem: path for path in (ROOT / "examples").glob("*.py")}
    trained = {"distil", "rankrag_train"}  # by tests/beir_eval/test_training_examples.py
    assert files.keys() == EXAMPLES.keys() | trained
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for path in files.values():
        pattern = r"^ *pip install ['\"]mcranker\[(.*)\]['\"]"
        (extras,) = re.findall(pattern, path.read_text(), re.MULTILINE)
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()


@pytest.mark.local_model
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_without_a_key(name: str, tmp_path: Path) -> None:
    pytest.importorskip(EXAMPLES[name])
    keys = {"MCRANKER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
    environment = {name: value for name, value in os.environ.items() if name not in keys}
    arguments = ["local"] if name == "beir" else []
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "HAYSTACK_TELEMETRY_ENABLED": "false"},
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    match name:
        case "rank":
            assert {path.name for path in tmp_path.iterdir()} == {"why.html", "team.yaml"}
        case "rag":
            assert re.search(r"^  \[1\] .+: '.+'$", done.stdout, re.MULTILINE)
            assert {path.name for path in tmp_path.iterdir()} == {"answer.html"}
        case "beir":
            assert "| MC: NLP scientist + 2 recruits |" in done.stdout
        case "ray_dataset":
            assert "\nbest masks against covid ['n95', " in f"\n{done.stdout}"
            assert "\nhow long to wash hands ['hands', " in done.stdout
        case "traces":
            assert done.stdout.endswith("of particles and seal against the face.\n")
        case "pyterrier_experiment":
            # 0.605 is BM25's nDCG@10 on the mini collection, as `mcranker demo` has it.
            header, first, team = (line.split() for line in done.stdout.splitlines()[-3:])
            assert header[:3] == ["name", "recip_rank", "ndcg_cut_10"]
            assert (first[0], first[2]) == ("BM25", "0.605")
            assert float(team[4]) > 0.605
        case "two_stage":
            lines = re.findall(r"^(\d) \w+ [\d.]+ DIRECT gave [\d.]+$", done.stdout, re.MULTILINE)
            assert lines == [str(rank) for rank in range(1, len(lines) + 1)]
            assert len(lines) > 4
        case _:
            hits = re.findall(r"^(\d\.\d{3})  was +\d+ .+$", done.stdout, re.MULTILINE)
            assert len(hits) == 5
            assert hits == sorted(hits, reverse=True)
            assert "'NLP scientist': " in done.stdout
