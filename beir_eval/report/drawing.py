"""What figures are drawn with: a drawing surface, colours, markers, ticks, and fitted texts.

Every colour stands as an attribute, so that programs without style sheets draw the figure for
a light page; `STYLE` holds nothing but the colours on a dark screen.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape

from beir_eval.report.model import Point
from beir_eval.report.numbers import interval, measure_text
from personas.report.formats import bare, printable
from personas.words import exact

WIDTH = 580.0
EDGE = 16.0
BOLD = 1.12
"""How much wider than usual text bold text is, at most."""
Lines = Sequence[tuple[str, Sequence[Point]]]
"""Name and points of each line, or of each group of bars; none without points."""

_PAPER, _INK, _MUTED, _RULE = "#fbfaf6", "#1d2125", "#5a6067", "#dfdcd3"
_LIGHT = (
    "#0069a8",
    "#c2500f",
    "#00795a",
    "#a5447f",
    "#7d6200",
    "#33393f",
    "#2f8fd0",
    "#b0202e",
)
_DARK = (
    "#4ba3e3",
    "#f58b4c",
    "#2fc79a",
    "#e38cc4",
    "#d8b93c",
    "#f2f0eb",
    "#9bd4f7",
    "#ff8080",
)
SERIES = len(_LIGHT)
"""How many colours and markers there are; further series take them again, drawn hollow."""

STYLE = "@media screen and (prefers-color-scheme: dark) {{ {} }}".format(
    " ".join(
        [
            ".beir-figure .paper { fill: #15181a; stroke: #15181a; }",
            ".beir-figure .ink { fill: #f2f0eb; } .beir-figure .muted { fill: #a5aaae; }",
            ".beir-figure .rule { stroke: #343a3e; } .beir-figure .axis { stroke: #a5aaae; }",
            ".beir-figure .whisker { stroke: #f2f0eb; } .beir-figure .halo { stroke: #15181a; }",
            *(
                f".beir-figure .l{place} {{ stroke: {colour}; }} "
                f".beir-figure .f{place} {{ fill: {colour}; }}"
                for place, colour in enumerate(_DARK)
            ),
        ]
    )
)
"""The style sheet that every figure carries; a page that shows figures must allow it."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
_TONES = {"ink": _INK, "muted": _MUTED}
_NARROW = frozenset("ijltfrI.,:;|!'()[]{}-/ ")
_WIDE = frozenset("mwMW@%<>=+~")
_ELLIPSIS = "…"
_ARM = 0.36
_LEAST_SPAN = 1e-6
_MARKERS = (
    tuple((math.cos(math.tau * k / 24), math.sin(math.tau * k / 24)) for k in range(24)),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
    ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    ((0, 1.2), (1.1, -0.8), (-1.1, -0.8)),
    tuple(
        (x * 1.15, y * 1.15)
        for x, y in (
            *((-_ARM, -1.0), (_ARM, -1.0), (_ARM, -_ARM), (1.0, -_ARM), (1.0, _ARM), (_ARM, _ARM)),
            *((_ARM, 1.0), (-_ARM, 1.0), (-_ARM, _ARM), (-1.0, _ARM), (-1.0, -_ARM)),
            (-_ARM, -_ARM),
        )
    ),
    tuple(
        (
            (1.4 if k % 2 == 0 else 0.6) * math.sin(math.pi * k / 5),
            (1.4 if k % 2 == 0 else 0.6) * -math.cos(math.pi * k / 5),
        )
        for k in range(10)
    ),
    tuple((1.15 * math.cos(math.tau * k / 6), 1.15 * math.sin(math.tau * k / 6)) for k in range(6)),
)


@dataclass(slots=True)
class Drawing:
    """Elements of one SVG file, in the order in which they are painted; lengths in pixels."""

    parts: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 14,
        tone: str = "ink",
        anchor: str = "start",
        bold: bool = False,
        full: str = "",
    ) -> None:
        """Words on one line whose base line is `y`; `full` is what a pointer over them shows."""
        weight = ' font-weight="600"' if bold else ""
        title = f"<title>{_escaped(full)}</title>" if full and full != words else ""
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" class="{tone}" fill="{_TONES[tone]}" '
            f'font-size="{_n(size)}" text-anchor="{anchor}"{weight}>{_escaped(words)}{title}</text>'
        )

    def rule(
        self, start: tuple[float, float], end: tuple[float, float], *, axis: bool = False
    ) -> None:
        """A line of the grid, or an axis."""
        (x1, y1), (x2, y2) = start, end
        name, colour = ("axis", _MUTED) if axis else ("rule", _RULE)
        self.parts.append(
            f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" class="{name}" stroke="{colour}"/>'
        )

    def line(
        self,
        points: Sequence[tuple[float, float]],
        series: int,
        *,
        width: float = 2,
        dash: str = "",
        opacity: float = 1.0,
    ) -> None:
        """A line through `points` in the colour of a series."""
        place = series % SERIES
        dash = dash or ("5 3" if series >= SERIES else "")
        more = f' stroke-dasharray="{dash}"' if dash else ""
        more += f' stroke-opacity="{_n(opacity)}"' if opacity < 1 else ""
        self.parts.append(
            f'<path d="M{"L".join(f"{_n(x)} {_n(y)}" for x, y in points)}" fill="none" '
            f'class="l{place}" stroke="{_LIGHT[place]}" stroke-width="{_n(width)}" '
            f'stroke-linejoin="round"{more}/>'
        )

    def marker(self, x: float, y: float, series: int, *, title: str = "") -> None:
        """The sign of a series; a pointer over it shows `title`."""
        place = series % SERIES
        colour = _LIGHT[place]
        if series < SERIES:
            paint = f'class="f{place} halo" fill="{colour}" stroke="{_PAPER}" stroke-width="1"'
        else:
            paint = f'class="paper l{place}" fill="{_PAPER}" stroke="{colour}" stroke-width="2"'
        inside = f"<title>{_escaped(title)}</title>" if title else ""
        self.parts.append(f'<path d="{path_of_marker(x, y, series)}" {paint}>{inside}</path>')

    def bar(self, box: tuple[float, float, float, float], series: int, *, title: str) -> None:
        """A bar in the colour of a series; `box` is x, y, width and height."""
        place = series % SERIES
        colour = _LIGHT[place]
        paint = ' fill-opacity="0.35"' if series >= SERIES else ""
        x, y, width, height = map(_n, box)
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="f{place} l{place}" '
            f'fill="{colour}" stroke="{colour}"{paint}>'
            f"<title>{_escaped(title)}</title></rect>"
        )

    def whisker(self, x1: float, x2: float, y: float, cap: float) -> None:
        """A horizontal interval with caps, over a bar."""
        path = (
            f"M{_n(x1)} {_n(y)}L{_n(x2)} {_n(y)}"
            f"M{_n(x1)} {_n(y - cap)}L{_n(x1)} {_n(y + cap)}"
            f"M{_n(x2)} {_n(y - cap)}L{_n(x2)} {_n(y + cap)}"
        )
        self.parts.append(
            f'<path d="{path}" class="halo" fill="none" stroke="{_PAPER}" stroke-width="3"/>'
            f'<path d="{path}" class="whisker" fill="none" stroke="{_INK}" stroke-width="1.3"/>'
        )

    def finished(self, height: float, label: str) -> str:
        """The file; `label` is read out in place of the figure."""
        size = f'width="{_n(WIDTH)}" height="{_n(height)}"'
        return printable(
            f'<svg xmlns="http://www.w3.org/2000/svg" class="beir-figure" {size} '
            f'viewBox="0 0 {_n(WIDTH)} {_n(height)}" font-family="{_FONT}" '
            f'role="img" aria-label="{_escaped(label)}"><style>{STYLE}</style>'
            f'<rect {size} class="paper" fill="{_PAPER}"/>' + "".join(self.parts) + "</svg>"
        )


def path_of_marker(x: float, y: float, series: int, size: float = 4.5) -> str:
    """The outline of a series' sign around a point."""
    outline = _MARKERS[series % SERIES]
    return f"M{'L'.join(f'{_n(x + size * dx)} {_n(y + size * dy)}' for dx, dy in outline)}Z"


def nice_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """At most `most` round numbers, evenly apart, that enclose `low` and `high`, ascending.

    The step is 1, 2, 2.5 or 5 times a power of ten; ends that are all but equal are taken 1
    apart.
    """
    if high - low < _LEAST_SPAN:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / (most - 1)
    power = math.floor(math.log10(rough))
    for exponent in (power, power + 1):
        for factor in (1, 2, 2.5, 5):
            step = factor * 10.0**exponent
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first < most:
                return [round(step * k, 10) for k in range(first, last + 1)]
    return [low, high]


def scaled(value: float, between: tuple[float, float], onto: tuple[float, float]) -> float:
    """Where `value` lies on the way from one place to the other."""
    low, high = between
    return onto[0] + (value - low) / (high - low) * (onto[1] - onto[0])


def number(value: float) -> str:
    """Up to six significant digits: ``20``, ``0.5``."""
    return exact(round(value, 6))


def told(point: Point) -> str:
    """The value with its interval: ``0.679 (0.612 to 0.740)``."""
    return f"{measure_text(point.value)} ({interval(point.interval.low, point.interval.high)})"


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """The places nearest to `wanted` that are `apart` from each other, from `low` to `high`.

    The order is kept; where there is too little room, places go beyond `high`.
    """
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
    """About how wide a text is in a common sans-serif, in pixels; rather more than less."""
    return size * sum(map(_share, text))


def cut_to(text: str, room: float, size: float) -> str:
    """The text on one line, cut with an ellipsis to fit into `room` pixels."""
    text = bare(text)
    if width_of(text, size) <= room:
        return text
    left, kept = room - size, []
    for sign in text:
        left -= size * _share(sign)
        if left < 0:
            break
        kept.append(sign)
    return "".join(kept).rstrip() + _ELLIPSIS


def wrapped(text: str, room: float, size: float, lines: int) -> list[str]:
    """The text on at most `lines` lines of `room` pixels, the last one cut; [] for no text."""
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
    if sign in _NARROW:
        return 0.36
    if sign in _WIDE:
        return 0.95
    return 0.72 if sign.isupper() else 0.6


def _escaped(text: str) -> str:
    return escape(bare(text))


def _n(number: float) -> str:
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
