"""Everything a command puts out: text and files, JSON envelopes, failures, and the page's footer.

With ``--output json`` there is one object, whatever happens; a failure is one line on standard
error as well.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.invocation import Interrupted, say
from mcranker.errors import ConfigError, MCRankerError
from mcranker.paths import is_file
from personas.io.atomic import replacing
from personas.sanitize import json_text, one_line, shown

if TYPE_CHECKING:
    from rich.console import Console

    from personas.report.page import ReportFooter

DONE, ERROR, USAGE, MISSING_SCORES, BROKEN_PIPE = 0, 1, 2, 3, 141

Write = Callable[[str], None]

# A name, an equals sign, and then a text in quotes, a value without, or nothing.
_SETTING = re.compile(
    r"""(?<![\w?&/.-])([a-z][a-z_]*)=(?:(["'])(?P<text>[^"'\s]*)\2|(?P<bare>[\w.-]+)|(?![^\s:,;)]))"""
)
# The folders of a whole path, which pages leave out.
_FOLDERS = re.compile(r"(^|=)(?:/|[A-Za-z]:\\).*[/\\](?=.)")

ARGUMENTS = "mcranker.arguments"
"""Key in a context's ``meta`` of what was given to the verb."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure shown to the user."""

    code: str
    message: str
    retryable: bool = False
    exit_code: int = ERROR

    @property
    def entry(self) -> dict[str, Any]:
        """The failure as an entry of an envelope's ``errors``."""
        return {"code": self.code, "message": self.message, "retryable": self.retryable}


def failure(error: BaseException) -> Failure:
    """Convert `error` to a failure shown to the user."""
    code = type(error).__name__
    match error:
        case click.UsageError():
            hint = f"; see '{error.ctx.command_path} --help'" if error.ctx else ""
            message = one_line(error.format_message()).rstrip(".")
            return Failure(code, f"{message}{hint}", exit_code=USAGE)
        case click.ClickException():
            return Failure(code, one_line(error.format_message()), exit_code=error.exit_code)
        case Interrupted():
            return Failure(code, one_line(str(error)), retryable=True, exit_code=error.exit_code)
        case MCRankerError():
            retryable = bool(getattr(error, "retryable", False))
            exit_code = USAGE if isinstance(error, ConfigError) else ERROR
            return Failure(code, one_line(as_flags(str(error))), retryable, exit_code)
        case OSError():
            return Failure(code, one_line(_os_message(error)))
        case UnicodeDecodeError():
            return Failure(code, f"not UTF-8 text: {one_line(str(error))}; save it as UTF-8")
    from personas import PersonasError

    if isinstance(error, PersonasError) or getattr(error, "for_users", False):
        return Failure(code, one_line(str(error)))
    text = one_line(str(error)) or "no message"
    return Failure(code, f"unexpected {code}: {text}; --debug shows where, and a report is welcome")


def as_flags(text: str) -> str:
    """`text` with the package's settings as the command line spells them."""
    from mcranker.config import RankerConfig
    from mcranker.llm.models import MODEL_OPTIONS
    from mcranker.rankers.keys import NAMED

    def respelled(found: re.Match[str]) -> str:
        name, value = found[1], found["bare"] if found["text"] is None else found["text"]
        value = "none" if value == "None" else value
        if name in NAMED:
            return f"--{name.replace('_', '-')} {value or ''}".rstrip()
        own = ("with_criteria", "query_model", "answer_model", "embedder_url")
        known = name in {*RankerConfig.model_fields, *MODEL_OPTIONS, *own}
        return f"-o {name}={'VALUE' if value is None else value}" if known else found[0]

    return _SETTING.sub(respelled, text.replace(" or pass api_key=", ""))


def envelope(exit_code: int, errors: Sequence[dict[str, Any]], /, **results: Any) -> str:
    """The JSON object that ``--output json`` prints, with a line end."""
    status = {DONE: "ok", MISSING_SCORES: "missing_scores"}.get(exit_code, "error")
    whole = {"status": status, "exit_code": exit_code, **results, "errors": errors}
    return json_text(whole) + "\n"


def print_json(
    exit_code: int = DONE, errors: Sequence[dict[str, Any]] = (), /, **results: Any
) -> int:
    """Print the envelope to standard output, in UTF-8; the exit code."""
    _print(envelope(exit_code, errors, **results))
    return exit_code


def present(
    ctx: click.Context,
    shown: Callable[[Console], None] | str,
    code: int = DONE,
    errors: Sequence[dict[str, Any]] = (),
    /,
    **results: Any,
) -> int:
    """Print what a verb found: a page or lines, or with ``--output json`` an envelope; the code."""
    if ctx.params["output"] == "json":
        return print_json(code, errors, **results)
    if isinstance(shown, str):
        print_line(shown)
    else:
        from personas.console import print_page

        print_page(shown)
    return code


def print_line(text: str) -> None:
    """Print one line to standard output, as `output` writes it."""
    _print(f"{text}\n")


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


def keep(name: str | None, write: Callable[[str], object], ledger: str) -> Failure | None:
    """Write a file besides the output, if it has a name; a failure is said."""
    try:
        with saying_where(ledger):
            if name is not None:
                write(name)
    except OSError as error:
        found = failure(error)
        say(f"error: {found.message}")
        return found
    return None


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


def ledger_files(named: str | None) -> Iterator[str]:
    """The files of the ledger that ``--ledger`` names, even if they are still to come."""
    from mcranker.llm.ledger.ledger import place_of

    path = place_of("default" if named is None else named)
    if isinstance(path, Path):
        for suffix in ("", "-wal", "-shm", "-journal"):
            yield f"{os.path.realpath(path)}{suffix}"


def footer(ctx: click.Context) -> ReportFooter:
    """The last line of a page that this command makes: the version, the day and the command."""
    from mcranker import __version__
    from personas.report.page import ReportFooter

    return ReportFooter(__version__, today(), command_line(ctx))


def today() -> str:
    """The day in UTC, e.g. ``2026-03-31``; that of ``SOURCE_DATE_EPOCH`` where it is set."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = datetime.now(UTC) if given is None else datetime.fromtimestamp(int(given), UTC)
    except (ValueError, OverflowError, OSError):
        raise click.UsageError(
            f"SOURCE_DATE_EPOCH={given!r} is no time; give seconds since 1970, e.g. 1767225600"
        ) from None
    return moment.date().isoformat()


def command_line(ctx: click.Context) -> str:
    """The command as it was given, e.g. ``personas report runs/x --out report``."""
    given = (word for word in ctx.meta.get(ARGUMENTS, ()) if word not in ("-q", "--quiet"))
    return shlex.join([*ctx.command_path.split(), *(_FOLDERS.sub(r"\1", word) for word in given)])


def _print(text: str) -> None:
    safe = shown(text) if sys.stdout.isatty() else text
    click.echo(safe.encode(errors="surrogateescape"), nl=False)


def _os_message(error: OSError) -> str:
    if error.errno == errno.EBADF and error.filename is None:
        return "standard output is closed; open it, or redirect it to a file"
    what = error.strerror or str(error) or type(error).__name__
    return f"{error.filename!r}: {what}" if error.filename is not None else what
