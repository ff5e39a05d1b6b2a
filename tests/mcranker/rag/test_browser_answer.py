"""The page of an answer in a browser: links, widths, nothing asked and nothing run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcranker.rag.test_result import answered
from tests.support.browser_support import Visit, browser, visit

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [390, 1280])
def test_a_citation_leads_to_its_quote_and_a_passage_to_its_row(
    width: int, tmp_path: Path, visit: Visit
) -> None:
    answered().to_html(tmp_path / "why.html")
    page = visit(tmp_path / "why.html", width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click(".answer .cite >> nth=0")
    assert page.locator("mark:target").inner_text() == "respirators filter"
    page.click(".answer .doubt >> nth=0")
    assert "not in passage 1, but in passage 2" in page.locator(".doubts :target").inner_text()
    page.click("#source-1 a[href='#passage-1']")
    assert page.locator("#passage-1 .detail").is_visible()
