"""Figures without a number across: a group of bars a data set, each with its name and value.

Bars lie, so that names as long as "strong model writes, small model scores" can be read.
"""

from __future__ import annotations

from beir_eval.report.figure_parts import (
    BOLD,
    EDGE,
    WIDTH,
    Drawing,
    Lines,
    cut_to,
    nice_ticks,
    number,
    scaled,
    told,
    width_of,
    wrapped,
)
from beir_eval.report.model import Point
from beir_eval.report.numbers import points as times_100

__all__ = ["draw_bars"]

_NAME, _TICK = 14.0, 13.0
_LONGEST_NAME = 208.0
_VALUES = 52.0
_GROUP, _GROUPS_APART = 24.0, 10.0
_ROW, _LINE, _MOST_LINES = 26.0, 16.0, 3
_THICK = 16.0


def draw_bars(drawing: Drawing, groups: Lines, top: float, scale: str, x_label: str) -> float:
    """Draw below `top`, group under group; where the drawing ends, in pixels."""
    every = [point for _, points in groups for point in points]
    names = list(dict.fromkeys(str(point.x) for point in every))
    room = min(_LONGEST_NAME, max(width_of(name, _NAME) for name in names) + 4)
    left, right = EDGE + room + 10, WIDTH - EDGE - _VALUES
    most = 100 * max(max(point.value, point.interval.high) for point in every)
    ticks = nice_ticks(0, max(1.0, most))
    lines_of = {name: wrapped(name, room, _NAME, _MOST_LINES) for name in names}
    heights = {name: max(_ROW, _LINE * len(lines) + 6) for name, lines in lines_of.items()}
    y = top + 4
    for group, points in groups:
        fitting = cut_to(group, (WIDTH - 2 * EDGE) / BOLD, _NAME)
        drawing.text(EDGE, y + 15, fitting, size=_NAME, bold=True, full=group)
        y += _GROUP
        below = y + sum(heights[str(point.x)] for point in points)
        for tick in ticks:
            x = scaled(tick, (0, ticks[-1]), (left, right))
            drawing.rule((x, y), (x, below), axis=tick == 0)
        for point in points:
            name = str(point.x)
            middle = y + heights[name] / 2
            for place, line in enumerate(lines_of[name]):
                base = middle + 4.5 + _LINE * (place - (len(lines_of[name]) - 1) / 2)
                drawing.text(left - 10, base, line, size=_NAME, anchor="end", full=name)
            _draw_bar(drawing, point, group, names.index(name), (left, right, middle, ticks[-1]))
            y += heights[name]
        y += _GROUPS_APART
    for tick in ticks:
        x = scaled(tick, (0, ticks[-1]), (left, right))
        drawing.text(x, y + 10, number(tick), size=_TICK, anchor="middle", tone="muted")
    words = f"{scale}, {x_label}" if x_label else scale
    drawing.text(left, y + 31, cut_to(words, WIDTH - EDGE - left, _NAME), full=words)
    return y + 35


def _draw_bar(
    drawing: Drawing,
    point: Point,
    group: str,
    series: int,
    place: tuple[float, float, float, float],
) -> None:
    """One bar with its interval and value; `place`: left, right, middle, and what is at right."""
    left, right, middle, most = place

    def x(value: float) -> float:
        return scaled(100 * value, (0, most), (left, right))

    box = (left, middle - _THICK / 2, max(x(point.value) - left, 0.5), _THICK)
    drawing.bar(box, series, title=f"{group}, {point.x}: {told(point)}")
    drawing.whisker(x(point.interval.low), x(point.interval.high), middle, 4)
    value = times_100(point.value)
    drawing.text(WIDTH - EDGE, middle + 4.5, value, size=_NAME, anchor="end")
