"""Figures of pipelines: quality against quality or speed, runs as box plots, effects of options."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from beir_eval.measures.anova import Anova
from beir_eval.measures.values import Interval
from beir_eval.report.figures import SERIES, Drawing, cut_to, nice_ticks, scaled, spread

WIDTH, HEIGHT = 760.0, 400.0
THEIRS = SERIES
"""Series of values of a paper: drawn hollow."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 566.0, 30.0, 352.0
_ROW, _NAMES = 26.0, 240.0
_PANEL, _PANEL_HEIGHT, _PANELS = 252.0, 190.0, 3


class Value(NamedTuple):
    """A mean over questions with its spreads; None where one is not known."""

    mean: float
    sd: float | None = None
    interval: Interval | None = None

    @property
    def ends(self) -> tuple[float, float, float, float]:
        """Ends of the interval and of the deviation; twice the mean for one that is not known."""
        known, sd = self.interval or Interval(self.mean, self.mean), self.sd or 0.0
        return known.low, known.high, self.mean - sd, self.mean + sd

    def times(self, other: Value) -> Value:
        """The product of two independent values, with its deviation (REBEL, figure 1)."""
        mean = self.mean * other.mean
        if self.sd is None or other.sd is None:
            return Value(mean)
        return Value(
            mean, math.hypot(self.sd * other.sd, self.mean * other.sd, other.mean * self.sd)
        )


class Mark(NamedTuple):
    """A point of a figure; `series` decides its colour, `THEIRS` for a paper's."""

    label: str
    x: Value
    y: Value
    series: int = 0


def scatter(
    marks: Sequence[Mark],
    x_name: str,
    y_name: str,
    trends: Sequence[tuple[int, Sequence[Mark]]] = (),
) -> str:
    """Draw marks with a thin whisker for the interval and a thick one for the deviation."""
    drawing = Drawing(WIDTH)
    x_ticks = nice_ticks([end for mark in marks for end in mark.x.ends])
    y_ticks = nice_ticks([end for mark in marks for end in mark.y.ends])
    x_at = partial(scaled, between=x_ticks, onto=(_LEFT, _RIGHT))
    y_at = partial(scaled, between=y_ticks, onto=(_BOTTOM, _TOP))
    drawing.rules(x_ticks, x_at, (_TOP, _BOTTOM), size=12, upright=True)
    drawing.rules(y_ticks, y_at, (_LEFT, _RIGHT), size=12)
    drawing.text((_LEFT + _RIGHT) / 2, HEIGHT - 10, x_name, size=13, anchor="middle")
    drawing.text(12, 16, y_name, size=13)
    for series, through in trends:
        xs, ys = [mark.x.mean for mark in through], [mark.y.mean for mark in through]
        if len(set(xs)) > 1:
            slope, base = statistics.linear_regression(xs, ys)
            kind = f"line s{series % SERIES}{' dashed' if series >= SERIES else ''}"
            drawing.path([(x_at(x), y_at(base + slope * x)) for x in (min(xs), max(xs))], kind)
    for mark in marks:
        x, y = x_at(mark.x.mean), y_at(mark.y.mean)
        across = [(x_at(end), y) for end in mark.x.ends]
        up = [(x, y_at(end)) for end in mark.y.ends]
        for low, high, *_ in (across, up):
            if low != high:
                drawing.whisker(low, high, mark.series)
        for *_, low, high in (across, up):
            if low != high:
                drawing.path([low, high], f"line s{mark.series % SERIES}")
        drawing.dot(x, y, mark.series)
    heights = spread([y_at(mark.y.mean) - 5 for mark in marks], 14, 24, _BOTTOM)
    said = []
    for mark, height in zip(marks, heights, strict=True):
        numbers = f"{mark.x.mean:.3f}, {mark.y.mean:.3f}"
        said.append(f"{mark.label} {numbers}")
        x, tone = x_at(mark.x.mean) + 9, "muted" if mark.series >= SERIES else "ink"
        text, full = cut_to(mark.label, WIDTH - _RIGHT - 9, 12), f"{mark.label}: {numbers}"
        drawing.text(x, height, text, size=12, tone=tone, full=full)
    return drawing.finished(HEIGHT, f"{y_name} against {x_name}. {'; '.join(said)}.", embedded=True)


def boxes(runs: Mapping[str, Sequence[float]], name: str, *, theirs: int = 0) -> str:
    """Draw a row for each system: whiskers from the lowest to the highest run, box of quartiles."""
    drawing = Drawing(WIDTH)
    ticks = nice_ticks([value for values in runs.values() for value in values])
    at = partial(scaled, between=ticks, onto=(_NAMES + 16, WIDTH - 30))
    bottom = 34 + _ROW * len(runs)
    drawing.text(12, 18, name, size=13)
    drawing.rules(ticks, at, (28, bottom), size=12, upright=True)
    said = []
    for place, (label, values) in enumerate(runs.items()):
        y = 34 + _ROW * (place + 0.5)
        kind = "line s5" if place >= len(runs) - theirs else "line s0"
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        said.append(f"{label}: median {middle:.3f}, {len(values)} runs")
        text = cut_to(label, _NAMES - 8, 12)
        drawing.text(_NAMES, y + 4, text, size=12, anchor="end", full=said[-1])
        for x, end in ((min(values), low), (high, max(values))):
            drawing.path([(at(x), y), (at(end), y)], kind)
        corners = [(low, y - 7), (high, y - 7), (high, y + 7), (low, y + 7), (low, y - 7)]
        drawing.path([(at(value), height) for value, height in corners], kind)
        drawing.path([(at(middle), y - 7), (at(middle), y + 7)], kind)
    return drawing.finished(bottom + 30, f"{name}: {'; '.join(said)}.", embedded=True)


def effects(analysis: Anova) -> str:
    """Draw the mean of the response by level: a panel a factor, then one a pair of factors."""
    # Title -> series, of the second factor's levels -> level -> mean.
    panels: dict[str, dict[str, dict[str, float]]] = {
        factor: {"": dict(levels)} for factor, levels in analysis.means.items()
    }
    for (first, second), cells in analysis.interactions.items():
        series = panels.setdefault(f"{first} by {second}", {})
        for (level, other), mean in cells.items():
            series.setdefault(other, {})[level] = mean
    ticks = nice_ticks(
        [v for series in panels.values() for levels in series.values() for v in levels.values()], 4
    )
    drawing = Drawing(WIDTH)
    said = []
    for number, (title, series) in enumerate(panels.items()):
        corner = number % _PANELS * _PANEL, number // _PANELS * _PANEL_HEIGHT
        _draw_panel(drawing, corner, title.replace("_", " "), series, ticks)
        means = ", ".join(
            f"{level}{name and f' / {name}'} {mean:.3f}"
            for name, levels in series.items()
            for level, mean in levels.items()
        )
        said.append(f"{title}: {means}")
    height = -(-len(panels) // _PANELS) * _PANEL_HEIGHT + 6
    return drawing.finished(height, f"Means by level. {'; '.join(said)}.", embedded=True)


def _draw_panel(
    drawing: Drawing,
    corner: tuple[float, float],
    title: str,
    series: Mapping[str, Mapping[str, float]],
    ticks: Sequence[float],
) -> None:
    across, down = corner
    left, right, top, bottom = across + 44, across + _PANEL - 22, down + 34, down + 150
    drawing.text(across + 8, down + 18, title, size=12, bold=True)
    y_at = partial(scaled, between=ticks, onto=(bottom, top))
    drawing.rules(ticks, y_at, (left, right), size=10)
    levels = list(dict.fromkeys(level for each in series.values() for level in each))
    apart = (right - left) / len(levels)
    places = {level: left + apart * (place + 0.5) for place, level in enumerate(levels)}
    for level, x in places.items():
        drawing.text(x, bottom + 15, level[:16], size=10, tone="muted", anchor="middle", full=level)
    ends = []
    for number, means in enumerate(series.values()):
        points = [(places[level], y_at(mean)) for level, mean in means.items()]
        drawing.path(points, f"line s{number % SERIES}")
        for x, y in points:
            drawing.dot(x, y, number % SERIES)
        ends.append(points[-1])
    heights = spread([y for _, y in ends], 11, top + 4, bottom)
    for name, (x, _), height in zip(series, ends, heights, strict=True):
        drawing.text(x + 8, height + 4, name[:13], size=10, full=name)


def read_runs(text: str) -> dict[str, dict[str, list[float]]]:
    """Read measure -> system -> value of each run, from a table ``system,run,MEASURE,…``."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        for name in row.keys() - {"system", "run"}:
            found.setdefault(name, {}).setdefault(row["system"], []).append(float(row[name]))
    return found
