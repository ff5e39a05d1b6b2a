"""Output files: whole or not at all, and found out early if they cannot be."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from personas.atomic import replacing
from personas.plain import shown

Write = Callable[[str], None]
"""Takes the next piece of text."""


def check_outputs(*paths: str | None) -> None:
    """Refuse output files that could not be written, before any work is paid for.

    Raises:
        click.UsageError: two of them are the same file.
        OSError: one is a folder, its folder is missing, or it must not be written.
    """
    seen: set[Path] = set()
    for name in paths:
        if name is None:
            continue
        path = Path(name).resolve()
        if path in seen:
            raise click.UsageError(f"{name!r} is given for two outputs; name two files")
        seen.add(path)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", name)
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist; create it", name)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, "you may not write there; name another file", name)


@contextmanager
def output(name: str | None) -> Iterator[Write]:
    """Where results go: the file `name`, which appears at the end, or standard output; UTF-8.

    On a terminal control characters are shown as escapes. Names of files that are not UTF-8 keep
    their bytes.

    Raises:
        OSError: the file cannot be written.
    """
    if name is None:
        yield _print
        return
    with replacing(name) as file:

        def write(text: str) -> None:
            file.write(text.encode(errors="surrogateescape"))

        yield write


def print_line(text: str) -> None:
    """One line to standard output, as `output` writes it there."""
    _print(f"{text}\n")


def _print(text: str) -> None:
    safe = shown(text) if sys.stdout.isatty() else text
    click.echo(safe.encode(errors="surrogateescape"), nl=False)
