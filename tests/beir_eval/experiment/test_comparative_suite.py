"""Rankers that compare as rows of a suite: measured, taken up again, and in the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from beir_eval.cli.persona_report import command as personas_command
from beir_eval.cli.report import command
from beir_eval.errors import SuiteError
from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import RunFolder
from beir_eval.experiment.suite import load_suite
from mcranker import ChatRequest
from tests.support.beir_folder import write_folder
from tests.support.comparing import comparing, shown_in
from tests.support.comparing_team import TEAM, comparing_team
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
ranker = "pairwise"
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
        for ranking in RunFolder.open(result.path).rankings():
            assert ranking.comparisons is not None
            assert ranking.comparisons.asked == ranking.usage.calls
            first, *rest = ranking.best_first
            assert sorted(hit.first_stage_rank for hit in (first, *rest)) == list(
                range(1, len(rest) + 2)
            )
    page = tmp_path / "page.html"
    made = CliRunner().invoke(command, [str(tmp_path / "out"), "--out", str(page)])
    assert made.exit_code == 0, made.output
    assert all(label in page.read_text(encoding="utf-8") for label in ("list", "sets", "pairs"))
    again = run_suite(load_suite(file), one)
    assert sum(result.calls for result in again) == 0


def test_a_team_that_compares_is_a_row_of_a_suite(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    file = tmp_path / "mine.toml"
    rows = '[[rankers]]\nlabel = "team"\nranker = "rankgpt"\nteam_size = 3\nwindow = 6\nstep = 3\n'
    head = SUITE.format(folder=folder).partition("[[rankers]]")[0]
    file.write_text(head + rows, encoding="utf-8")
    model, seen = comparing_team(longest_first)
    (result,) = run_suite(load_suite(file), plan(tmp_path / "out", model))
    assert result.calls == len(seen) > 0
    for ranking in RunFolder.open(result.path).rankings():
        assert ranking.ordered_by == TEAM
        assert all(set(hit.ranks) == set(TEAM) for hit in ranking.hits)
    page = tmp_path / "page.html"
    made = CliRunner().invoke(command, [str(tmp_path / "out"), "--out", str(page)])
    assert made.exit_code == 0, made.output
    people = tmp_path / "people"
    made = CliRunner().invoke(personas_command, [str(tmp_path / "out"), "--out", str(people)])
    assert made.exit_code == 0, made.output
    text = "".join(each.read_text(encoding="utf-8") for each in people.rglob("*.html"))
    assert "Worried parent" in text
    assert "On the ranks of this query" in text


def test_an_option_that_cannot_be_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    wrong = SUITE.format(folder="mini").replace("step = 3", "step = 6")
    file.write_text(wrong, encoding="utf-8")
    with pytest.raises(SuiteError, match=r"list.*step=6 is not below window=6"):
        load_suite(file)
