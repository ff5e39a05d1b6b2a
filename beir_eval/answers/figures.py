"""Figures of pipelines: quality against quality or speed, runs as box plots, effects of options."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beir_eval.measures.anova import Anova
from beir_eval.report.figures import SERIES, Drawing, nice_ticks, scaled, spread, width_of, wrapped

Span = tuple[float, float]
WIDTH, HEIGHT = 760.0, 400.0
THEIRS = SERIES
"""Series of values of a paper: drawn hollow."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 566.0, 30.0, 352.0
_ROW, _NAMES = 26.0, 240.0
_PANEL, _PANEL_HEIGHT, _PANELS = 252.0, 190.0, 3


class Mark(NamedTuple):
    """A point of a figure with its spreads; None where one is not known.

    Attributes:
        label: of the system.
        x, y: its place.
        x_sd, y_sd: standard deviation of the means of runs.
        x_interval, y_interval: 95% interval of the mean over questions.
        series: decides its colour; `THEIRS` for a paper's.
    """

    label: str
    x: float
    y: float
    x_sd: float | None = None
    y_sd: float | None = None
    x_interval: Span | None = None
    y_interval: Span | None = None
    series: int = 0


class Trend(NamedTuple):
    """A least-squares line through some marks."""

    label: str
    marks: Sequence[Mark]
    series: int


def product_spread(mean: float, sd: float, other: float, other_sd: float) -> float:
    """Standard deviation of a product of two independent values (REBEL, figure 1)."""
    both = sd * other_sd
    return float((both**2 + (mean * other_sd) ** 2 + (other * sd) ** 2) ** 0.5)


def scatter(marks: Sequence[Mark], x_name: str, y_name: str, trends: Sequence[Trend] = ()) -> str:
    """Draw marks with a thin whisker for the interval and a thick one for the deviation.

    Returns:
        SVG for a page that has ``figure.css``.
    """
    drawing = Drawing(WIDTH)
    ticks = [
        nice_ticks(*_ends([getattr(m, axis) for m in marks], [_reach(m, axis) for m in marks]))
        for axis in "xy"
    ]
    places = [(each[0], each[-1]) for each in ticks]

    def at(x: float, y: float) -> tuple[float, float]:
        return scaled(x, places[0], (_LEFT, _RIGHT)), scaled(y, places[1], (_BOTTOM, _TOP))

    for x in ticks[0]:
        drawing.path([(at(x, 0)[0], _TOP), (at(x, 0)[0], _BOTTOM)], "rule")
        drawing.text(at(x, 0)[0], _BOTTOM + 18, f"{x:g}", size=12, tone="muted", anchor="middle")
    for y in ticks[1]:
        drawing.path([(_LEFT, at(0, y)[1]), (_RIGHT, at(0, y)[1])], "rule")
        drawing.text(_LEFT - 8, at(0, y)[1] + 4, f"{y:g}", size=12, tone="muted", anchor="end")
    drawing.text((_LEFT + _RIGHT) / 2, HEIGHT - 10, x_name, size=13, anchor="middle")
    drawing.text(12, 16, y_name, size=13)
    for trend in trends:
        xs, ys = [m.x for m in trend.marks], [m.y for m in trend.marks]
        if len(set(xs)) > 1:
            slope, base = statistics.linear_regression(xs, ys)
            kind = f"line s{trend.series % SERIES}{' dashed' if trend.series >= SERIES else ''}"
            drawing.path([at(x, base + slope * x) for x in (min(xs), max(xs))], kind)
    for mark in marks:
        x, y = at(mark.x, mark.y)
        series = mark.series
        for span, across in ((mark.x_interval, True), (mark.y_interval, False)):
            if span is not None:
                ends = [at(v, mark.y) if across else at(mark.x, v) for v in span]
                drawing.whisker(ends[0], ends[1], series)
        for sd, across in ((mark.x_sd, True), (mark.y_sd, False)):
            if sd:
                values = [(mark.x if across else mark.y) + sign * sd for sign in (-1, 1)]
                ends = [at(v, mark.y) if across else at(mark.x, v) for v in values]
                drawing.path(ends, f"line s{series % SERIES}")
        drawing.dot(x, y, series)
    heights = spread([at(m.x, m.y)[1] - 5 for m in marks], 14, 24, _BOTTOM)
    for mark, height in zip(marks, heights, strict=True):
        full = f"{mark.label}: {mark.x:.3f}, {mark.y:.3f}"
        tone = "muted" if mark.series >= SERIES else "ink"
        (words, *more) = wrapped(mark.label, WIDTH - _RIGHT - 20, 12, 3)
        text = f"{words}…" if more else words
        drawing.text(at(mark.x, mark.y)[0] + 9, height, text, size=12, tone=tone, full=full)
    said = "; ".join(f"{m.label} {m.x:.3f}, {m.y:.3f}" for m in marks)
    return drawing.finished(HEIGHT, f"{y_name} against {x_name}. {said}.", embedded=True)


def boxes(runs: Mapping[str, Sequence[float]], name: str, *, theirs: int = 0) -> str:
    """Draw a row for each system: whiskers from the lowest to the highest run, box of quartiles.

    Args:
        runs: label -> mean of each run, two or more.
        name: of the measure.
        theirs: how many of the last rows are a paper's.
    """
    drawing = Drawing(WIDTH)
    every = [value for values in runs.values() for value in values]
    ticks = nice_ticks(*_ends(every, []))
    bottom = 34 + _ROW * len(runs)

    def at(value: float) -> float:
        return scaled(value, (ticks[0], ticks[-1]), (_NAMES + 16, WIDTH - 30))

    drawing.text(12, 18, name, size=13)
    for tick in ticks:
        drawing.path([(at(tick), 28), (at(tick), bottom)], "rule")
        drawing.text(at(tick), bottom + 18, f"{tick:g}", size=12, tone="muted", anchor="middle")
    said = []
    for place, (label, values) in enumerate(runs.items()):
        y = 34 + _ROW * (place + 0.5)
        kind = "line s5" if place >= len(runs) - theirs else "line s0"
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        text = label
        while width_of(text, 12) > _NAMES - 12:
            text = f"{text.rstrip('…')[:-1]}…"
        full = f"{label}: median {middle:.3f}, {len(values)} runs"
        drawing.text(_NAMES, y + 4, text, size=12, anchor="end", full=full)
        for x, end in ((min(values), low), (high, max(values))):
            drawing.path([(at(x), y), (at(end), y)], kind)
        corners = [(low, y - 7), (high, y - 7), (high, y + 7), (low, y + 7), (low, y - 7)]
        drawing.path([(at(value), height) for value, height in corners], kind)
        drawing.path([(at(middle), y - 7), (at(middle), y + 7)], kind)
        said.append(full)
    return drawing.finished(bottom + 30, f"{name}: {'; '.join(said)}.", embedded=True)


def effects(analysis: Anova) -> str:
    """Draw the mean of the response by level: a panel a factor, then one a pair of factors."""
    panels: list[tuple[str, dict[str, dict[str, float]]]] = [
        (factor, {"": dict(levels)}) for factor, levels in analysis.means.items()
    ]
    for (first, second), cells in analysis.interactions.items():
        series: dict[str, dict[str, float]] = {}
        for (level, other), mean in cells.items():
            series.setdefault(other, {})[level] = mean
        panels.append((f"{first} by {second}", series))
    every = [v for _, series in panels for levels in series.values() for v in levels.values()]
    ticks = nice_ticks(*_ends(every, []), 4)
    drawing = Drawing(WIDTH)
    for number, (title, series) in enumerate(panels):
        across, down = number % _PANELS * _PANEL, number // _PANELS * _PANEL_HEIGHT
        _draw_panel(drawing, across, down, title.replace("_", " "), series, ticks)
    rows = -(-len(panels) // _PANELS)
    said = "; ".join(
        f"{title}: "
        + ", ".join(
            f"{' / '.join(filter(None, (level, name)))} {v:.3f}"
            for name, levels in series.items()
            for level, v in levels.items()
        )
        for title, series in panels
    )
    return drawing.finished(rows * _PANEL_HEIGHT + 6, f"Means by level. {said}.", embedded=True)


def _draw_panel(
    drawing: Drawing,
    across: float,
    down: float,
    title: str,
    series: Mapping[str, Mapping[str, float]],
    ticks: Sequence[float],
) -> None:
    left, right, top, bottom = across + 44, across + _PANEL - 22, down + 34, down + 150
    drawing.text(across + 8, down + 18, title, size=12, bold=True)
    levels = list(dict.fromkeys(level for each in series.values() for level in each))
    apart = (right - left) / len(levels)
    places = {level: left + apart * (place + 0.5) for place, level in enumerate(levels)}
    for tick in ticks:
        y = scaled(tick, (ticks[0], ticks[-1]), (bottom, top))
        drawing.path([(left, y), (right, y)], "rule")
        drawing.text(left - 5, y + 4, f"{tick:g}", size=10, tone="muted", anchor="end")
    for level, x in places.items():
        drawing.text(x, bottom + 15, level[:16], size=10, tone="muted", anchor="middle", full=level)
    ends = []
    for number, (name, means) in enumerate(series.items()):
        points = [
            (places[level], scaled(mean, (ticks[0], ticks[-1]), (bottom, top)))
            for level, mean in means.items()
        ]
        drawing.path(points, f"line s{number % SERIES}")
        for x, y in points:
            drawing.dot(x, y, number % SERIES)
        ends.append((name, *points[-1]))
    heights = spread([y for _, _, y in ends], 11, top + 4, bottom)
    for (name, x, _), height in zip(ends, heights, strict=True):
        drawing.text(x + 8, height + 4, name[:13], size=10, full=name)


def _reach(mark: Mark, axis: str) -> Span:
    value, sd = getattr(mark, axis), getattr(mark, f"{axis}_sd") or 0.0
    span = getattr(mark, f"{axis}_interval") or (value, value)
    return min(span[0], value - sd), max(span[1], value + sd)


def _ends(values: Sequence[float], spans: Sequence[Span]) -> Span:
    every = [*values, *(end for span in spans for end in span)]
    return min(every), max(every)


def read_runs(text: str) -> dict[str, dict[str, list[float]]]:
    """Read measure -> system -> value of each run, from a table ``system,run,MEASURE,…``."""
    import csv

    found: dict[str, dict[str, list[float]]] = {}
    row: Mapping[str, Any]
    for row in csv.DictReader(text.splitlines()):
        for name in row.keys() - {"system", "run"}:
            found.setdefault(name, {}).setdefault(row["system"], []).append(float(row[name]))
    return found
