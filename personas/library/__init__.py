"""Ready personas with rubrics, and ready teams, shipped as data.

Members are named by their file, e.g. ``nlp_scientist`` or ``clinician``.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from personas.errors import SchemaError, shown
from personas.schema import Member, Team

__all__ = [
    "NLP_SCIENTIST",
    "closest_members",
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
_WORD = re.compile(r"[^\W_]{3,}")
_K1, _B = 1.2, 0.75
_OF_NO_SUBJECT = frozenset(
    re.findall(
        r"\w+",
        "about against all and any are best between can did does for from good have how into its "
        "most much not one our should than that the their them there they this was were what when "
        "where which who whom whose why will with without would you your",
    )
)
"""Words of questions, which are rare in the library and say nothing of a subject."""


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


def closest_members(text: str, count: int) -> tuple[Member, ...]:
    """The library's members with rubrics that share most with a text, closest first."""
    found, words, idf = _words_of_members()
    mean = sum(each.total() for each in words) / len(words)
    asked = sorted(set(_words(text)) & idf.keys())
    scores = [
        math.fsum(
            idf[word] * own[word] * (_K1 + 1) / (own[word] + _K1 * (1 - _B + _B * length / mean))
            for word in asked
            if own[word]
        )
        for own, length in ((own, own.total()) for own in words)
    ]
    best = sorted(zip(scores, found, strict=True), key=lambda pair: -pair[0])
    return tuple(member for score, member in best[:count] if score > 0)


def _folder(kind: str) -> Traversable:
    return resources.files(__name__) / kind


def _names(kind: str) -> tuple[str, ...]:
    files = (entry.name for entry in _folder(kind).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml")))


def _read(kind: str, name: str) -> dict[str, Any]:
    known = _names(kind)
    if name not in known:
        close = difflib.get_close_matches(name[:_LONGEST], known, n=3)
        hint = f"it has {', '.join(known)}; a file's name ends in .yaml, .yml or .json"
        if close:
            hint = f"did you mean {' or '.join(close)}?"
        raise SchemaError(f"the library has no {kind.removesuffix('s')} {shown(name)}; {hint}")
    data: dict[str, Any] = yaml.safe_load((_folder(kind) / f"{name}.yaml").read_bytes())
    return data


@cache
def _words_of_members() -> tuple[Sequence[Member], Sequence[Counter[str]], dict[str, float]]:
    """Members with rubrics, the words of each, and the inverse document frequency of each word."""
    found = [each for each in members() if each.rubric is not None]
    words = [Counter(_words(_text(each))) for each in found]
    holders = Counter(word for own in words for word in own)
    count = len(found)
    idf = {word: math.log(1 + (count - n + 0.5) / (n + 0.5)) for word, n in holders.items()}
    return found, words, idf


def _text(member: Member) -> str:
    persona, rubric = member.persona, member.rubric
    criteria = rubric.criteria if rubric else ()
    listed = [f"{each.name} {each.description}" for each in criteria]
    return " ".join([persona.name, persona.description, *persona.topics, *listed])


def _words(text: str) -> list[str]:
    words = (word for word in _WORD.findall(text.casefold()) if word not in _OF_NO_SUBJECT)
    return [word if word.endswith("ss") else word.removesuffix("s") for word in words]
