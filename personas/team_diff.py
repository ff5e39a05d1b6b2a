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
    """A member or criterion that stands elsewhere among those that stayed; places count from 1."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class _Diff:
    """A difference, false if there is none; texts and values that are the same are None."""

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self) if field.name != "name")


@dataclass(frozen=True, slots=True)
class CriterionDiff(_Diff):
    """Differences in one criterion; `name` is the one it has now, weights are in percent."""

    name: str
    renamed: Changed[str] | None
    description: Changed[str] | None
    weight: Changed[float] | None


@dataclass(frozen=True, slots=True)
class RubricDiff(_Diff):
    """Differences between two rubrics; `moved` are as few as explain the new order."""

    added: tuple[Criterion, ...]
    removed: tuple[Criterion, ...]
    changed: tuple[CriterionDiff, ...]
    moved: tuple[Moved, ...]
    reason: Changed[str] | None


@dataclass(frozen=True, slots=True)
class MemberDiff(_Diff):
    """Differences in one member; `name` is the one it has now.

    `whole_rubric` has the rubrics where one of them is missing, `rubric` what differs in them
    elsewhere.
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
    """Differences between two teams, false if there are none; None for what is the same.

    Members that were added and removed are in their order, those that changed in the order of now;
    `moved` are as few as explain the new order. `title` is about the names of the teams.
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
    """Steps from `before` to `after`."""
    pairs, added, removed, moved = _matched(before.members, after.members, _member_words)
    return TeamDiff(
        added,
        removed,
        tuple(diff for each in pairs if (diff := diff_members(*each))),
        moved,
        title=_changed(before.name, after.name),
        description=_changed(before.description, after.description),
        query=_changed(before.query, after.query),
        locked=_changed(before.locked, after.locked),
    )


def diff_members(before: Member, after: Member) -> MemberDiff:
    """Changes from `before` to `after`."""
    old, new = before.persona, after.persona
    both = (before.rubric, after.rubric) if before.rubric and after.rubric else None
    return MemberDiff(
        name=new.name,
        renamed=_changed(old.name, new.name),
        description=_changed(old.description, new.description),
        topics=_changed(old.topics, new.topics),
        reason=_changed(old.reason, new.reason),
        origin=_changed(str(before.origin), str(after.origin)),
        whole_rubric=None if both else _changed(before.rubric, after.rubric),
        rubric=(diff_rubrics(*both) or None) if both else None,
        by_model=_changed(before.by_model, after.by_model),
    )


def diff_rubrics(before: Rubric, after: Rubric) -> RubricDiff:
    """Steps from `before` to `after`."""
    pairs, added, removed, moved = _matched(before.criteria, after.criteria, _criterion_words)
    changed = tuple(diff for each in pairs if (diff := _diff_criteria(*each)))
    return RubricDiff(added, removed, changed, moved, _changed(before.reason, after.reason))


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


def _matched(
    before: Sequence[N], after: Sequence[N], words: Callable[[N], _Words]
) -> tuple[list[tuple[N, N]], tuple[N, ...], tuple[N, ...], tuple[Moved, ...]]:
    """Pairs of the same in the order of `after`; those added, removed and moved."""
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
    pairs = [(old, new) for new, old in sorted(found.items())]
    stayed = _longest_rise([old for old, _ in pairs])
    return (
        [(before[old], after[new]) for old, new in pairs],
        tuple(each for new, each in enumerate(after) if new not in found),
        tuple(each for old, each in enumerate(before) if old not in found.values()),
        tuple(Moved(after[new].name, old + 1, new + 1) for old, new in pairs if old not in stayed),
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
