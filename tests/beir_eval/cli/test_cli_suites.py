"""``beir-eval suites``: lists, shows, checks and prints suites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.suites import command
from beir_eval.errors import SuiteError
from beir_eval.experiment.suite import load_suite, shipped_suites, suite_text

OWN = """
title = "Mine\\u001b[31m"
datasets = ["mini", {name = "nfcorpus", split = "dev"}]
depth = 7
[[rankers]]
label = "[bold]A[/bold]"
team = ["nlp_scientist", "Vet"]
nlp_scientist = false
temperature = "none"
"""


def run(*args: str) -> Result:
    """What the verb prints, and how it ends."""
    runner = CliRunner(env={"COLUMNS": "110"})
    return runner.invoke(command, list(args), standalone_mode=False, catch_exceptions=False)


def test_all_are_listed_with_their_titles() -> None:
    result = run()
    assert result.return_value == 0
    for name, title in shipped_suites().items():
        assert any(
            line.split(maxsplit=1) == [name, title] for line in result.stdout.splitlines()
        ), name
    assert result.stderr == ""


def test_the_list_as_json() -> None:
    result = json.loads(run("--output", "json").stdout)
    assert (result["status"], result["errors"]) == ("ok", [])
    assert result["suites"] == [
        {"name": name, "title": title} for name, title in shipped_suites().items()
    ]


def test_one_is_shown_with_its_rankers_and_their_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = run("table1").stdout
    assert shown.startswith("Team compositions and DIRECT\n")
    assert "data sets: trec-covid, touche, news, signal, dbpedia, scifact, robust04, nfco" in shown
    assert "depth: 100 passages a query\ncompared with: DIRECT(0,10)\n" in shown
    assert "paper's numbers: table_5_and_1\n" in shown
    cells = [" ".join(line.split()) for line in shown.splitlines()]
    assert "DIRECT(0,20) direct scale=20" in cells
    assert "MC: 2 recruits mcranker team_size=2, nlp_scientist=false" in cells

    shown = run("fig4").stdout
    assert f"model small: {load_suite('fig4').models['small']}\n" in shown
    assert "figure: nDCG@10 by model and role (bars)\n" in shown


def test_one_as_json() -> None:
    suite = json.loads(run("fig2", "--output", "json").stdout)["suite"]
    assert list(suite) == [
        "name",
        "title",
        "description",
        "datasets",
        "depth",
        "baseline",
        "paper_table",
        "paper_rows",
        "models",
        "figure",
        "rankers",
    ]
    assert suite["datasets"][0] == {"name": "trec-covid", "split": "test", "about": ""}
    assert suite["figure"]["paper"] == "fig_2"
    assert suite["rankers"][1] == {
        "label": "MC: NLP scientist + 1 recruit",
        "ranker": "mcranker",
        "options": {"team_size": 2},
        "run": None,
        "paper_row": "MC: NLP scientist + 1 recruit",
        "x": 1.0,
        "series": "",
    }


def test_a_file_of_ones_own_is_shown_and_safe_for_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN, encoding="utf-8")
    shown = run(str(file)).stdout
    assert shown.startswith("Mine\\x1b[31m\n")
    assert "data sets: mini, nfcorpus (dev)\ndepth: 7 passages" in shown
    assert "compared with: the first stage\n" in shown
    assert "paper's numbers" not in shown
    assert "[bold]A[/bold]" in shown
    assert "team=[nlp_scientist, Vet], nlp_scientist=false, temperature=none" in shown


def test_the_file_is_printed_as_it_is_and_can_be_run_from_a_copy(tmp_path: Path) -> None:
    printed = run("table2", "--toml")
    assert printed.stdout == suite_text("table2")
    copy = tmp_path / "table2.toml"
    copy.write_bytes(printed.stdout_bytes)
    assert load_suite(copy) == load_suite("table2")


def test_an_unknown_suite_is_an_error() -> None:
    with pytest.raises(SuiteError, match="did you mean 'table3'"):
        run("tabel3")
    with pytest.raises(SuiteError, match="did you mean 'table3'"):
        run("tabel3", "--toml")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--toml"], "--toml needs the name of a suite"),
        (["smoke", "--toml", "--output", "json"], "--toml and --output json do not go together"),
    ],
)
def test_flags_that_do_not_go_together(args: list[str], said: str) -> None:
    result = CliRunner().invoke(command, args)
    assert result.exit_code == 2
    assert said in result.stderr
