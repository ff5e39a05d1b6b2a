"""Figures: what they show lies where the numbers say, and every name is text."""

from __future__ import annotations

import math
import re
import statistics
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal

import pytest

from beir_eval.experiment.run_folder import FigureNote
from beir_eval.experiment.suite import load_suite
from beir_eval.measures.values import Interval, Values
from beir_eval.report.figures import THEIRS, Mark, render_svg, scatter, theirs_of
from beir_eval.report.model import Figure

STYLE = (files("beir_eval.report") / "figure.css").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"
Kind = Literal["line", "bars"]
HOSTILE = "</text><script>alert(1)</script>\"'& \x00\x1b\u202e\ud800"
SPREAD = 0.05 / 12.7062 * math.sqrt(2)
"""Of two values, so that Student's interval of their mean goes 0.05 to either side."""
Point = tuple[float | str, Values]


def point(x: float | str, value: float) -> Point:
    half = SPREAD / math.sqrt(2)
    return x, Values({"a": value - half, "b": value + half}, scale=(0.0, 1.0))


def figure(kind: Kind, *lines: tuple[str, Sequence[Point]], title: str = "Recruits") -> Figure:
    note = FigureNote(kind=kind, title=title, x_label="recruits" if kind == "line" else "")
    return Figure(note, tuple((name, tuple(points)) for name, points in lines))


def words(root: ET.Element) -> list[str]:
    """What is written, without what a pointer shows."""
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def center(root: ET.Element, title: str) -> tuple[float, float]:
    """The place of a point, by the beginning of the words under a pointer."""
    for sign in root.iter(f"{SVG}circle"):
        if (shown := sign.find(f"{SVG}title")) is not None and (shown.text or "").startswith(title):
            return float(sign.attrib["cx"]), float(sign.attrib["cy"])
    raise AssertionError(title)


def whiskers(root: ET.Element) -> list[list[float]]:
    paths = [each.attrib["d"] for each in root.iter(f"{SVG}path")]
    return [[float(each) for each in re.findall(r"-?[\d.]+", path)] for path in paths]


def test_rows_have_a_point_and_an_interval_on_one_scale() -> None:
    groups = (
        ("SciFact", [point("small", 0.2), point("strong", 0.4)]),
        ("Touche", [point("small", 0.1), point("strong", 0.3)]),
    )
    root = ET.fromstring(render_svg(figure("bars", *groups)))
    numbers = ET.fromstring(render_svg(figure("line", ("SciFact", [point(1.0, 0.2)]))))
    assert "SciFact, 1: 0.200 (0.150 to 0.250)" in [x.text for x in numbers.iter(f"{SVG}title")]
    places = [center(root, f"{g}, {n}: ") for g, of in groups for n, _ in of]
    step = places[0][0] - places[2][0]  # 0.2, 0.4, 0.1, 0.3: an equal step for each tenth
    assert step > 20
    assert [x - places[2][0] for x, _ in places] == pytest.approx(
        [step, 3 * step, 0, 2 * step], 0.01
    )
    x, y = places[0]
    assert pytest.approx([x - step / 2, y, x + step / 2, y], abs=0.1) in whiskers(root)
    assert [each for each in words(root) if re.fullmatch(r"0\.\d{3}", each)] == [
        *("0.200", "0.400", "0.100", "0.300")
    ]


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_a_figure_is_a_file_of_its_own_and_names_are_text(kind: Kind) -> None:
    x: float | str = 1 if kind == "line" else HOSTILE
    of = figure(kind, (HOSTILE, [point(x, 0.5)]), title=HOSTILE)
    text = render_svg(of)
    assert text == render_svg(of)
    root = ET.fromstring(text)
    kinds = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert kinds <= {"svg", "style", "rect", "path", "circle", "text", "title"}
    assert words(root)[0].startswith("</text><script>alert(1)</script>")
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert text.encode()
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert "0.500" in root.attrib["aria-label"]
    (style,) = (each.text for each in root.iter(f"{SVG}style"))
    assert style == STYLE
    assert "<style>" not in render_svg(of, embedded=True)


def test_spread_of_a_product_is_rebels_formula() -> None:
    # √(0.1²·0.2² + 0.9²·0.2² + 4²·0.1²) = √(0.0004 + 0.0324 + 0.16)
    found = Mark(0.9, 0.1).times(Mark(4.0, 0.2))
    assert found.mean == pytest.approx(3.6)
    assert found.sd == pytest.approx(math.sqrt(0.1928))
    assert Mark(0.9, 0.1).times(Mark(4.0)).sd is None


def test_a_scatter_says_its_numbers_and_draws_the_least_squares_line() -> None:
    places = {"a < b": (0, 0), "b": (1, 2), "c": (2, 1)}  # y = 0.5 + 0.5 x
    points = [
        (label, Mark(x), Mark(y), THEIRS * (label == "c")) for label, (x, y) in places.items()
    ]
    points.append(("d", Mark(1, 0.1, Interval(0.5, 1.5)), Mark(1, 0.1, Interval(0.5, 1.5)), 0))
    drawn = scatter(points, "x", "y", [(THEIRS + 1, [(x, y) for _, x, y, _ in points[:3]])])
    label = ET.fromstring(drawn).get("aria-label") or ""
    assert "y against x. a < b 0.000, 0.000; b 1.000, 2.000; c" in label
    assert drawn.count("hollow") == 1
    # An interval is a line and two caps, in both directions; a deviation is a line alone.
    assert (drawn.count('class="whisker s0"'), drawn.count('class="line s0"')) == (6, 2)
    line = re.search(r'd="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)" class="line s1 dashed"', drawn)
    assert line is not None
    x0, y0, x1, y1 = map(float, line.groups())
    dots = [tuple(map(float, each)) for each in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    (ax, ay), _, (cx, cy), _ = dots
    assert (x0, x1) == (ax, cx)
    one = ay - cy  # pixels of one on the y axis
    assert (y0, y1) == pytest.approx((ay - 0.5 * one, ay - 1.5 * one), abs=0.2)


def test_rebels_points_are_those_of_the_paper() -> None:
    """Its blue line goes through five systems, Cohere among them, and falls by 4.91."""
    suite = load_suite("rebel_fig1")
    assert suite.figure is not None
    points = theirs_of(suite.figure, *suite.figure.quality)
    assert len(points) == 7
    for spec in suite.pipelines:
        for judge, value in spec.note.theirs.items() if spec.note else ():
            assert suite.figure.theirs[spec.label][judge] == value
    _, blue = suite.figure.lines
    through = [points[each] for each in blue.through]
    slope, _ = statistics.linear_regression(
        [x.mean for x, _ in through], [y.mean for _, y in through]
    )
    assert slope == pytest.approx(-4.91, abs=0.005)
    assert (points["HyDE"][0].sd, points["HyDE"][1].sd) == (0.006, 0.041)
    # Table 3 of RankRAG, "w/o reranking", NQ: 48.0.
    rankrag = {each.label: each.note for each in load_suite("rankrag_table2").pipelines}
    assert (note := rankrag["Without ranking"]) is not None
    assert note.theirs == {"exact_match": 0.48}
