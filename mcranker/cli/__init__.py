"""The `mcranker` command: its modules are loaded when a verb is used.

Results go to standard output, everything else to standard error; docs/cli.md has the exit codes.
"""

from mcranker.cli.group import cli, main

__all__ = ["cli", "main"]
