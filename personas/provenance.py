"""Which parts of a team a person wrote, and which a model did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from personas.schema import Member

__all__ = ["Hand", "Provenance", "provenance", "sealed"]

Hand: TypeAlias = Literal["model", "library", "human"]
"""Who wrote a part: a model, this project's library (the NLP scientist included), or a person."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who wrote which part of a member.

    Attributes:
        persona: its name and description.
        criteria: one a criterion (name and description), in order; empty without a rubric.
        weights: the weights of the rubric, as a whole; None without a rubric.
        edited: whether a person changed something that a model or the library had written.
    """

    persona: Hand
    criteria: tuple[Hand, ...]
    weights: Hand | None
    edited: bool

    @property
    def by_human(self) -> bool:
        """Whether a person wrote any of it."""
        return "human" in (self.persona, self.weights, *self.criteria)


def sealed(member: Member, *, persona: bool, rubric: bool) -> Member:
    """The member with a note that a model wrote these parts as they are now."""
    raise NotImplementedError


def provenance(member: Member) -> Provenance:
    """Who wrote which part of the member, by comparison with its seals and the library."""
    raise NotImplementedError
