"""Users' teams in all their forms, and the plan of a team before recruiting."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ValidationError

from mcranker.errors import ConfigError
from mcranker.logs import safe_logger
from personas import Member, Persona, Team, library, load
from personas.errors import shown
from personas.files import weight_notes

if TYPE_CHECKING:
    from mcranker.config import RankerConfig

_logger = safe_logger("mcranker.team")
_FILES = {".yaml", ".yml", ".json", ".jsonl"}

TeamSpec: TypeAlias = Team | str | os.PathLike[str] | Sequence[str | Persona | Member]
"""A team, a file, the name of a team or member of the library, or a list of its members.

A file holds a team, or a saved ranking: then it is the team that judged.

In a list, a string is the name of a member of the library if there is one, and else the
name of a persona without a rubric.
"""


def as_team(team: TeamSpec) -> Team:
    """Check and return a team."""
    if isinstance(team, Team):
        return team
    if isinstance(team, os.PathLike) or (isinstance(team, str) and _is_file(team)):
        found = load(Team, team)
        for _, note in weight_notes(team):
            _logger.warning("%s: %s", os.fspath(team), note)
        return found
    if isinstance(team, str):
        if team in library.member_names():
            return Team(members=(library.member(team),))
        return library.team(team)
    if not isinstance(team, Sequence) or not team:
        raise ConfigError(
            f"team={team!r}: give a Team, a file, the name of a library team, or a list of personas"
        )
    members = tuple(_as_member(entry) for entry in team)
    try:
        return Team(members=members)
    except ValidationError as error:
        # Of members that are valid by themselves, only the names can be wrong.
        raise ConfigError(f"team: {error.errors()[0]['ctx']['error']}") from error


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """Fixed team members, and the number of recruits.

    `others` has the recruiter's instructions about the members, if it gets any.
    """

    members: tuple[Member, ...] = ()
    recruits: int = 0
    others: str = ""
    given: Team | None = None

    @classmethod
    def of(cls, config: RankerConfig, team: Team | None) -> TeamPlan:
        """Return the plan of a configuration whose ``team_size`` counts all members."""
        if team is not None:
            _check_size(config.team_size, team)
            first = team.members
        else:
            first = (library.nlp_scientist(),) if config.nlp_scientist else ()
            first = as_recruited(first, config)
        known = {_folded(each.name) for each in first}
        named = map(_named, config.require)
        required = tuple(each for each in named if _folded(each.name) not in known)
        if required:
            _check_required(config, team, first, required)
        members = (*first, *as_recruited(required, config))
        plan = cls(members, config.team_size - len(members), given=team)
        if config.recruiting == "library" and plan.recruits > len(plan.candidates):
            raise ConfigError(
                f"team_size={config.team_size} takes {plan.recruits} recruits, and only "
                f"{len(plan.candidates)} of the library may join; lower team_size"
            )
        if config.require or (team is not None and plan.recruits):
            plan = replace(plan, others=_on_it(members))
        return plan

    def after(self, found: Sequence[Member]) -> TeamPlan:
        """Return the plan after these members joined."""
        members = (*self.members, *found)
        recruits = self.recruits - len(found)
        return replace(self, members=members, recruits=recruits, others=_on_it(members))

    @property
    def candidates(self) -> tuple[Member, ...]:
        """Members of the library who may be recruited, in alphabetical order."""
        return tuple(
            member
            for member in library.members()
            if member.origin != "fixed" and self.may_join(member.name)
        )

    def may_join(self, name: str) -> bool:
        """True if a name is not on the team."""
        return _folded(name) not in {_folded(member.name) for member in self.members}

    def why_none(self, names: Iterable[str]) -> str:
        """Return the recruiter's message about named personas who may not join."""
        if not self.others:
            return "it names no one besides the NLP scientist, who is on the team."
        on_it = ", ".join(map(repr, names))
        return f"it names no one who can join the team (on the team already: {on_it}). Name others."


def as_recruited(members: tuple[Member, ...], config: RankerConfig) -> tuple[Member, ...]:
    """Return the members without rubrics, unless ``criteria="library"`` keeps the library's."""
    if config.criteria == "library":
        return members
    return tuple(member.model_copy(update={"rubric": None}) for member in members)


def _check_size(size: int, team: Team) -> None:
    members = len(team.members)
    counted = f"{members} member{'' if members == 1 else 's'}"
    if size < members:
        raise ConfigError(
            f"team_size={size}, but the team given has {counted}; leave out team_size, or some "
            "of the members"
        )
    if size > members and team.locked:
        raise ConfigError(
            f"team_size={size}, but the team given is locked and has {counted}, so no one can "
            "join it; unlock it (locked: false), or give no larger size"
        )


def _check_required(
    config: RankerConfig, team: Team | None, first: Sequence[Member], required: Sequence[Member]
) -> None:
    if team is not None and team.locked:
        raise ConfigError(
            f"{required[0].name!r} is required, but the team given is locked, so no one can join "
            "it; unlock it (locked: false), or require no one else"
        )
    total = len(first) + len(required)
    if total > config.team_size:
        raise ConfigError(
            f"team_size={config.team_size} is too small for {len(required)} required and "
            f"{len(first)} on the team already; use team_size={total} or more, or require fewer"
        )


def _on_it(members: Sequence[Member]) -> str:
    """Return the recruiter's instructions about the members."""
    if not members:
        return ""
    names = "; ".join(" ".join(member.name.split()) for member in members)
    return f"\n\nThese are on the team already, so name none of them: {names}."


def _named(name: str) -> Member:
    """Return the library's member of a name, by file or as shown, or a persona of that name."""
    folded = _folded(name)
    for file, member in zip(library.member_names(), library.members(), strict=True):
        if folded in (_folded(file), _folded(member.name)):
            return member
    return Member(persona=_persona(name))


def _as_member(entry: object) -> Member:
    if isinstance(entry, Member):
        return entry
    if isinstance(entry, Persona):
        return Member(persona=entry)
    if not isinstance(entry, str):
        raise ConfigError(f"team holds a {type(entry).__name__}; give names, Personas or Members")
    if entry in library.member_names():
        return library.member(entry)
    if _is_file(entry) or entry in library.team_names():
        raise ConfigError(
            f"team: {entry!r} is a team among personas; give it alone, or its members by name"
        )
    return Member(persona=_persona(entry))


def _persona(name: str) -> Persona:
    try:
        return Persona(name=name)
    except ValidationError as error:
        raise ConfigError(
            f"{shown(name)} cannot be a persona's name; give one of 1 to 200 characters"
        ) from error


def _is_file(name: str) -> bool:
    return Path(name).suffix.lower() in _FILES


def _folded(name: str) -> str:
    """Return a name for comparison: case, underscores and the width of spaces do not count."""
    return " ".join(name.casefold().replace("_", " ").split())
