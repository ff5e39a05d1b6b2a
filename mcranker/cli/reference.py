"""Texts made from the code: ``python -m mcranker.cli.reference`` prints the command's reference.

With ``MODULE:ATTRIBUTE`` behind it, that of another command, e.g. ``beir_eval.cli:cli``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module

import click

from mcranker.cli.group import Verbs
from mcranker.cli.options import options_of

WIDTH = 92
OWN = "mcranker.cli.group:cli"
RESULTS = {"mcranker": ("ranking", "{}"), "personas": ("members", "[]")}
INTRODUCTION = """\
# The `{program}` command

<!-- Made by `python -m mcranker.cli.reference{argument} > {file}`; edit the help texts instead. -->

Results go to standard output, everything else to standard error. An error is one line that
begins with `{program}: error:`; `--debug` shows the traceback as well. With `--output json`
there is always one JSON object on standard output, also after an error:

```json
{{"status": "ok", "exit_code": 0, "{result}": {empty}, "errors": []}}
```

`eval "$(_{variable}_COMPLETE=bash_source {program})"` completes verbs and options in bash; in zsh
and fish it is `zsh_source` and `fish_source`.

`status` is `ok`, `missing_scores` or `error`; each of the `errors` has a `code` (the name of
the error), a `message`, and `retryable`: whether running the same command again may help.
A command that was interrupted leaves no unfinished file.
"""


def reference(where: str = OWN) -> str:
    """Return the reference as Markdown."""
    module, _, attribute = where.partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, Verbs), where
    own, program = where == OWN, command.program
    result, empty = RESULTS.get(program, ("results", "[]"))
    introduction = INTRODUCTION.format(
        program=program,
        result=result,
        empty=empty,
        variable=program.upper().replace("-", "_"),
        argument="" if own else f" {where}",
        file="docs/cli.md" if own else f"docs/{program}.md",
    )
    texts = {ctx.command_path: ctx.get_help() for ctx in _commands(command, program)}
    if own:
        texts["mcranker rank --options"] = options_of()
    return introduction + "".join(
        f"\n## `{path}`\n\n```text\n{text}\n```\n" for path, text in texts.items()
    )


def _commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    help_names = ["-h", "--help"]
    ctx = click.Context(command, parent, name, terminal_width=WIDTH, help_option_names=help_names)
    yield ctx
    if not isinstance(command, click.Group):
        return
    for below in command.list_commands(ctx):
        found = command.get_command(ctx, below)
        assert found is not None, below
        yield from _commands(found, below, ctx)


if __name__ == "__main__":
    click.echo(reference(*sys.argv[1:2]), nl=False)
