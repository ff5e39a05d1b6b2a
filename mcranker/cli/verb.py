"""Base of every verb; imports little, so that verbs start quickly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from mcranker.cli.files import check_outputs

OTHER = "Options"


class GroupedOption(click.Option):
    """An option that the help lists under a heading of its own."""

    def __init__(self, *args: Any, section: str = OTHER, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Verb(click.Command):
    """A command whose help lists its options by section, and whose outputs are no inputs.

    Args:
        name: of the verb.
        run: does the work; returns the exit code.
        rest: as `click.Command` takes it.
    """

    def __init__(self, name: str, run: Callable[[click.Context], int], **rest: Any) -> None:
        super().__init__(name, callback=lambda **_: run(click.get_current_context()), **rest)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from mcranker.rankers import RANKERS
            from mcranker.rankers.keys import keys_of

            name = error.option_name.lstrip("-").removeprefix("no-").replace("-", "_")
            takes_more = any(param.name == "option" for param in self.params)
            if not takes_more or name not in keys_of(*RANKERS.names):
                raise
            raise click.UsageError(
                f"there is no {error.option_name}; give it as -o {name}=VALUE", ctx
            ) from error

    def invoke(self, ctx: click.Context) -> Any:
        check_outputs(ctx)
        return super().invoke(ctx)

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


def output_flag(
    results: str,
    *,
    forms: Sequence[str] = ("table", "json"),
    said: str = "",
    section: str = OTHER,
) -> click.Parameter:
    """``--output``; `results` names the envelope's keys, `said` explains the other forms."""
    return GroupedOption(
        ["--output"],
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        section=section,
        help=f"{said}json: one object with status, {results} and errors.",
    )


def quiet_flag() -> click.Parameter:
    """``--quiet``."""
    return click.Option(["-q", "--quiet"], is_flag=True, help="No live display and no notes.")
