"""The terminal view on any width, with colour and without, of text of any kind."""

from __future__ import annotations

import io
import re
import unicodedata
from typing import Any

import pytest
from rich.cells import cell_len

from personas.report.terminal import print_inspection
from tests.personas.report.test_terminal import four, page, rows
from tests.support.inspection_report import infested

WIDTHS = (60, 80, 110, 200)
ESCAPE = re.compile("\x1b\\[[0-9;]*m")


@pytest.mark.parametrize("width", [20, 40, *WIDTHS])
@pytest.mark.parametrize("passage", [None, 2])
def test_nothing_is_wider_than_the_terminal(width: int, passage: int | None) -> None:
    text = page(four(), width, passage=passage, grades={"d3": 1})
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_colour_says_nothing_alone() -> None:
    options: dict[str, Any] = {"grades": {"d3": 1}}
    bare = page(four(), 80, **options)
    for system in ("256", "truecolor", "standard"):
        coloured = page(four(), 80, force_terminal=True, color_system=system, **options)
        assert ESCAPE.sub("", coloured) == bare
        shaded = re.search("\x1b\\[[0-9;]*48;[25];", coloured) is not None
        assert shaded == (system != "standard")
    assert "\x1b" not in bare


def test_ascii_terminals_get_ascii() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_inspection(four(), file=file, grades={"d3": 1})
    file.seek(0)
    text = file.read()
    assert "?" not in text
    assert rows(text)[0][:9] == ["1", "d2", "17", "9", "2", "6", "2", "+1", "2.87"]


HOSTILE = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\u2067\u200f\r\n\u2028[bold]👩\u200d🔬" + "W" * 500


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("passage", [None, 1])
def test_hostile_text_stays_text(width: int, passage: int | None) -> None:
    data = infested(HOSTILE)
    data["hits"][0]["text"] += "x" * 2_000_000
    text = page(data, width, grades={HOSTILE: 1, HOSTILE + "0": 1}, passage=passage)
    unsafe = {
        char
        for char in text
        if char not in "\n\u200d" and unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"}
    }
    assert unsafe == set()
    assert "[bold]" in text
    assert len(text) < 40_000
    assert max(cell_len(line) for line in text.splitlines()) <= width
