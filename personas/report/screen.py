"""The parts of the terminal view: signs, lines, bars, shaded scores and columns.

All foreign text goes through `clipped`, and then into `Text` objects, which know no markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

NOTE = "dim"
"""Style of what explains the rest."""
MISSING = "-"
"""In place of a score that did not come."""
SPREAD = "±"
"""Heads the column of the personas' disagreement."""

_TEXT_WIDTH = 110  # columns of running text, at most

WIDE = 100
"""Columns from which on tables are set more loosely."""

_BAR, _HALF_BAR, _RULE, _CUT = "━", "╸", "─", "…"
# These signs, and what replaces them where the encoding is ASCII.
_SIGNS = f"▲▼{SPREAD}{_BAR}{_HALF_BAR}{_RULE}{_CUT}"
_SIGNS += "\N{MULTIPLICATION SIGN}\N{MINUS SIGN}"
_ASCII = str.maketrans(_SIGNS, "+-*=--~x-")

# Backgrounds from a low score to a high one, from grey to a strong blue, all of about the same
# lightness: white can be read on each, and none stands out on a dark terminal that does not on
# a light one.
_LOW, _HIGH = (0x58, 0x58, 0x58), (0x00, 0x57, 0xE0)
_LEVELS = 10


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as wide as its widest cell or `fixed_width` terminal columns."""

    heading: tuple[str, ...]  # its lines
    cells: Sequence[Text]  # one a row
    right: bool = True  # whether heading and cells are aligned to the right
    fixed_width: int | None = None

    @property
    def width(self) -> int:
        if self.fixed_width is not None:
            return self.fixed_width
        return max([*map(cell_len, self.heading), *(cell.cell_len for cell in self.cells)])


class Screen:
    """A console with what this page needs of it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.width = console.width
        self._ascii = console.options.ascii_only
        self.shaded = console.color_system in {"256", "truecolor"} and not console.no_color

    def line(self, text: Text | str = "", style: str = "") -> None:
        """One line, cut at the right if it is too long."""
        line = Text(text, style) if isinstance(text, str) else text.copy()
        if line.cell_len > self.width:
            line.truncate(self.width - 1, overflow="crop")
            line.append(_CUT, style=NOTE)
        if self._ascii:
            line.plain = line.plain.translate(_ASCII)
        self._console.print(line, no_wrap=True, overflow="crop", highlight=False)

    def words(self, text: Text | str, style: str = "", *, indent: int = 0, hang: int = 0) -> None:
        """Running text on as many lines as it takes, all but the first indented by `hang` more."""
        whole = Text(text, style) if isinstance(text, str) else text
        room = min(self.width, _TEXT_WIDTH) - indent
        if whole.cell_len > room:
            room = max(10, room - hang)
        for place, part in enumerate(whole.wrap(self._console, room, overflow="fold")):
            part.rstrip()
            self.line(Text(" " * (indent + (hang if place else 0))) + part)

    @staticmethod
    def bar(share: float, length: int) -> Text:
        """A bar of up to `length` columns, 0 to 1 of it filled, padded to that length."""
        halves = max(round(2 * length * min(1.0, max(0.0, share))), share > 0)
        drawn = _BAR * (halves // 2) + _HALF_BAR * (halves % 2)
        return Text(drawn.ljust(length), style="cyan")

    def cells(self, columns: Sequence[Column], gap: int = 2, *, rest: Column | None = None) -> None:
        """A table: headings, a rule, and a line a row."""
        widths = [column.width for column in columns]
        if rest:
            columns = [*columns, rest]
            widths.append(max(10, self.width - sum(widths) - gap * len(widths)))
        height = max(len(column.heading) for column in columns)
        heads = [("",) * (height - len(each.heading)) + each.heading for each in columns]

        def row(cells: Iterable[Text]) -> None:
            sized = zip(cells, widths, columns, strict=True)
            self.line(Text(" " * gap).join(_sized(cell, width, one) for cell, width, one in sized))

        for level in zip(*heads, strict=True):
            row(Text(word, style="bold") for word in level)
        self.line(_RULE * min(sum(widths) + gap * (len(widths) - 1), self.width), NOTE)
        for cells in zip(*(column.cells for column in columns), strict=True):
            row(cells)


def clipped(text: str, limit: int) -> str:
    """Foreign text on one line, safe for a terminal, no more than `limit` characters of it."""
    shown = plain(text, limit)
    return f"{shown}{_CUT}" if len(text) > limit else shown


def shade(screen: Screen, share: float) -> str:
    """Style of a score's cell, by the score as a share of the highest possible, 0 to 1."""
    if not screen.shaded:
        return ""
    level = round(_LEVELS * min(1.0, max(0.0, share)))
    parts = [low + (high - low) * level // _LEVELS for low, high in zip(_LOW, _HIGH, strict=True)]
    return f"bold #ffffff on #{''.join(f'{part:02x}' for part in parts)}"


def _sized(text: Text, width: int, column: Column) -> Text:
    """The text in exactly `width` columns."""
    room = width - text.cell_len
    if room < 0:
        return Text(set_cell_size(text.plain, width - 1) + _CUT, style=text.style)
    space = Text(" " * room)
    return space + text if column.right else text + space
