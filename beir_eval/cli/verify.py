"""``beir-eval report --verify``: whether files of run folders are as they were written."""

from __future__ import annotations

import click

from beir_eval.experiment.run_folder import DataFolder, RunFolder, find_runs
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, ERROR, Failure, print_json
from personas.console import print_page, table
from personas.format import counted


def verify(ctx: click.Context) -> int:
    """Compare every file of finished runs, and of what they ranked, with its SHA-256."""
    runs = find_runs(ctx.params["runs"], pipelines=True)
    data = {run.path.parent: run.data() for run in runs if run.manifest.answers is None}
    folders: list[RunFolder | DataFolder] = [*data.values(), *runs]
    rows = [(str(folder.path), *_state(folder)) for folder in folders]
    changed = [row for row in rows if row[2]]
    message = f"{counted(len(changed), 'folder')} not as written; bring back the whole folders"
    code = ERROR if changed else DONE
    if ctx.params["format"] == "json":
        errors = [Failure("FilesChanged", message).entry] if changed else []
        keys = ("folder", "state", "files")
        return print_json(code, errors, folders=[dict(zip(keys, row, strict=True)) for row in rows])
    shown = ((folder, state, ", ".join(files)) for folder, state, files in rows)
    made = table(["folder", "state", "files"], shown)
    print_page(lambda console: console.print(made))
    if changed:
        say(f"error: {message}")
    return code


def _state(folder: RunFolder | DataFolder) -> tuple[str, list[str]]:
    """``"as written"``, ``"changed"`` or why that is not known, and the files that changed."""
    if isinstance(folder, RunFolder) and not folder.manifest.finished:
        return "not verified: not finished", []
    files = folder.changed()
    return "changed" if files else "as written", files
