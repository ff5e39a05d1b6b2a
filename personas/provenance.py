"""Which parts of a team a person wrote, and which a model did.

A model's parts are known by their digests (`Member.by_model`), the library's by comparison with
the library. White space, the form of accents and the order of criteria do not count.
"""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from personas import library
from personas.schema import Criterion, Member, Persona, Rubric

Hand: TypeAlias = Literal["model", "library", "human"]
"""Author of a part: a model, this project's library (the NLP scientist included), or a person."""

ORIGINS: dict[str, str] = {
    "fixed": "fixed by the method",
    "recruited": "recruited by the model",
    "library": "from the library",
    "human": "added by a person",
}
"""Origin of a member on its team, in words."""
HANDS: dict[Hand, str] = {"model": "a model", "library": "the library", "human": "a person"}

_DIGITS = 12  # hexadecimal digits of a digest
_DECIMALS = 6  # of a weight in percent


@dataclass(frozen=True, slots=True)
class Provenance:
    """Authors of a member's parts."""

    persona: Hand
    criteria: tuple[Hand, ...]
    weights: Hand | None
    edited: bool

    @property
    def by_human(self) -> bool:
        """True if a person wrote any of it."""
        return "human" in (self.persona, self.weights, *self.criteria)


def sealed(member: Member, *, persona: bool, rubric: bool) -> Member:
    """The member with a note that a model wrote its name and description, or its rubric, as now."""
    seals = member.by_model
    if not seals and member.origin == "recruited":
        # Without any seal all of a recruit counts as the model's; with one it would not.
        persona, rubric = True, True
    own = _persona_digest(member.persona)
    kept = tuple(seal for seal in seals if seal != own)
    of_persona = (own,) if persona or own in seals else ()
    of_rubric = _rubric_digests(member.rubric) if rubric and member.rubric is not None else kept
    return member.model_copy(update={"by_model": (*of_persona, *of_rubric)})


def provenance(member: Member) -> Provenance:
    """Find the authors of the member's parts, by comparison with its seals and the library."""
    rubric, seals = member.rubric, member.by_model
    if not seals and member.origin == "recruited":
        model: Hand = "model"
        count = len(rubric.criteria) if rubric else 0
        return Provenance(model, (model,) * count, model if rubric else None, edited=False)
    original = _original(member)
    shipped: tuple[str, ...] = ()
    if original is not None:
        own = () if original.rubric is None else _rubric_digests(original.rubric)
        shipped = (_persona_digest(original.persona), *own)

    def hand(digest: str) -> Hand:
        return "model" if digest in seals else "library" if digest in shipped else "human"

    found = Provenance(hand(_persona_digest(member.persona)), (), None, edited=False)
    if rubric is not None:
        weights: Hand = "human"
        if _weights_as_sealed(rubric, seals):
            weights = "model"
        elif _weights_as_sealed(rubric, shipped):
            weights = "library"
        criteria = tuple(hand(_criterion_digest(each)) for each in rubric.criteria)
        found = replace(found, criteria=criteria, weights=weights)
    changed = found.by_human and member.origin in {"fixed", "library"}
    return replace(found, edited=changed or _seal_broken(member))


def written(member: Member, found: Provenance) -> str:
    """Where the member comes from, and who else wrote what of it, in half a sentence."""
    own = {"human": "human", "recruited": "model"}.get(member.origin, "library")
    said = [ORIGINS[member.origin]]
    for hand, who in HANDS.items():
        count, of_all = found.criteria.count(hand), len(found.criteria)
        parts = ["its name and description"] * (found.persona == hand)
        if count:
            parts.append("its criteria" if count == of_all else f"{count} of its {of_all} criteria")
        if found.weights == hand and weights_count(member):
            parts.append("the weights")
        if parts and hand != own:
            listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
            said.append(f"{who} wrote {listed}")
    if found.edited and not found.by_human:
        said.append("edited by a person")
    return "; ".join(said)


def weights_count(member: Member) -> bool:
    """Return true if some criteria of the member weigh more than others."""
    criteria = member.rubric.criteria if member.rubric else ()
    return len({round(each.weight, _DECIMALS) for each in criteria}) > 1


def _seal_broken(member: Member) -> bool:
    """True if text that a model had written is gone or changed."""
    persona = _persona_digest(member.persona)
    there = {persona}
    if member.rubric is not None:
        there.update(map(_criterion_digest, member.rubric.criteria))
        if _weights_as_sealed(member.rubric, member.by_model):
            there.add(member.by_model[-1])
    renamed = member.origin == "recruited" and persona not in member.by_model
    return renamed or not there.issuperset(member.by_model)


def _original(member: Member) -> Member | None:
    """The member of the library that this one is, or was before a person changed it."""
    if member.origin not in {"fixed", "library"}:
        return None
    if member.origin == "fixed":
        return library.nlp_scientist()
    slug = member.name.casefold().replace(" ", "_").replace("-", "_")
    if slug in library.member_names():
        return library.member(slug)
    # Renamed: the criteria tell which it was.
    own = _criterion_digests(member)
    shared = {other: len(own & _criterion_digests(other)) for other in library.members()}
    closest = max(shared, key=shared.__getitem__)
    return closest if shared[closest] else None


def _criterion_digests(member: Member) -> set[str]:
    return {_criterion_digest(each) for each in member.rubric.criteria} if member.rubric else set()


def _rubric_digests(rubric: Rubric) -> tuple[str, ...]:
    """Of the criteria in their order, and last of the weights in that order."""
    criteria = tuple(map(_criterion_digest, rubric.criteria))
    return (*criteria, _weights_digest([each.weight for each in rubric.criteria]))


def _weights_as_sealed(rubric: Rubric, seals: tuple[str, ...]) -> bool:
    """True if the weights are those of the last seal, whatever the order of their criteria."""
    places = seals[-1 - len(rubric.criteria) : -1]
    if len(places) < len(rubric.criteria):
        return False
    weighed = [(_criterion_digest(each), each.weight) for each in rubric.criteria]
    known = dict(weighed)
    others = iter([weight for digest, weight in weighed if digest not in places])
    ordered = [known[place] if place in known else next(others, -1.0) for place in places]
    return _weights_digest(ordered) == seals[-1]


def _persona_digest(persona: Persona) -> str:
    return _digest("persona", persona.name, persona.description)


def _criterion_digest(criterion: Criterion) -> str:
    return _digest("criterion", criterion.name, criterion.description)


def _weights_digest(weights: list[float]) -> str:
    # Adding 0 makes a zero of -0, which is written otherwise.
    return _digest("weights", *(f"{round(weight, _DECIMALS) + 0.0:.6f}" for weight in weights))


def _digest(*parts: str) -> str:
    """The parts' digest, the same however their white space and accents are written."""
    said = "\0".join(" ".join(unicodedata.normalize("NFC", part).split()) for part in parts)
    return hashlib.sha256(said.encode()).hexdigest()[:_DIGITS]
