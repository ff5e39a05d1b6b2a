"""Base of every verb; imports little, so that verbs start quickly."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import check_outputs

if TYPE_CHECKING:
    from rich.console import Console

OTHER = "Options"


class GroupedOption(click.Option):
    """An option that the help lists under a heading of its own."""

    def __init__(self, *args: Any, section: str = OTHER, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Verb(click.Command):
    """A command whose help lists its options by section, and whose outputs are no inputs."""

    def __init__(
        self,
        name: str,
        run: Callable[[click.Context], int],
        *,
        keys: Collection[str] = (),
        **rest: Any,
    ) -> None:
        rest.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(name, callback=lambda **_: run(click.get_current_context()), **rest)
        self.keys = keys

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from mcranker.rankers import RANKERS
            from mcranker.rankers.keys import keys_of

            name = error.option_name.lstrip("-").removeprefix("no-").replace("-", "_")
            takes_more = any(param.name == "option" for param in self.params)
            if not takes_more or name not in {*keys_of(*RANKERS.names), *self.keys}:
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


def flag(names: str, text: str, *, section: str = OTHER, **rest: Any) -> click.Option:
    """An option that shows its default."""
    shown = rest.get("default") not in (None, "") and "is_flag" not in rest
    return GroupedOption(names.split(), section=section, help=text, show_default=shown, **rest)


def output_flag(
    results: str,
    *,
    forms: Sequence[str] = ("table", "json"),
    said: str = "",
    section: str = OTHER,
) -> click.Parameter:
    """``--output``; `results` names the envelope's keys, `said` explains the other forms."""
    text = f"{said}json: one object with status, {results} and errors."
    kind = click.Choice(forms)
    return flag("--output", text, type=kind, default=forms[0], section=section)


def quiet_flag() -> click.Parameter:
    """``--quiet``."""
    return flag("-q --quiet", "No live display and no notes.", is_flag=True)


def present(
    ctx: click.Context,
    show: Callable[[Console], None],
    code: int = DONE,
    errors: Sequence[dict[str, Any]] = (),
    /,
    **results: Any,
) -> int:
    """Print what a verb found as ``--output`` says: a page, or an envelope; the exit code."""
    if ctx.params["output"] == "json":
        return print_json(code, errors, **results)
    from personas.console import print_page

    print_page(show)
    return code


def refuse_page(ctx: click.Context, *names: str) -> None:
    """Refuse ``--output`` and the options named beside ``--html``."""
    for name in ("output", *names):
        given = ctx.params[name]
        if ctx.params["html"] is not None and given not in (None, "table"):
            raise click.UsageError(
                f"--html writes the page and prints nothing; leave --{name} out", ctx
            )
