"""How the pages look in a browser: on a phone, in the dark, on paper, and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import pytest

from tests.support.browser_measures import open_all, readings, sticking_out
from tests.support.browser_pages import (
    write_compared,
    write_long_query,
    write_query,
    write_report,
    write_survey,
)
from tests.support.browser_support import Visit, browser, expect, texts, visit
from tests.support.inspection_report import infested
from tests.support.survey_support import HOSTILE, make_survey

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser

Media: TypeAlias = Literal["screen", "print"]
Scheme: TypeAlias = Literal["light", "dark"]
Sites: TypeAlias = "dict[str, list[Path]]"

KINDS = ("query", "long", "survey", "report", "compared", "hostile")
ENOUGH = 4.5
"""Contrast that WCAG 2 wants of text, level AA."""
TO_BE_USED = "button, input, select, textarea"
BACKGROUNDS: dict[tuple[Media, Scheme], str] = {
    ("screen", "light"): "rgb(251, 250, 246)",
    ("screen", "dark"): "rgb(21, 24, 26)",
    ("print", "dark"): "rgb(255, 255, 255)",
}
"""Medium and what the reader prefers -> what a page stands on; paper is white in any case."""
HOSTILE_QUERY = (
    "W" * 3000,
    f"{'<&' * 300} \u202eback {'👩‍🚀' * 200} http://example.org/{'path/' * 200}",
)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    """Kind -> pages."""
    base = tmp_path_factory.mktemp("sites")
    for kind in KINDS:
        (base / kind).mkdir()
    hostile = write_survey(base / "hostile", make_survey(30, texts=HOSTILE))
    with pytest.MonkeyPatch.context() as patch:
        # What does so for every test comes after fixtures of a module.
        patch.setenv("MCRANKER_LEDGER", "none")
        for place, payload in enumerate(HOSTILE_QUERY):
            folder = base / "hostile" / str(place)
            folder.mkdir()
            hostile.append(write_query(folder, infested(payload)))
        hostile += write_compared(base / "hostile", hostile=True)
    report = write_report(base / "report")
    return {
        "compared": write_compared(base / "compared"),
        "query": [write_query(base / "query")],
        "long": write_long_query(base / "long")[1:2],
        "survey": write_survey(base / "survey", make_survey(60)),
        # Its other pages are of the kinds that the survey and the query have.
        "report": [
            report / "index.html",
            report / "run-1" / "index.html",
            *(report / "run-1" / "query" / name for name in ("000001.html", "000005.html")),
        ],
        "hostile": hostile,
    }


def each_page(visit: Visit, paths: list[Path]) -> Iterator[Page]:
    """Each page in turn, in one window."""
    page = visit(paths[0])
    yield page
    for path in paths[1:]:
        page.goto(path.as_uri())
        yield page


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_wider_than_the_window(sites: Sites, visit: Visit, kind: str) -> None:
    for page in each_page(visit, sites[kind]):
        open_all(page)
        for width in (1440, 768, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert sticking_out(page) == [], (page.url, width)


@pytest.mark.parametrize("kind", ["query", "survey", "report", "compared"])
def test_all_text_can_be_read(sites: Sites, visit: Visit, kind: str) -> None:
    for page in each_page(visit, sites[kind]):
        open_all(page)
        for look, background in BACKGROUNDS.items():
            media, scheme = look
            page.emulate_media(media=media, color_scheme=scheme)
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
            found = readings(page)
            assert len(found) > 10
            assert [each for each in found if each.contrast < ENOUGH] == [], (page.url, look)
            if kind == "query":  # has every colour of a cell
                cells = {each.where for each in found if each.where.startswith("td.cell h")}
                assert cells == {f"td.cell h{level}" for level in range(11)}
            if media == "print":
                assert texts(page, "nav, .tools, .finder, .pager, input, select") == []


def test_paper_gets_all_rows(sites: Sites, visit: Visit) -> None:
    (path,) = sites["survey"]
    page = visit(path)
    rows = page.locator("#queries tbody tr")
    page.evaluate(
        "addEventListener('beforeprint', () => {"
        " window.printed = document.querySelectorAll('#queries tbody tr').length; })"
    )
    assert rows.count() == 50
    assert page.pdf().startswith(b"%PDF")
    assert page.evaluate("window.printed") == 60
    expect(rows).to_have_count(50)
    # A search holds on paper, too.
    page.get_by_label("Show").select_option("only failed ones")
    page.pdf()
    assert page.evaluate("window.printed") == 4  # 13, 26, 39 and 52 failed


@pytest.mark.parametrize("kind", ["query", "survey", "report"])
def test_without_scripts_all_is_there_and_nothing_is_idle(
    sites: Sites, visit: Visit, kind: str
) -> None:
    page = visit(sites[kind][0], scripts=False)
    for path in sites[kind]:
        page.goto(path.as_uri())
        source = path.read_text(encoding="utf-8")
        rows = page.locator("tbody > tr")
        assert rows.count() == source.count("<tr") - source.count("<thead") - source.count("<tfoot")
        folded = page.locator("details:not([open]) tbody > tr, .detail, .detail tbody > tr").count()
        assert len(texts(page, "tbody > tr")) == rows.count() - folded
        assert texts(page, TO_BE_USED) == [], path
        assert texts(page, ".orders, .pager, .finder, .tools") == []
