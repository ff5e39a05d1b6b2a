"""Verbs that packages add to a command, found by their entry points.

An entry point is named like the verb, and names a `LazyVerb`, or a `click.Command`, whose module
is then imported for every ``--help``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint
from typing import NamedTuple

import click


class LazyVerb(NamedTuple):
    """A verb that is imported when it is used, so that help is quick."""

    #: has the `click.Command` as its ``command``
    module: str
    #: the line about it in the help
    help: str


def plugin_help(entry: EntryPoint) -> str:
    """The line about the verb in the help, or why it cannot be used."""
    try:
        found = entry.load()
        return found.help if isinstance(found, LazyVerb) else str(found.get_short_help_str(200))
    except (ImportError, AttributeError) as error:
        return f"Cannot be loaded from {entry.value!r}: {error}."


def load_plugin(entry: EntryPoint) -> click.Command:
    """The command."""
    try:
        found = entry.load()
        if isinstance(found, LazyVerb):
            found = import_module(found.module).command
    except (ImportError, AttributeError) as error:
        raise click.ClickException(
            f"the verb {entry.name!r} cannot be loaded from {entry.value!r}: {error}; "
            "install what it needs, or remove the package that adds it"
        ) from error
    if not isinstance(found, click.Command):
        raise click.ClickException(f"the verb {entry.name!r} is no click command")
    return found
