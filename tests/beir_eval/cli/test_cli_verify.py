"""``beir-eval report --verify``, and what reports and comparisons say of files that were edited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from beir_eval.cli.report import command
from beir_eval.compare import compare_pair, open_pair
from beir_eval.experiment.cell import CellResult
from beir_eval.experiment.run import run_suite
from beir_eval.report.warnings import warnings
from tests.support.beir_folder import knowing, write_folder
from tests.support.experiment_support import plan, suite
from tests.support.report_runs import report_on


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, list[CellResult]]:
    made = suite(write_folder(tmp_path / "tiny"), "DIRECT", "sum")
    return tmp_path / "out", run_suite(made, plan(tmp_path / "out", knowing()))


def verified(out: Path) -> dict[str, tuple[str, list[str]]]:
    """Folder's name -> its state and files."""
    result = CliRunner().invoke(
        command, [str(out), "--verify", "--format", "json"], standalone_mode=False
    )
    assert not result.exception, result.output
    envelope = json.loads(result.stdout)
    changed = any(each["state"] == "changed" for each in envelope["folders"])
    assert (envelope["exit_code"], [each["code"] for each in envelope["errors"]]) == (
        (1, ["FilesChanged"]) if changed else (0, [])
    )
    return {
        Path(each["folder"]).name: (each["state"], each["files"]) for each in envelope["folders"]
    }


@pytest.mark.parametrize("name", ["rankings.jsonl", "run.trec", "metrics.json"])
def test_an_edited_file_is_found_and_told(runs: tuple[Path, list[CellResult]], name: str) -> None:
    out, (direct, team) = runs
    with (team.path / name).open("ab") as file:
        file.write(b"\n")
    assert verified(out)["sum"] == ("changed", [name])
    assert verified(out)["direct"] == ("as written", [])
    told = [each for each in warnings(report_on(out)) if "changed after the run" in each.sentence]
    assert [each.kind for each in told] == ["bad"]
    assert f"sum on tiny ({name})" in told[0].sentence
    warned = compare_pair(open_pair(str(direct.path), str(team.path))).notes
    assert f"B: files were changed after the run: {name}." in warned
    assert name in CliRunner().invoke(command, [str(out), "--verify"]).stdout


def test_a_file_that_is_gone_and_edited_judgements_are_found(
    runs: tuple[Path, list[CellResult]],
) -> None:
    out, (direct, _) = runs
    (direct.path / "run.trec").unlink()
    qrels = direct.path.parent / "data" / "qrels.tsv"
    qrels.write_text(qrels.read_text().replace("\t2\n", "\t1\n"))
    assert verified(out)["direct"] == ("changed", ["run.trec"])
    assert verified(out)["data"] == ("changed", ["qrels.tsv"])
    sentences = [each.sentence for each in warnings(report_on(out))]
    assert "data of tiny (qrels.tsv)" in next(each for each in sentences if "changed" in each)
