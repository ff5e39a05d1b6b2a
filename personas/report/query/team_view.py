"""The team as its section shows it: who each member is, and who wrote which part."""

from __future__ import annotations

from dataclasses import dataclass

from personas.inspection.inspection import Inspection
from personas.provenance import ORIGINS, Provenance, provenance
from personas.schema import Criterion, Member

__all__ = ["SeenCriterion", "SeenMember", "by_person", "seen_members"]

_WRITTEN, _EDITED = "Written by a person", "Edited by a person"


@dataclass(frozen=True, slots=True)
class SeenCriterion:
    """A criterion; `tag` says that a person wrote it, and is empty otherwise."""

    criterion: Criterion
    tag: str


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member of the team.

    Attributes:
        number: place on the team, from 1; names its place on the page.
        member: itself.
        origin: where it comes from, in words.
        tag: that a person wrote its name and description; empty otherwise.
        criteria: of its rubric; empty without one.
        weights_tag: that a person set the weights; empty otherwise.
        parts: what a person wrote of it, to be listed behind its name; empty if nothing.
    """

    number: int
    member: Member
    origin: str
    tag: str
    criteria: tuple[SeenCriterion, ...]
    weights_tag: str
    parts: str


def seen_members(inspection: Inspection) -> tuple[SeenMember, ...]:
    """The members of the query's team, in order; empty without one."""
    members = inspection.team.members if inspection.team else ()
    return tuple(_seen(number, member) for number, member in enumerate(members, start=1))


def by_person(members: tuple[SeenMember, ...]) -> tuple[SeenMember, ...]:
    """Those of whom a person wrote a part."""
    return tuple(each for each in members if each.parts)


def _seen(number: int, member: Member) -> SeenMember:
    found = provenance(member)
    # A part is called edited only where something was there before.
    tag = _EDITED if found.edited else _WRITTEN
    criteria = member.rubric.criteria if member.rubric else ()
    return SeenMember(
        number=number,
        member=member,
        origin=ORIGINS[member.origin].capitalize(),
        tag=(_WRITTEN if member.origin == "human" else tag) if found.persona == "human" else "",
        criteria=tuple(
            SeenCriterion(criterion, tag if hand == "human" else "")
            for criterion, hand in zip(criteria, found.criteria, strict=True)
        ),
        weights_tag="Weights set by a person" if found.weights == "human" else "",
        parts=_parts(found),
    )


def _parts(found: Provenance) -> str:
    parts = ["name and description"] if found.persona == "human" else []
    written, number = found.criteria.count("human"), len(found.criteria)
    if written:
        criteria = "criterion" if number == 1 else "criteria"
        parts.append(criteria if written == number else f"{written} of {number} {criteria}")
    if found.weights == "human":
        parts.append("weights")
    return ", ".join(parts)
