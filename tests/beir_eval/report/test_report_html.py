"""The page of a report: all numbers are on it, and nothing gets out of it."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from beir_eval.experiment.run_folder import FigureNote, ScoreCounts
from beir_eval.measures.values import Interval
from beir_eval.report.as_json import render_json
from beir_eval.report.html import render_html
from beir_eval.report.model import Figure, Point, Section
from beir_eval.report.numbers import NOTHING
from beir_eval.report.warnings import warnings
from personas.report.page import ReportFooter
from personas.report.warnings import ORDER
from tests.support.report_support import Page, cell, column, report, row, section

ROOT = Path(__file__).parents[3]
HOSTILE = "</title></style></script><script>alert(1)</script>\"'& \x00\u202e\u2067<img src=x>"


def usual() -> Section:
    """Two data sets, the paper's numbers on the first, one run missing on the second."""
    return section(
        row(
            "BM25",
            cell(0.6789, paper=0.6789, rank=2, p=0.2, first_stage=True),
            cell(0.3001, rank=1, p=0.9, first_stage=True),
            models="",
            paper_average=None,
        ),
        row("DIRECT", cell(0.5, paper=0.7008), cell(0.2, rank=2), is_baseline=True),
        row("MC: 2 recruits", cell(0.7123, rank=1, p=0.03), None, weak_judge="encoder"),
        columns=(column(), column("Touche")),
        paper_source="MCRanker paper, GPT-4",
        notes=("Not finished and left out: MC: 2 recruits on Touche.",),
    )


def with_ties() -> Section:
    """The same, with a value of the first data set that is another with ties drawn by lot."""
    first, *others = usual().rows
    assert first.cells[0] is not None
    values = first.cells[0].values
    values = replace(values, lots=dict.fromkeys(values.of, 0.4))
    cells = (replace(first.cells[0], values=values), *first.cells[1:])
    return replace(usual(), rows=(replace(first, cells=cells, average_by_lot=0.35), *others))


def figure(kind: str = "line") -> Figure:
    note = FigureNote.model_validate({"kind": kind, "title": "Recruits", "x_label": "recruits"})
    return Figure(note, (("SciFact", (Point(2.0, 0.5, Interval(0.4, 0.6), 20),)),), "best at 2")


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_stands_by_itself() -> None:
    made = report(section(row("A", cell(0.5)), figure=figure()), usual())
    text = render_html(made)
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
    assert len(page.raw["style"]) == 1
    assert {hashed(each) for each in page.raw["style"]} == set(rules["style-src"].split())
    assert [hashed(each) for each in page.raw["script"]] == rules["script-src"].split()
    (figures,) = (each for each in page.attributes("href") if not each.startswith("#"))
    kind, _, data = figures.partition(",")
    assert kind == "data:application/json;base64"
    assert base64.b64decode(data).decode() == render_json(made)
    places = {f"#{each}" for each in page.attributes("id")}
    assert not set(page.attributes("href")) - {figures} - places
    assert len(page.attributes("id")) == len(set(page.attributes("id")))
    assert not {"src", "srcset", "style", "onclick", "onload", "action"} & {
        name for _, found in page.tags for name in found
    }
    assert "url(" not in text
    assert set(re.findall(r"https?://[^\s\"<]*", text)) == {"http://www.w3.org/2000/svg"}


def test_the_page_opens_with_the_judge_and_then_the_worst_news() -> None:
    first, *found = warnings(report(replace(usual(), unfinished=(("Touche", "MC"),))))
    judged = "judged by openai:m, an encoder: compares meaning, does not reason."
    assert first.sentence == f"MC: 2 recruits: {judged}"
    kinds = [ORDER.index(each.kind) for each in found]
    assert kinds == sorted(kinds)
    sentences = [each.sentence for each in found]
    assert sentences[0].startswith("1 run not finished and left out: MC on Touche; the same")
    assert (
        "MC: 2 recruits is better than DIRECT on SciFact: 0.712, +0.212 "
        "(95% interval \N{MINUS SIGN}0.010 to +0.040, corrected p 0.030)."
    ) in sentences
    page = render_html(
        report(usual()), footer=ReportFooter("1.2", "2026-03-31", "beir-eval report runs")
    )
    assert page.index('class="verdict"') < page.index("<main>")
    assert "MCRanker 1.2: <code><bdi>beir-eval report runs</bdi></code>" in page


def test_many_comparisons_are_counted() -> None:
    rows = [row("BASE", cell(0.5), is_baseline=True)]
    rows += [row(f"R{p}", cell(0.6, p=p)) for p in (0.01, 0.001, 0.9)]
    rows += [row("WORSE", cell(0.4, p=0.01))]
    (first, *_) = warnings(report(section(*rows)))
    assert first.kind == "bad"
    assert "Of 4 comparisons with DIRECT" in first.sentence
    assert "1 is worse, 1 undecided, 2 better" in first.sentence


def test_what_is_not_significant_is_no_equality() -> None:
    rows = (row("DIRECT", cell(0.5), is_baseline=True), row("A", cell(0.51, p=0.4)))
    (found,) = warnings(report(section(*rows)))
    assert found.sentence.startswith("A is not significantly better or worse than DIRECT on")
    assert found.sentence.endswith(
        "corrected p 0.400); only differences above 0.100 are detectable."
    )


def test_values_stand_beside_the_papers() -> None:
    text = render_html(report(usual()))
    assert Page(text).texts(0) == [
        ["ranker", "SciFact (n = 20)", "SciFact, paper", "Touche (n = 20)", "average"],
        # (0.6789 + 0.3001) / 2 = 0.4895
        ["BM25", "0.6790.579 to 0.779", "0.679", "0.3000.200 to 0.400", "0.489"],
        ["DIRECTbaseline", "0.5000.400 to 0.600", "0.701", "0.2000.100 to 0.300", "0.350"],
        ["MC: 2 recruitsencoder", "0.712†0.612 to 0.812", NOTHING, NOTHING, NOTHING],
    ]
    first = text[text.index("<table") : text.index("</table>")]
    assert re.findall("<b><bdi>(0.*?)</bdi></b>", first) == ["0.300", "0.712"]
    assert re.findall("<u><bdi>(0.*?)</bdi></u>", first) == ["0.679", "0.200"]


def test_each_data_set_has_a_chart_of_means_and_intervals() -> None:
    page = Page(render_html(report(usual())))
    charts = [found["aria-label"] for tag, found in page.tags if tag == "svg" and "role" in found]
    assert charts == [
        "SciFact. nDCG@10. BM25 0.679, DIRECT 0.500, MC: 2 recruits 0.712.",
        "Touche. nDCG@10. BM25 0.300, DIRECT 0.200.",
    ]
    tags = [tag for tag, _ in page.tags]
    assert tags.index("svg") < tags.index("table")
    assert "BM25: 0.679 (0.579 to 0.779)" in page.text


def test_differences_are_drawn() -> None:
    text = render_html(report(usual()))
    assert Page(text).texts(1)[3] == [
        *("MC: 2 recruits", "SciFact", "+0.212†", "\N{MINUS SIGN}0.010 to +0.040"),
        *("0.015", "0.030", "12 / 5 / 3"),
    ]
    # From 4 pixels for -0.1999 to 116 for 0.2123: 0 is at 4 + 112 x 0.1999 / 0.4122.
    assert text.count('<svg class="span"') == 3
    assert 'd="M58.3 0V12"' in text


def test_nothing_from_run_folders_becomes_markup() -> None:
    bad = HOSTILE
    hostile = cell(
        0.5, p=0.5, failed={"q": bad}, scores=ScoreCounts(asked=9, missing=1, reasons={bad: 1})
    )
    columns = (
        replace(
            column(),
            name=bad,
            conditions=bad,
            data=column().data.model_copy(update={"description": bad}),
        ),
    )
    drawn = Figure(
        FigureNote(kind="bars", title=bad, x_label=bad),
        ((bad, (Point(bad, 0.5, Interval(0.4, 0.6)),)),),
        bad,
    )
    sections = [
        section(
            row(bad, hostile, models=bad),
            row("base", cell(0.1), is_baseline=True),
            row("B", hostile, models="other"),
            columns=columns,
            title=bad,
            baseline=bad,
            paper_source=bad,
            notes=(bad,),
            figure=drawn,
            name=name,
        )
        for name in ("one", "two")
    ]
    text = render_html(report(*sections, measure=bad))
    page = Page(text)
    harmless = Page(render_html(report(usual())))
    assert text.count("<script") == 1
    assert page.raw["script"] == harmless.raw["script"]
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.text.count("<script>alert(1)</script>") > 20
    assert "\x00" not in text
    assert text.encode()
    # What turns the direction of writing is closed again in the same place.
    for inside in re.findall("<bdi>(.*?)</bdi>", text):
        assert inside.count("\u2067") == inside.count("\u2069")
    assert not any("\u202e" in each for each in page.attributes("title"))
    assert not any("\u202e" in each for each in page.attributes("aria-label"))


@pytest.mark.parametrize("sections", [(), (section(columns=(), notes=("Not finished: all.",)),)])
def test_a_report_without_numbers_is_a_page(sections: tuple[Section, ...]) -> None:
    page = Page(render_html(report(*sections)))
    assert page.tables == []
    assert ("Not finished: all." if sections else "No finished run") in page.text


def test_warnings_name_five_rows_and_cut_long_names() -> None:
    rows = [row(f"{n} {'x' * 99}", cell(0.5, missing_queries=("q",))) for n in range(7)]
    first = warnings(report(section(*rows)))[0].sentence
    assert first.startswith("Queries without results, which count 0: 0 xxx")
    assert first.endswith(" and 2 more.")
    names = first.removesuffix(" and 2 more.").partition(": ")[2].split(", ")
    assert [len(each) for each in names] == [80] * 5
