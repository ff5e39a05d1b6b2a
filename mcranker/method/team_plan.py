"""Users' teams in all their forms, and the plan of a team before recruiting."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
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
_MOST_MADE_UP = 20
"""Most recruits that an estimate invents; see `mcranker.estimate`."""


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
    if isinstance(team, os.PathLike):
        return _of_file(team)
    if isinstance(team, str):
        if _is_file(team):
            return _of_file(team)
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


def _of_file(path: str | os.PathLike[str]) -> Team:
    team = load(Team, path)
    for _, note in weight_notes(path):
        _logger.warning("%s: %s", os.fspath(path), note)
    return team


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """Fixed team members, number of recruits, and forbidden names."""

    members: tuple[Member, ...] = ()
    recruits: int = 0
    forbidden: tuple[str, ...] = ()
    others: str = ""
    given: Team | None = None

    @property
    def locked(self) -> bool:
        """True if neither personas nor rubrics may be added."""
        return self.given is not None and self.given.locked

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
        _check_required(config, team, first, required)
        members = (*first, *as_recruited(required, config))
        plan = cls(members, config.team_size - len(members), config.forbid, given=team)
        plan._refuse_forbidden(team, len(first))
        if config.recruiting == "library" and plan.recruits > len(plan.candidates):
            raise ConfigError(
                f"team_size={config.team_size} takes {plan.recruits} recruits, and only "
                f"{len(plan.candidates)} of the library may join; forbid fewer, or lower team_size"
            )
        if config.require or config.forbid or (team is not None and plan.recruits):
            plan = replace(plan, others=_told(members, config.forbid))
        return plan

    def after(self, found: Sequence[Member]) -> TeamPlan:
        """Return the plan after these members joined."""
        members = (*self.members, *found)
        recruits, others = self.recruits - len(found), _told(members, self.forbidden)
        return replace(self, members=members, recruits=recruits, others=others)

    @property
    def candidates(self) -> tuple[Member, ...]:
        """Members of the library who may be recruited, in alphabetical order."""
        return tuple(
            member
            for member in library.members()
            if member.origin != "fixed" and self.may_join(member.name)
        )

    def may_join(self, name: str) -> bool:
        """True if a name is neither on the team nor forbidden."""
        return not self._is_on_it(name) and self._forbidding(name) is None

    def why_none(self, names: Iterable[str]) -> str:
        """Return the recruiter's message about named personas who may not join."""
        if not self.others:
            # english: sent to models
            return "it names nobody besides the NLP scientist, who is on the team."
        on_it = [repr(name) for name in names if self._is_on_it(name)]
        unwanted = [repr(name) for name in names if self._forbidding(name) is not None]
        parts = [f"on the team already: {', '.join(on_it)}"] if on_it else []
        parts += [f"not wanted: {', '.join(unwanted)}"] if unwanted else []
        # english: sent to models
        return f"it names nobody who can join the team ({'; '.join(parts)}). Name others."

    def for_estimates(self) -> TeamPlan:
        """Return the plan for invented names, which no pattern applies to."""
        made_up = [f"Recruit {number}" for number in range(1, _MOST_MADE_UP + 1)]
        patterns = (each for each in self.forbidden if not any(_fits(n, each) for n in made_up))
        return replace(self, forbidden=tuple(patterns))

    def _is_on_it(self, name: str) -> bool:
        return _folded(name) in {_folded(member.name) for member in self.members}

    def _forbidding(self, name: str) -> str | None:
        return next((each for each in self.forbidden if _fits(name, each)), None)

    def _refuse_forbidden(self, team: Team | None, first: int) -> None:
        for place, member in enumerate(self.members):
            pattern = self._forbidding(member.name)
            if pattern is None:
                continue
            who, advice = "is on every team", "narrow it, or do without the NLP scientist"
            if place >= first:
                who, advice = "is required", "leave out one of the two"
            elif team is not None:
                who, advice = "is on the team given", "leave out one of the two"
            raise ConfigError(f"forbid: {pattern!r} fits {member.name!r}, who {who}; {advice}")


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
    if not required:
        return
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


def _told(members: Sequence[Member], forbidden: Sequence[str]) -> str:
    """Return the recruiter's instructions about fixed members and forbidden names."""
    told = ""
    if members:
        names = "; ".join(" ".join(member.name.split()) for member in members)
        told += f"\n\nThese are on the team already, so name none of them: {names}."
    if forbidden:
        names = "; ".join(forbidden)
        star = " (* stands for any text)" if "*" in names else ""  # english: sent to models
        told += f"\n\nThese are not wanted on the team, so name none of them: {names}{star}."
    return told


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
    if isinstance(entry, str):
        if entry in library.member_names():
            return library.member(entry)
        if _is_file(entry) or entry in library.team_names():
            raise ConfigError(
                f"team: {entry!r} is a team among personas; give it alone, or its members by name"
            )
        return Member(persona=_persona(entry))
    raise ConfigError(f"team holds a {type(entry).__name__}; give names, Personas or Members")


def _persona(name: str) -> Persona:
    try:
        return Persona(name=name)
    except ValidationError as error:
        raise ConfigError(
            f"{shown(name)} cannot be a persona's name; give one of 1 to 200 characters"
        ) from error


def _is_file(name: str) -> bool:
    return Path(name).suffix.lower() in _FILES


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(_folded(name), _folded(pattern))


def _folded(name: str) -> str:
    """Return a name for comparison: case, underscores and the width of spaces do not count."""
    return " ".join(name.casefold().replace("_", " ").split())
