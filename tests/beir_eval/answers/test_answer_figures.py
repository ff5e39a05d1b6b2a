"""Figures of pipelines, by the numbers that a pointer and a screen reader are given."""

from __future__ import annotations

import math
import re
import statistics
from xml.etree import ElementTree

import pytest

from beir_eval.answers.figures import THEIRS, Mark, Value, boxes, effects, read_runs, scatter
from beir_eval.answers.report import theirs_of
from beir_eval.experiment.suite import load_suite, others_runs
from beir_eval.measures.anova import anova
from beir_eval.measures.values import Interval


def test_spread_of_a_product_is_rebels_formula() -> None:
    # √(0.1²·0.2² + 0.9²·0.2² + 4²·0.1²) = √(0.0004 + 0.0324 + 0.16)
    found = Value(0.9, 0.1).times(Value(4.0, 0.2))
    assert found.mean == pytest.approx(3.6)
    assert found.sd == pytest.approx(math.sqrt(0.1928))
    assert Value(0.9, 0.0).times(Value(4.0, 0.0)).sd == 0
    assert Value(0.9, 0.1).times(Value(4.0)).sd is None


def test_a_line_is_the_least_squares_line() -> None:
    places = {"a": (0, 0), "b": (1, 2), "c": (2, 1)}  # y = 0.5 + 0.5 x
    marks = [Mark(label, Value(x), Value(y)) for label, (x, y) in places.items()]
    drawn = scatter(marks, "x", "y", [(THEIRS + 1, marks)])
    line = re.search(r'd="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)" class="line s1 dashed"', drawn)
    assert line is not None
    x0, y0, x1, y1 = map(float, line.groups())
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)
    (ax, ay), _, (cx, cy) = [(float(x), float(y)) for x, y in dots]
    assert (x0, x1) == (ax, cx)
    one = (ay - cy) / 1  # pixels of one on the y axis
    assert y0 == pytest.approx(ay - 0.5 * one, abs=0.2)
    assert y1 == pytest.approx(ay - 1.5 * one, abs=0.2)


def test_a_figure_is_xml_and_says_its_numbers() -> None:
    marks = [
        Mark("a < b", Value(0.5, 0.01, Interval(0.4, 0.6)), Value(4, 0.1, Interval(3.5, 4.5))),
        Mark("theirs", Value(0.9), Value(4.2), THEIRS),
    ]
    drawn = scatter(marks, "precision", "similarity")
    label = ElementTree.fromstring(drawn).get("aria-label") or ""
    assert "similarity against precision. a < b 0.500, 4.000; theirs 0.900, 4.200." in label
    assert drawn.count("hollow") == 1
    # An interval is a line and two caps, in both directions; a deviation is a line alone.
    assert drawn.count('class="whisker s0"') == 6
    assert drawn.count('class="line s0"') == 2


def test_boxes_have_the_median_of_the_runs() -> None:
    drawn = boxes({"ours": [1.0, 2.0, 3.0, 10.0], "theirs": [4.0, 4.0]}, "score", theirs=1)
    assert "ours: median 2.500, 4 runs; theirs: median 4.000, 2 runs" in drawn
    assert 'class="line s0"' in drawn
    assert 'class="line s5"' in drawn


def test_effects_show_the_means_by_level() -> None:
    pytest.importorskip("statsmodels")
    table = [
        {"a": a, "b": b, "y": y}
        for a, b, y in (("l", "p", 1.0), ("l", "q", 2.0), ("m", "p", 3.0), ("m", "q", 7.0)) * 2
    ]
    table[0]["y"] = 1.2
    drawn = effects(anova(table, "y ~ C(a)*C(b)"))
    label = ElementTree.fromstring(drawn).get("aria-label") or ""
    assert "a: l 1.550, m 5.000" in label
    assert "l / p 1.100, m / p 3.000, l / q 2.000, m / q 7.000" in label


def test_aragogs_runs_come_with_the_suite() -> None:
    figure = load_suite("rebel_fig1").figure
    assert figure is not None
    found = read_runs(others_runs(figure.runs))
    assert {*found} == {"retrieval_precision", "answer_similarity"}
    for systems in found.values():
        assert len(systems) == 16
        assert {len(values) for values in systems.values()} == {10}


def test_rebels_points_are_those_of_the_paper() -> None:
    """Its blue line goes through five systems, Cohere among them, and falls by 4.91."""
    suite = load_suite("rebel_fig1")
    assert suite.figure is not None
    x, y = suite.figure.quality
    points = theirs_of(suite.figure, x, y)
    assert len(points) == 7
    for spec in suite.pipelines:
        for judge, value in spec.note.theirs.items() if spec.note else ():
            assert suite.figure.theirs[spec.label][judge] == value
    _, blue = suite.figure.lines
    through = [points[each] for each in blue.through]
    slope, _ = statistics.linear_regression(
        [each.x.mean for each in through], [each.y.mean for each in through]
    )
    assert slope == pytest.approx(-4.91, abs=0.005)
    assert (points["HyDE"].x.sd, points["HyDE"].y.sd) == (0.006, 0.041)
    # Table 3 of RankRAG, "w/o reranking", NQ: 48.0.
    rankrag = {each.label: each.note for each in load_suite("rankrag_table2").pipelines}
    assert (note := rankrag["Without ranking"]) is not None
    assert note.theirs == {"exact_match": 0.48}
