"""``personas validate``: check that files can be used, and list faults."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from mcranker.cli.failures import DONE, ERROR, Failure, print_json
from mcranker.cli.files import print_line
from mcranker.cli.invocation import say
from mcranker.cli.personas.records import Record
from mcranker.cli.verb import Verb, output_flag
from mcranker.paths import is_folder
from personas import Member, Rubric, SchemaError, Team
from personas.files import FORMATS, line_numbers, load_any, located, read_text, weight_notes
from personas.format import counted
from personas.io.rankings import saved_team
from personas.sanitize import plain

Place = tuple[str | int, ...]
HEAVY = 90  # percent; a weight above that leaves next to nothing for the other criteria


@dataclass(slots=True)
class _Checked:
    """A file: its content and its faults and oddities, each as ``file:line: place: message``."""

    file: str
    holds: str = ""
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _validate(ctx: click.Context) -> int:
    checked = [_check(path) for path in _files(ctx.params["paths"])]
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


def _check(path: Path) -> _Checked:
    try:
        record = load_any(path)
        # A saved ranking is not edited by its lines.
        lines = {} if saved_team(path) else line_numbers(read_text(path))
    except SchemaError as error:
        return _Checked(str(path), problems=str(error).splitlines())
    odd = [
        located(str(path), lines, place) + message
        for place, message in (*weight_notes(path), *_oddities(record))
    ]
    return _Checked(str(path), _summary(record), warnings=odd)


def _summary(record: Record) -> str:
    if isinstance(record, Team):
        locked = ", locked" if record.locked else ""
        return f"team of {counted(len(record.members), 'member')}{locked}"
    if isinstance(record, Rubric):
        return f"rubric of {counted(len(record.criteria), 'criterion', 'criteria')}"
    if isinstance(record, Member):
        criteria = len(record.rubric.criteria) if record.rubric else 0
        return f"member {record.name!r}, {counted(criteria, 'criterion', 'criteria')}"
    return f"persona {record.name!r}"


def _oddities(record: Record) -> list[tuple[Place, str]]:
    """Return allowed but probably unintended values: the place, and a message."""
    if isinstance(record, Rubric):
        return _heavy(record, ("criteria",))
    if isinstance(record, Member):
        return _heavy(record.rubric, ("rubric", "criteria"))
    if not isinstance(record, Team):
        return []
    odd: list[tuple[Place, str]] = []
    said = "has no rubric and the team is locked; write one, or rank with -o criteria=none"
    for place, member in enumerate(record.members):
        if member.rubric is None and record.locked:
            odd.append((("members", place), f"{member.name!r} {said}"))
        odd += _heavy(member.rubric, ("members", place, "rubric", "criteria"))
    return odd


def _heavy(rubric: Rubric | None, at: Place) -> list[tuple[Place, str]]:
    criteria = rubric.criteria if rubric else ()
    return [
        (
            (*at, place),
            f"{criterion.name!r} has {criterion.weight:.0f} of 100 percent; the other criteria "
            "count for next to nothing",
        )
        for place, criterion in enumerate(criteria)
        if criterion.weight > HEAVY and len(criteria) > 1
    ]


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
    files below it are checked. What is allowed but hardly meant, and weights that do not sum to
    100, are warnings. Exit code 1 if a file cannot be used.
    """,
)
