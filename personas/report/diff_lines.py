"""Differences of teams as lines, the same in terminals and on pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from personas.format import exact, weight
from personas.provenance import ORIGINS
from personas.schema import Criterion, Member, Rubric
from personas.team_diff import Changed, MemberDiff, RubricDiff, TeamDiff

Mark: TypeAlias = Literal["+", "-", "~"]
"""Added, removed, changed."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line."""

    mark: Mark
    said: str  # foreign text
    level: int  # of indentation, from 0
    heads: bool = False  # begins the lines of a member


def diff_lines(diff: TeamDiff) -> Iterator[DiffLine]:
    """Everything that differs, of the team first."""
    yield from _texts("name", diff.title, 0)
    yield from _texts("description", diff.description, 0)
    yield from _texts("query", diff.query, 0)
    if diff.locked:
        said = "locked: no → yes" if diff.locked.after else "locked: yes → no"
        yield DiffLine("~", said, 0)
    whole: tuple[tuple[Mark, Sequence[Member]], ...] = (("+", diff.added), ("-", diff.removed))
    for mark, members in whole:
        for each in members:
            yield DiffLine(mark, f"{each.name}, {ORIGINS[each.origin]}", 0, heads=True)
            if each.persona.description:
                yield DiffLine(mark, each.persona.description, 1)
            yield from _criteria(mark, each.rubric)
    for changed in diff.changed:
        yield from _member(changed)


def _member(diff: MemberDiff) -> Iterator[DiffLine]:
    was = f", was {diff.renamed.before}" if diff.renamed else ""
    yield DiffLine("~", f"{diff.name}{was}", 0, heads=True)
    yield from _texts("description", diff.description, 1)
    yield from _texts("why", diff.reason, 1)
    if diff.topics:
        yield _topics(diff.topics, 1)
    if diff.origin:
        before, after = ORIGINS[diff.origin.before], ORIGINS[diff.origin.after]
        yield DiffLine("~", f"{before} → {after}", 1)
    if diff.weight:
        said = f"weight: {exact(diff.weight.before)} → {exact(diff.weight.after)}"
        yield DiffLine("~", said, 1)
    if diff.whole_rubric:
        yield from _criteria("-", diff.whole_rubric.before)
        yield from _criteria("+", diff.whole_rubric.after)
    if diff.rubric:
        yield from _rubric(diff.rubric)


def _rubric(diff: RubricDiff) -> Iterator[DiffLine]:
    yield from _texts("reason", diff.reason, 1)
    for criterion in diff.added:
        yield _criterion("+", criterion)
    for criterion in diff.removed:
        yield _criterion("-", criterion)
    for each in diff.changed:
        was = f", was {each.renamed.before}" if each.renamed else ""
        weights = ""
        if each.weight:
            before, after = weight(each.weight.before), weight(each.weight.after)
            if before == after:
                before, after = f"{each.weight.before:.6f}%", f"{each.weight.after:.6f}%"
            weights = f": {before} → {after}"
        yield DiffLine("~", f"{each.name}{was}{weights}", 1)
        if each.description:
            yield from _before_and_after(each.description, 2)


def _criteria(mark: Mark, rubric: Rubric | None) -> Iterator[DiffLine]:
    return (_criterion(mark, criterion) for criterion in (rubric.criteria if rubric else ()))


def _criterion(mark: Mark, criterion: Criterion) -> DiffLine:
    said = f": {criterion.description}" if criterion.description else ""
    return DiffLine(mark, f"{weight(criterion.weight)} {criterion.name}{said}", 1)


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
    marks: tuple[tuple[Mark, str], ...] = (("-", texts.before), ("+", texts.after))
    return (DiffLine(mark, text, level) for mark, text in marks if text)
