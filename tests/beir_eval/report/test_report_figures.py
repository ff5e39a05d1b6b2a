"""Figures: what they show lies where the numbers say, and every name is text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Literal

import pytest

from beir_eval.experiment.run_folder import FigureNote
from beir_eval.measures.values import Interval
from beir_eval.report.figures import EDGE, SERIES, WIDTH, render_svg, width_of
from beir_eval.report.model import Figure, Point

STYLE = (files("beir_eval.report") / "figure.css").read_text(encoding="utf-8")
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


def center(sign: ET.Element) -> tuple[float, float]:
    return float(sign.attrib["cx"]), float(sign.attrib["cy"])


def marker(root: ET.Element, title: str) -> ET.Element:
    """Find the sign of a point by the beginning of the words under a pointer."""
    for sign in root.iter(f"{SVG}circle"):
        shown = sign.find(f"{SVG}title")
        if shown is not None and (shown.text or "").startswith(title):
            return sign
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
    # The interval of the first goes from 0.15 to 0.25, half a step to either side.
    (x, y), half = first, (text_at(root, "0.1")[1] - text_at(root, "0.2")[1]) / 2
    whisker = pytest.approx([x, y + half, x, y - half], abs=0.02)
    assert whisker in [numbers_in(each.attrib["d"]) for each in root.iter(f"{SVG}path")]


def test_rows_have_a_point_and_an_interval_on_one_scale() -> None:
    root = drawn(
        figure(
            "bars",
            ("SciFact", [point("small", 0.2), point("strong", 0.4)]),
            ("Touche", [point("small", 0.1), point("strong", 0.3)]),
        )
    )
    signs = [
        marker(root, f"{group}, {name}: ")
        for group in ("SciFact", "Touche")
        for name in ("small", "strong")
    ]
    places = [center(sign)[0] for sign in signs]
    # 0.2, 0.4, 0.1, 0.3: an equal step for each tenth.
    step = places[0] - places[2]
    assert step > 20
    assert [place - places[2] for place in places] == pytest.approx(
        [step, 3 * step, 0, 2 * step], abs=0.05
    )
    x, y = center(signs[0])
    # The interval from 0.15 to 0.25 is half a step to either side.
    ends = f"M{x - step / 2:g} {y:g}L{x + step / 2:g} {y:g}"
    whiskers = [each.attrib["d"] for each in root.iter(f"{SVG}path")]
    assert numbers_in(ends) in [pytest.approx(numbers_in(each), abs=0.05) for each in whiskers]
    assert [each for each in words(root) if re.fullmatch(r"0\.\d{3}", each)] == [
        *("0.200", "0.400", "0.100", "0.300")
    ]
    kinds = [sign.attrib["class"] for sign in signs]
    assert kinds == [kinds[0], kinds[1]] * 2
    assert kinds[0] != kinds[1]
    assert words(root).count("small") == 2
    assert "Touche, strong: 0.300 (0.250 to 0.350)" in tooltips(root)


def numbers_in(path: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?[\d.]+", path)]


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_names_are_text_and_nothing_else(kind: Kind) -> None:
    x: float | str = 1 if kind == "line" else HOSTILE
    text = render_svg(figure(kind, (HOSTILE, [point(x, 0.5)]), title=HOSTILE))
    root = ET.fromstring(text)
    kinds = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert kinds <= {"svg", "style", "rect", "path", "circle", "text", "title"}
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
    (style,) = (each.text for each in root.iter(f"{SVG}style"))
    assert style == STYLE
    assert "<style>" not in render_svg(of, embedded=True)


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
    assert len({each.attrib["class"] for each in signs}) == SERIES == 8
    # Points of the same number stand side by side.
    assert len({center(sign)[0] for sign in signs}) == 8


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


def _luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_stand_out_on_light_and_on_dark() -> None:
    sheets = STYLE.split("@media screen and (prefers-color-scheme: dark)")
    assert len(sheets) == 2
    for sheet in sheets:
        colours = dict(re.findall(r"\.(\w+) \{ (?:fill|stroke): (#\w{6})", sheet))
        for place in range(SERIES):
            assert _contrast(colours[f"s{place}"], colours["paper"]) >= 3
        for tone in ("ink", "muted"):
            assert _contrast(colours[tone], colours["paper"]) >= 4.5
