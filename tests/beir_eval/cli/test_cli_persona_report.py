"""``personas report``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.persona_report import command
from tests.support.persona_reports import DIRECT, TEAM, content, metrics_of, runs, team_of, unfinish


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [*map(str, arguments)])


def test_path_and_figures_go_to_standard_output(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs")
    result = invoke(team_of(made), "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    data = made / "scifact" / "data"
    assert result.stdout.splitlines() == [
        str(tmp_path / "out" / "index.html"),
        "",
        TEAM,
        "  scifact: 4 of 300 queries, top 5 by BM25 (bm25s, k1 0.9, b 0.4)",
        "  queries   4 ranked",
        "  personas  3 different",
        *(line for line in result.stdout.splitlines() if line.startswith("  agreement alpha ")),
        f"  nDCG@10   {metrics_of(team_of(made)):.3f} (BM25 {metrics_of(data):.3f}, "
        f"{DIRECT} {metrics_of(team_of(made, DIRECT)):.3f})",
    ]
    assert result.stderr == ""
    assert content(tmp_path / "out")


def test_json_has_everything(tmp_path: Path) -> None:
    made = runs(
        tmp_path / "runs", labels=[DIRECT, TEAM, "MC: new"], unfinished=[("scifact", "MC: new")]
    )
    result = invoke(made, "--out", tmp_path / "out", "--output", "json", "--quiet")
    found = json.loads(result.stdout)
    assert (found["status"], found["exit_code"], found["errors"]) == ("ok", 0, [])
    report = found["report"]
    assert report["index"] == str(tmp_path / "out" / "index.html")
    assert report["pages"] == sum(name.endswith(".html") for name in content(tmp_path / "out"))
    run, direct = report["runs"]
    assert (direct["title"], direct["other"], direct["personas"]) == (DIRECT, None, 0)
    assert (run["title"], run["other"], run["personas"]) == (TEAM, DIRECT, 3)
    assert run["finished"] is True
    assert run["index"] == str(tmp_path / "out" / "run-1" / "index.html")
    assert run["totals"]["ndcg"] == pytest.approx(metrics_of(team_of(made)), abs=1e-12)
    assert len(report["left_out"]) == 1
    assert result.stderr == ""


def test_notes_go_to_standard_error(tmp_path: Path) -> None:
    made = runs(
        tmp_path / "runs", labels=[DIRECT, TEAM, "MC: new"], unfinished=[("scifact", "MC: new")]
    )
    unfinish(team_of(made), keep=2)
    result = invoke(made, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "MC_new: nothing has been ranked yet, so it is left out" in result.stderr
    assert f"{TEAM}: The run is not finished: 2 of 4 queries have been ranked" in result.stderr
    assert "  queries   2 ranked so far\n" in result.stdout
