"""Differences between two teams, two members or two rubrics.

Members and criteria are matched by their names without regard to case; those left over are
taken to be renamed where their texts, or half of their criteria, are the same, and else added or
removed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from typing import Generic, TypeVar

from personas.schema import Criterion, Member, Rubric, Team

_SAME = 0.8  # of the words in common, from which on two texts are clearly the same
_TELLING = 3  # words of a description that is the same under another name, at least
_MOST_WORDS = 400  # of a text that are compared
_DECIMALS = 6  # of a weight in percent; what differs less is the same

T = TypeVar("T")
N = TypeVar("N", Criterion, Member)


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """A value that is another one now."""

    before: T
    after: T


@dataclass(frozen=True, slots=True)
class Moved:
    """A member or criterion that stands elsewhere among those that stayed.

    Attributes:
        name: its name now.
        before: its place before, counted from 1.
        after: its place now.
    """

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class _Diff:
    def __bool__(self) -> bool:
        """True if anything differs."""
        return any(getattr(self, field.name) for field in fields(self) if field.name != "name")


@dataclass(frozen=True, slots=True)
class CriterionDiff(_Diff):
    """Differences in one criterion; None if there are none.

    Attributes:
        name: its name now.
        renamed: its names.
        description: its descriptions.
        weight: its weights in percent.
    """

    name: str
    renamed: Changed[str] | None
    description: Changed[str] | None
    weight: Changed[float] | None


@dataclass(frozen=True, slots=True)
class RubricDiff(_Diff):
    """Find the differences between two rubrics.

    Attributes:
        added: criteria that are new, in their order.
        removed: criteria that are gone, in their order.
        changed: criteria that are others now, in the order they have now.
        moved: criteria that stand elsewhere, as few as explain the new order.
        reason: the reasons given for the rubric; None where they are the same.
    """

    added: tuple[Criterion, ...]
    removed: tuple[Criterion, ...]
    changed: tuple[CriterionDiff, ...]
    moved: tuple[Moved, ...]
    reason: Changed[str] | None


@dataclass(frozen=True, slots=True)
class MemberDiff(_Diff):
    """Differences in one member; None if there are none.

    Attributes:
        name: its name now.
        renamed: its names.
        description: what it looks for.
        topics: kinds of query it judges.
        reason: why it was chosen.
        origin: where it comes from.
        whole_rubric: the rubrics, where it had none before or has none now.
        rubric: what differs in the rubric, where it had one and has one.
        by_model: its notes on what a model wrote.
    """

    name: str
    renamed: Changed[str] | None
    description: Changed[str] | None
    topics: Changed[tuple[str, ...]] | None
    reason: Changed[str] | None
    origin: Changed[str] | None
    whole_rubric: Changed[Rubric | None] | None
    rubric: RubricDiff | None
    by_model: Changed[tuple[str, ...]] | None


@dataclass(frozen=True, slots=True)
class TeamDiff(_Diff):
    """Differences between two teams; false if there are none.

    Attributes:
        added: members that are new, in their order.
        removed: members that are gone, in their order.
        changed: members that are others now, in the order they have now.
        moved: members that stand elsewhere, as few as explain the new order.
        title: the names of the team; None where they are the same, as below.
        description: what the team is for.
        query: the query it was recruited for.
        locked: whether it is used as it is.
    """

    added: tuple[Member, ...]
    removed: tuple[Member, ...]
    changed: tuple[MemberDiff, ...]
    moved: tuple[Moved, ...]
    title: Changed[str] | None
    description: Changed[str] | None
    query: Changed[str] | None
    locked: Changed[bool] | None


def diff_teams(before: Team, after: Team) -> TeamDiff:
    """Changes from `before` to `after`."""
    pairs = _pairs(before.members, after.members, _member_words)
    added, removed = _unpaired(pairs, before.members, after.members)
    diffs = (diff_members(before.members[old], after.members[new]) for old, new in pairs)
    return TeamDiff(
        added=added,
        removed=removed,
        changed=tuple(diff for diff in diffs if diff),
        moved=_moved(pairs, after.members),
        title=_changed(before.name, after.name),
        description=_changed(before.description, after.description),
        query=_changed(before.query, after.query),
        locked=_changed(before.locked, after.locked),
    )


def diff_members(before: Member, after: Member) -> MemberDiff:
    """Changes from `before` to `after`."""
    old, new = before.persona, after.persona
    rubric: RubricDiff | None = None
    whole_rubric: Changed[Rubric | None] | None = None
    if before.rubric is None or after.rubric is None:
        whole_rubric = _changed(before.rubric, after.rubric)
    else:
        rubric = diff_rubrics(before.rubric, after.rubric) or None
    return MemberDiff(
        name=new.name,
        renamed=_changed(old.name, new.name),
        description=_changed(old.description, new.description),
        topics=_changed(old.topics, new.topics),
        reason=_changed(old.reason, new.reason),
        origin=_changed(str(before.origin), str(after.origin)),
        whole_rubric=whole_rubric,
        rubric=rubric,
        by_model=_changed(before.by_model, after.by_model),
    )


def diff_rubrics(before: Rubric, after: Rubric) -> RubricDiff:
    """Changes from `before` to `after`."""
    pairs = _pairs(before.criteria, after.criteria, _criterion_words)
    added, removed = _unpaired(pairs, before.criteria, after.criteria)
    diffs = (_diff_criteria(before.criteria[old], after.criteria[new]) for old, new in pairs)
    return RubricDiff(
        added=added,
        removed=removed,
        changed=tuple(diff for diff in diffs if diff),
        moved=_moved(pairs, after.criteria),
        reason=_changed(before.reason, after.reason),
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """The words that identify a member or criterion besides its name."""

    name: list[str]
    body: list[str]
    criteria: frozenset[tuple[str, str]] = frozenset()


def _diff_criteria(before: Criterion, after: Criterion) -> CriterionDiff:
    reweighed = round(before.weight, _DECIMALS) != round(after.weight, _DECIMALS)
    return CriterionDiff(
        name=after.name,
        renamed=_changed(before.name, after.name),
        description=_changed(before.description, after.description),
        weight=Changed(before.weight, after.weight) if reweighed else None,
    )


def _changed(before: T, after: T) -> Changed[T] | None:
    return None if before == after else Changed(before, after)


def _pairs(
    before: Sequence[N], after: Sequence[N], words: Callable[[N], _Words]
) -> list[tuple[int, int]]:
    """Places of the same in both, counted from 0, in the order of `after`."""
    places = {each.name.casefold(): place for place, each in enumerate(before)}
    found = {
        new: places.pop(name)
        for new, name in enumerate(each.name.casefold() for each in after)
        if name in places
    }
    old_words = {old: words(before[old]) for old in places.values()}
    new_words = {new: words(each) for new, each in enumerate(after) if new not in found}
    alike = [
        (-likeness, new, old)
        for new, its_words in new_words.items()
        for old, others in old_words.items()
        if (likeness := _likeness(others, its_words)) >= _SAME
    ]
    for _, new, old in sorted(alike):
        if new not in found and old not in found.values():
            found[new] = old
    return [(old, new) for new, old in sorted(found.items())]


def _unpaired(
    pairs: Sequence[tuple[int, int]], before: Sequence[N], after: Sequence[N]
) -> tuple[tuple[N, ...], tuple[N, ...]]:
    """Those added and those removed."""
    old_places = {old for old, _ in pairs}
    new_places = {new for _, new in pairs}
    added = tuple(each for place, each in enumerate(after) if place not in new_places)
    removed = tuple(each for place, each in enumerate(before) if place not in old_places)
    return added, removed


def _moved(pairs: Sequence[tuple[int, int]], after: Sequence[N]) -> tuple[Moved, ...]:
    stayed = _longest_rise([old for old, _ in pairs])
    return tuple(
        Moved(after[new].name, old + 1, new + 1) for old, new in pairs if old not in stayed
    )


def _longest_rise(numbers: Sequence[int]) -> set[int]:
    """The numbers of a longest subsequence that rises; they are distinct."""
    ends: list[int] = []  # at i, the smallest end of a rise of i + 1 numbers
    before: dict[int, int | None] = {}
    for number in numbers:
        length = bisect_left(ends, number)
        before[number] = ends[length - 1] if length else None
        ends[length : length + 1] = [number]
    rise: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        rise.add(last)
        last = before[last]
    return rise


def _criterion_words(criterion: Criterion) -> _Words:
    return _Words(_split(criterion.name), _split(criterion.description))


def _member_words(member: Member) -> _Words:
    criteria = member.rubric.criteria if member.rubric else ()
    texts = [text for criterion in criteria for text in (criterion.name, criterion.description)]
    return _Words(
        _split(member.name),
        _split(" ".join([member.persona.description, *texts])),
        frozenset((each.name.casefold(), each.description.casefold()) for each in criteria),
    )


def _split(text: str) -> list[str]:
    return text.casefold().split()[:_MOST_WORDS]


def _likeness(before: _Words, after: _Words) -> float:
    """Twice the words in common as a share of all words, 0 to 1.

    1 for the same body, and where at least two criteria, and half of them all, are the same.
    """
    if before.body == after.body and len(after.body) >= _TELLING:
        return 1.0
    shared = len(before.criteria & after.criteria)
    if shared > 1 and 2 * shared >= max(len(before.criteria), len(after.criteria)):
        return 1.0
    matcher = SequenceMatcher(
        None, before.name + before.body, after.name + after.body, autojunk=False
    )
    # The quick ratio is an upper bound.
    return matcher.ratio() if matcher.quick_ratio() >= _SAME else 0.0
