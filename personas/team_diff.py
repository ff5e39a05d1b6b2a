"""Differences between two teams, two members or two rubrics.

Members and criteria are matched by their names without regard to case; those left over are taken
to be renamed where their texts, or half of their criteria, are the same, and else added or
removed. Their order is no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

from personas.schema import Criterion, Member, Rubric, Team

_TELLING = 3  # words of a description that is the same under another name, at least
_DECIMALS = 6  # of a weight in percent; what differs less is the same

T = TypeVar("T")
N = TypeVar("N", Criterion, Member)


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """A value that is another one now."""

    before: T
    after: T


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
    """Differences between two rubrics."""

    added: tuple[Criterion, ...]
    removed: tuple[Criterion, ...]
    changed: tuple[CriterionDiff, ...]
    reason: Changed[str] | None


@dataclass(frozen=True, slots=True)
class MemberDiff(_Diff):
    """Differences in one member; `name` is the one it has now."""

    name: str
    renamed: Changed[str] | None
    description: Changed[str] | None
    topics: Changed[tuple[str, ...]] | None
    reason: Changed[str] | None
    origin: Changed[str] | None
    whole_rubric: Changed[Rubric | None] | None
    rubric: RubricDiff | None
    weight: Changed[float] | None


@dataclass(frozen=True, slots=True)
class TeamDiff(_Diff):
    """Differences between two teams, false if there are none; None for what is the same.

    Members that were added and removed are in their order, those that changed in the order of now.
    `title` is about the names of the teams.
    """

    added: tuple[Member, ...]
    removed: tuple[Member, ...]
    changed: tuple[MemberDiff, ...]
    title: Changed[str] | None
    description: Changed[str] | None
    query: Changed[str] | None
    locked: Changed[bool] | None


def diff_teams(before: Team, after: Team) -> TeamDiff:
    """Steps from `before` to `after`."""
    pairs, added, removed = _matched(before.members, after.members, _same_member)
    return TeamDiff(
        added,
        removed,
        tuple(diff for each in pairs if (diff := diff_members(*each))),
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
        weight=_changed(before.weight, after.weight),
    )


def diff_rubrics(before: Rubric, after: Rubric) -> RubricDiff:
    """Steps from `before` to `after`."""
    pairs, added, removed = _matched(before.criteria, after.criteria, _same_text)
    changed = tuple(diff for each in pairs if (diff := _diff_criteria(*each)))
    return RubricDiff(added, removed, changed, _changed(before.reason, after.reason))


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
    before: Sequence[N], after: Sequence[N], is_same: Callable[[N, N], bool]
) -> tuple[list[tuple[N, N]], tuple[N, ...], tuple[N, ...]]:
    """Pairs of the same in the order of `after`; those added, and those removed."""
    old = {each.name.casefold(): each for each in before}
    found = {each.name: old.pop(each.name.casefold(), None) for each in after}
    for each in after:
        if found[each.name] is None:
            key = next((key for key, other in old.items() if is_same(other, each)), None)
            found[each.name] = old.pop(key) if key is not None else None
    pairs = [(was, each) for each in after if (was := found[each.name]) is not None]
    added = tuple(each for each in after if found[each.name] is None)
    return pairs, added, tuple(old.values())


def _same_text(before: Criterion | Member, after: Criterion | Member) -> bool:
    words = _words(after)
    return len(words) >= _TELLING and words == _words(before)


def _same_member(before: Member, after: Member) -> bool:
    """True for the same texts, and where two criteria, and half of them all, are the same."""
    old, new = (
        {(*_words(each), each.name.casefold()) for each in side.rubric.criteria}
        if side.rubric
        else set()
        for side in (before, after)
    )
    shared = len(old & new)
    return _same_text(before, after) or (shared > 1 and 2 * shared >= max(len(old), len(new)))


def _words(record: Criterion | Member) -> list[str]:
    if isinstance(record, Criterion):
        return record.description.casefold().split()
    criteria = record.rubric.criteria if record.rubric else ()
    listed = [f"{each.name} {each.description}" for each in criteria]
    return " ".join([record.persona.description, *listed]).casefold().split()
