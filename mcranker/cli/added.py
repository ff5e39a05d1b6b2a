"""Verbs that other packages add, found without importing anything.

`importlib.metadata` finds entry points too, but importing it takes a sixth of the time that
``mcranker --help`` may take. The files it reads are plain, so they are read here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click

__all__ = ["added_verbs", "help_line", "load_verb"]

_KNOWN_HELP = {
    "beir_eval.demo:command": "Rank a small collection that comes with it, and see how good that "
    "is.",
    "beir_eval.cli.inspect:command": "Show why passages of a saved ranking rank where they do.",
    "beir_eval.cli.persona_report:command": "Report over a data set: who judged, how they agreed, "
    "what they were worth.",
}


def added_verbs(group: str) -> dict[str, str]:
    """Verb -> ``module:attribute`` of its command, in alphabetical order.

    Args:
        group: entry point group of the verbs, such as ``mcranker.commands``.
    """
    found: dict[str, str] = {}
    for text in _entry_point_files():
        if f"[{group}]" in text:
            for name, value in _entries(text, group):
                found.setdefault(name, value)
    return dict(sorted(found.items()))


def help_line(value: str) -> str:
    """What the help says about the verb of this ``module:attribute``, without importing it."""
    return _KNOWN_HELP.get(value, f"Added by {value.partition(':')[0]}.")


def load_verb(name: str, value: str, group: str) -> object:
    """Import the command.

    Raises:
        click.ClickException: it cannot be imported.
    """
    from importlib.metadata import EntryPoint

    try:
        return EntryPoint(name, value, group).load()
    except (ImportError, AttributeError) as error:
        raise click.ClickException(
            f"the verb {name!r} cannot be loaded from {value!r}: {error}; "
            "install what it needs, or remove the package that adds it"
        ) from error


def _entry_point_files() -> Iterator[str]:
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or os.curdir)  # noqa: PTH208 - pathlib takes long to import
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                path = os.path.join(folder, name, "entry_points.txt")  # noqa: PTH118
                try:
                    with open(path, encoding="utf-8") as file:  # noqa: PTH123
                        yield file.read()
                except (OSError, UnicodeDecodeError):
                    continue


def _entries(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
