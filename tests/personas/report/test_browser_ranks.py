"""Pages of rankings by comparisons in a browser: columns sort, and all fits and can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.personas.report.test_rank_pages import DOCS, ORDERS, alone, by_team, without_one
from tests.support.browser_measures import open_all, readings, sticking_out
from tests.support.browser_support import Visit, browser, texts, visit

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RANKINGS = {"team": by_team, "without_one": without_one, "alone": alone}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ranks")
    for name, ranked in RANKINGS.items():
        ranked().to_html(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in RANKINGS}


def test_a_personas_column_sorts_by_its_ranks_the_first_first(
    pages: dict[str, Path], visit: Visit
) -> None:
    page = visit(pages["team"])
    for place, order in enumerate(ORDERS.values(), start=2):
        button = page.locator("#heat > thead th").nth(place).get_by_role("button")
        for expected in (order, order[::-1]):
            button.click()
            assert texts(page, "#heat .passage .id") == list(expected)


def test_a_single_order_sorts_by_what_it_has(pages: dict[str, Path], visit: Visit) -> None:
    page = visit(pages["alone"])
    headings = page.locator("#heat > thead th")
    assert headings.count() == 2
    headings.nth(1).get_by_role("button").click()
    assert texts(page, "#heat .passage .id") == list(DOCS)


@pytest.mark.parametrize("name", RANKINGS)
def test_pages_fit_and_can_be_read(name: str, pages: dict[str, Path], visit: Visit) -> None:
    page = visit(pages[name])
    open_all(page)
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert sticking_out(page) == []
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            found = readings(page)
            assert len(found) > 10
            assert [each for each in found if each.contrast < 4.5] == [], (width, scheme)
