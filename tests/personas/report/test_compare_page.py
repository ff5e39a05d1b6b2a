"""The page of two rankings side by side: what it says, that it is whole, and that it is safe."""

from __future__ import annotations

import copy
import re
from typing import Any

from personas.ranking.comparison import ComparedRuns, RankingComparison
from personas.report.comparison import render_comparison
from personas.report.page import ReportFooter
from tests.personas.ranking.test_comparison import CHANGED
from tests.personas.ranking.test_inspection import FOUR, stored
from tests.support.inspection_report import Page, infested

HOSTILE = "</title><script>alert(1)</script>\u202e\u2066<img src=x onerror=alert(2)>\x1b[31m"
LINK = re.compile(r'href="#([^"]+)"')


def comparison(**more: Any) -> RankingComparison:
    return RankingComparison.of(stored(FOUR), stored(CHANGED), **more)


def page_of(found: RankingComparison) -> Page:
    return Page(
        render_comparison(
            found,
            before="m1.json",
            after="m2.json",
            footer=ReportFooter("1.0", "2026-03-31", "compare"),
        )
    )


def test_the_page_says_what_moved_and_why() -> None:
    page = page_of(comparison(grades={"d2": 1}))
    words = " ".join(page.text.split())
    assert "nDCG@10 falls from 1.000 to 0.500 (−0.500); this is one query." in words  # noqa: RUF001
    assert words.index("nDCG@10 falls") < words.index("2 of 4 passages moved")
    assert "Share of the changes in scores: Virologist 100%." in words
    assert "Virologist 5 → 9 (+0.133)" in words
    assert "Virologist 9 → 4 (−0.167)" in words  # noqa: RUF001
    assert "Made on 2026-03-31 by MCRanker 1.0: compare" in words
    assert "2 passages kept their ranks" in words
    # The lines between the ranks are those of the two that moved.
    assert sum(name == "line" for name, _ in page.tags) == 2
    assert ["Virologist", "5 → 9", "+0.133"] in page.rows


def test_every_link_leads_somewhere_on_the_page() -> None:
    text = render_comparison(comparison())
    ids = set(Page(text).attributes("id"))
    assert {"team", "q1", "q1-p1", "q1-p2"} <= ids
    assert set(LINK.findall(text)) <= ids
    assert len(Page(text).attributes("id")) == len(ids)


def test_hostile_text_stays_text() -> None:
    one, two = infested(HOSTILE), infested(HOSTILE)
    two["hits"][0]["rank"], two["hits"][1]["rank"] = two["hits"][1]["rank"], two["hits"][0]["rank"]
    two["team"]["members"][1]["persona"]["description"] = "another"
    page = page_of(RankingComparison.of(one, two))
    assert [name for name, _ in page.tags if name in {"script", "img"}] == ["script"]
    assert "onerror=alert(2)" in page.text
    assert "\x1b" not in page.text
    assert "\u202e" in page.text  # in a box of its own, where it ends


def several(count: int) -> ComparedRuns:
    found = []
    for place in range(count):
        one, two = copy.deepcopy(stored(FOUR)), copy.deepcopy(stored(CHANGED))
        for each in (one, two):
            each["query"] = {"text": f"query {place}", "id": f"q{place}"}
        found.append(RankingComparison.of(one, two, grades={"d2": 1}))
    return ComparedRuns(
        title="Two runs",
        names=("a", "b"),
        facts={"A": "0.5"},
        notes=["Some queries are left out."],
        verdict=["nDCG@10 falls."],
        measure="nDCG@10",
        comparisons=found,
        values={each.after.query.id: (1.0, 0.5) for each in found},
    )


def test_several_queries_are_on_one_page() -> None:
    text = render_comparison(several(3))
    page = Page(text)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert set(LINK.findall(text)) <= set(ids)
    assert {"q1", "q2", "q3", "q3-p2"} <= set(ids)
    assert ["query 1\nq1", "1.000", "0.500", "−0.500", "2 of 4", "4"] in page.rows  # noqa: RUF001
