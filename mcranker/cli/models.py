"""``mcranker models``: providers, the catalogue of the local engine, and downloads."""

from __future__ import annotations

import click

from mcranker.cli.failures import DONE
from mcranker.cli.fetching import is_here
from mcranker.cli.files import print_line
from mcranker.cli.invocation import Invocation
from mcranker.cli.progress import download_bar
from mcranker.cli.verb import Verb, flag, output_flag, present
from personas.format import file_size


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
    from rich.table import Column

    from mcranker.llm.local.catalogue import catalogue
    from mcranker.llm.provider import PROVIDERS
    from personas.console import names, numbers, table

    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        return DONE
    entries = catalogue()
    records = [{**each.model_dump(mode="json"), "downloaded": is_here(each)} for each in entries]
    rows = (
        (
            entry.name,
            file_size(entry.size),
            entry.licence,
            "encoder" if entry.tokenizer is not None else "chat",
            "yes" if is_here(entry) else "",
            entry.note,
        )
        for entry in entries
    )
    licence = Column("licence", no_wrap=True)
    found = table([names("name"), *numbers("size"), licence, "kind", "here", ""], rows)
    providers = [
        (prefix, "", str(each))
        if isinstance(each, Exception)
        else (prefix, each.key_variable, each.note)
        for prefix, each in PROVIDERS.load_all().items()
    ]
    prefixes = [(f"{prefix}:NAME", *rest) for prefix, *rest in providers]
    named = table([names("model"), names("key"), ""], prefixes)
    keys = ("prefix", "key_variable", "note")
    return present(
        ctx,
        lambda console: console.print(named, found),
        models=records,
        providers=[dict(zip(keys, each, strict=True)) for each in providers],
    )


command = click.Group(
    "models",
    callback=_list,
    invoke_without_command=True,
    params=[output_flag("models")],
    help="""List the providers of models and the models that local:NAME can name, or download one.

    Use one with --model PREFIX:NAME; any other GGUF file with --model local:PATH.gguf. An
    encoder cannot invent a team and takes the library's.
    """,
    commands=[
        Verb(
            "download",
            _download,
            params=[
                click.Argument(["name"]),
                flag("-q --quiet", "No progress bar.", is_flag=True),
            ],
            help="Fetch the model NAME into the cache folder, and check it.",
        )
    ],
)
