"""The prose around a reply's object: whether it takes back the numbers that the object gives.

An object among prose is the answer unless

- the words right before it call it something else: ``The format is {"Score": 0}``, ``not {...}``;
- the prose after it gives another number as the answer: ``{"Score": 7}, or 8``, a line that
  holds a number alone or ends in one after a colon, ``the score should be 8``, ``I would say 8``;
- the prose before it gives another number as the final answer: ``My answer is 8: {"Score": 0}``.

Numbers that prose mentions otherwise, in "3 of 12 trials" or "from 0 to 10", do not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_NAMED = {
    name: value
    for value, name in enumerate(
        "zero one two three four five six seven eight nine ten".split()  # noqa: SIM905 - readable
    )
}
_NUMBER = r"(-?\d++(?:[.,]\d++)*+\w*+|[\u00bc-\u00be\u2150-\u215e])"
_NUMBER_OR_WORD = rf"(-?\d++(?:[.,]\d++)*+\w*+|(?:{'|'.join(_NAMED)})\b(?!\s+of\b))"
_LINKS = (
    r"(?:\s++(?:is|was|be|would|should|will|must|of|now|then|therefore|thus|rather|actually|really|"
    r"honestly|at|as|an?|about|around|to|it|its|still|this|that|the|passage|text|with)\b)*+"
    r"\s*+[:=]?+[\s*_\"'`(\[<]*+"
)
_ANSWER = r"(?:answer|score|rating|relevance|grade|verdict)s?\b"
_NO_RANGE = r"(?!\s*+(?:to|-|\u2013|\u2014|through)\s*+\d)"
_OUT_OF = r"(?:/|(?:out\s++)?of\b)\s*+(\d{1,4})\b"
_TAIL = rf"[*_\"'`)\]}}]*+[ \t]*+(?:{_OUT_OF}[ \t]*+)?"
_END = r"(?:[.!;,]|\n|\Z)"
_CLAIMS = (
    re.compile(rf"\b{_ANSWER}{_LINKS}{_NUMBER_OR_WORD}{_NO_RANGE}", re.IGNORECASE),
    re.compile(rf"\b(?:give|rate|say|meant?)\b{_LINKS}{_NUMBER}{_TAIL}{_END}", re.IGNORECASE),
    re.compile(rf"[:=]\s*+[*_\"'`(\[]*+(\d++)(?![.,]?\d){_TAIL}[.!;,]?(?:\n|\Z)", re.IGNORECASE),
    re.compile(
        rf"^[ \t*_\"'`(\[>-]*+{_NUMBER}{_TAIL}[.!;,]?[ \t]*+$", re.IGNORECASE | re.MULTILINE
    ),
    re.compile(rf"\A[^\w\n]*+[^\n\d.!?]{{0,40}}?{_NUMBER}{_TAIL}{_END}", re.IGNORECASE),
)
_FINAL_CLAIM = re.compile(
    rf"\b(?:my|final|overall|total|real|actual|correct)\s++(?:\w{{1,20}}\s++)?{_ANSWER}{_LINKS}"
    rf"{_NUMBER_OR_WORD}{_NO_RANGE}",
    re.IGNORECASE,
)
_SCALE = re.compile(rf"(?<!\s)\s*+{_OUT_OF}", re.IGNORECASE)
_EXAMPLE = re.compile(
    r"\b(?:(?:format|form|template|schema|structure)\s+(?:is|was|would be|should be|must be|looks "
    r"like)|(?:for )?example|for instance|e\.g\.|such as|instead of|rather than|not|never|nor)"
    r"[\s,:`*\"'(]*+(?:json)?+[\s`]*+\Z",
    re.IGNORECASE,
)
_NEAR = 100
_HIGHEST = 100  # numbers above the largest scale are a year or a count, not a score


def is_example(before: str) -> bool:
    """True if the words before an object say that it is an example, or not the answer."""
    return _EXAMPLE.search(before[-_NEAR:]) is not None


def gives_another(before: str, after: str, numbers: Collection[int], top: int) -> bool:
    """True if the prose gives another number than the object's `numbers`, 0 to `top`."""
    scale = _SCALE.match(after)
    if scale and int(scale.group(1)) == top:
        after = after[scale.end() :]
    elif scale or after[:1].isdigit():
        return True
    claims = [claim for pattern in _CLAIMS for claim in pattern.finditer(after)]
    claims += _FINAL_CLAIM.finditer(before)
    said = {_value(claim.group(1)) for claim in claims}
    return not all(value in numbers or (value or 0) > _HIGHEST for value in said)


def _value(number: str) -> int | None:
    """The whole number that is written, or None for any other."""
    return int(number) if number.isdecimal() and len(number) < 5 else _NAMED.get(number.lower())
