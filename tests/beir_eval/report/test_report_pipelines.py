"""Reports on pipelines: the tables, tests and warnings of rankers, by judge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from beir_eval.answers.judges import Judgement
from beir_eval.answers.metrics import AnswerMetrics, judge_metrics
from beir_eval.cli.group import cli
from beir_eval.errors import SettingError
from beir_eval.experiment.run_folder import AnswersNote, RunManifest, SuiteNote, find_runs
from beir_eval.files import write_form
from beir_eval.report.build import build_report
from beir_eval.report.forms import render_html, render_json, render_latex, render_markdown
from beir_eval.report.model import Section
from beir_eval.report.warnings import warnings
from mcranker.rag.result import RAGResult

Worth = Mapping[str, Mapping[str, Mapping[str, float | None]]]
"""Label -> judge -> question -> value; None where the judge has none by its nature."""


def made(out: Path, worth: Worth, *, judge: str = "", **fields: Any) -> Path:
    """Folders of pipelines whose answers have these values, each answer the question's name."""
    for place, (label, of) in enumerate(worth.items()):
        path = out / label / "run-1"
        path.mkdir(parents=True)
        questions = list(dict.fromkeys(each for values in of.values() for each in values))
        answers = [
            RAGResult(question=f"What is {q}?", id=q, text=f"<b>{q}", kind="answer")
            for q in questions
        ]
        lines = "".join(f"{json.dumps(each.to_dict())}\n" for each in answers)
        (path / "answers.jsonl").write_text(lines)
        (path / "judgements.jsonl").touch()
        runs = [
            (
                q,
                {
                    name: Judgement(values[q], undefined=values[q] is None)
                    for name, values in of.items()
                    if q in values
                },
            )
            for q in questions
        ]
        judges = {name: judge_metrics([runs], name) for name in of}
        sums = {"questions": len(questions), "runs": 1, "answers": len(questions), **fields}
        point = {"size": place // 2, "kind": place % 2}
        note = SuiteNote(name="s", title="S", place=place, point=point, formula="f1 ~ C(size)")
        manifest = RunManifest(
            label=label,
            ranker="pipeline",
            options={},
            config={},
            models={"answer": "openai:w"},
            versions={},
            data="d",
            suite=note,
            answers=AnswersNote(judges=tuple(of), judge=judge, golden={"q0": ("right",)}),
        )
        write_form(out / label / "manifest.json", manifest)
        write_form(out / label / "metrics.json", AnswerMetrics(judges=judges, **sums))
    return out


def section_of(out: Path, **options: Any) -> Section:
    (section,) = build_report(find_runs([out], pipelines=True), **options).sections
    return section


def test_the_highest_mean_may_be_worse_on_the_common_questions(tmp_path: Path) -> None:
    """A has values for easy questions alone; B is better wherever both have one."""
    common = {f"q{n}": 0.3 + 0.01 * n for n in range(10)}
    b = {each: 0.6 - 0.005 * n for n, each in enumerate(common)}
    a = {**common, **{f"easy{n}": 1.0 for n in range(20)}}
    made(tmp_path, {"A": {"f1": a}, "B": {"f1": b}})
    section = section_of(tmp_path)
    assert section.baseline == "A"
    cells = {row.label: row.cells[0] for row in section.rows}
    assert cells["A"] is not None
    assert cells["B"] is not None
    than = cells["B"].comparison
    assert than is not None
    # (0.6 - 0.3) + ... + (0.555 - 0.39) over 10: 0.5775 - 0.345.
    assert than.difference == pytest.approx(0.2325)
    assert (than.decision, than.wins, than.left_out) == ("better", 10, 20)
    report = build_report(find_runs([tmp_path], pipelines=True))
    (said,) = (x.sentence for x in warnings(report) if x.sentence.startswith("B is better than A"))
    assert "20 left out, which only one has" in said
    other = section_of(tmp_path, baseline="B").rows[0].cells[0]
    assert other is not None
    assert other.comparison is not None
    assert other.comparison.decision == "worse"


def test_folders_with_one_label_are_two_rows(tmp_path: Path) -> None:
    for folder, value in (("one", 0.3), ("two", 0.9)):
        made(tmp_path / folder, {"A": {"f1": {f"q{n}": value for n in range(8)}}})
    means = [row.cells[0].values.mean for row in section_of(tmp_path).rows if row.cells[0]]
    assert sorted(each for each in means if each is not None) == pytest.approx([0.3, 0.9])


def test_a_judge_without_a_value_and_an_unknown_measure_are_said(tmp_path: Path) -> None:
    made(tmp_path, {"A": {"f1": {"q1": 0.5}, "relevance": {"q1": None}}})
    said = " ".join(each.sentence for each in section_of(tmp_path).warnings)
    assert "A, relevance: 1 answer without a value" in said
    with pytest.raises(SettingError, match="'nonsense' is no judge"):
        section_of(tmp_path, measure="nonsense")


def test_every_form_has_the_values_and_their_warnings(tmp_path: Path) -> None:
    values = {f"q{n}": n / 8 for n in range(7)}
    graded = {each: float(n % 2) for n, each in enumerate(values)}
    worth: Worth = {
        "A": {"relevance": {**graded, "q7": None}, "f1": {**values, "q7": 1.0}},
        "B": {"relevance": graded, "f1": values},
        "C": {"relevance": {"q7": None}, "f1": {"q7": 1.0}},
    }
    made(
        tmp_path,
        worth,
        judge="openai:w",
        writers=("openai:w",),
        without={"query": 2},
        failed={"run 1, q9": "no"},
        calls=12,
        cost=None,
    )
    report = build_report(find_runs([tmp_path], pipelines=True))
    section = report.sections[0]
    assert [column.name for column in section.columns] == ["relevance", "f1"]
    assert [column.judge for column in section.columns] == ["openai:w", ""]
    found = {each.sentence: each.kind for each in warnings(report)}
    own = "judged by a model, openai:w, which is also the system's, and not by people."
    assert any(own in each and kind == "bad" for each, kind in found.items())
    assert found["A: 2 answers of 8 went on without query, which failed; run it again."] == "bad"
    assert "One run: how much answers vary from run to run is not known." in found
    page = render_html(report)
    for text in (page, render_markdown(report), render_latex(report)):
        assert "1 undefined" in text
        assert "not known" in text  # the cost
        assert "0.429" in text  # 3 of 7 are relevant
    assert "&lt;b&gt;q0" in page
    assert "<b>q0" not in page
    assert "right" in page
    data = json.loads(render_json(report))["sections"][0]
    assert data["rows"][0]["cells"][0]["value"] == pytest.approx(3 / 7)
    assert data["rows"][2]["cells"][0] is None  # no value by the judge that heads the tables
    assert render_html(report) == page
    # A's worst answers by the judge that heads the tables.
    assert [each[:3] for each in section.worst[:2]] == [
        ("What is q0?", "0.000", "<b>q0"),
        ("What is q2?", "0.000", "<b>q2"),
    ]
    by_f1 = section_of(tmp_path, measure="f1")
    assert (by_f1.measured, by_f1.baseline) == ("f1", "C")


def test_a_grid_is_analysed_and_a_part_of_it_refused(tmp_path: Path) -> None:
    pytest.importorskip("statsmodels")
    worth: Worth = {f"{n}": {"f1": {"a": 0.1 * n, "b": 0.2 * n + 0.1 * (n == 3)}} for n in range(4)}
    out = made(tmp_path / "all", worth)
    section = section_of(out)
    assert section.analysis is not None
    assert section.analysis.observations == 4
    assert "Analysis of variance" in render_markdown(build_report(find_runs([out], pipelines=True)))
    part = section_of(made(tmp_path / "part", {"0": worth["0"], "1": worth["1"]}))
    assert part.analysis is None
    assert any("No analysis of variance" in each.sentence for each in part.warnings)


def test_pipelines_of_different_judges_and_unfinished_ones_are_said(tmp_path: Path) -> None:
    made(tmp_path, {"A": {"f1": {"q": 1.0}}}, judge="openai:one")
    made(tmp_path, {"B": {"f1": {"q": 1.0}}, "C": {"f1": {"q": 1.0}}}, judge="openai:two")
    (tmp_path / "C" / "metrics.json").unlink()
    section = section_of(tmp_path)
    assert section.warnings[0].sentence.startswith("Pipelines have different judges")
    assert section.unfinished == (("", "C"),)
    found = CliRunner().invoke(cli, ["report", str(tmp_path), "--out", str(tmp_path / "p.html")])
    assert found.exit_code == 0, found.output
    assert "1 run not finished and left out, e.g. 'C'" in found.output
    assert "Pipelines have different judges" in (tmp_path / "p.html").read_text()
