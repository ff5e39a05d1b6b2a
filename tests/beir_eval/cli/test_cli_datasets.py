"""``beir-eval datasets`` in this process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.group import cli
from beir_eval.data.catalogue import CATALOGUE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of ir_datasets, which is not there; its package must not be imported either."""
    home = tmp_path / "irds"
    monkeypatch.setenv("IR_DATASETS_HOME", str(home))
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    monkeypatch.setenv("COLUMNS", "120")
    return home


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["run", "--datasets", *args])


def records() -> dict[str, Any]:
    result = run("--output", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert (told["status"], told["exit_code"], told["errors"]) == ("ok", 0, [])
    return {record["name"]: record for record in told["datasets"]}


def test_everything_that_can_be_named(home: Path) -> None:
    found = records()

    assert list(found) == ["mini", *CATALOGUE]
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


def test_what_is_here_already(home: Path) -> None:
    (home / "beir" / "scifact").mkdir(parents=True)
    assert not records()["scifact"]["here"]

    (home / "beir" / "scifact" / "source.zip").touch()
    (home / "disks45" / "corpus").mkdir(parents=True)

    assert [name for name, record in records().items() if record["here"]] == [
        "mini",
        "scifact",
        "robust04",
    ]


def test_the_table(home: Path) -> None:
    (home / "disks45" / "corpus").mkdir(parents=True)

    result = run()

    assert (result.exit_code, result.stderr) == (0, "")
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert rows[1] == "name title queries here from"
    assert "mini the mini collection 10 yes the package" in rows
    assert "scifact SciFact 300 no beir/scifact/test" in rows
    assert "signal Signal-1M 97 no a folder of yours" in rows
    assert "robust04 Robust04 249 yes disks45/nocr/trec-robust-2004 (licensed)" in rows
    notes = [row for row in rows if row.startswith(("news:", "signal:", "robust04:"))]
    assert [note.split(":")[0] for note in notes] == ["news", "signal"]  # robust04 is here
    assert notes[0].endswith(f"put them at {home / 'wapo' / 'WashingtonPost.v2.tar.gz'}")
    assert "beir/fiqa/test" in result.stdout
