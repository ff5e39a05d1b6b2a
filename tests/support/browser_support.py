"""Pages in Chromium: a fresh window for each, and a record of all that a page must not do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request, expect
else:
    expect = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install 'mcranker[browser]'"
    ).expect

__all__ = ["Visit", "browser", "expect", "tab_stops", "texts", "visit"]

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none")
PATIENCE = 20_000
"""Milliseconds until a page that does not come to what a test waits for fails it."""

FOCUSED = """() => {
  const on = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(on);
  const box = on.getBoundingClientRect();
  return {
    tag: on.localName,
    text: on.textContent.trim(),
    id: on.id,
    area: on.closest("nav, .notable, .tools, thead, tbody, .pager, summary")?.localName ?? "",
    outlined: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2,
    inView: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}"""
SHOWN = """all => all.filter((each) => each.checkVisibility({ visibilityProperty: true }))
  .map((each) => each.textContent.trim())"""


class Visit:
    """Opens pages, each in a window of its own.

    Attributes:
        requests: what was asked for, in order, and be it refused by the page's policy: addresses
            without what follows a ``#``.
        complaints: whatever no page may do: ask for anything but a page that is gone to, say
            something in the console, fail in a script, be refused by its policy, open a dialog
            or another window. Every test that uses `visit` fails in the end if there are some.
    """

    def __init__(self, browser: Browser) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def __call__(
        self,
        path: Path,
        fragment: str = "",
        *,
        width: int = 1440,
        height: int = 900,
        scripts: bool = True,
    ) -> Page:
        """The page at `path`, loaded.

        Args:
            path: of the file.
            fragment: what follows the ``#``.
            width: of the window, in pixels.
            height: of the window, in pixels.
            scripts: whether scripts run.
        """
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            java_script_enabled=scripts,
            # Smooth scrolling would make tests wait.
            reduced_motion="reduce",
            # Whatever asks for something is found out, and still gets nothing.
            offline=True,
        )
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("request", self._requested)
        page.on("requestfailed", self._failed)
        page.on("console", lambda message: self._complain(f"console: {message.text}"))
        page.on("pageerror", lambda error: self._complain(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("popup", lambda other: self._complain(f"window: {other.url}"))
        page.goto(path.as_uri() + (f"#{fragment}" if fragment else ""))
        return page

    def close(self) -> None:
        """Close all windows."""
        while self._contexts:
            self._contexts.pop().close()

    def _complain(self, what: str) -> None:
        self.complaints.append(what)

    def _requested(self, request: Request) -> None:
        address = request.url.partition("#")[0]
        self.requests.append(address)
        page = address.startswith("file://") and address.endswith(".html")
        if not (page and request.is_navigation_request()):
            self._complain(f"request: {address}")

    def _failed(self, request: Request) -> None:
        self._complain(f"failed: {request.url.partition('#')[0]}, {request.failure}")

    def _dialog(self, dialog: Any) -> None:
        self._complain(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of one module.

    No longer than that: while it is there, an event loop counts as running, and asynchronous
    tests of other modules could not start theirs.
    """
    from playwright.sync_api import sync_playwright

    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"there is no Chromium: none of {', '.join(CHROMIUM)} is on the PATH")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens pages; what they did that they must not fails the test."""
    visit = Visit(browser)
    yield visit
    visit.close()
    assert visit.complaints == []


def texts(page: Page, selector: str) -> list[str]:
    """What the elements say that a reader can see, wherever on the page; no space around."""
    found: list[str] = page.eval_on_selector_all(selector, SHOWN)
    return found


def tab_stops(page: Page, most: int = 500) -> list[dict[str, Any]]:
    """What the Tab key reaches from the top of the page to its end, in order.

    Each with its tag, text, id, the part of the page it is in, and whether a reader can see
    that it has the focus: an outline of two pixels or more, within the window.
    """
    stops: list[dict[str, Any]] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop: dict[str, Any] = page.evaluate(FOCUSED)
        if stop["tag"] == "body":
            return stops
        stops.append(stop)
    raise AssertionError(f"after {most} times Tab the end is not reached")
