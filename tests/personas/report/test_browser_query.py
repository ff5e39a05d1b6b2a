"""The page of one query in a browser: sorting, filtering, folds, links, keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from personas.ranking.hit import Hit
from tests.support.browser_pages import inspection, write_query
from tests.support.browser_support import Visit, browser, texts, visit

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
RANKS = "#heat .passage .rank"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_query(tmp_path_factory.mktemp("query"))


def ordered(value: Value, direction: str) -> list[str]:
    """Ranks of all passages in that order: missing values last, equal ones by rank."""
    sign = 1 if direction == "ascending" else -1

    def key(hit: Hit) -> tuple[bool, float, int]:
        found = value(hit)
        return (found is None, sign * (found or 0.0), hit.rank)

    return [str(hit.rank) for hit in sorted(inspection().hits, key=key)]


def opened(page: Page) -> list[str]:
    """Ids of the passages whose details are open, in the order of the page."""
    found: list[str] = page.eval_on_selector_all(
        ".passage.open", "all => all.map((each) => each.id)"
    )
    return found


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
