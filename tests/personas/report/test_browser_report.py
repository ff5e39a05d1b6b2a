"""A report from run folders in a browser: a reader finds the way through its pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser_pages import write_report
from tests.support.browser_support import Visit, browser, texts, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("persona"))


def follow(page: Page, words: str, within: str = "body") -> str:
    """Follow the first link of these words; the name of the page it leads to, with what follows."""
    page.locator(within).get_by_role("link", name=words).first.click()
    page.wait_for_load_state()
    return page.url.rpartition("/")[2]


def test_a_reader_goes_from_the_runs_to_a_passage_and_home(report: Path, visit: Visit) -> None:
    page = visit(report / "index.html")
    assert follow(page, "MC: 2 recruits") == "index.html"
    assert page.url == (report / "run-1" / "index.html").as_uri()
    assert page.locator("h1").inner_text() == "How MC: 2 recruits ranked scifact"

    assert follow(page, "what is known about scifact-q3", "#queries") == "000002.html"
    assert page.locator("h1").inner_text() == "what is known about scifact-q3"
    page.locator("#passage-5 .label").click()
    assert page.locator("#passage-5 .text").is_visible()

    assert follow(page, "Next query") == "000003.html"
    assert follow(page, "Previous query") == "000002.html"
    assert follow(page, "Previous query") == "000001.html"
    assert texts(page, "nav.site a[rel=prev]") == []
    assert follow(page, "All queries") == "index.html#queries"
    page.go_back()
    assert follow(page, "MC: 2 recruits", "nav.site") == "index.html"
    assert page.url == (report / "run-1" / "index.html").as_uri()
