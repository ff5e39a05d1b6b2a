"""Local models that are missing, fetched visibly before the work begins."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcranker.cli.invocation import Invocation
from mcranker.cli.progress import download_bar

if TYPE_CHECKING:
    from mcranker.llm.local.catalogue import CatalogueEntry

ENGINE = "xllamacpp"
"""The package of the local engine."""

ENCODER = ("onnxruntime", "tokenizers")
"""The packages of the local encoder."""

_LOCAL = "local:"


def fetch_models(models: Iterable[str], *, quiet: bool) -> None:
    """Fetch local models of the catalogue that are missing."""
    from mcranker.llm.local.catalogue import find
    from mcranker.llm.local.model_files import resolve, resolve_encoder

    for model in models:
        name = model.strip().removeprefix(_LOCAL).strip()
        entry = find(name) if model.strip().startswith(_LOCAL) else None
        if entry is not None and _can_be_used(entry) and not Path(name).exists():
            ctx = click.get_current_context(silent=True)
            invocation = ctx.ensure_object(Invocation) if ctx else Invocation()
            with (
                invocation.during(f"fetching {name}; nothing of it was kept"),
                download_bar(name, quiet=quiet) as progress,
            ):
                if entry.tokenizer is None:
                    resolve(name, progress=progress)
                else:
                    resolve_encoder(entry, progress=progress)


def is_here(entry: CatalogueEntry) -> bool:
    """True if the cache folder has the files of a model, or of its substitute."""
    from mcranker.llm.local.catalogue import find
    from mcranker.llm.local.model_files import cache_folder

    other = find(entry.otherwise) if entry.otherwise else None
    return any(
        all((cache_folder() / part.file).is_file() for part in each.files)
        for each in (entry, other)
        if each is not None
    )


def _can_be_used(entry: CatalogueEntry) -> bool:
    packages = (ENGINE,) if entry.tokenizer is None else ENCODER
    return all(importlib.util.find_spec(each) is not None for each in packages)
