"""Rankers that compare as rows of a suite: measured, taken up again, and in the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from beir_eval.cli.report import command
from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import RunFolder
from beir_eval.experiment.suite import load_suite
from mcranker import ChatRequest
from tests.support.beir_folder import write_folder
from tests.support.comparing import comparing, shown_in
from tests.support.experiment_support import plan

SUITE = """
title = "Comparisons"
datasets = ["{folder}"]
depth = 12
[[rankers]]
label = "list"
ranker = "rankgpt"
window = 6
step = 3
[[rankers]]
label = "sets"
ranker = "setwise"
ranks = 3
[[rankers]]
label = "pairs"
ranker = "setwise"
children = 1
ranks = 2
"""


def longest_first(request: ChatRequest) -> str:
    """By the length of the texts: an order, or a letter."""
    lengths = {name: len(text) for name, text in shown_in(request).items()}
    order = sorted(lengths, key=lambda name: -lengths[name])
    return " > ".join(f"[{name}]" for name in order) if "1" in lengths else order[0]


def test_rows_of_a_suite(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    file = tmp_path / "mine.toml"
    file.write_text(SUITE.format(folder=folder), encoding="utf-8")
    model, seen = comparing(longest_first)
    one = plan(tmp_path / "out", model)
    results = run_suite(load_suite(file), one)
    assert [result.label for result in results] == ["list", "sets", "pairs"]
    assert sum(result.calls for result in results) == len(seen) > 0
    for result in results:
        assert result.metrics is not None
        assert result.metrics.scores is not None
        assert result.metrics.scores.asked == result.metrics.scores.comparisons > 0
        for ranking in RunFolder.open(result.path).rankings():
            assert ranking.comparisons is not None
            assert ranking.comparisons.asked == ranking.usage.calls
            first, *rest = ranking.hits
            assert sorted(hit.first_stage_rank for hit in (first, *rest)) == list(
                range(1, len(rest) + 2)
            )
    page = tmp_path / "page.html"
    made = CliRunner().invoke(command, [str(tmp_path / "out"), "--out", str(page)])
    assert made.exit_code == 0, made.output
    assert all(label in page.read_text(encoding="utf-8") for label in ("list", "sets", "pairs"))
    again = run_suite(load_suite(file), one)
    assert sum(result.calls for result in again) == 0


@pytest.mark.parametrize(("limit", "returned"), [("", 12), ("top_n = 5", 5)])
def test_rebel_is_measured_by_all_passages_unless_told_otherwise(
    tmp_path: Path, limit: str, returned: int
) -> None:
    folder = write_folder(tmp_path / "tiny")
    file = tmp_path / "mine.toml"
    row = f'[[rankers]]\nlabel = "rebel"\nranker = "rebel"\nwindow = 5\n{limit}\n'
    file.write_text(SUITE.format(folder=folder).partition("[[")[0] + row, encoding="utf-8")
    model, _ = comparing(all_alike)
    (result,) = run_suite(load_suite(file), plan(tmp_path / "out", model))
    assert result.metrics is not None
    for ranking in RunFolder.open(result.path).rankings():
        assert ranking.windows is not None
        assert ranking.windows.asked == ranking.usage.calls == -(-len(ranking.hits) // 5)
        assert len(ranking) == min(returned, len(ranking.hits))


def all_alike(request: ChatRequest) -> str:
    """All passages are equally good."""
    scores = {"Relevance": 7, **{f"P{number}": 1 for number in range(1, 6)}}
    return json.dumps({"Passages": dict.fromkeys(shown_in(request), scores)})
