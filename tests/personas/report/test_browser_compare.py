"""Pages of comparisons and of orders without scores in a browser: lines, keyboard, sorting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.personas.report.test_rank_pages import ORDERS
from tests.support.browser_pages import write_compared
from tests.support.browser_support import Visit, browser, expect, tab_stops, texts, visit

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_compared(tmp_path_factory.mktemp("pages"))


def test_lines_lead_from_each_rank_to_its_rank(pages: list[Path], visit: Visit) -> None:
    page = visit(pages[0])
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


def test_details_by_keyboard(pages: list[Path], visit: Visit) -> None:
    page = visit(pages[0])
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


def test_a_personas_column_sorts_by_its_ranks_the_first_first(
    pages: list[Path], visit: Visit
) -> None:
    page = visit(pages[2])
    for place, order in enumerate(ORDERS.values(), start=2):
        button = page.locator("#heat > thead th").nth(place).get_by_role("button")
        for expected in (order, order[::-1]):
            button.click()
            assert texts(page, "#heat .passage .id") == list(expected)
