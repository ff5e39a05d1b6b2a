"""The JSON of a reply: what stands under one key, or nothing at all.

A reply is read as strict JSON wherever its objects stand: alone, in a code fence, among
prose. Where that fails, json-repair mends it, and what it made is believed only as far as
the reply itself bears it out: json-repair fills in what it misses, so a reply that breaks
off, or a number with something after it, would come back as another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Found", "Unreadable", "find", "fold", "value_of", "without_thinking"]

# Spaces before and after a quote are matched in one way only: a runaway reply of thousands
# of spaces must not make a pattern try all the ways to share them out.
_QUOTE = "(?:[\"'`\u2018\u2019\u201c\u201d]\\s*)?"
_COUNT = rf"\s*{_QUOTE}(\d{{1,4}})(?:\.0+)?\s*{_QUOTE}"
_WHOLE_COUNT = re.compile(rf"{_COUNT}(?=\}}|,\s*[\"'\u201c\w}}](?<!\d)|//|#|/\*)")
_FLAT = re.compile(r"\s*(?:\[([^\[\]{}]*)\]|\{([^\[\]{}]*)\})")
_NUMBERED = re.compile(rf"\s*{_QUOTE}(\d{{1,4}})\s*{_QUOTE}[:=]{_COUNT}")
_PLAIN = re.compile(_COUNT)
_WHOLE_WEIGHT = re.compile(
    rf"\s*(?:{_QUOTE}(?:\d+(?:\.\d+)?|\.\d+)\s*(?:(?:%|percent)\s*)?(?:[.)]+\s*)?{_QUOTE}"
    r"|(?:null|None|\"\"|'')\s*)(?=[}\]]|,\s*[^\s\d]|//|#|/\*)",
    re.IGNORECASE,
)
_THINKING = ("<think>", "</think>")
_LANGUAGE = re.compile(r"\A[a-zA-Z]*\s*")
_BRACES_OF_PROSE = re.compile(r"\{[^{}:\"']+\}")
_CONTINUATIONS = ("5", "'", '"', ', "5": "5"')
"""What a reply that breaks off may go on with; each changes what is still open at the end."""


class Unreadable(ValueError):
    """A reply is not of the form that was asked for; the text says in what way."""


@dataclass(frozen=True, slots=True)
class Found:
    """What stands under the key that was looked for.

    Attributes:
        value: what stands there.
        record: the object that holds the key.
        mended: the text that had to be mended to read it; empty for strict JSON.
    """

    value: Any
    record: Mapping[str, Any]
    mended: str = ""

    def confirm_count(self, key: str, count: int) -> None:
        """Check that a mended reply has `count`, whole, wherever it has `key`.

        Raises:
            Unreadable: it has something else, or breaks off right after the number.
        """
        if self.mended:
            written = [_WHOLE_COUNT.match(self.mended, end) for end in _ends(key, self.mended)]
            if {int(each.group(1)) if each else None for each in written} != {count}:
                raise Unreadable(f'it is not clear JSON: the number under "{key}" is in doubt.')

    def confirm_counts(self, key: str, counts: tuple[int, ...]) -> None:
        """Like `confirm_count`, for a list of numbers or numbers under the keys 1, 2, ..."""
        if self.mended:
            written = {_flat_counts(self.mended, end) for end in _ends(key, self.mended)}
            if written != {counts}:
                raise Unreadable(f'it is not clear JSON: the numbers under "{key}" are in doubt.')

    def confirm_weights(self, key: str) -> None:
        """Check that every number under `key` in a mended reply is whole.

        Raises:
            Unreadable: one of them is followed by something else than the next entry.
        """
        ends = _ends(key, self.mended) if self.mended else ()
        if not all(_WHOLE_WEIGHT.match(self.mended, end) for end in ends):
            raise Unreadable(f'it is not clear JSON: a number under "{key}" is in doubt.')


def find(text: str, key: str) -> Found:
    """What stands under `key`, which is compared without regard to case, space and underscore.

    Raises:
        Unreadable: there is no such object or key, the key stands there several times with
            different values, or the reply breaks off before the value's end.
    """
    try:
        return _find(_without_fence(without_thinking(text)), key)
    except RecursionError as error:
        raise Unreadable("it is nested too deeply.") from error


def without_thinking(text: str) -> str:
    """The reply without the block in which reasoning models on open servers think aloud.

    Raises:
        Unreadable: the reply ends before the thinking does.
    """
    body = text.lstrip()
    if not body.startswith(_THINKING[0]):
        return text
    _, end, said = body.partition(_THINKING[1])
    if not end:
        raise Unreadable("it ends before its thinking does.")
    return said


def value_of(record: Mapping[str, Any], key: str) -> Any:
    """What stands under `key`, in whatever spelling.

    Raises:
        Unreadable: nothing does, or several spellings hold different values.
    """
    wanted = fold(key)
    values = [value for name, value in record.items() if fold(str(name)) == wanted]
    if not values:
        raise Unreadable(f'the key "{key}" is missing.')
    if len({repr(value) for value in values}) > 1:
        raise Unreadable(f'"{key}" stands there more than once, with different values.')
    return values[0]


def fold(key: str) -> str:
    """The key without case, spaces and underscores."""
    return key.replace("_", "").replace(" ", "").casefold()


def _find(body: str, key: str) -> Found:
    try:
        found = _strict(body)
    except Unreadable:
        raise
    except (ValueError, RecursionError):
        return _mended(body, key)
    records = [each for each in found if isinstance(each, Mapping) and _holds(each, key)]
    if not records:
        if any(isinstance(each, Mapping) for each in found):
            raise Unreadable(f'the key "{key}" is missing.')
        raise Unreadable("it is not one JSON object.")
    values = [value_of(record, key) for record in records]
    if len({repr(value) for value in values}) > 1:
        raise Unreadable(f'"{key}" stands there more than once, with different values.')
    return Found(values[0], records[0])


def _without_fence(text: str) -> str:
    body = text.strip()
    if not body.startswith("```"):
        return body
    body = _LANGUAGE.sub("", body.lstrip("`"), count=1)
    return body.removesuffix("```").rstrip()


def _strict(body: str) -> list[Any]:
    """The values of all the reply's JSON; ValueError if any of it is not."""
    try:
        data = _DECODER.decode(body)
    except Unreadable:
        raise
    except ValueError:
        return _among_prose(body)
    return data if isinstance(data, list) and len(data) == 1 else [data]


def _among_prose(body: str) -> list[Any]:
    found: list[Any] = []
    place = _next_object(body, 0)
    while place >= 0:
        data, end = _DECODER.raw_decode(body, place)
        found.append(data)
        place = _next_object(body, end)
    return found


def _next_object(body: str, place: int) -> int:
    """Where the next object begins, or -1; braces around a word of prose are none."""
    place = body.find("{", place)
    while place >= 0 and (prose := _BRACES_OF_PROSE.match(body, place)):
        place = body.find("{", prose.end())
    return place


def _refuse_contradiction(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in pairs:
        if name in data and repr(data[name]) != repr(value):
            raise Unreadable(f'"{name[:40]}" stands there more than once, with different values.')
        data[name] = value
    return data


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_refuse_contradiction)


def _mended(body: str, key: str) -> Found:
    start = _next_object(body, 0)
    if start < 0:
        raise Unreadable("it holds no JSON object.")
    body = body[start:]
    record = _repair(body)
    if not isinstance(record, Mapping):
        raise Unreadable("it is not one JSON object.")
    value = value_of(record, key)
    if body.endswith("\\"):
        raise Unreadable("it breaks off before its end.")
    for more in _CONTINUATIONS:
        longer = _repair(body + more)
        if not isinstance(longer, Mapping) or not _same(longer, key, value):
            raise Unreadable("it breaks off before its end.")
    return Found(value, record, mended=body)


def _repair(body: str) -> Any:
    import json_repair

    try:
        data = json_repair.loads(body, skip_json_loads=True)
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is not JSON.") from error
    return data[0] if isinstance(data, list) and len(data) == 1 else data


def _same(record: Mapping[str, Any], key: str, value: Any) -> bool:
    return _holds(record, key) and repr(value_of(record, key)) == repr(value)


def _holds(record: Mapping[str, Any], key: str) -> bool:
    wanted = fold(key)
    return any(fold(str(name)) == wanted for name in record)


def _ends(key: str, text: str) -> Iterable[int]:
    """Where the colon after each place of the key ends."""
    letters = "[ _]*".join(re.escape(letter) for letter in fold(key))
    pattern = rf"(?<!\w)(?<!\w[ _]){letters}\s*{_QUOTE}[:=]"
    return [match.end() for match in re.finditer(pattern, text, re.IGNORECASE)]


def _flat_counts(text: str, start: int) -> tuple[int, ...] | None:
    flat = _FLAT.match(text, start)
    if flat is None:
        return None
    is_list = flat.group(1) is not None
    entries = (flat.group(1) if is_list else flat.group(2)).split(",")
    if not entries[-1].strip():
        entries.pop()
    matches = [(_PLAIN if is_list else _NUMBERED).fullmatch(entry) for entry in entries]
    if not all(matches):
        return None
    numbers = [[int(number) for number in match.groups()] for match in matches if match]
    if is_list:
        return tuple(count for (count,) in numbers)
    by_number = {each[0]: each[1] for each in numbers}
    if len(by_number) != len(numbers) or set(by_number) != set(range(1, len(numbers) + 1)):
        return None
    return tuple(by_number[number] for number in sorted(by_number))
