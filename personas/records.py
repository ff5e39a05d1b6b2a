"""Teams, members, rubrics and personas in files or the library: found, checked and summarised."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from personas import library
from personas.errors import SchemaError
from personas.files import FORMATS, line_numbers, load_any, located, read_text, weight_notes
from personas.format import counted
from personas.io.rankings import saved_team
from personas.provenance import edited
from personas.schema import Member, Persona, Rubric, Team

Record: TypeAlias = Team | Member | Rubric | Persona
"""Content of a file."""

_KINDS = {Team: "team", Member: "member", Rubric: "rubric", Persona: "persona"}


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file: its content in a few words, or its problems, and what is allowed but hardly meant."""

    file: str
    holds: str = ""
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find(name: str) -> Record:
    """Return the content of a file, or the member or team of the library of this name.

    Args:
        name: a file, if it ends as one or is there. Names of the library may be written as
            people do, such as ``NLP scientist``.

    Raises:
        SchemaError: the file is not valid, or the library has nothing of that name.
    """
    path = Path(name)
    if path.suffix.lower() in FORMATS or os.path.exists(path):  # noqa: PTH110
        return load_any(path)
    slug = "_".join(name.casefold().replace("-", " ").split())
    if slug in library.team_names():
        return library.team(slug)
    if slug in library.member_names():
        return library.member(slug)
    names = (*library.member_names(), *library.team_names())
    close = difflib.get_close_matches(slug, names, n=3)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else "see 'personas list', or name a file that ends in .yaml, .yml or .json"
    )
    raise SchemaError(f"the library has no member and no team {name!r}; {hint}")


def kind(record: Record) -> str:
    """``team``, ``member``, ``rubric`` or ``persona``."""
    return _KINDS[type(record)]


def edited_names(record: Record) -> list[str]:
    """The names of the members that a person edited."""
    members = record.members if isinstance(record, Team) else ()
    each_of = (record,) if isinstance(record, Member) else members
    return [member.name for member in each_of if edited(member)]


def check_file(path: Path) -> CheckedFile:
    """Read a file with a team, a member, a rubric or a persona, or a saved ranking's team."""
    try:
        record = load_any(path)
        # A saved ranking is not edited by its lines.
        lines = {} if saved_team(path) else line_numbers(read_text(path))
    except SchemaError as error:
        return CheckedFile(str(path), problems=tuple(str(error).splitlines()))
    odd = (located(str(path), lines, place) + said for place, said in weight_notes(path))
    return CheckedFile(str(path), _summary(record), warnings=tuple(odd))


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
