"""The JSON of a reply: the value of one key, or nothing at all.

A reply is read as strict JSON wherever its objects stand: alone, in a code fence, among prose.
Where that fails it is read leniently, in one pass, and never completed. Besides JSON that takes
other quotes or none, quotes inside a text, Python's ``None`` and ``True``, comments, zeros before
a number, a comma too many, and none between texts, objects or lists. What is refused rather than
guessed at:

- A number is what stands between its colon or comma and the next comma, bracket, comment or
  line end, as a whole: ``7 or 8`` and ``7/10`` are texts.
- After a comma in an object comes a key with its colon: ``{"Score": 7, or 8}`` is not read.
- A quote ends a text only where the next key, item or bracket follows.
- What the end of the reply leaves open is `CUT`, with a number or text that nothing follows.

An object among prose is the answer unless

- the words right before it call it something else: ``The format is {"Score": 0}``, ``not {...}``;
- the prose after it gives another number as the answer: ``{"Score": 7}, or 8``, a line that
  holds a number alone or ends in one after a colon, ``the score should be 8``, ``I would say 8``;
- the prose before it gives another number as the final answer: ``My answer is 8: {"Score": 0}``.

Numbers that prose mentions otherwise, in "3 of 12 trials" or "from 0 to 10", do not count. Reading
takes time in proportion to the reply's length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

LONGEST = 100_000  # characters that a reply may have, thinking aside: some 25,000 tokens
CUT: Final = object()  # marks a value that the reply breaks off in, or right after
_THINKING = ("<think>", "</think>")
_LANGUAGE = re.compile(r"\A[a-zA-Z]*\s*")
_BRACES_OF_PROSE = re.compile(r"\{[^{}:\"']+\}")
_NO_KEY = re.compile("[^A-Za-z_ ]")
_QUOTES_AND_SPACE = "\"'`\u2018\u2019\u201c\u201d \n\r\t"
_VALUE_AFTER = re.compile(r"(?<!\s)\s*+[\"'`\u2018\u2019\u201c\u201d]?+\s*+(?:(\d{1,5})|[\[{])")
_NEAR = 60
_DEEPEST = 40
_DIGITS = 40
_QUOTES = "\"'`\u2018\u2019\u201c\u201d"
_SINGLE = "'`\u2018\u2019"
_DOUBLE = '"\u201c\u201d'
_KEY = rf"(?:[{_QUOTES}][^{_QUOTES}:\n]{{1,80}}[{_QUOTES}]|\w{{1,40}})\s*+[:=]"
# Python before 3.11.5 misreads a possessive group that looks ahead or goes back: gh-106052.
_BLANK = re.compile(r"(?:\s++|//[^\n]*+|\#[^\n]*+|/\*(?s:.*?)(?:\*/|\Z))*")
_BARE = re.compile(r"(?:[^,{}\[\]\n\r#/]++|/(?![/*]))*")
_SPACE = re.compile(r"\s*+")
_COLON = re.compile("[:=]")
_BARE_KEY = re.compile(r"\d{1,4}|[^\W\d][\w .()%/-]*+")
_LONGEST_KEY = 80
_AFTER_KEY = re.compile(r"(?<!\s)\s*+(?:([:=])|\Z)")
_AFTER_MEMBER = re.compile(
    rf"(?<!\s)\s*+(?:[}}\]\#]|//|/\*|,\s*+(?:[}}\]/\#]|{_KEY}|[{_QUOTES}][^{_QUOTES}\n]{{0,80}}+[{_QUOTES}]?+\s*+\Z)"
    rf"|(?<=\s){_KEY})"
)
_AFTER_ITEM = re.compile(
    rf"(?<!\s)\s*+(?:[}}\]\#]|//|/\*|,\s*+(?:[{_QUOTES}{{}}\[\]\d/\#-]|\w{{1,40}}\s*+[,\]])"
    rf"|(?<=\s)[{_QUOTES}{{\[])"
)
_MAY_END = re.compile(rf"(?<!\s)\s*+(?:(:|,\s*+[{_QUOTES}])|[,}}\]])")
_MARKS = {
    quote: re.compile(rf"\\.|[{_SINGLE if quote in _SINGLE else _DOUBLE}]", re.DOTALL)
    for quote in _QUOTES
}
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\\'|\\|"')
_WHOLE = re.compile(r"(-?\d++)(?:\.0*+)?+(?:[eE][+-]?0++)?", re.ASCII)
_REAL = re.compile(r"-?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?", re.ASCII)
_WORDS = {"null": None, "none": None, "true": True, "false": False}
_NAMED = {
    name: value
    for value, name in enumerate(
        "zero one two three four five six seven eight nine ten".split()  # noqa: SIM905 - readable
    )
}
_SAID = r"(-?\d++(?:[.,]\d++)*+\w*+|[\u00bc-\u00be\u2150-\u215e])"
_SAID_OR_WORD = rf"(-?\d++(?:[.,]\d++)*+\w*+|(?:{'|'.join(_NAMED)})\b(?!\s+of\b))"
_LINKS = (
    r"(?:\s++(?:is|was|be|would|should|will|must|of|now|then|therefore|thus|rather|actually|really|"
    r"honestly|at|as|an?|about|around|to|it|its|still|this|that|the|passage|text|with)\b)*+"
    r"\s*+[:=]?+[\s*_\"'`(\[<]*+"
)
_ANSWER = r"(?:answer|score|rating|relevance|grade|verdict)s?\b"
_NO_RANGE = r"(?!\s*+(?:to|-|\u2013|\u2014|through)\s*+\d)"
_OUT_OF = r"(?:/|(?:out\s++)?of\b)\s*+(\d{1,4})\b"
_TAIL = rf"[*_\"'`)\]}}]*+[ \t]*+(?:{_OUT_OF}[ \t]*+)?"
_SAID_END = r"(?:[.!;,]|\n|\Z)"
_CLAIMS = (
    re.compile(rf"\b{_ANSWER}{_LINKS}{_SAID_OR_WORD}{_NO_RANGE}", re.IGNORECASE),
    re.compile(rf"\b(?:give|rate|say|meant?)\b{_LINKS}{_SAID}{_TAIL}{_SAID_END}", re.IGNORECASE),
    re.compile(rf"[:=]\s*+[*_\"'`(\[]*+(\d++)(?![.,]?\d){_TAIL}[.!;,]?(?:\n|\Z)", re.IGNORECASE),
    re.compile(rf"^[ \t*_\"'`(\[>-]*+{_SAID}{_TAIL}[.!;,]?[ \t]*+$", re.IGNORECASE | re.MULTILINE),
    re.compile(rf"\A[^\w\n]*+[^\n\d.!?]{{0,40}}?{_SAID}{_TAIL}{_SAID_END}", re.IGNORECASE),
)
_FINAL_CLAIM = re.compile(
    rf"\b(?:my|final|overall|total|real|actual|correct)\s++(?:\w{{1,20}}\s++)?{_ANSWER}{_LINKS}"
    rf"{_SAID_OR_WORD}{_NO_RANGE}",
    re.IGNORECASE,
)
_SCALE = re.compile(rf"(?<!\s)\s*+{_OUT_OF}", re.IGNORECASE)
_EXAMPLE = re.compile(
    r"\b(?:(?:format|form|template|schema|structure)\s+(?:is|was|would be|should be|must be|looks "
    r"like)|(?:for )?example|for instance|e\.g\.|such as|instead of|rather than|not|never|nor)"
    r"[\s,:`*\"'(]*+(?:json)?+[\s`]*+\Z",
    re.IGNORECASE,
)
_BEFORE = 100
_HIGHEST = 100  # numbers above the largest scale are a year or a count, not a score


class Unreadable(ValueError):
    """A reply breaks the requested form; the text says in which way."""


class Bare(str):
    """A text without quotes in the reply."""

    __slots__ = ()


class _Read(NamedTuple):
    value: Any
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """The value under the key."""

    value: Any
    record: Mapping[str, Any]
    before: str
    after: str
    mended: str

    def confirm(self, key: str, numbers: Collection[int], top: int) -> None:
        """Check that nothing else in the reply gives other `numbers`, of 0 to `top`."""
        if _gives_another(self.before, self.after, numbers, top):
            raise Unreadable("what is written around the JSON object gives another answer.")
        under = _numbers_under(key, self.mended)
        if under.count(None) > 1 or not set(under) <= {None, *numbers}:
            raise in_doubt(key)


def find(text: str, key: str) -> Found:
    """Find the one value under `key`, without regard to case, space and underscore."""
    try:
        return _find(_body(text), key)
    except RecursionError as error:
        raise Unreadable("it is nested too deeply.") from error


def records_of(text: str) -> list[Mapping[str, Any]]:
    """The objects of a reply that are meant, at least one."""
    try:
        objects, prose, _ = _objects(_body(text))
    except RecursionError as error:
        raise Unreadable("it is nested too deeply.") from error
    records = [
        each
        for each, before in zip(objects, prose, strict=False)
        if isinstance(each, Mapping) and not is_example(before)
    ]
    if not records:
        raise Unreadable("it is not one JSON object.")
    return records


def _body(text: str) -> str:
    """The answer, without the fence around it."""
    body = answer_of(text)
    if body.startswith("```"):
        body = _LANGUAGE.sub("", body.lstrip("`"), count=1).removesuffix("```").rstrip()
    return body


def answer_of(text: str) -> str:
    """The reply without its thinking and the space around it, within the limit."""
    body = without_thinking(text).strip()
    if len(body) > LONGEST:
        raise Unreadable(f"it has {len(body):,} characters, and {LONGEST:,} is the limit.")
    return body


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
    objects, prose, mended = _objects(body)
    records = {place: each for place, each in enumerate(objects) if isinstance(each, Mapping)}
    wanted = fold(key)
    places = [place for place, each in records.items() if wanted in map(fold, each)]
    if not places:
        missing = f'the key "{key}" is missing.' if records else "it is not one JSON object."
        raise Unreadable(missing)
    value = _one([value_of(records[place], key) for place in places], key)
    if value is CUT:
        raise Unreadable("it breaks off before its end.")
    if any(is_example(prose[place]) for place in places):
        raise Unreadable("its JSON object is an example, or not meant.")
    first = places[0]
    before, after = "\n".join(prose[: first + 1]), "\n".join(prose[first + 1 :])
    return Found(value, records[first], before, after, body if mended else "")


def _one(values: list[Any], key: str) -> Any:
    if len({repr(value) for value in values}) > 1:
        raise Unreadable(f'"{key}" appears more than once, with different values.')
    return values[0]


def _objects(body: str) -> tuple[list[Any], list[str], bool]:
    """The objects of a reply, the prose before, between and after them; True if not strict JSON."""
    with suppress(json.JSONDecodeError, RecursionError):
        data = _DECODER.decode(body)
        return data if isinstance(data, list) and len(data) == 1 else [data], ["", ""], False
    objects: list[Any] = []
    prose: list[str] = []
    mended, end = False, 0
    while (start := _next_object(body, end)) >= 0:
        prose.append(body[end:start])
        # Not strict in one place, loose from there: a reply is read once, not once an object.
        if not mended:
            try:
                data, end = _DECODER.raw_decode(body, start)
            except (json.JSONDecodeError, RecursionError):
                mended = True
        if mended:
            data, end = read_object(body, start)
            data = data or None
        objects.append(data)
    return objects, [*prose, body[end:]], mended


def is_example(before: str) -> bool:
    """True if the words before an object say that it is an example, or not the answer."""
    return _EXAMPLE.search(before[-_BEFORE:]) is not None


def _gives_another(before: str, after: str, numbers: Collection[int], top: int) -> bool:
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


def _next_object(body: str, place: int) -> int:
    """Return the place of the next object, or -1; braces around a word of prose are none."""
    place = body.find("{", place)
    while place >= 0 and (prose := _BRACES_OF_PROSE.match(body, place)):
        place = body.find("{", prose.end())
    return place


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


def read_object(text: str, start: int) -> tuple[dict[str, Any], int]:
    """Return the object that begins at `start`, and its end."""
    members: dict[str, Any] = {}
    end = _read_members(text, start, members, 1)
    return members, len(text) if end is None else end


def _add_member(members: dict[str, Any], key: str, value: Any) -> None:
    if repr(members.setdefault(key, value)) != repr(value):
        raise Unreadable(f'"{key[:40]}" appears more than once, with different values.')


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        _add_member(members, name, value)
    return members


def _exact_number(text: str) -> int | float:
    """Return the number; an integer only if all its digits behind the point are zeros."""
    if len(text) > _DIGITS:
        raise Unreadable(f"a number in it has more than {_DIGITS} digits.")
    whole = _WHOLE.fullmatch(text)
    return int(whole.group(1)) if whole else float(text)


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_members, parse_int=_exact_number, parse_float=_exact_number
)


def _read_members(text: str, start: int, members: dict[str, Any], depth: int) -> int | None:
    """Read an object's members; where it ends, or None where the text ends before."""
    if depth > _DEEPEST:
        raise Unreadable("it is nested too deeply.")
    at = _past(_BLANK, text, start + 1)
    while at < len(text):
        if text[at] == "}":
            return at + 1
        key, at = _read_key(text, at)
        if key is None:
            return None
        value, at = _read_value(text, at, _AFTER_MEMBER, depth)
        _add_member(members, key, value)
        at = _past_comma(text, at, value, "}", "")
    return None


def _read_items(text: str, start: int, items: list[Any], depth: int) -> int | None:
    if depth > _DEEPEST:
        raise Unreadable("it is nested too deeply.")
    at = _past(_BLANK, text, start + 1)
    while at < len(text):
        if text[at] == "]":
            return at + 1
        if text[at] == ",":
            raise Unreadable("it is not JSON.")
        value, at = _read_value(text, at, _AFTER_ITEM, depth)
        items.append(value)
        at = _past_comma(text, at, value, "]", "{[")
    return None


def _past_comma(text: str, at: int, value: Any, closing: str, openings: str) -> int:
    """Return the place of the next entry, or of the end; a comma may be missing where clear."""
    at = _past(_BLANK, text, at)
    if at == len(text) or text[at] == closing:
        return at
    bare = isinstance(value, Bare | int | float)
    if text[at] == ",":
        at = _past(_BLANK, text, at + 1)
        if at == len(text) and bare:
            raise Unreadable("it breaks off before its end.")
        return at
    if text[at] in _QUOTES or (not bare and (text[at] in openings or text[at].isalpha())):
        return at
    raise Unreadable("it is not JSON.")


def _read_key(text: str, at: int) -> _Read:
    if text[at] in _QUOTES:
        quote = _MARKS[text[at]].search(text, at + 1)
        after = _AFTER_KEY.match(text, quote.end()) if quote else None
        if quote is None or (after is not None and after.group(1) is None):
            return _Read(None, len(text))
        if after is not None and len(quote.group()) == 1:
            return _Read(text[at + 1 : quote.start()], _past(_SPACE, text, after.end()))
    elif colon := _COLON.search(text, at, at + _LONGEST_KEY):
        name = text[at : colon.start()].strip()
        if _BARE_KEY.fullmatch(name):
            return _Read(name, _past(_SPACE, text, colon.end()))
    elif _past(_BARE, text, at) == len(text):
        raise Unreadable("it breaks off before its end.")
    raise Unreadable("it is not JSON.")


def _read_value(text: str, at: int, after: re.Pattern[str], depth: int) -> _Read:
    opening = text[at : at + 1]
    if opening in ("{", "["):
        inner: Any = {} if opening == "{" else []
        end = (_read_members if opening == "{" else _read_items)(text, at, inner, depth + 1)
        return _Read(CUT, len(text)) if end is None else _Read(inner, end)
    if opening and opening in _QUOTES:
        return _read_text(text, at, after)
    return _read_bare(text, at)


def _read_text(text: str, start: int, after: re.Pattern[str]) -> _Read:
    in_doubt = False
    for quote in _MARKS[text[start]].finditer(text, start + 1):
        if len(quote.group()) > 1:
            continue
        if after.match(text, quote.end()) and not (in_doubt and after is _AFTER_ITEM):
            quoted = _ESCAPE.sub(_escaped, text[start + 1 : quote.start()])
            return _Read(json.loads(f'"{quoted}"', strict=False), quote.end())
        end = _MAY_END.match(text, quote.end())
        if end and end.group(1):  # Another key or text, so one before it has lost its end.
            break
        in_doubt = in_doubt or end is not None
    else:
        if not in_doubt:
            return _Read(CUT, len(text))
    raise Unreadable("it is not JSON.")


def _escaped(found: re.Match[str]) -> str:
    """Return JSON for a quote or a backslash in a text that may not be JSON."""
    mark = found.group()
    if mark == "\\'":
        return "'"
    return "\\" + mark if len(mark) == 1 else mark


def _read_bare(text: str, at: int) -> _Read:
    end = _past(_BARE, text, at)
    word = text[at:end].strip()
    if end == len(text):
        return _Read(CUT, end)
    # "1#0" is no 1 with a comment, and "#7" no comment before a number that is still to come.
    commented = text[end] in "/#" and not (word and text[end - 1].isspace())
    if commented or any(quote in word for quote in _DOUBLE):
        raise Unreadable("it is not JSON.")
    if word.casefold() in _WORDS:
        return _Read(_WORDS[word.casefold()], end)
    if len(word) <= _DIGITS and _REAL.fullmatch(word):
        return _Read(_exact_number(word), end)
    return _Read(Bare(word), end)


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of a match of a pattern that may be empty."""
    found = pattern.match(text, at)
    assert found is not None
    return found.end()
