"""The `personas` command itself; its verbs are imported when they are used."""

from __future__ import annotations

from typing import NoReturn

from mcranker.cli.group import EXIT_CODES, Verbs
from mcranker.cli.plugins import LazyVerb

VERBS = {
    "list": LazyVerb("mcranker.cli.personas.list", "List the personas and teams of the library."),
    "show": LazyVerb("mcranker.cli.personas.show", "Show personas, rubrics and teams."),
    "validate": LazyVerb("mcranker.cli.personas.validate", "Check files before they are used."),
}
"""The command's own verbs."""

cli = Verbs(
    "personas",
    VERBS,
    added="personas.commands",
    help="See and check personas, rubrics and teams: the library's, and those in files.",
    epilog=EXIT_CODES,
)
"""The command, for tests and for the reference."""


def main() -> NoReturn:
    """The entry point of the `personas` command."""
    cli.run()
