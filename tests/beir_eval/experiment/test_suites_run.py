"""Every suite that comes with the package runs to its end, and its report has what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from beir_eval import build_report, find_runs, load_suite, render_html, render_markdown
from beir_eval.cli import cli
from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import RunFolder
from beir_eval.experiment.suite import shipped_suites
from mcranker import ChatRequest
from tests.support.beir_folder import write_folder
from tests.support.cli_support import answer, scripted
from tests.support.comparing import comparing, shown_in
from tests.support.experiment_support import plan
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


@pytest.mark.parametrize(("limit", "returned"), [("", 12), ("top_n = 5", 5)])
def test_rebel_is_measured_by_all_passages_unless_told_otherwise(
    tmp_path: Path, limit: str, returned: int
) -> None:
    folder = write_folder(tmp_path / "tiny")
    file = tmp_path / "mine.toml"
    head = f'title = "T"\ndatasets = ["{folder}"]\ndepth = 12\n'
    row = f'[[rankers]]\nlabel = "rebel"\nranker = "rebel"\nwindow = 5\n{limit}\n'
    file.write_text(head + row, encoding="utf-8")
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
