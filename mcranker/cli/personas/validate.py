"""``personas validate``: check that files can be used, and list faults."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from mcranker.cli.failures import DONE, ERROR, Failure, print_json
from mcranker.cli.files import print_line
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, output_flag
from mcranker.paths import is_folder
from personas import SchemaError
from personas.files import FORMATS
from personas.format import counted
from personas.records import check_file
from personas.sanitize import plain


def _validate(ctx: click.Context) -> int:
    checked = [check_file(path) for path in _files(ctx.params["paths"])]
    bad = [each for each in checked if each.problems]
    code = ERROR if bad else DONE
    message = f"{len(bad):,} of {counted(len(checked), 'file')} cannot be used"
    if ctx.params["output"] == "json":
        errors = [Failure("SchemaError", message).entry] if bad else []
        print_json(code, errors, files=[asdict(each) for each in checked])
    else:
        for each in checked:
            for text in each.problems or [f"{each.file}: {each.holds}"]:
                print_line(plain(text))
            for text in each.warnings:
                say(f"warning: {text}")
    if bad:
        say(f"error: {message}")
    return code


def _files(names: tuple[str, ...]) -> list[Path]:
    """Return the files, and those of the folders, without repetition; a folder must have one."""
    found: list[Path] = []
    for path in map(Path, names):
        if not is_folder(path):
            found.append(path)
            continue
        below = sorted(
            each
            for each in path.rglob("*")
            if each.suffix.lower() in FORMATS
            and each.is_file()
            and not any(part.startswith(".") for part in each.relative_to(path).parts)
        )
        if not below:
            raise SchemaError(f"{path}: has no .yaml, .yml or .json file below it")
        found += below
    return list(dict.fromkeys(found))


command = Verb(
    "validate",
    _validate,
    params=[
        click.Argument(["paths"], metavar="FILE|FOLDER...", nargs=-1, required=True),
        output_flag("files"),
    ],
    help="""Check files with teams, members, rubrics or personas before they are used.

    Every problem is a line with file, line, place and what to do; a good file is a line that
    says what it holds; a saved ranking holds its team. Of a folder, all .yaml, .yml and .json
    files below it are checked. Weights that do not sum to 100 are warnings. Exit code 1 if a file
    cannot be used.
    """,
)
