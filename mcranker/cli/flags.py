"""Flags of verbs, their help by sections, and outputs that are no inputs.

>>> def _greet(ctx: click.Context) -> int:
...     return present(ctx, lambda console: console.print("hello"), said="hello")
>>> command = Verb("greet", _greet, params=[output_flag("said")], help="Say hello.")

It is named in `mcranker.cli.group.VERBS`. The function returns the exit code. The files of
parameters with the types `Reads` and `Writes` are checked before anything is asked or paid for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mcranker.cli.invocation import Invocation, debug_option
from mcranker.cli.output import ARGUMENTS
from mcranker.config import LARGEST
from mcranker.paths import is_file, is_folder
from personas.io.atomic import check_place
from personas.io.lines import STDIN

OTHER = "Options"


class WholeNumber(click.IntRange):
    """A whole number within 64 bits; the help leaves that limit out."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if abs(number) > LARGEST:
            self.fail(
                f"{value!r} is no number within 64 bits; give one of up to {LARGEST}.", param, ctx
            )
        return number


class Reads(click.ParamType[Any]):
    """One or several texts that may name files that the command reads."""

    name = "file"

    def __init__(
        self, files: Callable[[str | None], Iterable[str]] | None = None, *, folder: bool = False
    ) -> None:
        self.files = files or (lambda text: () if text is None else (text,))
        self.folder = folder  # may name one, of which every file is read


class Writes(Reads):
    """A text that names a file, or files, that the command writes."""


class GroupedOption(click.Option):
    """An option that the help lists under a heading of its own."""

    def __init__(self, *args: Any, section: str = OTHER, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


def flag(names: str, text: str, *, section: str = OTHER, **rest: Any) -> click.Option:
    """An option that shows its default."""
    shown = rest.get("default") not in (None, "") and "is_flag" not in rest
    return GroupedOption(names.split(), section=section, help=text, show_default=shown, **rest)


def output_flag(
    results: str, *, forms: Sequence[str] = ("table", "json"), said: str = "", section: str = OTHER
) -> click.Parameter:
    """``--output``; `results` names the envelope's keys, `said` explains the other forms."""
    text = f"{said}json: one object with status, {results} and errors."
    kind = click.Choice(forms)
    return flag("--output", text, type=kind, default=forms[0], section=section)


def dry_run_flag() -> click.Parameter:
    """``--dry-run``, of verbs that ask models."""
    text = "Show calls, tokens and cost instead; nothing is sent, no file is written."
    return flag("--dry-run", text, is_flag=True, section="Output")


def listing(
    name: str,
    text: str,
    show: Callable[[click.Context, str], int],
    *,
    metavar: str | None = None,
    section: str = OTHER,
) -> click.Option:
    """An option that lists something and ends the command; with a `metavar` it may have a value."""

    def stop(ctx: click.Context, param: click.Parameter, value: str | bool | None) -> None:
        if value in (None, False) or ctx.resilient_parsing:
            return
        ctx.params["output"] = "json" if ctx.ensure_object(Invocation).as_json else "table"
        ctx.exit(show(ctx, value if isinstance(value, str) else ""))

    value: dict[str, Any] = {"is_flag": True}
    if metavar is not None:
        value = {"is_flag": False, "flag_value": "", "metavar": f"[{metavar}]"}
    value |= {"is_eager": True, "expose_value": False, "callback": stop}
    return flag(f"{name} list_{name.strip('-')}", text, section=section, **value)


class Verb(click.Command):
    """A command whose help lists its options by section, and whose outputs are no inputs."""

    def __init__(
        self,
        name: str,
        run: Callable[[click.Context], int],
        *,
        params: Sequence[click.Parameter] = (),
        **rest: Any,
    ) -> None:
        rest.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        quiet = flag("-q --quiet", "No live display and no notes.", is_flag=True)
        super().__init__(
            name,
            callback=lambda **_: run(click.get_current_context()),
            params=[*params, quiet, debug_option()],
            **rest,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if all(param.name != "option" for param in self.params):
                raise
            name = error.option_name.lstrip("-").removeprefix("no-").replace("-", "_")
            meant = ", ".join(map(repr, error.possibilities or ()))
            close = f" (or did you mean {meant}?)" if meant else ""
            raise click.UsageError(
                f"there is no {error.option_name}; give it as -o {name}=VALUE, if --options lists "
                f"it{close}",
                ctx,
            ) from error

    def invoke(self, ctx: click.Context) -> Any:
        check_outputs(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(getattr(param, "section", OTHER), []).append(record)
        for name, records in sorted(sections.items(), key=lambda each: each[0] == OTHER):
            with formatter.section(name):
                formatter.write_dl(records)


def refuse(ctx: click.Context, *wrong: tuple[Any, str]) -> None:
    """Raise a usage error with the message of the first condition that holds."""
    for is_wrong, message in wrong:
        if is_wrong:
            raise click.UsageError(message, ctx)


def refuse_page(ctx: click.Context, *names: str) -> None:
    """Refuse ``--output`` and the options named beside ``--html``."""
    if ctx.params["html"] is not None:
        message = "--html writes the page and prints nothing; leave --{} out"
        given = ((ctx.params[each] not in (None, "table"), each) for each in ("output", *names))
        refuse(ctx, *((wrong, message.format(each)) for wrong, each in given))


def check_outputs(ctx: click.Context) -> None:
    """Refuse outputs that cannot be written, or are an input or another output as well."""
    inputs, named = ([*_named(ctx, writes=writes)] for writes in (False, True))
    piped = [label for label, name, _ in inputs if name == STDIN]
    if len(piped) > 1:
        raise click.UsageError(f"{' and '.join(piped)} cannot both be standard input", ctx)
    outputs: dict[object, str] = {}
    for label, name, _ in named:
        said = f"{label} {name!r}"
        refuse(
            ctx,
            (name == "-", f"{said}: name a file; /dev/stdout is standard output"),
            (name.lower().endswith(".gz"), f"{said}: nothing is packed; leave out '.gz'"),
        )
        check_place(name)
        if os.path.exists(name) and not is_file(name):  # noqa: PTH110
            continue  # a pipe or a terminal
        identity = _identity(name)
        other = outputs.setdefault(identity, said)
        refuse(ctx, (other != said, f"{other} and {said} are one file; name two"))
        for given, source, folder in inputs:
            root = Path(source).resolve() if folder and is_folder(source) else None
            inside = root and is_file(name) and Path(name).resolve().is_relative_to(root)
            what = f"a file of {given} {source!r}" if inside else f"an input ({given} {source!r})"
            message = f"{said} would replace {what}; name another file"
            refuse(ctx, (inside or _identity(source) == identity, message))


def _named(ctx: click.Context, *, writes: bool) -> Iterator[tuple[str, str, bool]]:
    """The outputs, or the inputs: the option, the file, and True if it may be a folder."""
    for param in ctx.command.params:
        kind, value = param.type, ctx.params.get(param.name or "")
        if not isinstance(kind, Reads) or isinstance(kind, Writes) != writes:
            continue
        label = param.opts[0] if isinstance(param, click.Option) else (param.name or "").upper()
        for text in value if isinstance(value, tuple) else (value,):
            yield from ((label, name, kind.folder) for name in kind.files(text))


def _identity(path: str) -> object:
    """Return one value for all names of a file; of a missing one, by its folder and name."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except ValueError:
        return path  # no file can be called that
    except OSError:
        return os.path.realpath(path).casefold()
    return found.st_dev, found.st_ino
