"""Teams, members, rubrics and personas as the command line names them."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TypeAlias

from mcranker.paths import is_file, is_folder
from personas import Member, Persona, Rubric, SchemaError, Team, library
from personas.files import FORMATS, load_any

Record: TypeAlias = Team | Member | Rubric | Persona
"""Content of a file."""

_KINDS = {Team: "team", Member: "member", Rubric: "rubric", Persona: "persona"}


def find(name: str) -> Record:
    """Return the content of a file, or the member or team of the library of this name.

    Args:
        name: a file, if it ends as one or is there. Names of the library may be written as
            people do, such as ``NLP scientist``.

    Raises:
        SchemaError: the file is not valid, or the library has nothing of that name.
    """
    path = Path(name)
    if path.suffix.lower() in FORMATS or is_file(path) or is_folder(path):
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
