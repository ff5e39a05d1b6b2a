"""``mcranker models``: the catalogue of the local engine, and downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, envelope
from mcranker.cli.fetching import is_here
from mcranker.cli.files import output as opened_output
from mcranker.cli.files import print_line
from mcranker.cli.invocation import Invocation
from mcranker.cli.progress import download_bar
from personas.words import file_size

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.llm.local.catalogue import CatalogueEntry

__all__ = ["command"]


@click.group("models", invoke_without_command=True)
@click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json: one object with status, models and errors.",
)
@click.pass_context
def command(ctx: click.Context, output: str) -> int:
    """List the models that local:NAME can name, or download one.

    Use one with --model local:NAME; any other GGUF file with --model local:PATH.gguf. A
    model marked weak cannot invent a team by itself and takes the library's.
    """
    return _list(as_json=output == "json") if ctx.invoked_subcommand is None else DONE


@command.command("download")
@click.argument("name")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@click.pass_obj
def download_command(invocation: Invocation, name: str, quiet: bool) -> int:
    """Fetch the model NAME into the cache folder, and check it."""
    from mcranker.llm.local.catalogue import find, not_found
    from mcranker.llm.local.model_files import download

    entry = find(name.removeprefix("local:"))
    if entry is None:
        raise not_found(name)
    invocation.reached = lambda: f"while fetching {entry.name}; nothing of it was kept"
    with download_bar(entry.name, quiet=quiet) as progress:
        path = download(entry, progress=progress)
    print_line(str(path))
    return DONE


def _list(*, as_json: bool) -> int:
    from mcranker.llm.local.catalogue import catalogue

    entries = catalogue()
    if as_json:
        with opened_output(None) as write:
            write(envelope(DONE, [], models=[_record(entry) for entry in entries]))
        return DONE
    from mcranker.cli.tables import print_page

    print_page(lambda console: _show(console, entries))
    return DONE


def _record(entry: CatalogueEntry) -> dict[str, Any]:
    return {**entry.model_dump(mode="json"), "downloaded": is_here(entry.file)}


def _show(console: Console, entries: tuple[CatalogueEntry, ...]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    table.add_column("weak")
    table.add_column("here")
    table.add_column("")
    for entry in entries:
        table.add_row(
            entry.name,
            file_size(entry.size),
            entry.licence,
            "weak" if entry.weak else "",
            "yes" if is_here(entry.file) else "",
            Text(entry.note),
        )
    console.print(table)
