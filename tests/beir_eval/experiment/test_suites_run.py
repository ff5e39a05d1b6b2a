"""Every suite that comes with the package runs to its end, and its report has what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from beir_eval import build_report, find_runs, load_suite, render_html, render_markdown
from beir_eval.cli import cli
from beir_eval.experiment.suite import shipped_suites
from mcranker import ChatRequest
from tests.support.cli_support import answer, scripted
from tests.support.comparing import shown_in
from tests.support.loopback import clean_environment
from tests.support.rebel import entry


@pytest.mark.parametrize("name", shipped_suites())
def test_a_suite_runs_to_its_end(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = scripted(monkeypatch, tmp_path)
    monkeypatch.setattr("beir_eval.cli.run.fetch_models", lambda models, quiet: None)

    def answered(request: ChatRequest) -> str:
        match request.tag.stage:
            case "score" if "Passages" in request.messages[-1].content:  # REBEL's windows
                scores = {number: entry([5] * 6) for number in shown_in(request)}
                return json.dumps({"Passages": scores})
            case "score" | "assess" if not request.tag.doc_id:  # several passages are compared
                listwise = "[1]" in request.messages[-1].content
                return "[3] > [1] > [2]" if listwise else "A"
            case "score":
                return '{"Score": 2}'
            case "assess":
                return '{"Final score": 2}'
            case _:
                return answer(request)

    model.answer = answered
    out = tmp_path / "runs"
    flags = {"dataset": "mini", "limit": 2, "depth": 3, "out": out}
    args = [str(part) for flag, value in flags.items() for part in (f"--{flag}", value)]
    result = CliRunner().invoke(
        cli, ["run", name, *args, "-o", "dataset=Questions of daily life.", "--no-cache"]
    )
    assert result.exit_code == 0, result.stderr
    suite = load_suite(name)
    report = build_report(find_runs([out]))
    (section,) = report.sections
    # The stand-in gives neither log-probabilities nor relevances.
    lacking = ("qg", "rg_yn", "rg_s", "rerank", "p_yes", "rankrag")
    left_out = [each.label for each in suite.rankers if each.ranker in lacking]
    ran = [each.label for each in suite.rankers if each.label not in left_out]
    assert [row.label for row in section.rows] == ["BM25", *ran, *left_out]
    assert all((row.cells == (None,)) == (row.label in left_out) for row in section.rows)
    assert all(f"{label}: left out: " in result.stderr for label in left_out)
    assert (section.figure is not None) == (suite.figure is not None) == name.startswith("fig")
    if section.figure is not None:
        points = sum(len(line) for _, line in section.figure.lines)
        assert points == len(suite.rankers)
        assert "<svg" in render_html(report)
    assert section.title in render_markdown(report)


@pytest.mark.local_model
def test_smoke_with_the_embedded_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch)
    args = [
        "--limit",
        "1",
        "--depth",
        "1",
        "--out",
        str(tmp_path),
        "--ledger",
        str(tmp_path / "ledger.sqlite"),
    ]
    for _ in range(2):  # the second time, everything is there
        result = CliRunner().invoke(cli, ["run", "smoke", *args, "--no-cache"])
        assert result.exit_code == 0, result.stderr
    direct, team = find_runs([tmp_path])
    for run, judges in ((direct, 1), (team, 3)):
        metrics = run.metrics()
        assert metrics.scores is not None
        assert (metrics.scores.asked, metrics.scores.missing) == (judges, 0)
        assert run.manifest.models["scoring"] == "local:minilm"
        assert run.manifest.server == ""
