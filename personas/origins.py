"""Where the members of a team come from, and whether a person has edited them.

White space, the form of accents and the order of criteria do not count.
"""

from __future__ import annotations

import hashlib
import unicodedata

from personas import library
from personas.schema import Member

ORIGINS: dict[str, str] = {
    "fixed": "fixed by the method",
    "recruited": "recruited by the model",
    "library": "from the library",
    "human": "added by hand",
}
"""Origin of a member on its team, in words."""

_DIGITS = 12  # hexadecimal digits of a seal


def sealed(member: Member) -> Member:
    """The member with a note of its texts and weights, as a model wrote them."""
    return member.model_copy(update={"seal": _digest(member)})


def edited(member: Member) -> bool:
    """True if a person changed what a model wrote or the library has.

    A recruit without a seal counts as the model's.
    """
    if member.seal:
        return member.seal != _digest(member)
    if member.origin not in {"fixed", "library"}:
        return False
    slug = member.name.casefold().replace(" ", "_").replace("-", "_")
    if slug not in library.member_names():
        return True
    original = library.member(slug)
    if member.rubric is None:
        original = original.model_copy(update={"rubric": None})
    return _digest(member) != _digest(original)


def origin(member: Member) -> str:
    """Where the member comes from, and whether a person edited it, in words."""
    return ORIGINS[member.origin] + "; edited by hand" * edited(member)


def _digest(member: Member) -> str:
    criteria = member.rubric.criteria if member.rubric else ()
    # Adding 0 makes a zero of -0, which is written otherwise.
    weighed = [
        (_plain(each.name), _plain(each.description), f"{round(each.weight, 6) + 0.0:.6f}")
        for each in criteria
    ]
    parts = [_plain(member.name), _plain(member.persona.description)]
    for each in sorted(weighed):
        parts += each
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
