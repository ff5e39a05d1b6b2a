"""``mcranker models``: providers, the catalogue of the local engine, and downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.fetching import is_here
from mcranker.cli.files import print_line
from mcranker.cli.invocation import Invocation
from mcranker.cli.progress import download_bar
from mcranker.cli.verb import Verb, output_flag
from personas.format import file_size

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.llm.local.catalogue import CatalogueEntry


def _download(ctx: click.Context) -> int:
    from mcranker.llm.local.catalogue import find, not_found
    from mcranker.llm.local.model_files import download

    name = ctx.params["name"]
    entry = find(name.removeprefix("local:"))
    if entry is None:
        raise not_found(name)
    ctx.ensure_object(Invocation).doing(f"fetching {entry.name}; nothing of it was kept")
    with download_bar(entry.name, quiet=ctx.params["quiet"]) as progress:
        path = download(entry, progress=progress)
    print_line(str(path))
    return DONE


def _list(output: str) -> int:
    from mcranker.llm.local.catalogue import catalogue
    from mcranker.llm.provider import PROVIDERS

    if click.get_current_context().invoked_subcommand is not None:
        return DONE
    entries = catalogue()
    providers = [
        (prefix, "", f"{each}")
        if isinstance(each, Exception)
        else (prefix, each.key_variable, each.note)
        for prefix, each in PROVIDERS.load_all().items()
    ]
    if output == "json":
        named = [
            dict(zip(("prefix", "key_variable", "note"), row, strict=True)) for row in providers
        ]
        return print_json(models=[_record(entry) for entry in entries], providers=named)
    from personas.console import names, print_page, table

    def show(console: Console) -> None:
        rows = [(f"{prefix}:NAME", *rest) for prefix, *rest in providers]
        console.print(table([names("model"), names("key"), ""], rows))
        _show(console, entries)

    print_page(show)
    return DONE


def _record(entry: CatalogueEntry) -> dict[str, Any]:
    return {**entry.model_dump(mode="json"), "downloaded": is_here(entry)}


def _show(console: Console, entries: tuple[CatalogueEntry, ...]) -> None:
    from rich.table import Column

    from personas.console import names, numbers, table

    licence = Column("licence", no_wrap=True)
    rows = (
        (
            entry.name,
            file_size(entry.size),
            entry.licence,
            "encoder" if entry.tokenizer is not None else "weak" if entry.weak else "chat",
            "yes" if is_here(entry) else "",
            entry.note,
        )
        for entry in entries
    )
    console.print(table([names("name"), *numbers("size"), licence, "kind", "here", ""], rows))


command = click.Group(
    "models",
    callback=_list,
    invoke_without_command=True,
    params=[output_flag("models")],
    help="""List the providers of models and the models that local:NAME can name, or download one.

    Use one with --model PREFIX:NAME; any other GGUF file with --model local:PATH.gguf. A
    model marked weak, and an encoder, cannot invent a team and take the library's.
    """,
    commands=[
        Verb(
            "download",
            _download,
            params=[
                click.Argument(["name"]),
                click.Option(["-q", "--quiet"], is_flag=True, help="No progress bar."),
            ],
            help="Fetch the model NAME into the cache folder, and check it.",
        )
    ],
)
