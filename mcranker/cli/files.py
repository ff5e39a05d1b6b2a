"""Files of a command: what it reads, what it writes, and that the second is never the first.

An option or argument says by its type, `Reads` or `Writes`, that it names files. `check_outputs`
does the rest for every verb, before anything is asked or paid for.
"""

from __future__ import annotations

import errno
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from mcranker.paths import is_file, is_folder
from personas.io.atomic import check_place, descriptor, replacing
from personas.sanitize import shown

Write = Callable[[str], None]
"""Takes the next piece of text."""

_STANDARD_OUTPUT = "standard output"
_BESIDE_A_DATABASE = ("", "-wal", "-shm", "-journal")


class Reads(click.ParamType[Any]):
    """One or several texts that may name files or folders that the command reads.

    Args:
        inside: patterns, as `Path.glob` takes them, of the files that are read in a folder.
        files: gives the files of one text, or of None if nothing was given; itself by default.
    """

    name = "file"

    def __init__(
        self, *inside: str, files: Callable[[str | None], Iterable[str | Path]] | None = None
    ) -> None:
        self._inside = inside
        self._files = files or _itself

    def paths(self, value: Any) -> Iterator[str | Path]:
        """The files and folders that a value names, and the files that are read in folders."""
        for text in value if isinstance(value, tuple) else (value,):
            for path in self._files(text):
                yield path
                for pattern in self._inside if is_folder(path) else ():
                    yield from Path(path).glob(pattern)


class Writes(click.ParamType[Any]):
    """A file that the command writes.

    Args:
        files: gives the files of the text; itself by default.
    """

    name = "file"

    def __init__(self, files: Callable[[str], Iterable[str]] | None = None) -> None:
        self.files = files or _itself


def ledger_files(named: str | None) -> Iterator[str]:
    """The files of the ledger that ``--ledger`` names, even if they are still to come."""
    from mcranker.llm.ledger.ledger import default_ledger_path

    if named is None or named == "default":
        path = default_ledger_path()
    else:
        path = None if named.lower() == "none" else Path(named).expanduser()
    if path is not None:
        yield from database_files(path)
        yield f"{path}.batches"


def database_files(path: Path) -> Iterator[str]:
    """The file of a database and those that are beside it while it is in use."""
    return (f"{os.path.realpath(path)}{suffix}" for suffix in _BESIDE_A_DATABASE)


def check_outputs(ctx: click.Context) -> None:
    """Refuse outputs that cannot be written, or are an input or another output as well.

    A file is known whatever it is called: through links, in another case, by `/dev/fd/3`. The
    standard streams count where they are files.

    Raises:
        click.UsageError: an output would replace an input, or two outputs are the same file.
        OSError: one is a folder, its folder is missing, or nothing can be written there.
    """
    outputs = {_identity(1): _STANDARD_OUTPUT} if _is_file(1) else {}
    for param, value in _given(ctx, Writes):
        for name in param.type.files(value) if value is not None else ():
            _check_place(name)
            if os.path.exists(name) and not _is_file(name):  # noqa: PTH110
                continue
            label, identity = f"{_label(param)} {name!r}", _identity(name)
            other = outputs.setdefault(identity, label)
            is_stream = other == _STANDARD_OUTPUT and descriptor(name) is not None
            if other is not label and not is_stream:
                raise click.UsageError(f"{other} and {label} are one file; name two", ctx)
    if not outputs:
        return
    inputs: list[tuple[str, str | Path | int]] = [
        (_label(param), path)
        for param, value in _given(ctx, Reads)
        for path in param.type.paths(value)
    ]
    if _is_file(0):
        inputs.append(("standard input", 0))
    for label, path in inputs:
        if output_label := outputs.get(_identity(path)):
            which = label if isinstance(path, int) else f"{label} {os.fspath(path)!r}"
            raise click.UsageError(
                f"{output_label} would replace an input ({which}); name another file", ctx
            )


@contextmanager
def output(name: str | None) -> Iterator[Write]:
    """Open the file `name`, which appears at the end, or standard output; UTF-8.

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


@contextmanager
def saying_where(ledger: str | None) -> Iterator[None]:
    """Add to write errors the place of the answers that were paid for.

    Args:
        ledger: the ledger's name, as ``--ledger`` takes it.
    """
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


def _given(ctx: click.Context, kind: type[click.ParamType[Any]]) -> Iterator[tuple[Any, Any]]:
    for param in ctx.command.params:
        if isinstance(param.type, kind):
            yield param, ctx.params.get(param.name or "")


def _label(param: click.Parameter) -> str:
    return param.opts[0] if isinstance(param, click.Option) else (param.name or "").upper()


def _itself(text: str | None) -> Iterable[str]:
    return () if text is None else (text,)


def _is_file(path: str | int) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - also of a stream


def _identity(path: str | Path | int) -> tuple[object, ...]:
    """Return one value for all names of a file; of a missing one, by its folder and name."""
    try:
        found = os.stat(path)  # noqa: PTH116 - also of a stream
    except ValueError:
        return (path,)  # no file can be called that
    except OSError:
        folder, name = os.path.split(os.path.realpath(str(path)))
        return (*_identity(folder), unicodedata.normalize("NFC", name).casefold())
    return (found.st_dev, found.st_ino)


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
