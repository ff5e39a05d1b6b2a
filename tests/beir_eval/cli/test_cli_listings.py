"""``beir-eval run --suites`` and ``--datasets``: lists, checks and prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.group import cli
from beir_eval.data.catalogue import CATALOGUE
from beir_eval.data.datasets import COLLECTIONS
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
    return CliRunner(env={"COLUMNS": "120"}).invoke(cli, ["run", *args])


def test_all_are_listed_with_their_titles() -> None:
    result = run("--suites")
    assert result.exit_code == 0
    for name, title in shipped_suites().items():
        assert any(
            line.split(maxsplit=1) == [name, title] for line in result.stdout.splitlines()
        ), name
    assert result.stderr == ""


def test_one_is_printed_as_its_file_is_and_can_be_run_from_a_copy(tmp_path: Path) -> None:
    printed = run("--suites", "table2")
    assert printed.stdout == suite_text("table2")
    copy = tmp_path / "table2.toml"
    copy.write_bytes(printed.stdout_bytes)
    assert load_suite(copy) == load_suite("table2")
    assert run("--suites", str(copy)).stdout == printed.stdout


def test_a_file_of_ones_own_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN, encoding="utf-8")
    assert run("--suites", str(file)).stdout == OWN
    file.write_text(OWN.replace("temperature", "temprature"), encoding="utf-8")
    refused = run("--suites", str(file))
    assert (refused.exit_code, "did you mean 'temperature'" in refused.stderr) == (1, True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of ir_datasets, which is not there; its package must not be imported either."""
    home = tmp_path / "irds"
    monkeypatch.setenv("IR_DATASETS_HOME", str(home))
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    return home


def records() -> dict[str, Any]:
    result = run("--datasets", "--output", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert (told["status"], told["exit_code"], told["errors"]) == ("ok", 0, [])
    return {record["name"]: record for record in told["datasets"]}


def test_everything_that_can_be_named(home: Path) -> None:
    found = records()

    assert list(found) == [*COLLECTIONS, *CATALOGUE]
    assert found["touche"] == {
        "name": "touche",
        "title": "Touché 2020",
        "ir_datasets": "beir/webis-touche2020/v2",
        "queries": 49,
        "here": False,
        "path": str(home / "beir" / "webis-touche2020" / "v2" / "source.zip"),
        "licence": None,
    }
    assert (found["signal"]["ir_datasets"], found["signal"]["path"]) == (None, None)
    assert "Signal AI" in found["signal"]["licence"]
    assert not home.exists()
