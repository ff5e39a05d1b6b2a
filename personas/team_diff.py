"""Differences between two teams, as lines that say them.

Members and criteria are matched by their names without regard to case; those left over are taken
to be renamed where their texts, or half of their criteria, are the same, and else added or
removed. Their order is no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from personas.format import exact, weight
from personas.origins import ORIGINS
from personas.schema import Criterion, Member, Team

Mark: TypeAlias = Literal["+", "-", "~"]
"""Added, removed, changed."""

_TELLING = 3  # words of a description that is the same under another name, at least
_DECIMALS = 6  # of a weight in percent; what differs less is the same

N = TypeVar("N", Criterion, Member)


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of what differs between two teams."""

    mark: Mark
    said: str  # foreign text
    level: int = 0  # of indentation, from 0
    heads: bool = False  # begins the lines of a member


@dataclass(frozen=True, slots=True)
class TeamDiff:
    """Differences between two teams, false if there are none.

    Attributes:
        lines: everything that differs, of the team first.
        renamed: the name of a member now -> its name before, where that is another one.
    """

    lines: tuple[DiffLine, ...]
    renamed: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.lines)


def diff_teams(before: Team, after: Team) -> TeamDiff:
    """Steps from `before` to `after`."""
    lines = [*_texts(before, after, "name", "description", "query")]
    if before.locked != after.locked:
        lines.append(DiffLine("~", f"locked: {'no → yes' if after.locked else 'yes → no'}"))
    pairs, added, removed = _matched(before.members, after.members, _same_member)
    marked: list[tuple[Mark, Member]] = [("+", each) for each in added]
    for mark, each in [*marked, *(("-", each) for each in removed)]:
        lines.append(DiffLine(mark, f"{each.name}, {ORIGINS[each.origin]}", heads=True))
        if each.persona.description:
            lines.append(DiffLine(mark, each.persona.description, 1))
        lines += _criteria(mark, _criteria_of(each))
    renamed = {now.name: was.name for was, now in pairs if was.name != now.name}
    for was, now in pairs:
        changes = [*_of_member(was, now)]
        if changes or now.name in renamed:
            lines += [DiffLine("~", _named(was.name, now.name), heads=True), *changes]
    return TeamDiff(tuple(lines), renamed)


def _of_member(was: Member, now: Member) -> Iterator[DiffLine]:
    old, new = was.persona, now.persona
    yield from _texts(old, new, "description", why="reason", level=1)
    if old.topics != new.topics:
        plus = [f"+{topic}" for topic in new.topics if topic not in old.topics]
        minus = [f"-{topic}" for topic in old.topics if topic not in new.topics]
        yield DiffLine("~", f"topics: {', '.join(plus + minus) or 'in another order'}", 1)
    if was.origin != now.origin:
        yield DiffLine("~", f"{ORIGINS[was.origin]} → {ORIGINS[now.origin]}", 1)
    if was.weight != now.weight:
        yield DiffLine("~", f"weight: {exact(was.weight)} → {exact(now.weight)}", 1)
    if was.rubric and now.rubric:
        yield from _texts(was.rubric, now.rubric, "reason", level=1)
    pairs, added, removed = _matched(_criteria_of(was), _criteria_of(now), _same_text)
    yield from _criteria("+", added)
    yield from _criteria("-", removed)
    for one, two in pairs:
        weights = ""
        if round(one.weight, _DECIMALS) != round(two.weight, _DECIMALS):
            weights = f": {weight(one.weight)} → {weight(two.weight)}"
        described = [*_texts(one, two, "description", level=2)]
        if one.name != two.name or weights or described:
            yield DiffLine("~", f"{_named(one.name, two.name)}{weights}", 1)
            yield from described


def _named(was: str, now: str) -> str:
    return now if was == now else f"{now}, was {was}"


def _texts(
    before: object, after: object, *names: str, level: int = 0, **labelled: str
) -> Iterator[DiffLine]:
    """Lines of the attributes that differ; `labelled` ones under another name."""
    for label, name in {**{name: name for name in names}, **labelled}.items():
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield DiffLine("~", f"{label}: {old or '-'} → {new or '-'}", level)


def _criteria_of(member: Member) -> Sequence[Criterion]:
    return member.rubric.criteria if member.rubric else ()


def _criteria(mark: Mark, criteria: Sequence[Criterion]) -> Iterator[DiffLine]:
    for each in criteria:
        said = f": {each.description}" if each.description else ""
        yield DiffLine(mark, f"{weight(each.weight)} {each.name}{said}", 1)


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
        {(*_words(each), each.name.casefold()) for each in _criteria_of(side)}
        for side in (before, after)
    )
    shared = len(old & new)
    return _same_text(before, after) or (shared > 1 and 2 * shared >= max(len(old), len(new)))


def _words(record: Criterion | Member) -> list[str]:
    if isinstance(record, Criterion):
        return record.description.casefold().split()
    listed = [f"{each.name} {each.description}" for each in _criteria_of(record)]
    return " ".join([record.persona.description, *listed]).casefold().split()
