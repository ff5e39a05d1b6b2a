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
from personas.provenance import ORIGINS
from personas.schema import Criterion, Member, Rubric, Team

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
    lines = [
        *_texts(0, name=(before.name, after.name)),
        *_texts(0, description=(before.description, after.description)),
        *_texts(0, query=(before.query, after.query)),
    ]
    if before.locked != after.locked:
        lines.append(DiffLine("~", f"locked: {'no → yes' if after.locked else 'yes → no'}"))
    pairs, added, removed = _matched(before.members, after.members, _same_member)
    whole: tuple[tuple[Mark, Sequence[Member]], ...] = (("+", added), ("-", removed))
    for mark, members in whole:
        for each in members:
            lines.append(DiffLine(mark, f"{each.name}, {ORIGINS[each.origin]}", heads=True))
            if each.persona.description:
                lines.append(DiffLine(mark, each.persona.description, 1))
            lines += _criteria(mark, each.rubric)
    renamed = {now.name: was.name for was, now in pairs if was.name != now.name}
    for was, now in pairs:
        changes = [*_of_member(was, now)]
        if changes or now.name in renamed:
            lines += [DiffLine("~", _named(was.name, now.name), heads=True), *changes]
    return TeamDiff(tuple(lines), renamed)


def _of_member(was: Member, now: Member) -> Iterator[DiffLine]:
    old, new = was.persona, now.persona
    yield from _texts(1, description=(old.description, new.description))
    yield from _texts(1, why=(old.reason, new.reason))
    if old.topics != new.topics:
        plus = [f"+{topic}" for topic in new.topics if topic not in old.topics]
        minus = [f"-{topic}" for topic in old.topics if topic not in new.topics]
        yield DiffLine("~", f"topics: {', '.join(plus + minus) or 'in another order'}", 1)
    if was.origin != now.origin:
        yield DiffLine("~", f"{ORIGINS[was.origin]} → {ORIGINS[now.origin]}", 1)
    if was.weight != now.weight:
        yield DiffLine("~", f"weight: {exact(was.weight)} → {exact(now.weight)}", 1)
    if was.rubric and now.rubric:
        yield from _of_rubrics(was.rubric, now.rubric)
    elif was.rubric != now.rubric:
        yield from _criteria("-", was.rubric)
        yield from _criteria("+", now.rubric)


def _of_rubrics(before: Rubric, after: Rubric) -> Iterator[DiffLine]:
    pairs, added, removed = _matched(before.criteria, after.criteria, _same_text)
    yield from _texts(1, reason=(before.reason, after.reason))
    yield from _criteria("+", added)
    yield from _criteria("-", removed)
    for was, now in pairs:
        weights = ""
        if round(was.weight, _DECIMALS) != round(now.weight, _DECIMALS):
            weights = f": {weight(was.weight)} → {weight(now.weight)}"
        described = [*_texts(2, description=(was.description, now.description))]
        if was.name != now.name or weights or described:
            yield DiffLine("~", f"{_named(was.name, now.name)}{weights}", 1)
            yield from described


def _named(was: str, now: str) -> str:
    return now if was == now else f"{now}, was {was}"


def _texts(level: int, **texts: tuple[str, str]) -> Iterator[DiffLine]:
    for label, (before, after) in texts.items():
        if before != after:
            yield DiffLine("~", f"{label}: {before or '-'} → {after or '-'}", level)


def _criteria(mark: Mark, criteria: Rubric | Sequence[Criterion] | None) -> Iterator[DiffLine]:
    for each in criteria.criteria if isinstance(criteria, Rubric) else criteria or ():
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
