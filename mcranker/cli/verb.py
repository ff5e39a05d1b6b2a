"""What every verb is made of; imports nothing but click, so that verbs start quickly."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["GroupedOption", "Verb", "quiet_flag"]

OTHER = "Options"


class GroupedOption(click.Option):
    """An option that the help lists under a heading of its own."""

    def __init__(self, *args: Any, section: str = OTHER, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Verb(click.Command):
    """A command whose help lists its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "section", OTHER), []).append(record)
        plain = sections.pop(OTHER, [])
        for name, records in [*sections.items(), (OTHER, plain)]:
            with formatter.section(name):
                formatter.write_dl(records)


def quiet_flag() -> click.Parameter:
    """``--quiet``."""
    return click.Option(["-q", "--quiet"], is_flag=True, help="No live display and no notes.")
