"""The pages of a report over a data set on paper, on a phone, and without scripts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from personas.report.survey_pages import survey_pages
from tests.survey_support import HOSTILE, make_survey

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
QUERIES = 1_000
NAMES = ("index", "queries", "personas", "criteria", "cases")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("reports")
    surveys = {
        "usual": make_survey(QUERIES, failed_every=10),
        "hostile": make_survey(60, texts=HOSTILE),
    }
    for name, survey in surveys.items():
        (base / name).mkdir()
        for page, text in survey_pages(survey):
            (base / name / page).write_text(text, encoding="utf-8")
    return base


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that refuses mistakes of scripts, and requests that leave the folder."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on(
        "request",
        lambda request: None if request.url.startswith("file:") else wrong.append(request.url),
    )
    yield opened
    context.close()
    assert wrong == []


def found(page: Page, table: str = "queries") -> str:
    return page.inner_text(f"#{table}-found")


def test_an_address_that_makes_no_sense_is_passed_over(page: Page, folder: Path) -> None:
    start = (folder / "usual" / "queries.html").as_uri()
    page.goto(f"{start}#sort=-nothing&show=everything&page=x&page=99999")
    assert found(page) == "1,000 queries, here 1 to 50"
    page.goto(f"{start}#page=99999")
    assert found(page) == "1,000 queries, here 951 to 1,000"


def test_paper_gets_every_row(page: Page, folder: Path) -> None:
    page.goto((folder / "usual" / "queries.html").as_uri())
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#queries tbody tr").count() == QUERIES
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#queries tbody tr").count() == 50


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("report", ["usual", "hostile"])
def test_a_phone_does_not_scroll_sideways(page: Page, folder: Path, report: str, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((folder / report / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("name", ["queries", "personas", "criteria"])
def test_without_scripts_every_row_is_there(browser: Browser, folder: Path, name: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        opened = context.new_page()
        opened.goto((folder / "usual" / f"{name}.html").as_uri())
        text = (folder / "usual" / f"{name}.html").read_text(encoding="utf-8")
        assert opened.locator("tbody tr").count() == text.count("<tr") - text.count("<thead>")
        assert not opened.locator(f"#{name}-find").is_visible()
    finally:
        context.close()
