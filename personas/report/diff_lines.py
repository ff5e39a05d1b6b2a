"""Differences between teams, members or rubrics as lines, for terminals and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from personas.provenance import ORIGINS
from personas.schema import Criterion, Member, Rubric
from personas.team_diff import Changed, MemberDiff, Moved, RubricDiff, TeamDiff
from personas.words import weight

Mark: TypeAlias = Literal["+", "-", "~", ">"]
"""Added, removed, changed, elsewhere."""

Written: TypeAlias = Mapping[tuple[str, str], str]
"""(Persona, criterion) -> its weight as the file has it, see `personas.files.written_weights`."""

_NO_FILE: Written = MappingProxyType({})
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line.

    Attributes:
        mark: what happened.
        said: to what; foreign text.
        level: how far it is indented, from 0.
        heads: whether it begins what differs in a member.
    """

    mark: Mark
    said: str
    level: int
    heads: bool = False


def diff_lines(
    diff: TeamDiff | MemberDiff | RubricDiff,
    *,
    before: Written = _NO_FILE,
    after: Written = _NO_FILE,
) -> Iterator[DiffLine]:
    """Everything that differs, of the team first.

    Args:
        diff: what differs.
        before: weights as the first file has them; percents are shown beside those that differ
            from them, and alone where there is no file.
        after: those of the second file.
    """
    lines = _Lines(before, after)
    if isinstance(diff, TeamDiff):
        yield from lines.team(diff)
    elif isinstance(diff, MemberDiff):
        yield from lines.member(diff, 0)
    else:
        yield from lines.rubric(diff, 0)


class _Lines:
    def __init__(self, before: Written, after: Written) -> None:
        self._before = before
        self._after = after

    def team(self, diff: TeamDiff) -> Iterator[DiffLine]:
        yield from _texts("name", diff.title, 0)
        yield from _texts("description", diff.description, 0)
        yield from _texts("query", diff.query, 0)
        if diff.locked:
            said = "locked: no → yes" if diff.locked.after else "locked: yes → no"
            yield DiffLine("~", said, 0)
        whole: tuple[tuple[Mark, Sequence[Member]], ...] = (
            ("+", diff.added),
            ("-", diff.removed),
        )
        for mark, members in whole:
            for each in members:
                yield DiffLine(mark, f"{each.name}, {ORIGINS[each.origin]}", 0, heads=True)
                if each.persona.description:
                    yield DiffLine(mark, each.persona.description, 1)
                yield from self._criteria(mark, each.rubric, 1, each.name)
        for changed in diff.changed:
            yield from self.member(changed, 0)
        yield from _moves(diff.moved, 0)

    def member(self, diff: MemberDiff, level: int) -> Iterator[DiffLine]:
        was = f", was {diff.renamed.before}" if diff.renamed else ""
        yield DiffLine("~", f"{diff.name}{was}", level, heads=True)
        yield from _texts("description", diff.description, level + 1)
        yield from _texts("why", diff.reason, level + 1)
        if diff.topics:
            yield _topics(diff.topics, level + 1)
        if diff.origin:
            before, after = ORIGINS[diff.origin.before], ORIGINS[diff.origin.after]
            yield DiffLine("~", f"{before} → {after}", level + 1)
        old = diff.renamed.before if diff.renamed else diff.name
        if diff.whole_rubric:
            yield from self._criteria("-", diff.whole_rubric.before, level + 1, old)
            yield from self._criteria("+", diff.whole_rubric.after, level + 1, diff.name)
        if diff.rubric:
            yield from self.rubric(diff.rubric, level + 1, old, diff.name)
        if diff.by_model:
            yield DiffLine("~", "notes on what a model wrote", level + 1)

    def rubric(
        self, diff: RubricDiff, level: int, old: str = "", new: str = ""
    ) -> Iterator[DiffLine]:
        """Lines of a rubric; `old` and `new` name its persona."""
        yield from _texts("reason", diff.reason, level)
        for criterion in diff.added:
            yield self._criterion("+", criterion, level, new)
        for criterion in diff.removed:
            yield self._criterion("-", criterion, level, old)
        for each in diff.changed:
            name = each.renamed.before if each.renamed else each.name
            was = f", was {name}" if each.renamed else ""
            weights = ""
            if each.weight:
                before = _weight(each.weight.before, self._before.get((old, name)))
                after = _weight(each.weight.after, self._after.get((new, each.name)))
                if before == after:
                    before, after = f"{each.weight.before:.6f}%", f"{each.weight.after:.6f}%"
                weights = f": {before} → {after}"
            yield DiffLine("~", f"{each.name}{was}{weights}", level)
            if each.description:
                yield from _before_and_after(each.description, level + 1)
        yield from _moves(diff.moved, level)

    def _criteria(
        self, mark: Mark, rubric: Rubric | None, level: int, persona: str
    ) -> Iterator[DiffLine]:
        for criterion in rubric.criteria if rubric else ():
            yield self._criterion(mark, criterion, level, persona)

    def _criterion(self, mark: Mark, criterion: Criterion, level: int, persona: str) -> DiffLine:
        written = self._after if mark == "+" else self._before
        share = _weight(criterion.weight, written.get((persona, criterion.name)))
        said = f": {criterion.description}" if criterion.description else ""
        return DiffLine(mark, f"{share} {criterion.name}{said}", level)


def _weight(percent: float, written: str | None) -> str:
    """``35%``; ``80 (55.2%)`` for a weight that was written as 80."""
    share = weight(percent)
    try:
        same = written is None or abs(float(written.strip().rstrip("%")) - percent) < _TINY
    except ValueError:
        same = False
    return share if same else f"{written} ({share})"


def _topics(topics: Changed[tuple[str, ...]], level: int) -> DiffLine:
    new = [f"+{topic}" for topic in topics.after if topic not in topics.before]
    gone = [f"-{topic}" for topic in topics.before if topic not in topics.after]
    said = ", ".join(new + gone) or "in another order"
    return DiffLine("~", f"topics: {said}", level)


def _texts(label: str, texts: Changed[str] | None, level: int) -> Iterator[DiffLine]:
    if texts:
        yield DiffLine("~", label, level)
        yield from _before_and_after(texts, level + 1)


def _before_and_after(texts: Changed[str], level: int) -> Iterator[DiffLine]:
    if texts.before:
        yield DiffLine("-", texts.before, level)
    if texts.after:
        yield DiffLine("+", texts.after, level)


def _moves(moved: Sequence[Moved], level: int) -> Iterator[DiffLine]:
    for each in moved:
        yield DiffLine(">", f"{each.name}: from place {each.before} to {each.after}", level)
