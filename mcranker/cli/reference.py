"""The reference of the command, made from its help: ``python -m mcranker.cli.reference``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from mcranker.cli.group import cli

__all__ = ["reference"]

WIDTH = 92
INTRODUCTION = """\
# The `mcranker` command

<!-- Made by `python -m mcranker.cli.reference > docs/cli.md`; edit the help texts instead. -->

Results go to standard output, everything else to standard error. An error is one line that
begins with `mcranker: error:`; `--debug` shows the traceback as well. With `--output json`
there is always one JSON object on standard output, also after an error:

```json
{"status": "ok", "exit_code": 0, "ranking": {}, "errors": []}
```

`status` is `ok`, `missing_scores` or `error`; each of the `errors` has a `code` (the name of
the error), a `message`, and `retryable`: whether running the same command again may help.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | error: the message says what happened and what to do |
| 2 | bad usage: options that cannot be, or do not go together |
| 3 | done, but some scores are missing |
| 130 | interrupted (Ctrl-C) |
| 141 | whoever read the output has closed it, such as `head` |
"""


def reference() -> str:
    """The reference as Markdown."""
    return INTRODUCTION + "".join(
        f"\n## `{ctx.command_path}`\n\n```text\n{ctx.get_help()}\n```\n" for ctx in _commands()
    )


def _commands() -> Iterator[click.Context]:
    top = _context(cli, "mcranker", None)
    yield top
    yield from _below(top)


def _below(parent: click.Context) -> Iterator[click.Context]:
    assert isinstance(parent.command, click.Group)
    for name in parent.command.list_commands(parent):
        command = parent.command.get_command(parent, name)
        assert command is not None, name
        ctx = _context(command, name, parent)
        yield ctx
        if isinstance(command, click.Group):
            yield from _below(ctx)


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        help_option_names=["-h", "--help"],
    )


if __name__ == "__main__":
    click.echo(reference(), nl=False)
