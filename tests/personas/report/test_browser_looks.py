"""How the pages look in a browser: on a phone, in the dark, on paper, and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.support.browser_measures import open_all, sticking_out
from tests.support.browser_pages import (
    write_compared,
    write_long_query,
    write_query,
    write_report,
    write_survey,
)
from tests.support.browser_support import Visit, browser, visit
from tests.support.inspection_report import infested
from tests.support.survey_support import HOSTILE, make_survey

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser

Sites: TypeAlias = "dict[str, list[Path]]"

KINDS = ("query", "long", "survey", "report", "compared", "hostile")
"""Contrast that WCAG 2 wants of text, level AA."""
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
        "long": [write_long_query(base / "long")],
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
