"""Figures: what they show lies where the numbers say, and every name is text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beir_eval.experiment.run_folder import FigureNote
from beir_eval.measures.significance import Interval
from beir_eval.report import drawing
from beir_eval.report.drawing import (
    EDGE,
    SERIES,
    STYLE,
    WIDTH,
    cut_to,
    nice_ticks,
    spread,
    width_of,
    wrapped,
)
from beir_eval.report.figures import render_svg
from beir_eval.report.model import Figure, Point

SVG = "{http://www.w3.org/2000/svg}"
Kind = Literal["line", "bars"]
HOSTILE = "</text><script>alert(1)</script>\"'& \x00\x1b\u202e\ud800"


def point(x: float | str, value: float, *, low: float = 0.05, high: float = 0.05) -> Point:
    return Point(x, value, Interval(value - low, value + high))


def figure(kind: Kind, *lines: tuple[str, Sequence[Point]], title: str = "Recruits") -> Figure:
    note = FigureNote(kind=kind, title=title, x_label="recruits" if kind == "line" else "")
    return Figure(note, tuple((name, tuple(points)) for name, points in lines), "")


def drawn(of: Figure) -> ET.Element:
    return ET.fromstring(render_svg(of))


def words(root: ET.Element) -> list[str]:
    """What is written, without what a pointer shows."""
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def tooltips(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}title")]


def text_at(root: ET.Element, text: str) -> tuple[float, float]:
    found = next(each for each in root.iter(f"{SVG}text") if each.text == text)
    return float(found.attrib["x"]), float(found.attrib["y"])


def center(marker: ET.Element) -> tuple[float, float]:
    """Of a marker that is as wide to the left as to the right, and up as down."""
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", marker.attrib["d"])]
    xs, ys = numbers[::2], numbers[1::2]
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def marker(root: ET.Element, title: str) -> ET.Element:
    """The marker that a pointer tells about with words that begin so."""
    for path in root.iter(f"{SVG}path"):
        told = path.find(f"{SVG}title")
        if told is not None and (told.text or "").startswith(title):
            return path
    raise AssertionError(title)


def test_points_lie_where_their_numbers_say() -> None:
    # Intervals go from 15 to 65, so the axis has the ticks 10, 20, ..., 70: 30 is as far above
    # 20 as 20 above 10. Numbers 1, 2, 5: from 1 to 2 is a third of the way from 2 to 5.
    root = drawn(figure("line", ("SciFact", [point(1, 0.2), point(2, 0.3), point(5, 0.6)])))
    assert [each for each in words(root) if re.fullmatch(r"nDCG@10|0\.\d", each)] == [
        *["nDCG@10"],
        *["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"],
    ]
    first, second, third = (center(marker(root, f"SciFact, {x}: ")) for x in (1, 2, 5))
    assert second[0] - first[0] == pytest.approx((third[0] - second[0]) / 3, abs=0.02)
    for place, tick in ((first, "0.2"), (second, "0.3"), (third, "0.6")):
        # The words of a tick stand 4 pixels below its line, to be in the middle of it.
        assert place[1] == pytest.approx(text_at(root, tick)[1] - 4, abs=0.02)
    assert text_at(root, "1")[0] == pytest.approx(first[0], abs=0.02)


def test_intervals_end_where_they_say() -> None:
    root = drawn(figure("line", ("SciFact", [point(1, 0.3, low=0.1, high=0.2)])))
    x, _ = center(marker(root, "SciFact, 1: 0.300 (0.200 to 0.500)"))
    low, high = (text_at(root, tick)[1] - 4 for tick in ("0.2", "0.5"))
    upright = f"M{x:g} {low:g}L{x:g} {high:g}"
    assert upright in [each.attrib["d"] for each in root.iter(f"{SVG}path")]


def test_bars_are_as_long_as_their_values() -> None:
    root = drawn(
        figure(
            "bars",
            ("SciFact", [point("small", 0.2), point("strong", 0.4)]),
            ("Touche", [point("small", 0.1), point("strong", 0.3)]),
        )
    )
    bars = [each for each in root.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    lengths = [float(each.attrib["width"]) for each in bars]
    assert [length / lengths[2] for length in lengths] == pytest.approx([2, 4, 1, 3], rel=1e-3)
    assert [each for each in words(root) if re.fullmatch(r"0\.\d{3}", each)] == [
        "0.200",
        "0.400",
        "0.100",
        "0.300",
    ]
    colours = [each.attrib["fill"] for each in bars]
    assert colours == [colours[0], colours[1]] * 2
    assert colours[0] != colours[1]
    assert words(root).count("small") == 2
    assert "Touche, strong: 0.300 (0.250 to 0.350)" in tooltips(root)


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_names_are_text_and_nothing_else(kind: Kind) -> None:
    x: float | str = 1 if kind == "line" else HOSTILE
    text = render_svg(figure(kind, (HOSTILE, [point(x, 0.5)]), title=HOSTILE))
    root = ET.fromstring(text)
    kinds = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert kinds <= {"svg", "style", "rect", "path", "text", "title"}
    assert words(root)[0].startswith("</text><script>alert(1)</script>")
    assert all("<script>" in each for each in tooltips(root))
    assert tooltips(root)
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert text.encode()


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_a_figure_is_a_file_of_its_own(kind: Kind) -> None:
    of = figure(kind, ("SciFact", [point(1, 0.5)]))
    text = render_svg(of)
    assert text == render_svg(of)
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert "0.500" in root.attrib["aria-label"]
    assert "SciFact" in root.attrib["aria-label"]
    assert re.findall("https?:|url|href|@import|var\\(|style=", text) == ["http:"]
    assert [each.text for each in root.iter(f"{SVG}style")] == [STYLE]


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_nothing_to_draw_is_said(kind: Kind) -> None:
    for of in (figure(kind), figure(kind, ("SciFact", []))):
        root = drawn(of)
        assert "No finished run" in "".join(words(root))
        assert float(root.attrib["height"]) < 120


@pytest.mark.parametrize("value", [0.0, 1.0, 0.62])
@pytest.mark.parametrize("kind", ["line", "bars"])
def test_one_value_without_width_is_drawn(kind: Kind, value: float) -> None:
    root = drawn(figure(kind, ("SciFact", [point(2, value, low=0, high=0)])))
    assert any(each.startswith("SciFact, 2: ") for each in tooltips(root))
    assert "nan" not in ET.tostring(root, "unicode")
    assert not any(each.startswith("-") for each in words(root))


@pytest.mark.parametrize("values", [[0.5] * 8, [0.1 * each for each in range(8)]])
def test_names_of_many_lines_do_not_meet(values: list[float]) -> None:
    names = [f"Data set {letter}" for letter in "ABCDEFGH"]
    lines = [
        (name, [point(1, value), point(2, value)])
        for name, value in zip(names, values, strict=True)
    ]
    root = drawn(figure("line", *lines))
    heights = sorted(text_at(root, name)[1] for name in names)
    assert min(b - a for a, b in pairwise(heights)) >= 17.9
    assert heights[-1] < text_at(root, "recruits")[1] - 20
    signs = [marker(root, f"{name}, 1: ") for name in names]
    assert len({each.attrib["fill"] for each in signs}) == SERIES == 8
    # A marker's form is its outline, seen from its centre.
    forms = set()
    for sign in signs:
        x, y = center(sign)
        at = [float(each) for each in re.findall(r"-?[\d.]+", sign.attrib["d"])]
        forms.add(
            tuple((round(a - x), round(b - y)) for a, b in zip(at[::2], at[1::2], strict=True))
        )
    assert len(forms) == 8
    # Points of the same number stand side by side.
    assert len({center(sign)[0] for sign in signs}) == 8


def test_a_ninth_series_is_hollow() -> None:
    lines = [(f"L{place}", [point(1, 0.5)]) for place in range(9)]
    root = drawn(figure("line", *lines))
    first, ninth = marker(root, "L0, "), marker(root, "L8, ")
    assert ninth.attrib["stroke"] == first.attrib["fill"]
    assert ninth.attrib["fill"] != first.attrib["fill"]


@pytest.mark.parametrize("kind", ["line", "bars"])
@pytest.mark.parametrize("name", ["x", "Touche " * 20, "W" * 200, "質問" * 60])
def test_words_stay_within_the_figure(kind: Kind, name: str) -> None:
    xs: list[float | str] = [1, 20, 1000] if kind == "line" else [name, f"{name} b", "c"]
    lines = [(f"{name} {place}", [point(x, 0.5) for x in xs]) for place in range(3)]
    root = drawn(figure(kind, *lines, title=f"{name} " * 3))
    for each in root.iter(f"{SVG}text"):
        size = float(each.attrib["font-size"])
        wide = width_of(each.text or "", size) * (1.12 if "font-weight" in each.attrib else 1)
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[each.attrib["text-anchor"]]
        left = float(each.attrib["x"]) - share * wide
        assert left >= EDGE - size, each.text
        assert left + wide <= WIDTH - EDGE + size, each.text
        assert 0 < float(each.attrib["y"]) < float(root.attrib["height"])
    if len(name) > 20:
        # The whole name is still there, under a pointer.
        assert any(" ".join(name.split()) in each for each in tooltips(root))


def test_many_numbers_get_round_ticks() -> None:
    root = drawn(figure("line", ("SciFact", [point(x, 0.5) for x in range(3, 100)])))
    assert {"20", "40", "60", "80"} <= set(words(root))
    assert "3" not in words(root)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (28.1, 33.9, [28, 29, 30, 31, 32, 33, 34]),
        (61.7, 62.3, [61.7, 61.8, 61.9, 62, 62.1, 62.2, 62.3]),
        (12, 88, [0, 20, 40, 60, 80, 100]),
        (5, 5, [4.4, 4.6, 4.8, 5, 5.2, 5.4, 5.6]),
    ],
)
def test_ticks_are_round_and_enclose(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(ticks)


@settings(max_examples=50, deadline=None)
@example(0.0, 5e-324)
@example(50.0, 50.0000001)
@given(st.floats(0, 100), st.floats(0, 100))
def test_there_are_always_ticks(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    ticks = nice_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= low + 1e-6
    assert ticks[-1] >= high - 1e-6


def test_names_are_moved_as_little_as_needed() -> None:
    assert spread([10, 50, 90], 18, 0, 100) == [10, 50, 90]
    # 40 and 45 are too near: the second goes to 58, and the third still has its place.
    assert spread([45, 40, 90], 18, 0, 100) == [58, 40, 90]
    # At the lower edge they are pushed back up: 100, 82, 64.
    assert spread([99, 98, 97], 18, 0, 100) == [100, 82, 64]


def test_long_texts_are_wrapped_then_cut() -> None:
    assert wrapped("one two three", 1000, 13, 2) == ["one two three"]
    assert wrapped("", 100, 13, 2) == []
    lines = wrapped("strong model recruits and writes criteria, small model scores", 150, 13, 2)
    assert len(lines) == 2
    assert lines[0].startswith("strong model")
    assert lines[1].endswith("…")
    assert all(width_of(line, 13) <= 150 + 13 for line in lines)
    assert cut_to("short", 100, 13) == "short"
    assert cut_to("a\u202eb\nc", 100, 13) == "ab c"


def _luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_stand_out_on_light_and_on_dark() -> None:
    dark = dict(re.findall(r"\.(\w+) \{ (?:fill|stroke): (#\w{6})", STYLE))
    assert dark["paper"] == "#15181a"
    for place, colour in enumerate(drawing._LIGHT):
        assert _contrast(colour, drawing._PAPER) >= 3
        assert _contrast(dark[f"f{place}"], dark["paper"]) >= 3
        assert dark[f"l{place}"] == dark[f"f{place}"]
    for tone, colour in drawing._TONES.items():
        assert _contrast(colour, drawing._PAPER) >= 4.5
        assert _contrast(dark[tone], dark["paper"]) >= 4.5
