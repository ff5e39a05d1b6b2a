"""From an exception to one line, an exit code, and an entry of the JSON envelope."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import click

from mcranker.cli.files import output
from mcranker.errors import ConfigError, MCRankerError
from personas.sanitize import json_text, one_line

DONE, ERROR, USAGE, MISSING_SCORES, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141

Status = Literal["ok", "missing_scores", "error"]

# A name, an equals sign, and then a text in quotes, a value without, or nothing.
_SETTING = re.compile(
    r"""(?<![\w?&/.-])([a-z][a-z_]*)=(?:(["'])(?P<text>[^"'\s]*)\2|(?P<bare>[\w.-]+)|(?![^\s:,;)]))"""
)


class Interrupted(Exception):
    """Ctrl-C, or a signal heard as such, as an exception that click does not handle by itself."""

    def __init__(self, message: str, exit_code: int = INTERRUPTED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


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
        entry = asdict(self)
        del entry["exit_code"]
        return entry


def failure(error: BaseException) -> Failure:
    """Convert `error` to a failure shown to the user."""
    code = type(error).__name__
    match error:
        case click.UsageError():
            message = one_line(error.format_message()).rstrip(".")
            return Failure(code, f"{message}{_help_hint(error)}", exit_code=USAGE)
        case click.ClickException():
            return Failure(code, one_line(error.format_message()), exit_code=error.exit_code)
        case Interrupted():
            # One line as it is: to import what makes it one may be what was interrupted.
            return Failure(code, str(error), retryable=True, exit_code=error.exit_code)
        case ConfigError():
            return Failure(code, one_line(as_flags(str(error))), exit_code=USAGE)
        case MCRankerError():
            retryable = bool(getattr(error, "retryable", False))
            return Failure(code, one_line(as_flags(str(error))), retryable)
        case OSError():
            return Failure(code, one_line(_os_message(error)))
        case UnicodeDecodeError():
            return Failure(code, f"not UTF-8 text: {one_line(str(error))}; save it as UTF-8")
    from personas import PersonasError

    if isinstance(error, PersonasError):
        return Failure(code, one_line(str(error)))
    if getattr(error, "for_users", False):
        return Failure(code, one_line(str(error)))
    text = one_line(str(error)) or "no message"
    return Failure(code, f"unexpected {code}: {text}; --debug shows where, and a report is welcome")


def envelope(exit_code: int, errors: Sequence[dict[str, Any]], /, **results: Any) -> str:
    """The JSON object that ``--output json`` prints, with a line end."""
    statuses: dict[int, Status] = {DONE: "ok", MISSING_SCORES: "missing_scores"}
    status = statuses.get(exit_code, "error")
    whole = {"status": status, "exit_code": exit_code, **results, "errors": errors}
    return json_text(whole) + "\n"


def print_json(
    exit_code: int = DONE, errors: Sequence[dict[str, Any]] = (), /, **results: Any
) -> int:
    """Print the envelope to standard output, in UTF-8; the exit code."""
    with output(None) as write:
        write(envelope(exit_code, errors, **results))
    return exit_code


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


def _help_hint(error: click.UsageError) -> str:
    return f"; see '{error.ctx.command_path} --help'" if error.ctx else ""


def _os_message(error: OSError) -> str:
    if error.errno == errno.EBADF and error.filename is None:
        return "standard output is closed; open it, or redirect it to a file"
    what = error.strerror or str(error) or type(error).__name__
    return f"{error.filename!r}: {what}" if error.filename is not None else what
