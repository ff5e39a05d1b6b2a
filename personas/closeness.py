"""Which members of the library are closest to a text, by the words that they share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from personas import library
from personas.schema import Member

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


def closest_members(text: str, count: int) -> tuple[Member, ...]:
    """The library's members with rubrics that share most with a text, closest first."""
    members, words, idf = _library()
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
    best = sorted(zip(scores, members, strict=True), key=lambda pair: -pair[0])
    return tuple(member for score, member in best[:count] if score > 0)


@cache
def _library() -> tuple[Sequence[Member], Sequence[Counter[str]], dict[str, float]]:
    """Members with rubrics, the words of each, and the inverse document frequency of each word."""
    members = [member for member in library.members() if member.rubric is not None]
    words = [Counter(_words(_text(member))) for member in members]
    found = Counter(word for own in words for word in own)
    count = len(members)
    idf = {word: math.log(1 + (count - n + 0.5) / (n + 0.5)) for word, n in found.items()}
    return members, words, idf


def _text(member: Member) -> str:
    persona, rubric = member.persona, member.rubric
    criteria = rubric.criteria if rubric else ()
    listed = [f"{each.name} {each.description}" for each in criteria]
    return " ".join([persona.name, persona.description, *persona.topics, *listed])


def _words(text: str) -> list[str]:
    words = (word for word in _WORD.findall(text.casefold()) if word not in _OF_NO_SUBJECT)
    return [word if word.endswith("ss") else word.removesuffix("s") for word in words]
