"""Files of a command: what it reads, what it writes, and that the second is never the first.

An option or argument says by its type, `Reads` or `Writes`, that it names files. `check_outputs`
does the rest for every verb, before anything is asked or paid for.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import click

from mcranker.paths import is_file
from personas.io.atomic import check_place, replacing
from personas.io.lines import STDIN
from personas.sanitize import shown

Write = Callable[[str], None]
"""Takes the next piece of text."""


class Reads(click.ParamType[Any]):
    """One or several texts that may name files that the command reads."""

    name = "file"

    def __init__(
        self,
        files: Callable[[str | None], Iterable[str]] | None = None,
        *,
        folder: bool = False,
    ) -> None:
        self.files = files or (lambda text: () if text is None else (text,))
        self.folder = folder  # may name one, of which every file is read


class Writes(Reads):
    """A text that names a file, or files, that the command writes."""


def ledger_files(named: str | None) -> Iterator[str]:
    """The files of the ledger that ``--ledger`` names, even if they are still to come."""
    from mcranker.llm.ledger.ledger import place_of

    path = place_of("default" if named is None else named)
    if isinstance(path, Path):
        for suffix in ("", "-wal", "-shm", "-journal"):
            yield f"{os.path.realpath(path)}{suffix}"


def check_outputs(ctx: click.Context) -> None:
    """Refuse outputs that cannot be written, or are an input or another output as well."""
    piped = [label for label, name in _named(ctx, writes=False) if name == STDIN]
    if len(piped) > 1:
        raise click.UsageError(f"{' and '.join(piped)} cannot both be standard input", ctx)
    outputs: dict[object, str] = {}
    for label, name in _named(ctx, writes=True):
        if name == "-":
            raise click.UsageError(f"{label} '-': name a file; /dev/stdout is standard output", ctx)
        if name.lower().endswith(".gz"):
            raise click.UsageError(f"{label} {name!r}: nothing is packed; leave out '.gz'", ctx)
        _check_place(name)
        if os.path.exists(name) and not is_file(name):  # noqa: PTH110
            continue  # a pipe or a terminal
        said = f"{label} {name!r}"
        other = outputs.setdefault(_identity(name), said)
        if other != said:
            raise click.UsageError(f"{other} and {said} are one file; name two", ctx)
    for label, name in _named(ctx, writes=False) if outputs else ():
        if replaced := outputs.get(_identity(name)):
            raise click.UsageError(
                f"{replaced} would replace an input ({label} {name!r}); name another file", ctx
            )
    folders = [each for each in _named(ctx, writes=False, folders=True) if Path(each[1]).is_dir()]
    for (label, name), (inputs, folder) in product(_named(ctx, writes=True), folders):
        if is_file(name) and Path(name).resolve().is_relative_to(Path(folder).resolve()):
            raise click.UsageError(
                f"{label} {name!r} would replace a file of {inputs} {folder!r}; name another file",
                ctx,
            )


@contextmanager
def output(name: str | None) -> Iterator[Write]:
    """Open the file `name`, which appears at the end, or standard output; UTF-8."""
    if name is None:
        yield _print
        return
    with replacing(name) as file:

        def write(text: str) -> None:
            file.write(text.encode(errors="surrogateescape"))

        yield write


@contextmanager
def saying_where(ledger: str | None) -> Iterator[None]:
    """Add to write errors the place of the answers that were paid for."""
    try:
        yield
    except OSError as error:
        kept = next(iter(ledger_files(ledger)), None)
        if error.errno in (None, errno.EPIPE) or kept is None or not is_file(kept):
            raise
        where = f"answers are kept in {kept!r}: the same command does not ask for them again"
        raise OSError(error.errno, f"{error.strerror}; {where}", error.filename) from error


def print_line(text: str) -> None:
    """Print one line to standard output, as `output` writes it."""
    _print(f"{text}\n")


def _print(text: str) -> None:
    safe = shown(text) if sys.stdout.isatty() else text
    click.echo(safe.encode(errors="surrogateescape"), nl=False)


def _named(ctx: click.Context, *, writes: bool, folders: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the outputs, or the inputs, of a command, each with the option that names it."""
    for param in ctx.command.params:
        if not isinstance(param.type, Reads) or isinstance(param.type, Writes) != writes:
            continue
        if folders and not param.type.folder:
            continue
        label = param.opts[0] if isinstance(param, click.Option) else (param.name or "").upper()
        value = ctx.params.get(param.name or "")
        if value is None and writes:
            continue
        for text in value if isinstance(value, tuple) else (value,):
            for name in param.type.files(text):
                yield label, name


def _identity(path: str) -> object:
    """Return one value for all names of a file; of a missing one, by its folder and name."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except ValueError:
        return path  # no file can be called that
    except OSError:
        return os.path.realpath(path).casefold()
    return found.st_dev, found.st_ino


def _check_place(name: str) -> None:
    path = Path(os.path.realpath(name))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", name)
    if not path.parent.is_dir():
        if path.parent.exists():
            raise NotADirectoryError(errno.ENOTDIR, f"{path.parent} is no folder", name)
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist; create it", name)
    try:
        check_place(name)
    except OSError as error:
        advice = f"nothing can be written there ({error.strerror}); name another file"
        raise OSError(error.errno, advice, name) from error
