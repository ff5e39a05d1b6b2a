"""Teams in all the forms in which users give them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from mcranker.errors import ConfigError
from personas import Member, Persona, Team, library, load

__all__ = ["TeamSpec", "as_team"]

TeamSpec: TypeAlias = Team | str | os.PathLike[str] | Sequence[str | Persona | Member]
"""A team, a file, the name of a team of the library, or a list of its members.

In a list, a string is the name of a member of the library if there is one, and else the
name of a persona without a rubric.
"""


def as_team(team: TeamSpec) -> Team:
    """The team, checked.

    Raises:
        SchemaError: the file cannot be used, or the library has no team of that name.
        ConfigError: a wrong type, or an empty list.
    """
    if isinstance(team, Team):
        return team
    if isinstance(team, os.PathLike):
        return load(Team, team)
    if isinstance(team, str):
        is_file = Path(team).suffix.lower() in {".yaml", ".yml", ".json"}
        return load(Team, team) if is_file else library.team(team)
    if not isinstance(team, Sequence) or not team:
        raise ConfigError(
            f"team={team!r}: give a Team, a file, the name of a library team, or a list of personas"
        )
    return Team(members=tuple(_as_member(entry) for entry in team))


def _as_member(entry: object) -> Member:
    if isinstance(entry, Member):
        return entry
    if isinstance(entry, Persona):
        return Member(persona=entry)
    if isinstance(entry, str):
        if entry in library.member_names():
            return library.member(entry)
        return Member(persona=Persona(name=entry))
    raise ConfigError(f"team holds a {type(entry).__name__}; give names, Personas or Members")
