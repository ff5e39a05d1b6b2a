"""Ready personas with rubrics, and ready teams, shipped as data.

Members are named by their file, e.g. ``nlp_scientist`` or ``clinician``.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from personas.errors import SchemaError, shown
from personas.schema import Member, Team

__all__ = [
    "NLP_SCIENTIST",
    "member",
    "member_names",
    "members",
    "nlp_scientist",
    "team",
    "team_names",
]

NLP_SCIENTIST = "nlp_scientist"
"""The member that every team of the paper has (3.2)."""

_LONGEST = 100


@cache
def member_names() -> tuple[str, ...]:
    """The library's members, by name, in alphabetical order."""
    return _names("members")


@cache
def member(name: str) -> Member:
    """One member of the library, with its rubric.

    Raises:
        SchemaError: there is none of that name.
    """
    found = Member.model_validate(_read("members", name))
    return found.model_copy(update={"origin": "fixed"}) if name == NLP_SCIENTIST else found


@cache
def members() -> tuple[Member, ...]:
    """All members of the library, in alphabetical order of their names."""
    return tuple(member(name) for name in member_names())


def nlp_scientist() -> Member:
    """The fixed NLP scientist (3.2)."""
    return member(NLP_SCIENTIST)


@cache
def team_names() -> tuple[str, ...]:
    """The library's teams, by name, in alphabetical order."""
    return _names("teams")


@cache
def team(name: str) -> Team:
    """One ready team of the library.

    Raises:
        SchemaError: there is none of that name.
    """
    data = _read("teams", name)
    return Team.model_validate({**data, "members": [member(each) for each in data["members"]]})


def _folder(kind: str) -> Traversable:
    return resources.files(__name__) / kind


def _names(kind: str) -> tuple[str, ...]:
    files = (entry.name for entry in _folder(kind).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml")))


def _read(kind: str, name: str) -> dict[str, Any]:
    known = _names(kind)
    if name not in known:
        meant = name[:_LONGEST].lower().replace(" ", "_")
        close = difflib.get_close_matches(meant, {*known, *_names("members")}, n=3)
        hint = f"it has {', '.join(known)}; a file's name ends in .yaml, .yml or .json"
        if close:
            hint = f"did you mean {' or '.join(close)}?"
        raise SchemaError(f"the library has no {kind.removesuffix('s')} {shown(name)}; {hint}")
    data: dict[str, Any] = yaml.safe_load((_folder(kind) / f"{name}.yaml").read_bytes())
    return data
