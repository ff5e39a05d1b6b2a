"""The playground of a service on the loopback, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcranker.serve import Settings
from tests.support.browser_support import expect
from tests.support.serving import serving, settings

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

    from tests.support.browser_support import Windows

PASSAGES = "Soap is for hands.\nCloth masks leak.\nN95 masks seal."
VISIBLE = "#heat tbody tr:not(.details) .head"


class Seen:
    """A page of the service, and a record of all that it must not do."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._requested)
        self._address = address

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self._address, "blob:")):
            self.complaints.append(f"request: {request.url}")


@contextmanager
def opened(
    browser: Windows, service: Settings | None = None, *, width: int = 1440, **given: Any
) -> Iterator[Seen]:
    """The playground of a service, ready."""
    with serving(service or settings(port=0, per_request=("team",), **given)) as address:
        # Not one of the windows that are offline.
        context = browser.online(width=width, height=900)
        try:
            seen = Seen(context.new_page(), address)
            seen.page.goto(address)
            seen.page.locator("html[data-ready]").wait_for()
            yield seen
        finally:
            context.close()


def fill(page: Page, passages: str = PASSAGES) -> None:
    """A query, and passages in place of those that are there."""
    page.get_by_label("Query", exact=True).fill("masks")
    page.locator("#many").evaluate("many => { many.open = true; }")
    page.get_by_label("Passages", exact=True).fill(passages)
    page.get_by_role("button", name="Replace the list").click()


def rank(page: Page, passages: str = PASSAGES) -> None:
    """Rank passages with a new team."""
    fill(page, passages)
    page.get_by_role("button", name="Rank", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Done in")
