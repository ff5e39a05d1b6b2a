"""Figures of reports as SVG: lines over a number, and bars by data set.

A figure is a file of its own that also stands within a page. It shows the values times 100,
each with its confidence interval; a pointer over a point or a bar shows its numbers.
"""

from __future__ import annotations

from beir_eval.report.figure_bars import draw_bars
from beir_eval.report.figure_lines import draw_lines
from beir_eval.report.figure_parts import BOLD, EDGE, WIDTH, Drawing, Lines, number, wrapped
from beir_eval.report.model import Figure
from beir_eval.report.numbers import heading, points

__all__ = ["render_svg"]

_TITLE, _NOTE = 17.0, 13.0
_WHISKERS = "Whiskers: bootstrap confidence interval of the mean over queries."
_NOTHING = "No finished run has a place in this figure yet."


def render_svg(figure: Figure, *, measure: str = "nDCG@10") -> str:
    """The figure as an SVG file.

    The same figure gives the same file, byte for byte. Names that are too long are cut; the
    whole name shows under a pointer. Lines have a colour and a marker by their place, bars the
    colour of their name.

    Args:
        figure: what to draw; its values are shown times 100.
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
    draw = draw_bars if figure.note.kind == "bars" else draw_lines
    scale = f"{heading(measure)} \N{MULTIPLICATION SIGN} 100"
    bottom = draw(drawing, lines, top, scale, figure.note.x_label)
    drawing.text(EDGE, bottom + 22, _WHISKERS, size=_NOTE, tone="muted")
    return drawing.finished(bottom + 22 + EDGE, _in_words(figure.note.title, lines, scale))


def _in_words(title: str, lines: Lines, scale: str) -> str:
    """What is read out in place of the figure: all its values."""
    told = []
    for name, found in lines:
        values = [
            f"{each.x if isinstance(each.x, str) else number(each.x)} {points(each.value)}"
            for each in found
        ]
        told.append(f"{name}: {', '.join(values)}")
    return f"{title}. {scale}. {'; '.join(told)}."
