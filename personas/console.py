"""Consoles of all packages: in colour on a terminal, as plain text anywhere else."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from personas.sanitize import plain

_FILE_WIDTH = 110
_WIDTH = re.compile("[1-9][0-9]{0,3}")
_LETTERS = 26
_IN_NOTEBOOK = '<pre style="line-height:normal">{code}</pre>'


class Output:
    """One output of a notebook or a terminal, which updates; a file gets the page alone."""

    def __init__(self, file: TextIO | None = None) -> None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self._in_notebook = file is None and hasattr(shell, "kernel")
        self._out = sys.stdout if file is None else file
        self._console = Console(file=self._out, force_jupyter=False)
        self._status: Any = None  # a handle of the notebook's output, or what the terminal shows

    def progress(self, line: str) -> None:
        """Show how far the work has come, until the page replaces it."""
        if self._in_notebook:
            self._display({"text/plain": line})
        elif self._out.isatty() and self._status is None:
            self._status = self._console.status(line)
            self._status.start()
        elif self._status is not None:
            self._status.update(line)

    def end(self) -> None:
        """Take the progress off a terminal."""
        if self._status is not None and not self._in_notebook:
            self._status.stop()

    def page(self, show: Callable[[Console], None]) -> None:
        """Show a page: in colour in a notebook or on a terminal, as plain text anywhere else."""
        self.end()
        if self._in_notebook:
            self._display({"text/html": in_colour(show), "text/plain": rendered(show)})
        elif self._out.isatty():
            show(self._console)
        else:
            self._out.write(rendered(show, getattr(self._out, "encoding", None) or "utf-8"))

    def _display(self, data: Mapping[str, str]) -> None:
        if self._status is None:
            module = import_module("IPython.display")
            self._status = module.display(data, raw=True, display_id=True)
        else:
            self._status.update(data, raw=True)


def print_page(show: Callable[[Console], None], file: TextIO | None = None) -> None:
    """Show a page in one output of a notebook or a terminal, or write it to any other file."""
    Output(file).page(show)


def in_colour(show: Callable[[Console], None]) -> str:
    """The page as HTML for a notebook."""
    page = Console(
        file=io.StringIO(),
        width=file_width(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        force_jupyter=False,
    )
    show(page)
    return page.export_html(code_format=_IN_NOTEBOOK, inline_styles=True)


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
