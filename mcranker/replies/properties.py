"""REBEL's properties of passages: relevance and further ones, and the names a model gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from mcranker.replies.json import find, fold, value_of
from mcranker.replies.loose_json import Unreadable
from personas import Criterion, Rubric

TOP_RELEVANCE = 10
TOP_PROPERTY = 5
WEIGHT = 0.5
"""Of each property, in all experiments of REBEL's authors."""

MOST_PROPERTIES = 40
"""Most properties that a window of passages is scored by."""

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
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            given = None
    if isinstance(given, bool) or not isinstance(given, int | float):
        given = -1.0
    if not 0 <= given <= _HEAVIEST:
        raise Unreadable(f"each weight must be a number from 0 to {_HEAVIEST:g}, usually 0.5.")
    return float(given)
