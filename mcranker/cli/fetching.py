"""Local models that are not here yet: fetched before the work begins, where one can see it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import click

from mcranker.cli.invocation import Invocation
from mcranker.cli.progress import download_bar

ENGINE = "xllamacpp"
"""The package of the local engine."""

_LOCAL = "local:"


def fetch_models(models: Iterable[str], *, quiet: bool) -> None:
    """Fetch those of the models that are local, are in the catalogue, and are not here.

    Without the local engine nothing is fetched, since nothing could be done with it.

    Raises:
        DownloadError, ConfigError: as `mcranker.llm.local.model_files.download`.
    """
    if importlib.util.find_spec(ENGINE) is None:
        return
    from mcranker.llm.local.catalogue import find
    from mcranker.llm.local.model_files import resolve

    for model in models:
        name = model.strip().removeprefix(_LOCAL).strip()
        if model.strip().startswith(_LOCAL) and find(name) and not Path(name).exists():
            ctx = click.get_current_context(silent=True)
            invocation = ctx.ensure_object(Invocation) if ctx else Invocation()
            with (
                invocation.during(f"fetching {name}; nothing of it was kept"),
                download_bar(name, quiet=quiet) as progress,
            ):
                resolve(name, progress=progress)


def is_here(file: str) -> bool:
    """Whether the cache folder has a model file of that name."""
    from mcranker.llm.local.model_files import cache_folder

    return (cache_folder() / file).is_file()
