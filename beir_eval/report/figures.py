"""Figures of reports as SVG: lines over a number, and bars by data set.

A figure is a file of its own that also stands within a page. It shows the values,
each with its confidence interval; a pointer over a point or a bar shows its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from beir_eval.report.drawing import (
    BOLD,
    EDGE,
    WIDTH,
    Drawing,
    Lines,
    cut_to,
    nice_ticks,
    number,
    scaled,
    spread,
    told,
    width_of,
    wrapped,
)
from beir_eval.report.model import Figure, Point
from beir_eval.report.numbers import measure_text

_TITLE, _NOTE = 17.0, 13.0
_WHISKERS = "Ties drawn by lot. Whiskers: confidence interval of the mean over queries."
_NOTHING = "No finished run has a place in this figure yet."
_NAME, _TICK = 14.0, 13.0
_LONGEST_BAR, _LONGEST_LINE = 208.0, 160.0
"""Pixels of a name beside a bar, and at the end of a line."""
_VALUES = 52.0
_GROUP, _GROUPS_APART = 24.0, 10.0
_ROW, _LINE, _MOST_LINES = 26.0, 16.0, 3
_THICK = 16.0
_LEAST_HEIGHT = 300.0
_NAMES_APART = 19.0
_LEADER = 28.0
_MOST_TICKS_AT_VALUES = 12
_MOST_ASIDE = 5.0


def render_svg(figure: Figure, *, measure: str = "nDCG@10") -> str:
    """The figure as an SVG file.

    The same figure gives the same file, byte for byte. Names that are too long are cut; the
    whole name shows under a pointer. Lines have a colour and a marker by their place, bars the
    colour of their name.

    Args:
        figure: what to draw; its values are 0 to 1.
        measure: what the values are of, for the axis.
    """
    drawing = Drawing()
    top = EDGE + _TITLE
    for line in wrapped(figure.note.title, (WIDTH - 2 * EDGE) / BOLD, _TITLE, 3):
        drawing.text(EDGE, top, line, size=_TITLE, bold=True)
        top += 1.35 * _TITLE
    lines = [(name, found) for name, found in figure.lines if found]
    if not lines:
        drawing.text(EDGE, top + 12, _NOTHING, tone="muted")
        return drawing.finished(top + 36, f"{figure.note.title}: {_NOTHING}")
    draw = _draw_bars if figure.note.kind == "bars" else _draw_lines
    bottom = draw(drawing, lines, top, measure, figure.note.x_label)
    drawing.text(EDGE, bottom + 22, _WHISKERS, size=_NOTE, tone="muted")
    return drawing.finished(bottom + 22 + EDGE, _in_words(figure.note.title, lines, measure))


def _in_words(title: str, lines: Lines, scale: str) -> str:
    """What is read out in place of the figure: all its values."""
    told = []
    for name, found in lines:
        values = [
            f"{each.x if isinstance(each.x, str) else number(each.x)} {measure_text(each.value)}"
            for each in found
        ]
        told.append(f"{name}: {', '.join(values)}")
    return f"{title}. {scale}. {'; '.join(told)}."


def _draw_bars(drawing: Drawing, groups: Lines, top: float, scale: str, x_label: str) -> float:
    """Draw below `top`, group under group; where the drawing ends, in pixels."""
    every = [point for _, points in groups for point in points]
    names = list(dict.fromkeys(str(point.x) for point in every))
    room = min(_LONGEST_BAR, max(width_of(name, _NAME) for name in names) + 4)
    left, right = EDGE + room + 10, WIDTH - EDGE - _VALUES
    most = max(max(point.value, point.interval.high) for point in every)
    ticks = nice_ticks(0, max(0.01, most))
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
        return scaled(value, (0, most), (left, right))

    box = (left, middle - _THICK / 2, max(x(point.value) - left, 0.5), _THICK)
    drawing.bar(box, series, title=f"{group}, {point.x}: {told(point)}")
    drawing.whisker(x(point.interval.low), x(point.interval.high), middle, 4)
    value = measure_text(point.value)
    drawing.text(WIDTH - EDGE, middle + 4.5, value, size=_NAME, anchor="end")


@dataclass(frozen=True, slots=True)
class _Plot:
    """Where numbers lie: edges in pixels, and what stands there."""

    left: float
    right: float
    top: float
    bottom: float
    ticks: tuple[float, ...]
    numbers: tuple[float, ...]

    def y(self, value: float) -> float:
        """Of a value of 0 to 1."""
        return scaled(value, (self.ticks[0], self.ticks[-1]), (self.bottom, self.top))

    def x(self, at: float) -> float:
        low, high = self.numbers[0], self.numbers[-1]
        if low == high:
            return (self.left + self.right) / 2
        pad = min(40.0, (self.right - self.left) / 8)
        return scaled(at, (low, high), (self.left + pad, self.right - pad))

    def aside(self, lines: int) -> float:
        """How far the lines stand apart, so that their intervals do not cover each other."""
        nearest = min((self.x(b) - self.x(a) for a, b in pairwise(self.numbers)), default=40.0)
        return min(_MOST_ASIDE, 0.5 * nearest / lines)


def _draw_lines(drawing: Drawing, lines: Lines, top: float, scale: str, x_label: str) -> float:
    """Draw below `top`, values over numbers; where the drawing ends, in pixels."""
    drawing.text(EDGE, top + 4, cut_to(scale, WIDTH / 2, _TICK), size=_TICK)
    every = [point for _, points in lines for point in points]
    ticks = _value_ticks(every)
    room = min(_LONGEST_LINE, max(width_of(name, _NAME) for name, _ in lines) + 4)
    names_at = WIDTH - EDGE - room
    plot = _Plot(
        left=EDGE + max(width_of(number(tick), _TICK) for tick in ticks) + 10,
        right=names_at - _LEADER,
        top=top + 22,
        bottom=top + 22 + max(_LEAST_HEIGHT, _NAMES_APART * len(lines)),
        ticks=tuple(ticks),
        numbers=tuple(sorted({float(point.x) for point in every})),
    )
    for tick in ticks:
        y = plot.y(tick)
        drawing.rule((plot.left, y), (plot.right, y))
        drawing.text(plot.left - 8, y + 4, number(tick), size=_TICK, anchor="end", tone="muted")
    _draw_axis(drawing, plot, x_label)
    places = _draw_series(drawing, plot, lines)
    wanted = [found[-1][1] for found in places]
    for series, y in enumerate(spread(wanted, _NAMES_APART, plot.top, plot.bottom)):
        name, (end_x, end_y) = lines[series][0], places[series][-1]
        leader = [(end_x + 8, end_y), (plot.right, end_y), (names_at - 17, y)]
        drawing.line(leader, series, width=1, dash="1.5 3", opacity=0.8)
        drawing.marker(names_at - 9, y, series)
        drawing.text(names_at, y + 4.5, cut_to(name, room, _NAME), size=_NAME, full=name)
    return plot.bottom + (46 if x_label else 26)


def _draw_series(drawing: Drawing, plot: _Plot, lines: Lines) -> list[list[tuple[float, float]]]:
    """Draw intervals, then lines, then markers on top; where the points of each line are."""
    step = plot.aside(len(lines))
    ordered = [sorted(points, key=lambda point: float(point.x)) for _, points in lines]
    places = []
    for series, points in enumerate(ordered):
        aside = step * (series - (len(lines) - 1) / 2)
        places.append([(plot.x(float(p.x)) + aside, plot.y(p.value)) for p in points])
        for (x, _), point in zip(places[-1], points, strict=True):
            low, high = plot.y(point.interval.low), plot.y(point.interval.high)
            for ends in (
                ((x, low), (x, high)),
                ((x - 3, low), (x + 3, low)),
                ((x - 3, high), (x + 3, high)),
            ):
                drawing.line(ends, series, width=1.3, dash="none", opacity=0.55)
    for series, found in enumerate(places):
        drawing.line(found, series)
    for series, (name, _) in enumerate(lines):
        for (x, y), point in zip(places[series], ordered[series], strict=True):
            drawing.marker(x, y, series, title=f"{name}, {number(float(point.x))}: {told(point)}")
    return places


def _draw_axis(drawing: Drawing, plot: _Plot, label: str) -> None:
    """Ticks at the numbers themselves, or at round ones where there are many."""
    low, high = plot.numbers[0], plot.numbers[-1]
    ticks: Sequence[float] = plot.numbers
    if len(ticks) > _MOST_TICKS_AT_VALUES:
        ticks = [tick for tick in nice_ticks(low, high, 9) if low <= tick <= high]
    drawing.rule((plot.left, plot.bottom), (plot.right, plot.bottom), axis=True)
    taken = 0.0
    for tick in ticks:
        x, words = plot.x(tick), number(tick)
        drawing.rule((x, plot.bottom), (x, plot.bottom + 5), axis=True)
        half = width_of(words, _TICK) / 2
        if x - half >= taken:
            drawing.text(x, plot.bottom + 19, words, size=_TICK, anchor="middle", tone="muted")
            taken = x + half + 6
    words = cut_to(label, plot.right - plot.left, _NAME)
    middle = (plot.left + plot.right) / 2
    drawing.text(middle, plot.bottom + 40, words, size=_NAME, anchor="middle", full=label)


def _value_ticks(points: Sequence[Point]) -> list[float]:
    """Round numbers around all intervals, within 0 and 1."""
    low = min(min(p.value, p.interval.low) for p in points)
    high = max(max(p.value, p.interval.high) for p in points)
    if high - low < 0.01:
        low, high = low - 0.005, high + 0.005
    return nice_ticks(max(0.0, low), min(1.0, high))
