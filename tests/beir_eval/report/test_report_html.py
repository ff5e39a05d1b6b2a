"""The page of a report: all numbers are on it, and nothing gets out of it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from beir_eval.experiment.run_folder import (
    FIRST_STAGE,
    DataManifest,
    FigureNote,
    Metrics,
    RunManifest,
    SuiteNote,
)
from beir_eval.report.forms import render_html, render_json
from beir_eval.report.model import Report
from beir_eval.report.warnings import warnings
from personas.report.page import ReportFooter
from personas.report.warnings import ORDER
from tests.support.inspection_report import Page
from tests.support.report_runs import DIRECT, TWO, change, made, report_on
from tests.support.run_folders import fig2, folder_of, set_values

HOSTILE = "</title></style></script><script>alert(1)</script>\"'& \u202e\u2067<img src=x>"


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_stands_by_itself(tmp_path: Path) -> None:
    made(tmp_path / "a")
    made(tmp_path / "b", suite=fig2)
    report = report_on(tmp_path)
    text = render_html(report, footer=ReportFooter("1.2", "2026-03-31", "beir-eval report runs"))
    page = Page(text)
    (policy,) = (
        found["content"]
        for _, found in page.tags
        if found.get("http-equiv") == "Content-Security-Policy"
    )
    rules = {
        name: allowed for name, _, allowed in (p.strip().partition(" ") for p in policy.split(";"))
    }
    assert rules["default-src"] == "'none'"
    assert {hashed(each) for each in page.raw["style"]} == set(rules["style-src"].split())
    assert [hashed(each) for each in page.raw["script"]] == rules["script-src"].split()
    (data,) = (each for each in page.attributes("href") if not each.startswith("#"))
    kind, _, content = data.partition(",")
    assert kind == "data:application/json;base64"
    assert base64.b64decode(content).decode() == render_json(report)
    places = {f"#{each}" for each in page.attributes("id")}
    assert not set(page.attributes("href")) - {data} - places
    assert len(page.attributes("id")) == len(set(page.attributes("id")))
    assert not {"src", "srcset", "style", "onclick", "onload", "action"} & {
        name for _, found in page.tags for name in found
    }
    assert "url(" not in text
    assert set(re.findall(r"https?://[^\s\"<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "MCRanker 1.2: <code><bdi>beir-eval report runs</bdi></code>" in text


def test_values_stand_beside_the_papers_and_in_a_chart(tmp_path: Path) -> None:
    made(tmp_path, labels=[DIRECT, TWO], queries=6)
    wave = [0.01, -0.01] * 3
    for label, mean in {FIRST_STAGE: 0.3, DIRECT: 0.4, TWO: 0.6}.items():
        set_values(tmp_path, "scifact", label, [mean + each for each in wave])
    page = Page(render_html(report_on(tmp_path)))
    # sd sqrt(0.0006 / 5) = 0.010954, t(5) = 2.5706: 0.6 +- 0.0115.
    assert page.tables[0][3][0].startswith(TWO)
    assert "0.589 to 0.611" in page.tables[0][3][1]
    charts = [found["aria-label"] for tag, found in page.tags if tag == "svg" and "role" in found]
    # Once for phones, once for screens.
    assert charts == [f"scifact. nDCG@10. BM25 0.300, {DIRECT} 0.400, {TWO} 0.600."] * 2
    assert f"{TWO}: 0.600 (0.589 to 0.611)" in page.raw["title"]


def test_the_verdict_comes_first_and_many_comparisons_are_counted(
    tmp_path: Path,
) -> None:
    labels = [DIRECT, "R1", "R2", "R3", "Worse"]
    made(tmp_path, labels=labels, queries=8, unfinished=[("scifact", "R3")])
    wave = [0.01, -0.01] * 4
    for label, mean in {DIRECT: 0.5, "R1": 0.6, "R2": 0.5, "Worse": 0.4}.items():
        each_wave = wave if label != "R2" else [0.1, -0.1] * 4
        set_values(tmp_path, "scifact", label, [mean + each for each in each_wave])
    report = report_on(tmp_path)
    found = warnings(report)
    assert all(" than DIRECT(0,10) on scifact: " in each.sentence for each in found[:3])
    kinds = [ORDER.index(each.kind) for each in found[3:]]
    assert kinds == sorted(kinds)
    sentences = [each.sentence for each in found]
    assert any(each.startswith("1 run not finished and left out: R3 on") for each in sentences)
    assert "8 queries, fewer than 20: intervals and tests are rough." in sentences
    assert sum("than DIRECT(0,10) on scifact" in each for each in sentences) == 3
    made(tmp_path / "more", labels=[*labels, "R4"], queries=8)
    found = warnings(report_on(tmp_path / "more"))
    assert any("Of 5 comparisons with DIRECT(0,10)" in each.sentence for each in found)


def test_nothing_from_run_folders_becomes_markup(tmp_path: Path) -> None:
    bad = HOSTILE

    def hostile(place: int, label: str) -> SuiteNote:
        figure = FigureNote(kind="bars", title=bad, x_label=bad)
        return SuiteNote(name="s", title=bad, figure=figure, place=place, x=bad)

    made(tmp_path, labels=[DIRECT, TWO], suite=hostile)
    harmless = Page(render_html(report_on(made(tmp_path.parent / "harmless"))))
    path = folder_of(tmp_path, "scifact", TWO)
    change(path / "manifest.json", RunManifest, label=bad, models={"scoring": bad})
    change(path / "metrics.json", Metrics, failed={"scifact-q1": bad})
    data = folder_of(tmp_path, "scifact", FIRST_STAGE) / "manifest.json"
    change(data, DataManifest, description=bad, judge=bad, dataset=bad)
    text = render_html(report_on(tmp_path))
    page = Page(text)
    assert text.count("<script") == 1
    assert page.raw["script"] == harmless.raw["script"]
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.text.count("<script>alert(1)</script>") > 10
    # What turns the direction of writing is closed again in the same place.
    for inside in re.findall("<bdi>(.*?)</bdi>", text):
        assert inside.count("\u2067") == inside.count("\u2069")
    for name in ("title", "aria-label"):
        assert not any("\u202e" in each for each in page.attributes(name))


@pytest.mark.parametrize("unfinished", [True, False])
def test_a_report_without_numbers_is_a_page(tmp_path: Path, *, unfinished: bool) -> None:
    report = Report("nDCG@10", ())
    if unfinished:
        made(tmp_path, labels=[DIRECT], unfinished=[("scifact", DIRECT)])
        report = report_on(tmp_path)
    page = Page(render_html(report))
    assert page.tables == []
    assert ("1 run not finished" if unfinished else "No finished run") in page.text
