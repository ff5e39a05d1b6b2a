"""Figures of reports as SVG: means with their intervals, and one judge by another.

A figure is a file of its own that also fits into a page. A pointer over a point shows its numbers.
"""

from __future__ import annotations

import math
import statistics
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from beir_eval.experiment.run_folder import FigureNote
from beir_eval.measures.values import Interval, Values
from beir_eval.report.model import Figure
from beir_eval.report.tables import interval, measure_text
from personas.format import exact
from personas.report.formats import bare, printable
from personas.report.page import asset, environment

WIDTH = 580.0
SERIES = 8
"""Colours of ``figure.css``; further series take them again, drawn hollow."""
THEIRS = SERIES
"""Series of values of a paper: drawn hollow."""

_EDGE, _NAME, _TICK, _ROW = 16.0, 14.0, 13.0, 26.0
_WHISKERS = "Ties drawn by lot. Whiskers: 95% confidence interval of the mean over queries."
_Lines = Sequence[tuple[str, Sequence[tuple[float | str, Values]]]]


def render_svg(
    figure: Figure, *, measure: str = "nDCG@10", width: float = WIDTH, embedded: bool = False
) -> str:
    """Return the figure as SVG; the same figure gives the same file, byte for byte."""
    drawing, title = Drawing(width), figure.note.title
    drawing.text(_EDGE, 33, cut_to(title, width - 2 * _EDGE, 16), size=16, bold=True, full=title)
    bottom = _draw_rows(drawing, figure.lines, 56.0, measure, figure.note.x_label)
    if not embedded:
        bottom += 22
        drawing.text(_EDGE, bottom, _WHISKERS, size=_TICK, tone="muted")
    said = "; ".join(
        (f"{name}: " if name else "")
        + ", ".join(f"{_at(x)} {measure_text(of.by_lot)}" for x, of in points)
        for name, points in figure.lines
    )
    return drawing.finished(bottom + _EDGE, f"{title}. {measure}. {said}.", embedded=embedded)


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
        upright: bool = False,
    ) -> None:
        """Add a rule at each tick, from one end to the other, and its number before or below."""
        for tick in ticks:
            start, end = ((at(tick), each) if upright else (each, at(tick)) for each in ends)
            self.path([start, end], "rule")
            x, y = (end[0], end[1] + 18) if upright else (start[0] - 8, start[1] + 4)
            anchor = "middle" if upright else "end"
            self.text(x, y, _number(tick), size=_TICK, anchor=anchor, tone="muted")

    def whisker(self, start: tuple[float, float], end: tuple[float, float], series: int) -> None:
        """Add an interval with caps, horizontal or upright."""
        across, along = (0, 4) if start[1] == end[1] else (3, 0)
        caps = [[(x - across, y - along), (x + across, y + along)] for x, y in (start, end)]
        for points in ([start, end], *caps):
            self.path(points, f"whisker s{series % SERIES}")

    def dot(self, x: float, y: float, series: int, title: str = "") -> None:
        """Add the sign of a series; a pointer over it shows the title."""
        kind = f"dot s{series % SERIES}{' hollow' if series >= SERIES else ''}"
        self.paths.append({"x": _n(x), "y": _n(y), "kind": kind, "title": title})

    def finished(self, height: float, label: str, *, embedded: bool) -> str:
        """Return the file; `label` is read out in place of the figure."""
        style = "" if embedded else asset("figure.css", "beir_eval")
        return printable(
            environment("beir_eval")
            .get_template("templates/figure.svg")
            .render(drawing=self, width=_n(self.width), height=_n(height), label=label, style=style)
        )


def _draw_rows(drawing: Drawing, groups: _Lines, top: float, scale: str, x_label: str) -> float:
    """Draw a row for each point, group under group; return where the drawing ends."""
    every = [point for _, points in groups for point in points]
    names = list(dict.fromkeys(_at(x) for x, _ in every))
    width = drawing.width
    room = min(208.0, 0.36 * width, max(width_of(name, _NAME) for name in names) + 4)
    left, right = _EDGE + room + 14, width - _EDGE - 62
    ticks = _value_ticks([of for _, of in every], most=max(3, int((right - left) / 48)))
    at = partial(scaled, between=ticks, onto=(left, right))
    y = top - 6
    for group, points in groups:
        if group:
            drawing.text(_EDGE, y + 15, cut_to(group, width - 2 * _EDGE, _NAME), full=group)
            y += 24
        for tick in ticks:
            drawing.path([(at(tick), y), (at(tick), y + _ROW * len(points))], "rule")
        for x, of in points:
            name, middle, series = _at(x), y + _ROW / 2, names.index(_at(x))
            drawing.text(
                left - 14, middle + 4.5, cut_to(name, room, _NAME), anchor="end", full=name
            )
            low, high = of.interval.low, of.interval.high
            drawing.whisker((at(low), middle), (at(high), middle), series)
            title = _title(f"{group}, {name}" if group else name, of)
            drawing.dot(at(of.by_lot or 0.0), middle, series, title)
            drawing.text(width - _EDGE, middle + 4.5, measure_text(of.by_lot), anchor="end")
            y += _ROW
        y += 10
    for tick in ticks:
        drawing.text(at(tick), y + 8, _number(tick), size=_TICK, anchor="middle", tone="muted")
    words = f"{scale}, {x_label}" if x_label else scale
    drawing.text(left, y + 29, cut_to(words, width - _EDGE - left, _NAME), full=words)
    return y + 33


class Mark(NamedTuple):
    """A value on one axis: a mean, its deviation over runs, its interval; None if not known."""

    mean: float
    sd: float | None = None
    interval: Interval | None = None

    @classmethod
    def of(cls, values: Values) -> Mark:
        """The mark of a judge's values."""
        mean = values.by_lot
        assert mean is not None, "an empty row has no mark"
        spread = statistics.stdev(values.runs) if len(values.runs) > 1 else None
        return cls(mean, spread, values.interval if len(values.of) > 1 else None)

    @property
    def ends(self) -> tuple[float, float, float, float]:
        """Ends of the interval and of the deviation; twice the mean for one that is not known."""
        known, sd = self.interval or Interval(self.mean, self.mean), self.sd or 0.0
        return known.low, known.high, self.mean - sd, self.mean + sd

    def times(self, other: Mark) -> Mark:
        """The product of two independent values, with its deviation (REBEL, figure 1)."""
        mean = self.mean * other.mean
        if self.sd is None or other.sd is None:
            return Mark(mean)
        parts = (self.sd * other.sd, self.mean * other.sd, other.mean * self.sd)
        return Mark(mean, math.hypot(*parts))


def theirs_of(note: FigureNote, x: str, y: str) -> dict[str, tuple[Mark, Mark]]:
    """System -> the paper's point, with the standard deviations over its runs."""
    return {
        label: (Mark(of[x], of.get(f"{x} sd")), Mark(of[y], of.get(f"{y} sd")))
        for label, of in note.theirs.items()
        if {x, y} <= of.keys()
    }


def scatters(
    note: FigureNote, rows: Mapping[str, Mapping[str, Values]], speeds: Mapping[str, float]
) -> list[tuple[str, str, str]]:
    """Title, SVG and words of a suite's figures: one judge by another, quality by speed."""
    judges = note.quality or tuple(next(iter(rows.values()), ()))[:2]
    if len(judges) < 2 or len(rows) < 2:
        return []
    x, y = judges
    ours = {
        label: (Mark.of(of[x]), Mark.of(of[y]))
        for label, of in rows.items()
        if {x, y} <= of.keys() and None not in (of[x].mean, of[y].mean)
    }
    theirs = theirs_of(note, x, y)
    points = [(label, *at, 0) for label, at in ours.items()]
    points += [(f"{label} (paper)", *at, THEIRS) for label, at in theirs.items()]
    if not points:
        return []
    trends = [
        (series + place, [of[each] for each in line.through if each in of])
        for of, series in ((ours, 1), (theirs, THEIRS + 1))
        for place, line in enumerate(note.lines)
    ]
    names = (x.replace("_", " "), y.replace("_", " "))
    said = "Thin whiskers: 95% interval over questions; thick ones: standard deviation of the "
    said += "means of runs."
    if theirs:
        said += " Hollow: the paper's, of its own models and judges."
    if note.lines:
        lines = "; ".join(f"{', '.join(each.through)} ({each.name})" for each in note.lines)
        said += f" Lines: least squares through {lines}; dashed: the paper's."
    found = [(f"{names[1]} against {names[0]}", scatter(points, *names, trends), said)]
    fast = [
        (label, Mark(speeds[label]), one.times(two), 0)
        for label, (one, two) in ours.items()
        if label in speeds
    ]
    fast += [
        (f"{label} (paper)", Mark(note.theirs[label]["speed"]), one.times(two), THEIRS)
        for label, (one, two) in theirs.items()
        if "speed" in note.theirs[label]
    ]
    if note.quality and len(fast) > 1:
        said = f"Quality is {names[0]} times {names[1]}, its whisker the standard deviation of "
        said += "that product over runs. Speed: characters of answers by their time, where "
        said += "nothing came from the ledger."
        svg = scatter(fast, "characters a second", "quality")
        found.append(("quality against speed", svg, said))
    return found


def scatter(
    points: Sequence[tuple[str, Mark, Mark, int]],
    x_name: str,
    y_name: str,
    trends: Sequence[tuple[int, Sequence[tuple[Mark, Mark]]]] = (),
) -> str:
    """Draw marks with a thin whisker for the interval and a thick one for the deviation."""
    drawing = Drawing(760.0)
    left, right, top, bottom = 70.0, 566.0, 30.0, 352.0
    x_ticks = nice_ticks([end for _, x, _, _ in points for end in x.ends])
    y_ticks = nice_ticks([end for _, _, y, _ in points for end in y.ends])
    x_at = partial(scaled, between=x_ticks, onto=(left, right))
    y_at = partial(scaled, between=y_ticks, onto=(bottom, top))
    drawing.rules(x_ticks, x_at, (top, bottom), upright=True)
    drawing.rules(y_ticks, y_at, (left, right))
    drawing.text((left + right) / 2, bottom + 38, x_name, size=_TICK, anchor="middle")
    drawing.text(12, 16, y_name, size=_TICK)
    for series, through in trends:
        xs, ys = [x.mean for x, _ in through], [y.mean for _, y in through]
        if len(set(xs)) > 1:
            slope, base = statistics.linear_regression(xs, ys)
            kind = f"line s{series % SERIES}{' dashed' if series >= SERIES else ''}"
            drawing.path([(x_at(x), y_at(base + slope * x)) for x in (min(xs), max(xs))], kind)
    heights = spread([y_at(y.mean) - 5 for _, _, y, _ in points], 14, 24, bottom)
    said = []
    for (label, x, y, series), height in zip(points, heights, strict=True):
        at = (x_at(x.mean), y_at(y.mean))
        for ends in (
            [(x_at(end), at[1]) for end in x.ends],
            [(at[0], y_at(end)) for end in y.ends],
        ):
            if ends[0] != ends[1]:
                drawing.whisker(ends[0], ends[1], series)
            if ends[2] != ends[3]:
                drawing.path(ends[2:], f"line s{series % SERIES}")
        said.append(f"{label} {x.mean:.3f}, {y.mean:.3f}")
        drawing.dot(*at, series, said[-1])
        text, tone = cut_to(label, 185, 12), "muted" if series >= SERIES else "ink"
        drawing.text(at[0] + 9, height, text, size=12, tone=tone, full=said[-1])
    return drawing.finished(390, f"{y_name} against {x_name}. {'; '.join(said)}.", embedded=True)


def _value_ticks(every: Sequence[Values], most: int = 7) -> list[float]:
    """Round numbers around all intervals, within 0 and 1."""
    low, high = min(of.interval.low for of in every), max(of.interval.high for of in every)
    if high - low < 0.01:
        low, high = low - 0.005, high + 0.005
    return nice_ticks((max(0.0, low), min(1.0, high)), most)


def nice_ticks(values: Collection[float], most: int = 7) -> list[float]:
    """Return at most `most` round numbers, evenly apart, that enclose the values."""
    low, high = min(values), max(values)
    if high - low < 1e-6:
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
    return size * sum(1.0 if unicodedata.east_asian_width(each) in "WF" else 0.6 for each in text)


def cut_to(text: str, room: float, size: float) -> str:
    """Return the text on one line, cut with an ellipsis to fit into `room` pixels."""
    text = bare(text)
    if width_of(text, size) <= room:
        return text
    kept = text[: int(room / size / 0.6)]
    while kept and width_of(f"{kept}…", size) > room:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def _title(name: str, of: Values) -> str:
    return f"{name}: {measure_text(of.by_lot)} ({interval(of.interval.low, of.interval.high)})"


def _at(x: float | str) -> str:
    return x if isinstance(x, str) else _number(x)


def _number(value: float) -> str:
    return exact(round(value, 6))


def _n(number: float) -> str:
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
