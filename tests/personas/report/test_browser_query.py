"""The page of one query in a browser: sorting, filtering, folds, links, keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from personas.ranking.hit import Hit
from tests.support.browser_pages import inspection, write_long_query, write_query
from tests.support.browser_support import Visit, browser, expect, tab_stops, texts, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser

Value = Callable[[Hit], float | None]

COLUMNS: dict[str, tuple[str, Value]] = {
    "Passage": ("descending", lambda hit: hit.rank),
    "Final score": ("descending", lambda hit: hit.score),
    "NLP scientist": ("descending", lambda hit: hit.scores["NLP scientist"]),
    "Virologist": ("descending", lambda hit: hit.scores["Virologist"]),
    "Worried parent": ("descending", lambda hit: hit.scores["Worried parent"]),
    "Disagreement": ("descending", lambda hit: hit.disagreement),
    "First stage": ("ascending", lambda hit: hit.first_stage_rank),
    "Judged": ("descending", lambda hit: hit.grade),
    "DIRECT(0,10)": ("ascending", lambda hit: hit.other.rank if hit.other else None),
}
"""Heading -> direction of the first sort, and what is sorted by. The page comes sorted by rank."""
OPPOSITE = {"ascending": "descending", "descending": "ascending"}
RANKS = "#heat .passage .rank"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_query(tmp_path_factory.mktemp("query"))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_long_query(tmp_path_factory.mktemp("report"))


def ordered(value: Value, direction: str) -> list[str]:
    """Ranks of all passages in that order: missing values last, equal ones by rank."""
    sign = 1 if direction == "ascending" else -1

    def key(hit: Hit) -> tuple[bool, float, int]:
        found = value(hit)
        return (found is None, sign * (found or 0.0), hit.rank)

    return [str(hit.rank) for hit in sorted(inspection().hits, key=key)]


def sorted_by(page: Page) -> dict[str, str]:
    """Heading -> direction, of the columns that say they are sorted."""
    found: list[list[str]] = page.eval_on_selector_all(
        "#heat > thead th", "all => all.map((each) => [each.textContent, each.ariaSort])"
    )
    assert all(direction for _, direction in found)
    return {
        heading.strip().replace("\N{SOFT HYPHEN}", ""): direction
        for heading, direction in found
        if direction != "none"
    }


def opened(page: Page) -> list[str]:
    """Ids of the passages whose details are open, in the order of the page."""
    found: list[str] = page.eval_on_selector_all(
        ".passage.open", "all => all.map((each) => each.id)"
    )
    return found


def test_every_column_sorts_and_sorts_back(path: Path, visit: Visit) -> None:
    page = visit(path)
    assert sorted_by(page) == {"Passage": "ascending"}
    headings = page.locator("#heat > thead th")
    assert headings.count() == len(COLUMNS)

    for place, (heading, (first, value)) in enumerate(COLUMNS.items()):
        button = headings.nth(place).get_by_role("button")
        for direction in (first, OPPOSITE[first]):
            if direction == first:
                button.click()
            else:
                button.press("Enter" if place % 2 else "Space")
            assert sorted_by(page) == {heading: direction}
            assert texts(page, RANKS) == ordered(value, direction), (heading, direction)


def test_the_filter_shows_what_has_the_words(path: Path, visit: Visit) -> None:
    everything = [str(rank) for rank in range(1, 13)]
    page = visit(path)
    field, status = page.get_by_label("Filter"), page.get_by_role("status")
    assert status.text_content() == ""
    for typed, ranks in {
        "study 10": ["1"],  # title
        "STUDY 1": ["1", "6", "11", "12"],  # upper case; d10, d1, d11, d12
        "  study 3 of  ": ["3"],  # space around
        "quite A LOT": everything,  # text
        "a.b* & <c>": everything,  # no pattern, no markup
        "d9": ["2"],  # id
        "a.*b": [],
        "<b>": [],
        "\\": [],
        "(": [],
        "virologist": [],  # who judged all of them
    }.items():
        field.clear()
        assert texts(page, RANKS) == everything
        assert status.text_content() == ""
        field.press_sequentially(typed)
        assert texts(page, RANKS) == ranks, typed
        assert status.text_content() == f"{len(ranks)} of 12 passages"
    # What is filtered can be sorted.
    page.get_by_label("Filter").fill("study 1")  # d10, d1, d11, d12: ranks 1, 6, 11, 12
    page.get_by_role("button", name="First stage").click()
    assert texts(page, RANKS) == ["6", "1", "11", "12"]
    page.get_by_label("Filter").fill("")
    assert texts(page, RANKS) == ordered(COLUMNS["First stage"][1], "ascending")


def test_the_tab_key_reaches_everything_in_the_order_of_the_page(path: Path, visit: Visit) -> None:
    stops = tab_stops(visit(path))

    assert [stop for stop in stops if not (stop["outlined"] and stop["inView"])] == []
    areas = [stop["area"] or stop["id"] for stop in stops]
    # Five links; the tools; the table, which may have to be scrolled, its headings, its passages;
    # three notable ones.
    assert areas[:34] == (
        ["nav"] * 5 + ["div"] * 4 + [""] + ["thead"] * 9 + ["tbody"] * 12 + ["ul"] * 3
    )
    assert stops[5]["id"] == "search"
    assert [stop["text"] for stop in stops[10:12]] == ["Passage", "Final score"]
    assert [stop["text"] for stop in stops[7:9]] == ["Open all", "Close all"]


def test_the_whole_page_can_be_read_by_keys(path: Path, visit: Visit) -> None:
    page = visit(path)
    focused = "document.activeElement.closest('.passage')?.id"
    page.keyboard.press("k")
    assert page.evaluate(focused) == "passage-12"  # the last one, from nowhere
    page.evaluate("document.activeElement.blur()")
    for key, where in zip("jjjk", ("1", "2", "3", "2"), strict=True):
        page.keyboard.press(key)
        assert page.evaluate(focused) == f"passage-{where}"
    link = page.locator("#passage-2 .label")
    assert link.get_attribute("aria-expanded") == "false"
    page.keyboard.press("Enter")
    assert opened(page) == ["passage-2"]
    assert link.get_attribute("aria-expanded") == "true"
    assert page.locator("#passage-2 .text").is_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert opened(page) == ["passage-2", "passage-3"]
    page.keyboard.press("Escape")
    assert opened(page) == ["passage-2"]
    assert page.evaluate(focused) == "passage-3"
    page.keyboard.press("Control+j")
    assert page.evaluate(focused) == "passage-3"
    # In the filter they are letters, and what it hides is passed over.
    page.get_by_label("Filter").press_sequentially("study 1 jk")
    assert page.get_by_label("Filter").input_value() == "study 1 jk"
    page.get_by_label("Filter").fill("study 1")  # d10, d1, d11, d12: ranks 1, 6, 11, 12
    page.locator("#passage-1 .label").focus()
    page.keyboard.press("j")
    assert page.evaluate(focused) == "passage-6"


def test_colours_can_be_stretched_to_the_range(path: Path, visit: Visit) -> None:
    page = visit(path)
    levels = """all => all.map((each) => [
      Number(each.dataset.v), Number(each.className.match(/h(\\d+)/)[1])
    ])"""
    cells = "#heat .passage > tr:first-child > .cell[data-v]"
    page.evaluate("document.getElementById('heat').dataset.low = '2'")
    wide = page.eval_on_selector_all(cells, levels)
    assert all(level == round(score) for score, level in wide)
    page.get_by_label("Stretch colours").check()
    narrow = page.eval_on_selector_all(cells, levels)
    # From 2, as if that were the lowest, to 10.
    assert all(abs(level - min(10, max(0, 10 * (score - 2) / 8))) <= 0.5 for score, level in narrow)
    assert narrow != wide
    assert page.locator(".ramp .low").text_content() == "2.00"
    page.get_by_label("Stretch colours").uncheck()
    assert page.eval_on_selector_all(cells, levels) == wide
    assert page.locator(".ramp .low").text_content() == "0"


def test_an_address_of_a_passage_opens_it(path: Path, visit: Visit) -> None:
    page = visit(path, "passage-11")
    assert opened(page) == ["passage-11"]
    assert _on_screen(page, "#passage-11")
    page.locator(".notable a", has_text="rank 10").first.click()
    assert opened(page) == ["passage-10", "passage-11"]
    assert _on_screen(page, "#passage-10")
    page.go_back()
    page.wait_for_url("**#passage-11")


def test_an_address_of_a_passage_on_another_part_leads_there(
    parts: list[Path], visit: Visit
) -> None:
    for start, end, rank in ((0, 2, 40), (1, 2, 40), (2, 0, 1), (1, 1, 20), (2, 2, 40)):
        page = visit(parts[start], f"passage-{rank}")
        page.wait_for_url(f"{parts[end].as_uri()}#passage-{rank}")
        expect(page.locator(f"#passage-{rank} .text")).to_be_visible()
        assert opened(page) == [f"passage-{rank}"]
        assert _on_screen(page, f"#passage-{rank}")


def _on_screen(page: Page, selector: str) -> bool:
    """Whether the element's beginning can be seen."""
    found: bool = page.locator(selector).evaluate(
        "each => { const { top } = each.getBoundingClientRect();"
        " return each.checkVisibility() && top >= 0 && top < innerHeight; }"
    )
    return found
