"""Questions in the playground, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mcranker.rag.fake_pipeline import SENTENCE, service
from tests.support.browser_support import browser
from tests.support.playing import opened

if TYPE_CHECKING:
    from tests.support.browser_support import Windows

__all__ = ["browser"]

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("pipelines")]


def test_the_playground_shows_the_answer_with_its_sources(browser: Windows) -> None:
    with opened(browser, service(port=0)) as seen:
        page = seen.page
        page.get_by_label("Question").fill("What is NSP?")
        page.get_by_role("button", name="Answer").click()
        page.locator("#answered").wait_for()
        assert page.locator("#answer-text").inner_text() == f"{SENTENCE} [1]"
        assert page.locator("#sources mark").all_inner_texts() == ["sentence"]
        assert "weak model" in page.locator("#answer-notes").inner_text()
        assert page.locator("#status").inner_text().endswith("3 calls.")
        assert seen.complaints == []
        with page.context.expect_page() as why:
            page.get_by_role("link", name="shows why").click()
        assert "next sentence" in why.value.inner_text("body")
        page.get_by_label("Question").fill("fail")
        page.get_by_role("button", name="Answer").click()
        page.locator("#problem:not([hidden])").wait_for()
        assert "Not answered" in page.locator("#problem").inner_text()
    with opened(browser) as seen:
        assert seen.page.locator("#questions").is_hidden()
