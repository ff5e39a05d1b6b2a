"""Figures of reports as SVG: lines over a number, and means with their intervals.

A figure is a file of its own that also fits into a page. A pointer over a point shows its numbers.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise, takewhile
from typing import Any

from beir_eval.report.model import Figure, Point
from beir_eval.report.numbers import interval, measure_text
from personas.format import exact
from personas.report.formats import bare, printable
from personas.report.page import asset, environment

WIDTH = 580.0
EDGE = 16.0
SERIES = 8
"""Colours of ``figure.css``; further series take them again, drawn hollow."""
Lines = Sequence[tuple[str, Sequence[Point]]]
"""Name and points of each line, or of each group of rows; none without points."""

_TITLE, _NAME, _TICK, _NOTE = 17.0, 14.0, 13.0, 13.0
_BOLD = 1.12
"""The width of bold text by that of usual text, at most."""
_WHISKERS = "Ties drawn by lot. Whiskers: confidence interval of the mean over queries."
_NOTHING = "No finished run has a place in this figure yet."
_LONGEST = 208.0
"""Pixels of a name, at most; less in a narrow figure."""
_ROW, _LINE, _MOST_LINES = 26.0, 16.0, 3
_LEAST_HEIGHT, _NAMES_APART, _LEADER = 300.0, 19.0, 28.0
_MOST_TICKS_AT_VALUES = 12
_LEAST_SPAN = 1e-6
_NARROW, _WIDE = frozenset("ijltfrI.,:;|!'()[]{}-/ "), frozenset("mwMW@%<>=+~")


def render_svg(
    figure: Figure, *, measure: str = "nDCG@10", width: float = WIDTH, embedded: bool = False
) -> str:
    """Return the figure as SVG; the same figure gives the same file, byte for byte."""
    drawing = Drawing(width)
    size = _TITLE if width >= WIDTH else _NAME
    top = EDGE + size
    for line in wrapped(figure.note.title, (width - 2 * EDGE) / _BOLD, size, 3):
        drawing.text(EDGE, top, line, size=size, bold=True)
        top += 1.35 * size
    lines = [(name, found) for name, found in figure.lines if found]
    if not lines:
        drawing.text(EDGE, top + 12, _NOTHING, tone="muted")
        return drawing.finished(top + 36, f"{figure.note.title}: {_NOTHING}", embedded=embedded)
    draw = _draw_lines if figure.note.kind == "line" else _draw_rows
    bottom = draw(drawing, lines, top, measure, figure.note.x_label)
    if not embedded:
        bottom += 22
        drawing.text(EDGE, bottom, _WHISKERS, size=_NOTE, tone="muted")
    said = "; ".join(
        (f"{name}: " if name else "")
        + ", ".join(f"{_at(each)} {measure_text(each.value)}" for each in found)
        for name, found in lines
    )
    label = f"{figure.note.title}. {measure}. {said}."
    return drawing.finished(bottom + EDGE, label, embedded=embedded)


class Drawing:
    """Paths in the order in which they are painted, and the words over them; in pixels."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.paths: list[dict[str, str]] = []
        self.texts: list[dict[str, Any]] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = _NAME,
        tone: str = "ink",
        anchor: str = "start",
        bold: bool = False,
        full: str = "",
    ) -> None:
        """Add words whose base line is `y`; `full` is what a pointer over them shows."""
        self.texts.append(
            {"x": _n(x), "y": _n(y), "words": words, "size": _n(size), "tone": tone}
            | {"anchor": anchor, "bold": bold, "full": full if full != words else ""}
        )

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Add a line through `points`; `kind` is its classes in ``figure.css``."""
        way = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self.paths.append({"d": f"M{way}", "kind": kind})

    def rules(
        self,
        ticks: Sequence[float],
        at: Callable[[float], float],
        ends: tuple[float, float],
        *,
        size: float = _TICK,
        upright: bool = False,
    ) -> None:
        """Add a rule at each tick, from one end to the other, and its number before or below."""
        for tick in ticks:
            start, end = ((at(tick), each) if upright else (each, at(tick)) for each in ends)
            self.path([start, end], "rule")
            x, y = (end[0], end[1] + 18) if upright else (start[0] + 5 - size, start[1] + 4)
            anchor = "middle" if upright else "end"
            self.text(x, y, _number(tick), size=size, anchor=anchor, tone="muted")

    def whisker(self, start: tuple[float, float], end: tuple[float, float], series: int) -> None:
        """Add an interval with caps, horizontal or upright."""
        across, along = (0, 4) if start[1] == end[1] else (3, 0)
        caps = [[(x - across, y - along), (x + across, y + along)] for x, y in (start, end)]
        for points in ([start, end], *caps):
            self.path(points, f"whisker s{series % SERIES}")

    def dot(self, x: float, y: float, series: int, name: str = "", of: Point | None = None) -> None:
        """Add the sign of a series; a pointer over it shows the name and the numbers of a point."""
        ends = of and interval(of.interval.low, of.interval.high)
        title = f"{name}: {measure_text(of.value)} ({ends})" if of else ""
        hollow = " hollow" if series >= SERIES else ""
        kind = f"dot s{series % SERIES}{hollow}"
        self.paths.append({"x": _n(x), "y": _n(y), "kind": kind, "title": title})

    def finished(self, height: float, label: str, *, embedded: bool) -> str:
        """Return the file; `label` is read out in place of the figure."""
        style = "" if embedded else asset("figure.css", "beir_eval")
        return printable(
            environment("beir_eval")
            .get_template("templates/figure.svg")
            .render(drawing=self, width=_n(self.width), height=_n(height), label=label, style=style)
        )


def _draw_rows(drawing: Drawing, groups: Lines, top: float, scale: str, x_label: str) -> float:
    """Draw a row for each point, group under group; return where the drawing ends."""
    every = [point for _, points in groups for point in points]
    names = list(dict.fromkeys(_at(point) for point in every))
    width = drawing.width
    room = min(_LONGEST, 0.36 * width, max(width_of(name, _NAME) for name in names) + 4)
    left, right = EDGE + room + 14, width - EDGE - 62
    ticks = _value_ticks(every, most=max(3, int((right - left) / 48)))
    lines_of = {name: wrapped(name, room, _NAME, _MOST_LINES) for name in names}
    heights = {name: max(_ROW, _LINE * len(lines) + 6) for name, lines in lines_of.items()}

    x = partial(scaled, between=ticks, onto=(left, right))
    y = top - 6
    for group, points in groups:
        if group:
            fitting = cut_to(group, (width - 2 * EDGE) / _BOLD, _NAME)
            drawing.text(EDGE, y + 15, fitting, bold=True, full=group)
            y += 24
        below = y + sum(heights[_at(point)] for point in points)
        for tick in ticks:
            drawing.path([(x(tick), y), (x(tick), below)], "rule")
        for point in points:
            name = _at(point)
            middle = y + heights[name] / 2
            for place, line in enumerate(lines_of[name]):
                base = middle + 4.5 + _LINE * (place - (len(lines_of[name]) - 1) / 2)
                drawing.text(left - 14, base, line, anchor="end", full=name)
            low, high, series = x(point.interval.low), x(point.interval.high), names.index(name)
            drawing.whisker((low, middle), (high, middle), series)
            drawing.dot(
                x(point.value), middle, series, f"{group}, {name}" if group else name, point
            )
            drawing.text(width - EDGE, middle + 4.5, measure_text(point.value), anchor="end")
            y += heights[name]
        y += 10
    for tick in ticks:
        drawing.text(x(tick), y + 8, _number(tick), size=_TICK, anchor="middle", tone="muted")
    words = f"{scale}, {x_label}" if x_label else scale
    drawing.text(left, y + 29, cut_to(words, width - EDGE - left, _NAME), full=words)
    return y + 33


def _draw_lines(drawing: Drawing, lines: Lines, top: float, scale: str, x_label: str) -> float:
    """Draw values over numbers; return where the drawing ends."""
    drawing.text(EDGE, top + 4, cut_to(scale, drawing.width / 2, _TICK), size=_TICK)
    every = [point for _, points in lines for point in points]
    ticks = _value_ticks(every)
    room = min(160.0, max(width_of(name, _NAME) for name, _ in lines) + 4)
    names_at = drawing.width - EDGE - room
    left = EDGE + max(width_of(_number(tick), _TICK) for tick in ticks) + 10
    right, top = names_at - _LEADER, top + 22
    bottom = top + max(_LEAST_HEIGHT, _NAMES_APART * len(lines))
    numbers = sorted({float(point.x) for point in every})
    y = partial(scaled, between=ticks, onto=(bottom, top))

    def x(at: float) -> float:
        if len(numbers) == 1:
            return (left + right) / 2
        pad = min(40.0, (right - left) / 8)
        return scaled(at, numbers, (left + pad, right - pad))

    drawing.rules(ticks, y, (left, right))
    drawing.path([(left, bottom), (right, bottom)], "axis")
    shown = numbers
    if len(numbers) > _MOST_TICKS_AT_VALUES:
        shown = [tick for tick in nice_ticks(numbers, 9) if numbers[0] <= tick <= numbers[-1]]
    taken = 0.0
    for tick in shown:
        half = width_of(_number(tick), _TICK) / 2
        drawing.path([(x(tick), bottom), (x(tick), bottom + 5)], "axis")
        if x(tick) - half >= taken:
            taken = x(tick) + half + 6
            base = bottom + 19
            drawing.text(x(tick), base, _number(tick), size=_TICK, anchor="middle", tone="muted")
    words = cut_to(x_label, right - left, _NAME)
    drawing.text((left + right) / 2, bottom + 40, words, anchor="middle", full=x_label)

    # Points of one number are side by side, so that their intervals do not cover each other.
    nearest = min((x(b) - x(a) for a, b in pairwise(numbers)), default=40.0)
    step = min(5.0, 0.5 * nearest / len(lines))
    ends = []
    for series, (name, points) in enumerate(lines):
        aside = step * (series - (len(lines) - 1) / 2)
        ordered = sorted(points, key=lambda point: float(point.x))
        places = [(x(float(point.x)) + aside, y(point.value)) for point in ordered]
        for (at, _), point in zip(places, ordered, strict=True):
            low, high = y(point.interval.low), y(point.interval.high)
            drawing.whisker((at, low), (at, high), series)
        drawing.path(places, f"line s{series % SERIES}{' dashed' if series >= SERIES else ''}")
        for (at, height), point in zip(places, ordered, strict=True):
            drawing.dot(at, height, series, f"{name}, {_at(point)}", point)
        ends.append(places[-1])
    wanted = [height for _, height in ends]
    for series, at in enumerate(spread(wanted, _NAMES_APART, top, bottom)):
        name, (end_x, end_y) = lines[series][0], ends[series]
        leader = [(end_x + 8, end_y), (right, end_y), (names_at - 17, at)]
        drawing.path(leader, f"leader s{series % SERIES}")
        drawing.dot(names_at - 9, at, series)
        drawing.text(names_at, at + 4.5, cut_to(name, room, _NAME), full=name)
    return bottom + (46 if x_label else 26)


def _value_ticks(points: Sequence[Point], most: int = 7) -> list[float]:
    """Round numbers around all intervals, within 0 and 1."""
    low = min(min(p.value, p.interval.low) for p in points)
    high = max(max(p.value, p.interval.high) for p in points)
    if high - low < 0.01:
        low, high = low - 0.005, high + 0.005
    return nice_ticks((max(0.0, low), min(1.0, high)), most)


def nice_ticks(values: Collection[float], most: int = 7) -> list[float]:
    """Return at most `most` round numbers, evenly apart, that enclose the values."""
    low, high = min(values), max(values)
    if high - low < _LEAST_SPAN:
        low, high = low - 0.5, high + 0.5
    power = math.floor(math.log10((high - low) / (most - 1)))
    for exponent in (power, power + 1):
        for factor in (1, 2, 2.5, 5):
            step = factor * 10.0**exponent
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first < most:
                return [round(step * k, 10) for k in range(first, last + 1)]
    return [low, high]


def scaled(value: float, between: Sequence[float], onto: tuple[float, float]) -> float:
    """Map `value` from the range of the first to the last of some numbers onto another one."""
    low, high = between[0], between[-1]
    return onto[0] + (value - low) / (high - low) * (onto[1] - onto[0])


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Return the places nearest to `wanted`, in their order, `apart` from each other."""
    order = sorted(range(len(wanted)), key=lambda place: (wanted[place], place))
    found = list(wanted)
    edge = low
    for place in order:
        found[place] = edge = max(found[place], edge)
        edge += apart
    edge = max(high, low + apart * (len(wanted) - 1))
    for place in reversed(order):
        found[place] = edge = min(found[place], edge)
        edge -= apart
    return found


def width_of(text: str, size: float) -> float:
    """Estimate the width of a text in a common sans-serif, in pixels; rather more than less."""
    return size * sum(map(_share, text))


def cut_to(text: str, room: float, size: float) -> str:
    """Return the text on one line, cut with an ellipsis to fit into `room` pixels."""
    text = bare(text)
    if width_of(text, size) <= room:
        return text
    widths = accumulate(size * _share(sign) for sign in text)
    kept = takewhile(lambda each: each[1] <= room - size, zip(text, widths, strict=True))
    return "".join(sign for sign, _ in kept).rstrip() + "…"


def wrapped(text: str, room: float, size: float, lines: int) -> list[str]:
    """Return the text on at most `lines` lines of `room` pixels, the last one cut."""
    words = bare(text).split()
    found: list[str] = []
    while words and len(found) < lines - 1:
        count = 1
        while count < len(words) and width_of(" ".join(words[: count + 1]), size) <= room:
            count += 1
        found.append(cut_to(" ".join(words[:count]), room, size))
        words = words[count:]
    return [*found, cut_to(" ".join(words), room, size)] if words else found


@lru_cache(maxsize=4096)
def _share(sign: str) -> float:
    if unicodedata.combining(sign):
        return 0.0
    if unicodedata.east_asian_width(sign) in "WF":
        return 1.0
    usual = 0.72 if sign.isupper() else 0.6
    return 0.36 if sign in _NARROW else 0.95 if sign in _WIDE else usual


def _at(point: Point) -> str:
    return point.x if isinstance(point.x, str) else _number(point.x)


def _number(value: float) -> str:
    return exact(round(value, 6))


def _n(number: float) -> str:
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
