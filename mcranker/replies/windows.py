"""Readers of replies about several passages; no score is assigned to another passage.

A passage is known by its number alone, wherever it stands. What is said of a number twice and
differently, or of one that was not shown, counts for none. A passage that a list leaves out is one
of relevance 0: REBEL's lists hold those that qualify.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from pydantic import ValidationError

from mcranker.replies.loose_json import CUT, Unreadable, find, fold, records_of, value_of
from mcranker.replies.orders import first_number
from mcranker.replies.read import by_number, integer_under, score_in
from personas import Criterion, Rubric

TOP_RELEVANCE = 10
TOP_PROPERTY = 5
WEIGHT = 0.5  # of each property, in all experiments of REBEL's authors
RELEVANCE = "Relevance"

_HEAVIEST = 2.0  # then a property counts as much as relevance does
_MOST_INFERRED = 12
_LONGEST_NAME = 120
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Property:
    """A property besides relevance, scored from 0 to 5."""

    name: str
    description: str
    weight: float


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties a passage is scored by."""

    relevance: str
    listed: tuple[Property, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all criteria, relevance first."""
        return (RELEVANCE, *(each.name for each in self.listed))

    @property
    def tops(self) -> tuple[int, ...]:
        """The highest score of each criterion."""
        return (TOP_RELEVANCE, *(TOP_PROPERTY for _ in self.listed))

    @property
    def top(self) -> float:
        """The highest final score possible."""
        return self.composite(TOP_RELEVANCE, [TOP_PROPERTY] * len(self.listed))

    def composite(self, relevance: int, scores: Sequence[int]) -> float:
        """The final score: relevance + sum of weight · score over the properties."""
        pairs = zip(self.listed, scores, strict=True)
        return float(relevance + sum(Fraction(repr(each.weight)) * score for each, score in pairs))

    def rubric(self) -> Rubric:
        """The same as weighted criteria of one scale, relevance first."""
        shares = (TOP_RELEVANCE, *(each.weight * TOP_PROPERTY for each in self.listed))
        described = (self.relevance, *(each.description for each in self.listed))
        whole = sum(shares)
        return Rubric(
            criteria=tuple(
                Criterion(name=name, description=text, weight=100 * share / whole)
                for name, text, share in zip(self.names, described, shares, strict=True)
            )
        )


def read_properties(
    text: str, *, relevance_only: bool = False, weighted: bool = False
) -> Properties:
    """Read the properties that a model named for a query, and the meaning of relevance there."""
    found = find(text, RELEVANCE if relevance_only else "Properties")
    relevance = value_of(found.record, RELEVANCE)
    if not isinstance(relevance, str) or not relevance.strip():
        raise Unreadable('"Relevance" must say in words what a relevant passage is.')
    relevance = relevance.strip()[:_LONGEST_TEXT]
    if relevance_only:
        return Properties(relevance)
    entries = found.value
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MOST_INFERRED:
        raise Unreadable(f'"Properties" must be a list of 1 to {_MOST_INFERRED} objects.')
    listed = tuple(_property(each, weighted=weighted) for each in entries)
    names = [RELEVANCE.casefold(), *(each.name.casefold() for each in listed)]
    if len(set(names)) < len(names):
        raise Unreadable("its properties must differ from each other and from relevance.")
    properties = Properties(relevance, listed)
    try:
        properties.rubric()
    except ValidationError as error:
        raise Unreadable("a name or an explanation is not valid text.") from error
    return properties


def _property(entry: Any, *, weighted: bool) -> Property:
    if not isinstance(entry, Mapping):
        raise Unreadable("each property must be an object.")
    fields = {fold(name): value for name, value in entry.items()}
    name, explanation = fields.get("property", fields.get("name")), fields.get("explanation", "")
    if not isinstance(name, str) or not name.strip():
        raise Unreadable('each property needs a name under "Property".')
    if not isinstance(explanation, str):
        raise Unreadable('"Explanation" must say in words what 5 and 0 mean.')
    return Property(
        " ".join(name.split())[:_LONGEST_NAME].rstrip(),
        explanation.strip()[:_LONGEST_TEXT],
        _weight(fields.get("weight", WEIGHT)) if weighted else WEIGHT,
    )


def _weight(given: Any) -> float:
    with suppress(TypeError, ValueError):
        if not isinstance(given, bool) and 0 <= (weight := float(given)) <= _HEAVIEST:
            return weight
    raise Unreadable(f"each weight must be a number from 0 to {_HEAVIEST:g}, usually 0.5.")


LEFT_OUT = "it was left out"
_NUMBERED = re.compile(
    # Neither a sign nor a point is before the number.
    r"\A[\s\[(<*_#]*+(?:(?:passage|document|doc|text)[\s\[(<*_#:]*+)?([0-9]{1,9})[\s\])>*_.:]*+",
    re.IGNORECASE | re.ASCII,
)
_ID_KEYS = ("passage", "number", "id", "doc", "document", "text")


PassageScores: TypeAlias = tuple[int, tuple[int, ...] | None]
"""Relevance of a passage, and its properties unless its relevance is too low for them."""

ABSENT: PassageScores = (0, None)  # scores of a passage that a list leaves out


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """A reply's scores of the passages that were shown."""

    scores: Mapping[int, PassageScores]
    problems: Mapping[int, str]
    missing: int
    repeated: int
    unknown: int

    def mended(self, again: ReadWindow) -> ReadWindow:
        """Return the same with what another reply has of the passages that have none."""
        new = {place: again.scores.get(place, ABSENT) for place in self.problems}
        new = {place: each for place, each in new.items() if each != ABSENT}
        problems = {place: why for place, why in self.problems.items() if place not in new}
        return replace(self, scores={**self.scores, **new}, problems=problems)

    @property
    def odd(self) -> bool:
        """True if it is not simply all scores of all passages, each once."""
        return bool(self.problems or self.missing or self.repeated or self.unknown)


def property_keys(count: int) -> tuple[str, ...]:
    """The keys of the properties' scores, in their order."""
    # Numbers only: names of properties are written by a model.
    return tuple(f"P{number}" for number in range(1, count + 1))


def read_window(text: str, *, count: int, properties: int, least: int) -> ReadWindow:
    """The scores in a reply such as ``{"Passages": {"1": {"Relevance": 7, "P1": 3}}}``."""
    said, unknown = _by_place(text, count)
    absent = [] if unknown or not least else [place for place in range(count) if place not in said]
    scores: dict[int, PassageScores] = {}
    problems: dict[int, str] = {}
    keys = property_keys(properties)
    for place in sorted({*range(count)} - {*absent}):
        found = _one(said.get(place, ()), keys, least)
        if isinstance(found, str):
            problems[place] = found
        else:
            scores[place] = found
    if problems and not scores:
        first = next(iter(problems.values()))
        raise Unreadable(f"it has the scores of none of the {count} passages: {first}.")
    return ReadWindow(
        scores | dict.fromkeys(absent, ABSENT),
        problems,
        missing=count - len(said),
        repeated=sum(len(records) - 1 for records in said.values()),
        unknown=unknown,
    )


def read_pack(
    text: str, *, count: int, names: Sequence[str], top: int
) -> tuple[tuple[int | str, ...], ...]:
    """Each passage's integers, 0 to `top`, or what is wrong with them; one for each name.

    The reply is such as ``{"1": [7, 5], "2": [3, 4]}``. Two objects must not differ about a
    passage.
    """
    entries = [
        (number, value)
        for record in records_of(text)
        for name, value in _unwrapped(record).items()
        if (number := _number(name)) is not None
    ]
    first = first_number([*dict.fromkeys(number for number, _ in entries)], count)
    said: dict[int, list[Any]] = {}
    for number, value in entries:
        if not 0 <= number - first < count:
            raise Unreadable(f"it has a passage {number}, and there are {count}.")
        said.setdefault(number - first, []).append(value)
    found = tuple(_pack_scores(said.get(place, ()), names, top, place) for place in range(count))
    if not any(isinstance(each, int) for row in found for each in row):
        raise Unreadable(f"it has no score of the {count} passages: {found[0][0]}.")
    return found


def _unwrapped(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object whose keys are numbers, where it is all that another one holds."""
    inner = [each for each in record.values() if isinstance(each, Mapping)]
    wraps = len(record) == len(inner) == 1 and all(_number(key) is None for key in record)
    return inner[0] if wraps else record


def _pack_scores(
    said: Sequence[Any], names: Sequence[str], top: int, place: int
) -> tuple[int | str, ...]:
    """The integers in the values under one passage's number, which agree."""
    width = len(names)
    if not said:
        return ("no score of this passage",) * width
    value = said[0]
    if len({repr(each) for each in said}) > 1:
        return ("it appears more than once, with different scores",) * width
    if isinstance(value, Mapping):
        folded = {fold(key): each for key, each in value.items()}
        named = [folded.get(fold(name)) for name in names]
        complete = len(folded) == len(value) == width and None not in named
        numbered = [*value.values()] if len(value) == width == 1 else by_number(value, width)
        value = named if complete else numbered or value
    listed = value if isinstance(value, list) else [value]
    if value is CUT or len(listed) != width:
        return (f"odd answer: it is not {width} {'integers' if width > 1 else 'integer'}",) * width
    return tuple(score_in(each, top, str(place + 1)) for each in listed)


def read_reasons(text: str, *, count: int) -> Mapping[int, tuple[str, str]]:
    """The sentence and the quote for each passage, by its place; those without a sentence lack."""
    found: dict[int, tuple[str, str]] = {}
    for place, records in _by_place(text, count)[0].items():
        said = {_reason(record) for record in records}
        if len(said) == 1 and (each := said.pop())[0]:
            found[place] = each
    if not found:
        raise Unreadable(f'it has a "Reason" for none of the {count} passages.')
    return found


def _reason(record: Mapping[str, Any]) -> tuple[str, str]:
    fields = {fold(name): value for name, value in record.items()}
    given = [fields.get(key) for key in ("reason", "quote")]
    reason, quote = (each if isinstance(each, str) else "" for each in given)
    return " ".join(reason.split()), quote


def _by_place(text: str, count: int) -> tuple[dict[int, list[Mapping[str, Any]]], int]:
    """Return the values of each passage shown, and the number of entries for other passages."""
    said: dict[int, list[Mapping[str, Any]]] = {}
    unknown = 0
    entries = list(_entries(find(text, "Passages").value))
    first = first_number([number for number, _ in entries if number is not None], count)
    for number, record in entries:
        if number is None or not 0 <= number - first < count:
            unknown += 1
        else:
            said.setdefault(number - first, []).append(record)
    return said, unknown


def _entries(passages: Any) -> Iterator[tuple[int | None, Mapping[str, Any]]]:
    """Number and record of each entry; None for one without a number, or without a record."""
    if isinstance(passages, Mapping):
        for name, record in passages.items():
            yield _number(name) if isinstance(record, Mapping) else None, record
    elif isinstance(passages, list):
        for record in passages:
            yield _own_number(record) if isinstance(record, Mapping) else None, record
    else:
        raise Unreadable('"Passages" must be an object with an entry for each passage.')


def _number(name: object) -> int | None:
    found = _NUMBERED.fullmatch(str(name)[:40]) if not isinstance(name, bool) else None
    return int(found.group(1)) if found else None


def _own_number(record: Mapping[str, Any]) -> int | None:
    """Return the number under one of its keys; None if there is none, or several."""
    fields = {fold(name): value for name, value in record.items()}
    given = {_number(fields[key]) for key in _ID_KEYS if isinstance(fields.get(key), int | str)}
    return given.pop() if len(given) == 1 else None


def _one(
    records: Sequence[Mapping[str, Any]], keys: Sequence[str], least: int
) -> PassageScores | str:
    """Return the scores of a passage, or the reason that it has none."""
    said = {_scores(record, keys, least) for record in records} or {LEFT_OUT}
    if len(said) > 1:
        return "it appears more than once, with different scores"
    return said.pop()


def _scores(record: Mapping[str, Any], keys: Sequence[str], least: int) -> PassageScores | str:
    fields: dict[str, Any] = {}
    for name, value in record.items():
        if repr(fields.setdefault(fold(name), value)) != repr(value):
            return f'"{name[:40]}" appears more than once, with different values'
    relevance = integer_under(fields, RELEVANCE, TOP_RELEVANCE)
    if isinstance(relevance, str):
        return f"relevance: {relevance}"
    properties = []
    for key in keys:
        score = integer_under(fields, key, TOP_PROPERTY)
        if isinstance(score, str):
            if relevance >= least:
                return f"{key}: {score}"
            return relevance, None
        properties.append(score)
    return relevance, tuple(properties)
