"""A report as Markdown, LaTeX and JSON."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from beir_eval.experiment.run_folder import Metrics, Percentiles, RunCost, ScoreCounts, TieBounds
from beir_eval.report import forms as texts
from beir_eval.report.forms import render_html, render_json, render_latex, render_markdown
from beir_eval.report.tables import NOTHING
from tests.support.report_runs import DIRECT, ONE, TWO, change, made, report_on
from tests.support.run_folders import folder_of, make_run_folders, set_values

NASTY = r"a_b*c|d & 100% #1 $x^2$ ~ <b>`{\cmd}` [y](z) \\"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three runs on two data sets; values that differ by so much that the marks are known."""
    made(tmp_path, datasets=["touche", "scifact"], labels=[DIRECT, TWO, ONE], queries=8)
    wave = [0.01, -0.01] * 4
    for dataset in ("touche", "scifact"):
        set_values(tmp_path, dataset, "first stage", [0.3 + each for each in wave])
        set_values(tmp_path, dataset, DIRECT, [0.4] * 8)
        set_values(tmp_path, dataset, TWO, [0.6 + each for each in wave])
    set_values(tmp_path, "touche", ONE, [0.4] * 8)
    set_values(tmp_path, "scifact", ONE, [0.5] * 4 + [0.4] * 4)
    return tmp_path


def tables_of(text: str) -> list[list[list[str]]]:
    """Tables of a Markdown text as GitHub would show them: rows of cells, markup gone."""
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    found = []
    for body in re.findall(r"<table>(.*?)</table>", rendered, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        found.append(
            [[html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in row] for row in cells]
        )
    return found


def test_first_table_has_ours_and_the_papers_side_by_side(table: Path) -> None:
    text = render_markdown(report_on(table))
    lines = text[text.index("### nDCG@10 of the top 5\n") :].splitlines()[2:8]
    # The paper's averages: touche and scifact of table 5, e.g. (25.22 + 70.08) / 2 = 47.65 of 100.
    # One: d = 0.1 * 4, 0 * 4; mean 0.05, t = 0.05 / (0.0535 / sqrt 8) = 2.65, p = 0.033, and
    # more after the correction: no mark.
    assert lines == [
        "| ranker | touche (n = 8) | touche, paper | scifact (n = 8) | scifact, paper | average | "
        "average, paper |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| BM25 | 0.300‡ | 0.442 | 0.300‡ | 0.679 | 0.300 | 0.561 |",
        "| DIRECT(0,10) | <u>0.400</u> | 0.252 | 0.400 | 0.701 | 0.400 | 0.476 |",
        "| MC: 2 recruits | **0.600**‡ | 0.314 | **0.600**‡ | 0.719 | 0.600 | 0.516 |",
        "| MC: 1 recruit | <u>0.400</u> | 0.306 | <u>0.450</u> | 0.714 | 0.425 | 0.510 |",
    ]
    assert (
        "‡ p \\< 0.01: differs from DIRECT(0,10) by a paired Student's t-test, "
        "corrected for 6 tests (Holm), ties in random order." in text
    )
    assert (
        "hold the paper's numbers, not ours, divided by 100: MCRanker paper (arXiv 2404.11960)"
        in text
    )
    assert (
        "- **scifact**: 8 of 300 queries, top 5 by BM25 (bm25s, k1 0.9, b 0.4); the paper" in text
    )


def titled(text: str) -> dict[str, list[list[str]]]:
    """Title -> table."""
    return dict(zip(re.findall(r"(?m)^### (.*)$", text), tables_of(text), strict=True))


def test_effects(table: Path) -> None:
    found = titled(render_markdown(report_on(table)))
    effects = next(rows for title, rows in found.items() if title.startswith("Differences"))
    # One on scifact: mean 0.05, sd 0.1 sqrt(8 x 0.25 / 7) = 0.05345; t(7): 2.3646 and 0.8960,
    # (2.3646 + 0.8960) x 0.05345 / sqrt(8) = 0.0616. One on touche is DIRECT itself.
    assert (effects[6][:2], effects[6][-2:]) == ([ONE, "scifact"], ["0.94", "0.062"])
    assert effects[5][-2:] == [NOTHING, "0.000"]


def test_tables_say_what_is_missing_what_it_cost_and_how_long_it_took(tmp_path: Path) -> None:
    made(tmp_path, labels=[DIRECT])
    path = folder_of(tmp_path, "scifact", DIRECT) / "metrics.json"
    change(
        path,
        Metrics,
        scores=ScoreCounts(asked=2000, missing=30, unreadable=61),
        taken=RunCost(
            calls=1234,
            input_tokens=56789,
            cached_input_tokens=1000,
            output_tokens=2468,
            seconds=75.25,
            cost=None,
            query_seconds=Percentiles(queries=3, p50=0.5, p90=1.25, p99=12.0),
        ),
        missing_queries=("scifact-q1", "scifact-q2"),
        failed={"scifact-q1": "why"},
        short_teams=2,
        ties={"nDCG@10": TieBounds(worst=0.125, best=0.25, by_lot=0.1875)},
    )
    text = render_markdown(report_on(tmp_path))
    found = titled(text)
    complete = found["Completeness"]
    assert dict(zip(complete[0], complete[2], strict=True)) == {
        "ranker": DIRECT,
        "asked": "2,000",
        "missing": "30 (1.5%)",
        "unreadable replies": "61",
        "no results": "2",
        "not ranked": "1",
        "short teams": "2",
    }
    assert complete[1] == ["BM25", *[NOTHING] * 3, "0", NOTHING, NOTHING]
    assert found["Ties"][2][2:] == ["0.125", "0.250", "0.188"]
    assert found["Cost"] == [
        ["ranker", "calls", "tokens in", "of them cached", "tokens out", "cost"],
        [DIRECT, "1,234", "56,789", "1,000", "2,468", "not known"],
    ]
    assert found["Time"] == [
        ["ranker", "model time", "queries timed", "a query, p50", "a query, p90", "a query, p99"],
        [DIRECT, "75.2 s", "3", "0.50 s", "1.25 s", "12.0 s"],
    ]


@pytest.mark.parametrize("weak", [True, False])
def test_every_form_says_first_who_judged(tmp_path: Path, *, weak: bool) -> None:
    made(tmp_path, labels=[DIRECT], weak=weak)
    report = report_on(tmp_path)
    said = (
        "Judged by scripted:by-chance, an encoder: compares meaning, does not reason. "
        "It does not read criteria; with a model that reasons they decide."
    )
    data = json.loads(render_json(report))
    texts = (render_markdown(report), render_latex(report), render_html(report))
    if weak:
        first_warning = data["warnings"][0]
        assert (first_warning["kind"], first_warning["sentence"]) == ("warn", said)
        first = (text.splitlines() for text in texts[:2])
        markdown_line, latex_line = (
            next(line for line in lines if line.startswith(("- ", r"\item"))) for lines in first
        )
        assert markdown_line == f"- **Note:** {said}"
        assert latex_line == rf"\item {said}"
        assert texts[2].index(said.replace("'", "&#39;")) < texts[2].index("<main>")
    else:
        assert not any("too small to follow" in text for text in (*texts, str(data)))


def test_markdown_shows_labels_as_they_are(tmp_path: Path) -> None:
    made(tmp_path, labels=[DIRECT, "x"])
    path = folder_of(tmp_path, "scifact", "x") / "manifest.json"
    path.write_text(path.read_text().replace('"label": "x"', f'"label": {json.dumps(NASTY)}'))
    tables = tables_of(render_markdown(report_on(tmp_path)))
    assert len(tables) == 7
    assert all(any(NASTY in row for row in each) for each in tables)


def test_latex_escapes_everything_special() -> None:
    assert texts.escaped_latex(r"\ { } $ & # % _ ^ ~ < > | [ ] *") == (
        r"\textbackslash{} \{ \} \$ \& \# \% \_ \textasciicircum{} \textasciitilde{} "
        r"\textless{} \textgreater{} \textbar{} {[} {]} {*}"
    )
    assert texts.escaped_latex('"`†‡§¶\N{MINUS SIGN}±') == (
        r"\textquotedbl{}\textasciigrave{}$^{\dagger}$$^{\ddagger}$$^{\S}$$^{\P}$$-$$\pm$"
    )
    # Nothing is left that TeX would take for a command, a comment, or mathematics.
    bare = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#%_]|\{[\[\]*]\}", "", texts.escaped_latex(NASTY))
    assert not set(bare) & set("\\{}$&#%_^~<>|")


def test_latex_tables_are_booktabs_and_every_row_is_complete(table: Path) -> None:
    text = render_latex(report_on(table))
    assert r"DIRECT(0,10) & \underline{0.400} & 0.252 & 0.400 & 0.701 & 0.400 & 0.476 \\" in text
    assert r"\textbf{0.600}$^{\ddagger}$ & 0.314" in text
    assert r"BM25 & touche & $-$0.100$^{\ddagger}$ & $-$0.109 to $-$0.091 &" in text
    for kind in ("tabular", "longtable"):
        for spec, body in re.findall(
            rf"\\begin\{{{kind}\}}\{{([lr]+)\}}(.*?)\\end\{{{kind}\}}", text, re.DOTALL
        ):
            assert body.count(r"\toprule") >= 1
            assert r"\bottomrule" in body
            rows = [line for line in body.splitlines() if line.endswith(r" \\")]
            assert rows
            assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(spec)}
    for name in ("table", "tabular", "longtable", "itemize"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}")
    assert text.count("{") == text.count("}")


def test_json_has_everything_and_values_by_query_when_asked(table: Path) -> None:
    report = report_on(table)
    plain = json.loads(render_json(report))
    assert {*plain} == {"version", "warnings", "measure", "sections"}
    (section,) = plain["sections"]
    two = next(row for row in section["rows"] if row["label"] == TWO)
    cell = two["cells"][1]
    assert cell["value"] == pytest.approx(0.6, abs=1e-12)
    assert cell["paper"] == 0.7186
    assert cell["rank"] == 1
    assert cell["comparison"]["difference"] == pytest.approx(0.2, abs=1e-12)
    assert cell["comparison"]["wins"] == 8
    assert len(cell["comparison"]["interval"]) == 2
    assert cell["manifest"]["models"]["scoring"] == "scripted:by-chance"
    assert cell["metrics"]["taken"]["calls"] == 120
    assert "per_query" not in cell["metrics"]
    assert section["columns"][1]["data"]["queries_in_full"] == 300
    full = json.loads(render_json(report, per_query=True))
    values = full["sections"][0]["rows"][2]["cells"][1]["metrics"]["per_query"]["nDCG@10"]
    assert len(values) == 8


def test_the_same_folders_make_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
    forms = []
    for place in (tmp_path / "here", tmp_path / "far" / "away"):
        make_run_folders(place, labels=[DIRECT, TWO], faults=True)
        report = report_on(place)
        forms.append(
            (render_markdown(report), render_latex(report), render_json(report, per_query=True))
        )
    assert forms[0] == forms[1]
    assert all(str(tmp_path) not in text for text in forms[0])
