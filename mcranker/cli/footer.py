"""Origin of a page: the version, the day and the command."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path

import click
from click.core import ParameterSource

from mcranker import __version__
from personas.report.page import ReportFooter

_OF_NO_PAGE = frozenset({"output", "processes", "quiet"})
"""Options that do not change a page."""


def footer(ctx: click.Context) -> ReportFooter:
    """The last line of a page that this command makes; raises what `today` does."""
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
    """The command with what was given to it, e.g. ``personas report runs/x --out report``."""
    words = [ctx.command_path]
    for param in sorted(ctx.command.params, key=lambda each: isinstance(each, click.Option)):
        name = param.name or ""
        given = ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if not given or name in _OF_NO_PAGE:
            continue
        value = ctx.params.get(name)
        if isinstance(param, click.Argument):
            words += map(_shown, value if isinstance(value, tuple) else (value,))
        elif value is True:
            words.append(param.opts[0])
        else:
            joined = ",".join(value) if isinstance(value, tuple) else value
            words += (param.opts[0], _shown(joined))
    return " ".join(words)


def _shown(value: object) -> str:
    text = str(value)
    return shlex.quote(Path(text).name or text) if Path(text).is_absolute() else shlex.quote(text)
