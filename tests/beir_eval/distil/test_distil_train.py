"""A tiny student learns a rule from its teacher, and ranks by it as any cross-encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click import Abort
from click.testing import CliRunner, Result

from beir_eval.cli.distil import command
from mcranker import RerankRanker
from tests.support.run_folders import make_run_folders
from tests.support.tiny_cross_encoder import WORDS, write_cross_encoder

pytest.importorskip("sentence_transformers", reason="the extra train is not installed")
pytest.importorskip("accelerate", reason="the extra train is not installed")
# Warnings of transformers and torch about themselves.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose passages show their score: from 0 to 9, the word of that place."""
    folder = tmp_path_factory.mktemp("runs")
    made = make_run_folders(folder, labels=("DIRECT(0,10)",), queries=30, passages=8)
    passages = made / "scifact" / "data" / "passages.jsonl"
    texts = {line["_id"]: line for line in map(json.loads, passages.read_text().splitlines())}
    for line in next(made.rglob("rankings.jsonl")).read_text().splitlines():
        for hit in json.loads(line)["hits"]:
            word = WORDS[min(9, round(10 * hit["relevance"]))]
            texts[hit["doc_id"]] = {"_id": hit["doc_id"], "title": "", "text": word}
    passages.write_text("".join(f"{json.dumps(each)}\n" for each in texts.values()))
    return made


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder without a scoring layer, which gets a new one."""
    return write_cross_encoder(tmp_path_factory.mktemp("student"), kind="BertModel")


def distil(runs: Path, student: Path, out: Path, *more: str) -> Result:
    given = [str(runs), "--model", str(student), "--out", str(out), "--max-tokens", "32", "-q"]
    given += ["--learning-rate", "0.01", "--output", "json", *more]
    return CliRunner().invoke(command, given, standalone_mode=False)


@pytest.mark.parametrize(
    ("loss", "steps", "batch"), [("mse", 240, 16), ("margin_mse", 120, 16), ("lambda", 60, 4)]
)
def test_a_rule_is_learned(
    loss: str, steps: int, batch: int, runs: Path, student: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    size = ["--steps", str(steps), "--batch", str(batch)]
    result = distil(runs, student, out, "--loss", loss, *size)
    assert result.exception is None, result.output
    found: dict[str, Any] = json.loads(result.stdout)["distillation"]
    of = {name: each["tau"]["mean"] for name, each in found["agreement"].items()}
    assert of["student"] > 0.8 > of["untrained"]
    ndcg = found["agreement"]["student"]["nDCG@10 by teacher"]["mean"]
    assert ndcg > 0.93
    assert found["bar_reached"] == (ndcg >= 0.98)
    losses = [*found["training"]["losses"].values()]
    assert losses[-1] < losses[0]
    assert (found["counts"]["queries"], found["counts"]["held_out_queries"]) == (24, 6)
    assert json.loads((out / "distil.json").read_text()) == found
    assert "Kendall" in (out / "README.md").read_text()
    # It ranks as any cross-encoder: the words by their place, at the relevance of the teacher.
    with RerankRanker(model=f"crossencoder:{out}", ledger=None) as ranker:
        ranking = ranker.rank("what is known about it", {each: each for each in WORDS[1:9:2]})
    assert ranking.ids == ["the", "rises", "viruses", "help"]
    if loss == "mse":
        relevance = [hit.relevance for hit in ranking]
        assert relevance == pytest.approx([0.7, 0.5, 0.3, 0.1], abs=0.2)


def test_what_is_interrupted_leaves_nothing(
    runs: Path, student: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert distil(runs, student, out, "--steps", "1").exception is None
    before = sorted((each.name, each.read_bytes()) for each in out.iterdir())

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("beir_eval.distil.train.model_card", interrupted)
    for place in (out, tmp_path / "new"):
        assert isinstance(distil(runs, student, place, "--steps", "2").exception, Abort)
    # What was there is untouched, and there is nothing else.
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert sorted((each.name, each.read_bytes()) for each in out.iterdir()) == before


def test_a_run_apart_is_held_out(runs: Path, student: Path, tmp_path: Path) -> None:
    other = make_run_folders(
        tmp_path / "other", datasets=("news",), labels=("DIRECT(0,10)",), queries=3
    )
    result = distil(runs, student, tmp_path / "out", "--steps", "1", "--held-out", str(other))
    assert result.exception is None, result.output
    found: dict[str, Any] = json.loads(result.stdout)["distillation"]
    assert [each["used"] for each in found["data"]] == ["training", "held out"]
    assert (found["counts"]["queries"], found["counts"]["held_out_queries"]) == (30, 3)
    # The teacher is a scripted model: by chance, and better than that by the judgements.
    assert set(found["judgements"]["figures"]) == {"student", "teacher", "untrained", "first stage"}
    assert found["judgements"]["figures"]["teacher"]["queries"] == 3
