"""``beir-eval suites``: lists, checks and prints suites."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from click.testing import CliRunner, Result

from beir_eval.cli.group import cli
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
    return runner.invoke(cli, ["run", "--suites", *args])


def test_all_are_listed_with_their_titles() -> None:
    result = run()
    assert result.exit_code == 0
    for name, title in shipped_suites().items():
        assert any(
            line.split(maxsplit=1) == [name, title] for line in result.stdout.splitlines()
        ), name
    assert result.stderr == ""


def test_one_is_printed_as_its_file_is_and_can_be_run_from_a_copy(tmp_path: Path) -> None:
    printed = run("table2")
    assert printed.stdout == suite_text("table2")
    copy = tmp_path / "table2.toml"
    copy.write_bytes(printed.stdout_bytes)
    assert load_suite(copy) == load_suite("table2")
    assert run(str(copy)).stdout == printed.stdout


def test_one_as_json() -> None:
    suite = json.loads(run("fig2", "--output", "json").stdout)["suite"]
    assert suite == tomllib.loads(suite_text("fig2"))
    assert suite["figure"]["paper"] == "fig_2"


def test_a_file_of_ones_own_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN, encoding="utf-8")
    assert run(str(file)).stdout == OWN
    file.write_text(OWN.replace("temperature", "temprature"), encoding="utf-8")
    refused = run(str(file))
    assert (refused.exit_code, "did you mean 'temperature'" in refused.stderr) == (1, True)
