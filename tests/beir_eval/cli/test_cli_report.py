"""``beir-eval report``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.report import command
from beir_eval.errors import RunFolderError, SettingError
from tests.support.report_runs import DIRECT, TWO, made
from tests.support.run_folders import fig2


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [*map(str, arguments)])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    made(tmp_path / "runs" / "tables", labels=[DIRECT, TWO])
    return made(tmp_path / "runs" / "figures", labels=["a", "b"], suite=fig2).parent


def test_markdown_goes_to_standard_output(runs: Path) -> None:
    result = invoke(runs)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("# Evaluation\n\n- **")
    assert "\n\n## How many recruits\n" in result.stdout
    assert "## Team compositions and DIRECT" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("name", "start"),
    [("r.md", "# Evaluation"), ("r.tex", "% Needs"), ("r.JSON", "{\n"), ("r.html", "<!")],
)
def test_file_is_written_in_the_form_of_its_suffix(
    runs: Path, tmp_path: Path, name: str, start: str
) -> None:
    result = invoke(runs, "--out", tmp_path / name)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert (tmp_path / name).read_text(encoding="utf-8").lstrip().startswith(start)


def test_folder_gets_all_forms_and_the_figures(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = invoke(runs, "--out", out)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == [
        *("fig2.svg", "report.html", "report.json", "report.md", "report.tex")
    ]
    assert "![Number of recruits](<fig2.svg>)" in (out / "report.md").read_text(encoding="utf-8")
    assert "<svg" in (out / "fig2.svg").read_text(encoding="utf-8")
    assert "wrote fig2.svg, report.md, report.html, report.tex, report.json to" in result.stderr
    assert result.stdout == ""
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert invoke(runs, "--out", out, "--quiet").stderr == ""
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_file_in_the_folders_place_is_bad_usage(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    result = invoke(runs, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "is a file; name a folder" in result.stderr
    assert (tmp_path / "out").read_text() == "mine"


def test_options_reach_the_report(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    result = invoke(runs, "--out", out, "--measure", "ndcg@10", "--baseline", TWO)
    assert result.exit_code == 0, result.output
    report = json.loads(out.read_bytes())
    assert report["sections"][1]["baseline"] == TWO
    assert "per_query" in report["sections"][0]["rows"][0]["cells"][0]["metrics"]


def test_unfinished_runs_are_said(tmp_path: Path) -> None:
    made(tmp_path, labels=[DIRECT, TWO], unfinished=[("scifact", TWO)])
    result = invoke(tmp_path)
    assert result.exit_code == 0
    assert "1 run not finished and left out, e.g. 'MC: 2 recruits' on scifact;" in result.stderr
    assert invoke(tmp_path, "--quiet").stderr == ""


def test_errors_are_those_of_the_package(runs: Path, tmp_path: Path) -> None:
    result = invoke(tmp_path / "nowhere")
    assert isinstance(result.exception, RunFolderError)
    result = invoke(runs, "--baseline", "nobody", "--out", tmp_path / "out")
    assert isinstance(result.exception, SettingError)
    assert not (tmp_path / "out").exists()
