"""The pages of a comparison and of a team in a browser: on a phone, in the dark, by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest

from personas import Team
from personas.ranking.comparison import compare_rankings
from personas.report.compare.page import render_comparison
from personas.report.team_page import MemberCost, TeamCosts, render_team
from tests.mcranker.test_team_page import HOSTILE, TEAM
from tests.personas.ranking.test_comparison import CHANGED, member, team
from tests.personas.ranking.test_inspection import FOUR, hit, stored
from tests.personas.report.test_compare_page import several
from tests.support.browser_measures import open_all, readings, sticking_out
from tests.support.browser_support import Visit, browser, expect, tab_stops, visit
from tests.support.inspection_report import infested

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser

ENOUGH = 4.5
"""Contrast that WCAG 2 wants of text, level AA."""
KINDS = ("one", "several", "long", "hostile", "team", "hostile team")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("pages")
    one = stored(FOUR, team=team(member("Virologist", 35, 40, 25), member("Nurse", 100)))
    two = stored(CHANGED, team=team(member("Virologist", 80, 40, 25)))
    runs = several(3)
    text = "W" * 300 + " words that are long and words that are short " * 20
    before = [hit(n, n, [9.0 - n / 20, 5.0, 4.0], text=text, title=text) for n in range(1, 61)]
    after = [hit(n, 61 - n, [n / 7, 5.0, 4.0], text=text, title=text) for n in range(1, 61)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCRANKER_LEDGER", "none")
        sides = infested(HOSTILE * 20), infested(HOSTILE * 20)
    first, second = sides[1]["hits"][:2]
    first["rank"], second["rank"] = second["rank"], first["rank"]
    sides[1]["team"]["members"][1]["persona"]["description"] = HOSTILE
    rows = tuple(MemberCost(name, 100, 26_900, 400, 0.01) for name in TEAM.names)
    long_name = TEAM.members[1].model_copy(
        update={
            "persona": TEAM.members[1].persona.model_copy(
                update={"name": "W" * 200, "description": HOSTILE * 30}
            )
        }
    )
    made = {
        "one": render_comparison(compare_rankings(one, two, grades={"d2": 1})),
        "several": render_comparison(runs),
        "long": render_comparison(compare_rankings(stored(before), stored(after))),
        "hostile": render_comparison(compare_rankings(*sides), before=HOSTILE, after=HOSTILE),
        "team": render_team(TEAM, costs=TeamCosts(100, 150, "openai:gpt-5-mini", rows)),
        "hostile team": render_team(Team(members=(long_name, *TEAM.members)), source=HOSTILE * 9),
    }
    paths = {}
    for kind, page in made.items():
        paths[kind] = base / f"{kind.replace(' ', '-')}.html"
        paths[kind].write_text(page, encoding="utf-8")
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_pages_fit_and_can_be_read(pages: dict[str, Path], visit: Visit, kind: str) -> None:
    page = visit(pages[kind])
    open_all(page)
    for width in (1440, 768, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert sticking_out(page) == [], width
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = readings(page)
        assert len(found) > 10
        assert [each for each in found if each.contrast < ENOUGH] == [], scheme


def test_no_column_of_the_queries_is_hidden_on_a_phone(
    pages: dict[str, Path], visit: Visit
) -> None:
    page = visit(pages["several"], width=390)
    room = page.locator("#queries .scroll").evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert room[0] <= room[1]


def test_lines_lead_from_each_rank_to_its_rank(pages: dict[str, Path], visit: Visit) -> None:
    page = visit(pages["one"])
    ends = page.evaluate(
        """() => {
          const middle = (each) => {
            const box = each.getBoundingClientRect();
            return box.top + box.height / 2;
          };
          const sides = [...document.querySelectorAll(".slope ol")]
            .map((side) => [...side.children].map(middle));
          const box = document.querySelector("svg.lines").getBoundingClientRect();
          const scale = box.height / document.querySelector("svg.lines").viewBox.baseVal.height;
          return [...document.querySelectorAll("svg.lines line")].map((line) =>
            ["y1", "y2"].map((end, side) => Math.min(...sides[side].map((each) =>
              Math.abs(box.top + scale * line[end].baseVal.value - each)))));
        }"""
    )
    assert len(ends) == 2  # of four passages, two moved
    assert all(distance < 1 for pair in ends for distance in pair)


def test_details_by_keyboard(pages: dict[str, Path], visit: Visit) -> None:
    page = visit(pages["one"])
    stops = tab_stops(page)
    assert all(stop["outlined"] and stop["inView"] for stop in stops)
    summary = page.locator("#q1-p1 summary")
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#q1-p1 table")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#q1-p1 table")).to_be_hidden()
    page.locator(".slope a").first.press("Enter")
    expect(page.locator(".mover:target")).to_have_count(1)


def test_pages_go_on_paper(pages: dict[str, Path], visit: Visit) -> None:
    for kind in ("one", "team"):
        page = visit(pages[kind])
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 718, "height": 1000})
        assert sticking_out(page) == []
        assert page.pdf(format="A4").startswith(b"%PDF")
