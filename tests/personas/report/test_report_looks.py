"""Styles and scripts of the reports: named colours in each scheme, and no requests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from personas.report import formats

FOLDER = Path(formats.__file__).parent


def rules(name: str) -> list[tuple[str, str]]:
    """Selector and declarations of every rule, those within media queries too."""
    style = re.sub(r"/\*.*?\*/", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    return [
        (selector.strip(), body) for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    ]


def schemes() -> dict[str, dict[str, str]]:
    """Scheme -> colour -> its value."""
    roots = [body for selector, body in rules("report.css") if selector == ":root"]
    light, dark, paper = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", body)) for body in roots)
    return {"light": light, "dark": dark, "print": paper}


@pytest.mark.parametrize("scheme", ["dark", "print"])
def test_every_scheme_has_every_colour(scheme: str) -> None:
    assert schemes()[scheme].keys() == schemes()["light"].keys()


@pytest.mark.parametrize("name", ["report.css", "survey.css"])
def test_colours_are_named_once_and_nowhere_else(name: str) -> None:
    for selector, body in rules(name):
        if selector != ":root":
            assert not re.search(r"#[0-9a-f]{3,8}\b|rgb|hsl|opacity: 0?\.", body), selector
        assert set(re.findall(r"var\(--([\w-]+)\)", body)) <= schemes()["light"].keys() | {
            "sans",
            "serif",
            "mono",
        }


@pytest.mark.parametrize("name", ["report.css", "survey.css"])
def test_styles_ask_for_nothing(name: str) -> None:
    style = (FOLDER / name).read_text(encoding="utf-8")
    assert style.count("{") == style.count("}")
    assert "<" not in style  # it stands in the page as it is
    assert not re.search(r"url\(|@import|@font-face|expression|//", style)


@pytest.mark.parametrize("name", ["report.js", "tables.js", "survey.js"])
def test_scripts_put_no_text_in_as_markup(name: str) -> None:
    script = (FOLDER / name).read_text(encoding="utf-8")
    assert "</script" not in script.lower()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|fetch\(|"
        r"XMLHttpRequest|WebSocket|sendBeacon|import\(",
        script,
    )
