"""Pages in Chromium, each in an empty window, and a record of all that a page must not do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request, expect
else:
    expect = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install 'mcranker[browser]'"
    ).expect

__all__ = ["Visit", "browser", "expect", "texts", "visit"]

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none")
PATIENCE = 20_000
"""Milliseconds until a page that does not come to what a test waits for fails it."""

SHOWN = """all => all.filter((each) => each.checkVisibility({ visibilityProperty: true }))
  .map((each) => each.textContent.trim())"""


class Windows:
    """The windows of a browser. Tests take turns in them: to open one takes longer than a page."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: dict[bool, list[Page]] = {True: [], False: []}
        self.visit: Visit

    def take(self, *, width: int, height: int, scripts: bool) -> Page:
        """A window for a test, which has nothing in it."""
        page = self._idle[scripts].pop() if self._idle[scripts] else self._opened(scripts)
        page.set_viewport_size({"width": width, "height": height})
        return page

    def online(self, *, width: int, height: int) -> BrowserContext:
        """A window of its own that may ask a server; the caller closes it."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce"
        )
        context.set_default_timeout(PATIENCE)
        return context

    def give_back(self, page: Page, *, scripts: bool) -> None:
        """Empty a window for the next test."""
        page.emulate_media(media="null", color_scheme="null")
        page.goto("about:blank")
        self._idle[scripts].append(page)

    def _opened(self, scripts: bool) -> Page:
        context = self._browser.new_context(
            java_script_enabled=scripts,
            # Smooth scrolling would make tests wait.
            reduced_motion="reduce",
            # Whatever asks for something is found out, and still gets nothing.
            offline=True,
        )
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        for event in Visit.HEARD:
            page.on(event, partial(self._tell, event))
        return page

    def _tell(self, event: str, what: Any) -> None:
        Visit.HEARD[event](self.visit, what)


class Visit:
    """Opens pages, each in a window of its own.

    `requests` are the addresses asked for, refused or not. `complaints` are what no page may do:
    ask for more than its own page, say something in the console, fail in a script, open a dialog
    or another window.
    """

    def __init__(self, windows: Windows) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._windows = windows
        self._taken: list[tuple[Page, bool]] = []
        windows.visit = self

    def __call__(
        self,
        path: Path,
        fragment: str = "",
        *,
        width: int = 1440,
        height: int = 900,
        scripts: bool = True,
    ) -> Page:
        """The page at `path`, loaded; the window is so many pixels wide and high."""
        page = self._windows.take(width=width, height=height, scripts=scripts)
        self._taken.append((page, scripts))
        page.goto(path.as_uri() + (f"#{fragment}" if fragment else ""))
        return page

    def close(self) -> None:
        """Leave all windows; those of a page that did what it must not are used no more."""
        while self._taken:
            page, scripts = self._taken.pop()
            if self.complaints:
                page.context.close()
            else:
                self._windows.give_back(page, scripts=scripts)

    def _requested(self, request: Request) -> None:
        address = request.url.partition("#")[0]
        self.requests.append(address)
        page = address.startswith("file://") and address.endswith(".html")
        if not (page and request.is_navigation_request()):
            self.complaints.append(f"request: {address}")

    def _failed(self, request: Request) -> None:
        self.complaints.append(f"failed: {request.url.partition('#')[0]}, {request.failure}")

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    HEARD: ClassVar[Mapping[Any, Callable[[Visit, Any], None]]] = {
        "request": _requested,
        "requestfailed": _failed,
        "console": lambda self, message: self.complaints.append(f"console: {message.text}"),
        "pageerror": lambda self, error: self.complaints.append(f"error: {error}"),
        "dialog": _dialog,
        "popup": lambda self, other: self.complaints.append(f"window: {other.url}"),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Windows]:
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
        yield Windows(started)
        started.close()


@pytest.fixture
def visit(browser: Windows) -> Iterator[Visit]:
    """Opens pages; what they did that they must not fails the test."""
    visit = Visit(browser)
    yield visit
    visit.close()
    assert visit.complaints == []


def texts(page: Page, selector: str) -> list[str]:
    """What the elements say that a reader can see, wherever on the page; no space around."""
    found: list[str] = page.eval_on_selector_all(selector, SHOWN)
    return found
