"""Consoles of all packages: in colour on a terminal, as plain text anywhere else."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from personas.sanitize import plain

_FILE_WIDTH = 110
_WIDTH = re.compile("[1-9][0-9]{0,3}")
_LETTERS = 26
_IN_NOTEBOOK = '<pre style="line-height:normal">{code}</pre>'


def print_page(show: Callable[[Console], None], file: TextIO | None = None) -> None:
    """Show a page on a terminal or in a notebook, as one output; write plain text to a file."""
    out = sys.stdout if file is None else file
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if file is None and hasattr(shell, "kernel"):
        _display(show)
    elif out.isatty():
        show(Console(file=out, force_jupyter=False))
    else:
        out.write(rendered(show, getattr(out, "encoding", None) or "utf-8"))


def rendered(show: Callable[[Console], None], encoding: str = "utf-8") -> str:
    """The page as plain text that `encoding` can hold, without trailing blanks."""
    pipe = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", newline="")
    show(
        Console(
            file=pipe,
            width=file_width(),
            force_terminal=False,
            color_system=None,
            legacy_windows=False,
            force_jupyter=False,
        )
    )
    pipe.seek(0)
    return "".join(f"{line.rstrip()}\n" for line in pipe)


def _display(show: Callable[[Console], None]) -> None:
    from IPython.display import display

    page = Console(
        file=io.StringIO(),
        width=file_width(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        force_jupyter=False,
    )
    show(page)
    lines = page.export_html(code_format=_IN_NOTEBOOK, inline_styles=True)
    display({"text/html": lines, "text/plain": rendered(show)}, raw=True)


def file_width() -> int:
    """Columns of a page that goes to a file or a pipe: what COLUMNS says, else 110."""
    said = os.environ.get("COLUMNS", "")
    return int(said) if _WIDTH.fullmatch(said) else _FILE_WIDTH


def table(columns: Iterable[Column | str], rows: Iterable[Iterable[str | Text]]) -> Table:
    """A table with a rule below its headings; texts are made safe for a terminal."""
    headings = (Column(_safe(each)) if isinstance(each, str) else each for each in columns)
    made = Table(*headings, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        made.add_row(*(_safe(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def names(heading: str) -> Column:
    """A column of names that can be copied."""
    return Column(_safe(heading), style="cyan", no_wrap=True)


def numbers(*headings: str) -> list[Column]:
    """Columns of numbers."""
    return [Column(_safe(heading), justify="right", no_wrap=True) for heading in headings]


def _safe(text: str) -> Text:
    return Text(plain(text))


def letter(place: int) -> str:
    """Return the sign of the member in that place, from 0: ``A`` to ``Z``, ``A1``, ``A2``, ..."""
    return chr(ord("A") + place) if place < _LETTERS else f"A{place - _LETTERS + 1}"


def moved(places: int) -> Text:
    """Return the ranks a passage rose or fell: ``▲3``, ``▼2``, ``=``."""
    if places > 0:
        return Text(f"▲{places}", style="green")
    return Text(f"▼{-places}", style="red") if places < 0 else Text("=", style="dim")
