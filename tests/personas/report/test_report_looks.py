"""The reports' styles: every colour can be read on what it stands on, in each scheme."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from personas.report import formats

FOLDER = Path(formats.__file__).parent
ENOUGH = 4.5
"""Contrast that WCAG 2 wants of text, level AA."""
ENOUGH_FOR_SHAPES = 3.0
"""The same for outlines and borders of what can be used."""


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


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def pairs() -> set[tuple[str, str]]:
    """Colour of text and what it stands on, as the rules have them.

    What says only one of the two stands on the page or a raised part of it, or holds plain text.
    """
    found = {("ink", "paper"), ("ink", "raised")}
    for _, body in rules("report.css") + rules("survey.css"):
        text = re.findall(r"(?:^|[;\s])color: var\(--([\w-]+)\)", body)
        paper = re.findall(r"background: var\(--([\w-]+)\)", body)
        found |= {
            (one, other)
            for one in text or ["ink"]
            for other in paper or (["paper", "raised"] if text else [])
        }
    return found


def test_contrast_is_computed_as_it_is_defined() -> None:
    assert contrast("#000", "#fff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # known to fail AA


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_every_text_can_be_read(scheme: str) -> None:
    colours = schemes()[scheme]
    found = pairs()
    assert {("ink", f"h{level}") for level in range(11)} <= found
    assert {("warn", "warn-paper"), ("muted", "raised"), ("accent", "paper")} <= found
    poor = {
        (one, other): round(contrast(colours[one], colours[other]), 2)
        for one, other in found
        if contrast(colours[one], colours[other]) < ENOUGH
    }
    assert poor == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_can_be_used_stands_out(scheme: str) -> None:
    colours = schemes()[scheme]
    for shape in ("accent", "muted"):  # the mark of the focus; borders of fields and buttons
        for paper in ("paper", "raised"):
            assert contrast(colours[shape], colours[paper]) >= ENOUGH_FOR_SHAPES


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
