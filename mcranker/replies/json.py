"""The JSON of a reply: the value of one key, or nothing at all.

A reply is read as strict JSON wherever its objects stand: alone, in a code fence, among
prose. Where that fails, it is read as `mcranker.replies.loose_json` says. Prose around the object
may take it back, see `mcranker.replies.prose`. Reading takes time in proportion to the reply's
length, of at most `LONGEST` characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mcranker.replies.loose_json import CUT, Unreadable, add_member, exact_number, read_object
from mcranker.replies.prose import gives_another, is_example

LONGEST = 100_000
"""Characters that a reply may have, thinking aside: some 25,000 tokens."""

_THINKING = ("<think>", "</think>")
_LANGUAGE = re.compile(r"\A[a-zA-Z]*\s*")
_BRACES_OF_PROSE = re.compile(r"\{[^{}:\"']+\}")
_COLON = re.compile("[:=]")
_NO_KEY = re.compile("[^A-Za-z_ ]")
_QUOTES_AND_SPACE = "\"'`\u2018\u2019\u201c\u201d \n\r\t"
_VALUE_AFTER = re.compile(r"(?<!\s)\s*+[\"'`\u2018\u2019\u201c\u201d]?+\s*+(?:(\d{1,5})|[\[{])")
_NEAR = 60


@dataclass(frozen=True, slots=True)
class Found:
    """The value under the key."""

    value: Any
    record: Mapping[str, Any]
    before: str = ""
    after: str = ""
    mended: str = ""

    def confirm(self, key: str, numbers: Collection[int], top: int) -> None:
        """Check that nothing else in the reply gives other `numbers`, of 0 to `top`."""
        if gives_another(self.before, self.after, numbers, top):
            raise Unreadable("what is written around the JSON object gives another answer.")
        under = _numbers_under(key, self.mended)
        if under.count(None) > 1 or not set(under) <= {None, *numbers}:
            raise in_doubt(key)


@dataclass(frozen=True, slots=True)
class _Objects:
    """All objects of a reply, and the prose before, between and after them."""

    objects: list[Any]
    prose: list[str]
    mended: bool = False


def find(text: str, key: str) -> Found:
    """Find the value under `key`, without regard to case, space and underscore.

    Raises:
        Unreadable: there is no such object or key, the key occurs several times with
            different values, the reply breaks off before the value's end, or it is too long.
    """
    body = _without_fence(without_thinking(text))
    if len(body) > LONGEST:
        raise Unreadable(f"it has {len(body):,} characters, and {LONGEST:,} is the limit.")
    try:
        return _find(body, key)
    except RecursionError as error:
        raise Unreadable("it is nested too deeply.") from error


def without_thinking(text: str) -> str:
    """Return the reply without the block of an open model's reasoning."""
    body = text.lstrip()
    if not body.startswith(_THINKING[0]):
        return text
    _, end, said = body.partition(_THINKING[1])
    if not end:
        raise Unreadable("it ends before its thinking does.")
    return said


def in_doubt(key: str) -> Unreadable:
    """The error for a number that is not whole, or that something else contradicts."""
    return Unreadable(f'it is not clear JSON: the number under "{key}" is in doubt.')


def value_of(record: Mapping[str, Any], key: str) -> Any:
    """Return the value under `key`, in whatever spelling."""
    wanted = fold(key)
    values = [value for name, value in record.items() if fold(name) == wanted]
    if not values:
        raise Unreadable(f'the key "{key}" is missing.')
    return _one(values, key)


def fold(key: str) -> str:
    """The key without case, spaces and underscores."""
    return key.replace("_", "").replace(" ", "").casefold()


def _find(body: str, key: str) -> Found:
    all_of_it = _read(body)
    wanted = fold(key)
    places = [
        place
        for place, each in enumerate(all_of_it.objects)
        if isinstance(each, Mapping) and any(fold(name) == wanted for name in each)
    ]
    if not places:
        if any(isinstance(each, Mapping) for each in all_of_it.objects):
            raise Unreadable(f'the key "{key}" is missing.')
        raise Unreadable("it is not one JSON object.")
    value = _one([value_of(all_of_it.objects[place], key) for place in places], key)
    if value is CUT:
        raise Unreadable("it breaks off before its end.")
    if any(is_example(all_of_it.prose[place]) for place in places):
        raise Unreadable("its JSON object is an example, or not meant.")
    return Found(
        value,
        all_of_it.objects[places[0]],
        before="\n".join(all_of_it.prose[: places[0] + 1]),
        after="\n".join(all_of_it.prose[places[0] + 1 :]),
        mended=body if all_of_it.mended else "",
    )


def _one(values: list[Any], key: str) -> Any:
    if len({repr(value) for value in values}) > 1:
        # english: sent to models
        raise Unreadable(f'"{key}" stands there more than once, with different values.')
    return values[0]


def _without_fence(text: str) -> str:
    body = text.strip()
    if not body.startswith("```"):
        return body
    body = _LANGUAGE.sub("", body.lstrip("`"), count=1)
    return body.removesuffix("```").rstrip()


def _read(body: str) -> _Objects:
    try:
        data = _DECODER.decode(body)
    except Unreadable:
        raise
    except (ValueError, RecursionError):
        return _among_prose(body)
    return _Objects(data if isinstance(data, list) and len(data) == 1 else [data], ["", ""])


def _among_prose(body: str) -> _Objects:
    objects: list[Any] = []
    prose: list[str] = []
    mended = False
    end = 0
    while (start := _next_object(body, end)) >= 0:
        prose.append(body[end:start])
        # Not strict in one place, loose from there: a reply is read once, not once an object.
        if not mended:
            try:
                data, end = _DECODER.raw_decode(body, start)
            except Unreadable:
                raise
            except (ValueError, RecursionError):
                mended = True
        if mended:
            data, end = read_object(body, start)
            data = data or None
        objects.append(data)
    return _Objects(objects, [*prose, body[end:]], mended)


def _next_object(body: str, place: int) -> int:
    """Return the place of the next object, or -1; braces around a word of prose are none."""
    place = body.find("{", place)
    while place >= 0 and (prose := _BRACES_OF_PROSE.match(body, place)):
        place = body.find("{", prose.end())
    return place


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        add_member(members, name, value)
    return members


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_members, parse_int=exact_number, parse_float=exact_number
)


def _numbers_under(key: str, text: str) -> list[int | None]:
    """The number, or None for a list or object, wherever one follows the key and a colon."""
    numbers: list[int | None] = []
    for colon in _COLON.finditer(text):
        before = text[max(0, colon.start() - _NEAR) : colon.start()].rstrip(_QUOTES_AND_SPACE)
        name = _NO_KEY.split(before)[-1]
        value = _VALUE_AFTER.match(text[colon.end() : colon.end() + _NEAR])
        if value and fold(name) == fold(key):
            numbers.append(int(value.group(1)) if value.group(1) else None)
    return numbers
