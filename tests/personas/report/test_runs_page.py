"""The page that lists the runs of a report."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from personas.ranking.types import judge_note
from personas.report.dataset.pages import RunEntry, render_runs
from personas.survey.model import Difference, Totals
from tests.support.survey_support import empty_survey


def totals(**changed: Any) -> Totals:
    usual = {
        "queries": 300,
        "failed": 0,
        "judged": 300,
        "passages": 30_000,
        "missing": 0,
        "calls": 90_000,
        "reused": 0,
        "cost": 1.5,
        "ndcg": 0.75,
        "first_stage_ndcg": 0.625,
        "other_ndcg": 0.875,
        "alpha": 0.5,
        "tau": -0.25,
        "disagreement": 0.05,
        "locked": 0,
    }
    return Totals(**{**usual, **changed})


def entry(number: int, *, finished: bool = True, **changed: Any) -> RunEntry:
    usual = {
        "title": f"Run {number}",
        "dataset": "scifact: 300 queries",
        "first_stage": "BM25",
        "other": "DIRECT(0,10)",
        "personas_in_all": 1211,
        "totals": totals(),
    }
    survey = replace(empty_survey(), **{**usual, **changed})
    return RunEntry(f"run-{number}/index.html", survey, finished)


def cells(page: str) -> list[list[str]]:
    """The text of each row, cell by cell; headings as well."""
    rows = re.findall("<tr>(.*?)</tr>", page, re.DOTALL)
    return [
        [
            " ".join(re.sub("<[^>]*>", " ", cell).split())
            for cell in re.findall("<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in rows
    ]


def test_a_row_has_the_figures() -> None:
    heading, row = cells(render_runs([entry(1)]))
    assert heading == [
        *("Run", "nDCG@10", "over BM25", "over DIRECT(0,10)"),
        *("Alpha", "Tau", "Personas", "Queries", "Scores missing"),
    ]
    # 0.75 - 0.625 and 0.75 - 0.875
    assert row == [
        "Run 1",
        "0.750",
        "+0.125",
        "\N{MINUS SIGN}0.125",
        "0.50",
        "\N{MINUS SIGN}0.25",
        "1,211",
        "300",
        "0",
    ]


def test_what_is_not_known_is_no_number() -> None:
    unknown = totals(ndcg=None, alpha=None, tau=None)
    _, row = cells(render_runs([entry(1, totals=unknown)]))
    assert row[1:6] == ["\N{EN DASH} not known"] * 5


def test_runs_stand_with_their_data_set() -> None:
    page = render_runs([entry(1), entry(2, dataset="news"), entry(3)])
    assert re.findall("<h2[^>]*>(.*?)</h2>", page) == [
        "<bdi>scifact: 300 queries</bdi>",
        "<bdi>news</bdi>",
        "How to read this",
    ]
    assert [row[0] for row in cells(page)] == ["Run", "Run 1", "Run 3", "Run", "Run 2"]


def test_different_rankers_compared_with_have_a_column() -> None:
    heading, one, two = cells(render_runs([entry(1), entry(2, other="x")]))
    assert heading[2:5] == ["over BM25", "over other", "Other"]
    assert (one[4], two[4]) == ("DIRECT(0,10)", "x")
    # A ranker that is compared with nothing needs no column of its own.
    heading, *_ = cells(render_runs([entry(1), entry(2, other="")]))
    assert heading[2:4] == ["over BM25", "over DIRECT(0,10)"]


def test_names_are_escaped() -> None:
    evil = "</a><script>alert(1)</script>\u202e"
    page = render_runs([entry(1, title=evil, dataset=evil, first_stage=evil, other=evil)])
    assert "<script>alert" not in page
    assert 'href="run-1/index.html"' in page


def test_a_weak_judge_is_told_once_and_first() -> None:
    weak: dict[str, Any] = {"weak_judge": "encoder", "models": {"scoring": "local:minilm"}}
    note = judge_note("encoder", "local:minilm")
    page = render_runs([entry(1, **weak), entry(2, **weak), entry(3)])
    assert page.count(note) == 1
    assert page.index(note) < page.index("<main>")
    assert 'class="verdict"' not in render_runs([entry(1)])


def test_what_is_not_tested_says_so() -> None:
    tested = Difference("BM25", 40, 0.65, 0.6, 0.02, 0.08, 0.0004)
    other = Difference("DIRECT(0,10)", 40, 0.65, 0.7, -0.1, 0.02, None, "its judge is a:b")
    page = render_runs([entry(1, differences=(tested, other))])
    (_, row) = cells(page)
    assert row[1] == "0.650"  # the mean that was tested, and not the 0.750 as ranked
    assert row[2] == "+0.050 +0.020 to +0.080, p &lt;0.001"
    assert row[3] == "\N{MINUS SIGN}0.050 \N{MINUS SIGN}0.100 to +0.020, not tested"
